"""Conditions that compare columns with literals.

    host IN ('a', 'b') AND ts >= TIMESTAMP '2024-01-01 00:00:00' AND (usage > 90 OR NOT idle IS NULL)

`read_condition` reads such a condition as a whole; everything else is `Declined`, and the planner's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from tsdb.sql.lexer import Token, TokenKind, unquote
from tsdb.sql.rewrite import KEYWORDS
from tsdb.sql.statements import Dialect
from tsdb.sql.tag_expression import TagExpression

COMPARISONS = {"=": "=", "==": "=", "<": "<", "<=": "<=", ">": ">", ">=": ">=", "<>": "<>", "!=": "<>"}
MIRRORED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}

_MATCHES = ("~", "!~")
_BEHIND_OPERANDS = frozenset({*COMPARISONS, *_MATCHES, ")", ",", ";"})
_DEPTH_MAX = 32
_TYPED = frozenset({"TIMESTAMP", "DATE", "TIME", "INTERVAL", "DATETIME", "NULL", "TRUE", "FALSE"})
_NOT_PLAIN = "a condition is none that compares a column with literals"


@dataclass(frozen=True, slots=True)
class Declined:
    """A fast path does not answer a query: the reason, which EXPLAIN shows."""

    reason: str


class Unread(Exception):
    """The tokens at hand are not what a reader expects; never leaves `read_condition` and `read_term`."""


@dataclass(frozen=True, slots=True)
class ConditionLiteral:
    """A literal: what a string says, or a number as written, with its sign."""

    text: str
    is_string: bool
    is_timestamp: bool = False
    """`TIMESTAMP '…'`, which is of UTC whatever the session's zone is."""
    place: int = field(default=-1, compare=False)
    """Where its string or number begins in the text."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """A column compared with a literal."""

    column: str
    operator: str
    literal: ConditionLiteral


@dataclass(frozen=True, slots=True)
class Membership:
    """A column that is one of some literals."""

    column: str
    literals: tuple[ConditionLiteral, ...]


@dataclass(frozen=True, slots=True)
class Match:
    """A column of text that is like a pattern, or that a regular expression finds something in."""

    column: str
    literal: ConditionLiteral
    is_regex: bool


@dataclass(frozen=True, slots=True)
class IsNull:
    column: str


@dataclass(frozen=True, slots=True)
class Not:
    condition: Condition


@dataclass(frozen=True, slots=True)
class Junction:
    """Conditions that must all hold, or of which one must."""

    parts: tuple[Condition, ...]
    is_and: bool


Condition: TypeAlias = Comparison | Membership | Match | IsNull | Not | Junction | TagExpression


def joined_by_and(parts: Sequence[Condition]) -> Condition | None:
    """Return the condition that all of some hold; None of none."""
    return Junction(tuple(parts), is_and=True) if len(parts) > 1 else (parts[0] if parts else None)


def read_condition(tokens: Sequence[Token], dialect: Dialect, table: str) -> Condition | Declined:
    """Return tokens as a condition over columns, which the name of their table may precede."""
    reader = _ConditionReader(tokens, dialect, table)
    try:
        found = reader.condition()
    except Unread as error:
        return Declined(str(error))
    return found if reader.is_at_end else Declined(_NOT_PLAIN)


class TokenReader:
    """Reads tokens from left to right; Unread at the first that is not what is expected."""

    def __init__(self, tokens: Sequence[Token], dialect: Dialect, table: str) -> None:
        end = tokens[-1].end if tokens else 0
        self.tokens = [*tokens, Token(TokenKind.END, "", end, end)]
        self.dialect = dialect
        self.at = 0
        self._table = table
        """The qualifiers that a column may have."""

    @property
    def is_at_end(self) -> bool:
        return self.tokens[self.at].kind == TokenKind.END

    def column(self) -> str:
        """Read a column, perhaps with the name of the table before it."""
        name = self.name()
        if self.take_operator("."):
            if name != self._table:
                raise Unread("a column is of another table")
            name = self.name()
        self.end_operand()
        return name

    def name(self) -> str:
        token = self.next()
        if token.kind == TokenKind.QUOTED:
            return unquote(token, self.dialect)
        if token.kind == TokenKind.WORD and token.word not in KEYWORDS and not token.text[0].isdigit():
            if token.word in _TYPED:
                raise Unread("a keyword is where a name is expected")
            return unquote(token, self.dialect)
        raise Unread("a name is expected")

    def end_operand(self) -> None:
        """Refuse what would make an operand only the beginning of an expression."""
        token = self.tokens[self.at]
        if token.kind == TokenKind.OPERATOR and token.text not in _BEHIND_OPERANDS:
            raise Unread("it computes with its columns or literals")
        if token.kind in (TokenKind.STRING, TokenKind.NUMBER, TokenKind.HEX):
            raise Unread(_NOT_PLAIN)

    def next(self) -> Token:
        token = self.tokens[self.at]
        if token.kind == TokenKind.END:
            raise Unread(_NOT_PLAIN)
        self.at += 1
        return token

    def word(self, word: str) -> None:
        if not self.take_word(word):
            raise Unread(f"it has no {word} where one is expected")

    def operator(self, text: str) -> None:
        if not self.take_operator(text):
            raise Unread(f"it has no {text} where one is expected")

    def take_word(self, word: str) -> bool:
        if self.tokens[self.at].word != word:
            return False
        self.at += 1
        return True

    def take_operator(self, text: str) -> bool:
        token = self.tokens[self.at]
        if token.kind != TokenKind.OPERATOR or token.text != text:
            return False
        self.at += 1
        return True


class _ConditionReader(TokenReader):
    def condition(self, depth: int = 0) -> Condition:
        """Read a condition as far as it goes."""
        parts = [self._conjunction(depth)]
        while self.take_word("OR"):
            parts.append(self._conjunction(depth))
        return parts[0] if len(parts) == 1 else Junction(tuple(parts), is_and=False)

    def _conjunction(self, depth: int) -> Condition:
        parts = [self._term(depth)]
        while self.take_word("AND"):
            parts.append(self._term(depth))
        return parts[0] if len(parts) == 1 else Junction(tuple(parts), is_and=True)

    def _term(self, depth: int) -> Condition:
        if depth > _DEPTH_MAX:
            raise Unread("its conditions are nested too deeply")
        if self.take_word("NOT"):
            return Not(self._term(depth + 1))
        if self.take_operator("("):
            inner = self.condition(depth + 1)
            self.operator(")")
            return inner
        if self._is_literal():
            literal = self._literal()
            operator = self._comparison()
            return Comparison(self.column(), MIRRORED[operator], literal)
        return self._of_column(self.column())

    def _of_column(self, column: str) -> Condition:
        if (token := self.tokens[self.at]).kind == TokenKind.OPERATOR:
            if token.text not in _MATCHES:
                return Comparison(column, self._comparison(), self._literal())
            self.at += 1
            match = Match(column, self._literal(), is_regex=True)
            return Not(match) if token.text == "!~" else match
        if self.take_word("IS"):
            is_negated = self.take_word("NOT")
            self.word("NULL")
            return Not(IsNull(column)) if is_negated else IsNull(column)
        is_negated = self.take_word("NOT")
        if self.take_word("IN"):
            found: Condition = Membership(column, self._list())
        elif self.take_word("BETWEEN"):
            low = self._literal()
            self.word("AND")
            parts = Comparison(column, ">=", low), Comparison(column, "<=", self._literal())
            found = Junction(parts, is_and=True)
        elif self.take_word("LIKE"):
            found = Match(column, self._literal(), is_regex=False)
        else:
            raise Unread(_NOT_PLAIN)
        return Not(found) if is_negated else found

    def _list(self) -> tuple[ConditionLiteral, ...]:
        self.operator("(")
        found = [self._literal()]
        while self.take_operator(","):
            found.append(self._literal())
        self.operator(")")
        return tuple(found)

    def _comparison(self) -> str:
        token = self.next()
        if token.kind != TokenKind.OPERATOR or token.text not in COMPARISONS:
            raise Unread(_NOT_PLAIN)
        return COMPARISONS[token.text]

    def _is_literal(self) -> bool:
        token = self.tokens[self.at]
        if token.kind in (TokenKind.NUMBER, TokenKind.STRING) or token.word == "TIMESTAMP":
            return token.word != "TIMESTAMP" or self.tokens[self.at + 1].kind == TokenKind.STRING
        return token.kind == TokenKind.OPERATOR and token.text == "-"

    def _literal(self) -> ConditionLiteral:
        """Read a literal that nothing is added to."""
        sign = "-" if self.take_operator("-") else ""
        token = self.next()
        if token.kind == TokenKind.NUMBER:
            found = ConditionLiteral(sign + token.text, is_string=False, place=token.start)
        elif token.kind == TokenKind.STRING and not sign:
            found = ConditionLiteral(unquote(token, self.dialect), is_string=True, place=token.start)
        elif token.word == "TIMESTAMP" and not sign and self.tokens[self.at].kind == TokenKind.STRING:
            token = self.next()
            found = ConditionLiteral(unquote(token, self.dialect), is_string=True, is_timestamp=True, place=token.start)
        else:
            raise Unread("a column is compared with something other than a plain literal")
        self.end_operand()
        return found
