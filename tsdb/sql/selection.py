"""The plainest of queries, recognised: some columns of one table, where columns compare with literals.

    SELECT a, b AS c FROM t WHERE x = 'y' AND ts >= 5 AND ts < 9 LIMIT 10

Whoever knows the table can answer such a query without planning it. Everything else is None: this is no parser of
queries, and what it does not know it does not touch.
"""

from __future__ import annotations

from dataclasses import dataclass

from tsdb.sql.lexer import Token, TokenKind, unquote
from tsdb.sql.rewrite import KEYWORDS
from tsdb.sql.statements import Dialect

COMPARISONS = frozenset({"=", "<", "<=", ">", ">="})


@dataclass(frozen=True, slots=True)
class Condition:
    """A column compared with a literal."""

    column: str
    operator: str
    text: str
    """The literal: what a string says, or a number as written, with its sign."""
    is_string: bool


@dataclass(frozen=True, slots=True)
class Selection:
    """What such a query asks for."""

    items: tuple[tuple[str, str], ...]
    """Column and the name it gets; none for `*`."""
    table: tuple[str, ...]
    conditions: tuple[Condition, ...]
    limit: int | None


def find_selection(tokens: list[Token], dialect: Dialect) -> Selection | None:
    """Return what a query asks for if it is of the plainest kind."""
    if tokens[0].word != "SELECT":
        return None
    reader = _Reader(tokens, dialect)
    try:
        return reader.read()
    except _Other:
        return None


class _Other(Exception):
    """The query is of another kind."""


class _Reader:
    """Reads tokens from left to right; the END token stops it."""

    def __init__(self, tokens: list[Token], dialect: Dialect) -> None:
        self._tokens = tokens
        self._dialect = dialect
        self._at = 1

    def read(self) -> Selection:
        items = self._items()
        self._word("FROM")
        table = self._table()
        conditions: list[Condition] = []
        if self._take_word("WHERE"):
            conditions.append(self._condition())
            while self._take_word("AND"):
                conditions.append(self._condition())
        limit = self._limit() if self._take_word("LIMIT") else None
        if self._tokens[self._at].kind != TokenKind.END:
            raise _Other
        return Selection(items, table, tuple(conditions), limit)

    def _items(self) -> tuple[tuple[str, str], ...]:
        if self._take_operator("*"):
            return ()
        items = [self._item()]
        while self._take_operator(","):
            items.append(self._item())
        if len({name for _, name in items}) != len(items):
            raise _Other
        return tuple(items)

    def _item(self) -> tuple[str, str]:
        column = self._name()
        return column, self._name() if self._take_word("AS") else column

    def _table(self) -> tuple[str, ...]:
        parts = [self._name()]
        while self._take_operator("."):
            parts.append(self._name())
        return tuple(parts)

    def _condition(self) -> Condition:
        column = self._name()
        operator = self._next()
        if operator.kind != TokenKind.OPERATOR or operator.text not in COMPARISONS:
            raise _Other
        sign = "-" if self._take_operator("-") else ""
        literal = self._next()
        if literal.kind == TokenKind.NUMBER:
            return Condition(column, operator.text, sign + literal.text, is_string=False)
        if literal.kind == TokenKind.STRING and not sign:
            return Condition(column, operator.text, unquote(literal, self._dialect), is_string=True)
        raise _Other

    def _limit(self) -> int:
        token = self._next()
        if token.kind != TokenKind.NUMBER or not token.text.isdigit():
            raise _Other
        return int(token.text)

    def _name(self) -> str:
        token = self._next()
        if token.kind == TokenKind.QUOTED:
            return unquote(token, self._dialect)
        if token.kind == TokenKind.WORD and token.word not in KEYWORDS and not token.text[0].isdigit():
            return unquote(token, self._dialect)
        raise _Other

    def _next(self) -> Token:
        token = self._tokens[self._at]
        self._at += 1
        if token.kind == TokenKind.END:
            raise _Other
        return token

    def _word(self, word: str) -> None:
        if not self._take_word(word):
            raise _Other

    def _take_word(self, word: str) -> bool:
        if self._tokens[self._at].word != word:
            return False
        self._at += 1
        return True

    def _take_operator(self, text: str) -> bool:
        token = self._tokens[self._at]
        if token.kind != TokenKind.OPERATOR or token.text != text:
            return False
        self._at += 1
        return True
