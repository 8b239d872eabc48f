"""The small language of partition rules: comparisons of a column with a literal, joined by AND, OR and parentheses.

    rule        := and (OR and)*
    and         := term (AND term)*
    term        := comparison | '(' rule ')'
    comparison  := column op literal | literal op column          op := = <> != < <= > >=
    literal     := 'text' | [-|+] number | TRUE | FALSE

Printing gives the canonical form, which parses to the same rule: the column on the left, parentheses only where AND
needs them. A word in double quotes is a column if there is one of that name, otherwise a text, as MySQL has it.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tsdb.errors import InvalidSyntax

_NESTING_MAX = 50
_PARTS_MAX = 200
_DIGITS_MAX = 40
_TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?!\w))"
    r"|(?P<word>[^\W\d]\w*)"
    r"|(?P<string>'(?:[^']|'')*')"
    r'|(?P<double>"(?:[^"]|"")*")'
    r"|(?P<back>`(?:[^`]|``)*`)"
    r"|(?P<operator><=|>=|<>|!=|[=<>()+-])"
    r"|(?P<end>\Z))"
)
_PLAIN = re.compile(r"[^\W\d]\w*")
_KEYWORDS = frozenset({"AND", "OR", "TRUE", "FALSE"})
_FLIPPED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@dataclass(frozen=True, slots=True)
class PartitionLiteral:
    """A value and how it is written."""

    value: Any
    text: str


@dataclass(frozen=True, slots=True)
class PartitionComparison:
    """A column compared with a literal."""

    column: str
    operator: str
    literal: PartitionLiteral

    @property
    def value(self) -> Any:
        return self.literal.value

    def holds(self, left: Any, right: Any) -> Any:
        """Compare anything that stands for the column and the literal."""
        return _OPERATORS[self.operator](left, right)

    def __str__(self) -> str:
        return f"{_quoted(self.column)} {self.operator} {self.literal.text}"


@dataclass(frozen=True, slots=True)
class And:
    left: Expression
    right: Expression

    def __str__(self) -> str:
        # Nested to the left is how it is read back; what is nested to the right keeps its parentheses.
        left = f"({self.left})" if isinstance(self.left, Or) else str(self.left)
        right = str(self.right) if isinstance(self.right, PartitionComparison) else f"({self.right})"
        return f"{left} AND {right}"


@dataclass(frozen=True, slots=True)
class Or:
    left: Expression
    right: Expression

    def __str__(self) -> str:
        right = f"({self.right})" if isinstance(self.right, Or) else str(self.right)
        return f"{self.left} OR {right}"


Expression = PartitionComparison | And | Or


def comparisons_of(rule: Expression) -> Iterator[PartitionComparison]:
    """Yield every comparison of a rule."""
    if isinstance(rule, PartitionComparison):
        yield rule
        return
    yield from comparisons_of(rule.left)
    yield from comparisons_of(rule.right)


def parse_rule(text: str, columns: Sequence[str]) -> Expression:
    """Read one rule; InvalidSyntax for whatever is not one."""
    return _PartitionParser(text, columns).parse()


def _quoted(column: str) -> str:
    if _PLAIN.fullmatch(column) and column.upper() not in _KEYWORDS:
        return column
    return '"' + column.replace('"', '""') + '"'


class _PartitionParser:
    """Recursive descent over the tokens of one rule."""

    def __init__(self, text: str, columns: Sequence[str]) -> None:
        self._text = text
        self._columns = columns
        self._tokens = list(self._tokenize())
        self._position = 0
        self._nesting = 0
        self._parts = 0

    def parse(self) -> Expression:
        rule = self._any()
        if self._kind != "end":
            raise self._unexpected()
        return rule

    def _tokenize(self) -> Iterator[tuple[str, str]]:
        position = 0
        while True:
            match = _TOKEN.match(self._text, position)
            if match is None:
                raise InvalidSyntax(
                    "the partition rule cannot be read", rule=self._text, near=self._text[position:][:20]
                )
            kind = match.lastgroup or ""
            yield kind, match.group(kind)
            if kind == "end":
                return
            position = match.end()

    @property
    def _kind(self) -> str:
        return self._tokens[self._position][0]

    @property
    def _token(self) -> str:
        return self._tokens[self._position][1]

    def _next(self) -> str:
        token = self._token
        self._position += 1
        return token

    def _is_word(self, word: str) -> bool:
        return self._kind == "word" and self._token.upper() == word

    def _any(self) -> Expression:
        rule = self._all()
        while self._is_word("OR"):
            self._next()
            rule = self._nested(Or, rule, self._all())
        return rule

    def _all(self) -> Expression:
        rule = self._term()
        while self._is_word("AND"):
            self._next()
            rule = self._nested(And, rule, self._term())
        return rule

    def _nested(self, kind: type[And | Or], left: Expression, right: Expression) -> Expression:
        # A chain is nested as deeply as it is long, and everything that walks a rule recurs.
        self._parts += 1
        if self._parts > _PARTS_MAX:
            raise InvalidSyntax(f"the partition rule has more than {_PARTS_MAX} parts", rule=self._text[:100])
        return kind(left, right)

    def _term(self) -> Expression:
        if self._token != "(" or self._kind != "operator":
            return self._comparison()
        self._nesting += 1
        if self._nesting > _NESTING_MAX:
            raise InvalidSyntax(f"the partition rule is nested more than {_NESTING_MAX} deep", rule=self._text[:100])
        self._next()
        rule = self._any()
        if self._token != ")":
            raise self._unexpected()
        self._next()
        self._nesting -= 1
        return rule

    def _comparison(self) -> PartitionComparison:
        left = self._operand()
        sign = "<>" if self._token == "!=" else self._token
        if self._kind != "operator" or sign not in _OPERATORS:
            raise self._unexpected("a comparison")
        self._next()
        right = self._operand()
        if isinstance(left, str) and isinstance(right, PartitionLiteral):
            return PartitionComparison(left, sign, right)
        if isinstance(left, PartitionLiteral) and isinstance(right, str):
            return PartitionComparison(right, _FLIPPED[sign], left)
        raise InvalidSyntax("a partition rule compares a column with a literal", rule=self._text)

    def _operand(self) -> str | PartitionLiteral:
        """Read the name of a column, or a literal."""
        kind, token = self._kind, self._token
        match kind:
            case "word" if token.upper() in ("TRUE", "FALSE"):
                self._next()
                return PartitionLiteral(token.upper() == "TRUE", token.lower())
            case "word" if token.upper() not in _KEYWORDS:
                return self._column(token if token in self._columns else token.lower())
            case "back":
                return self._column(token[1:-1].replace("``", "`"))
            case "double":
                name = token[1:-1].replace('""', '"')
                return self._column(name) if name in self._columns else self._string(name)
            case "string":
                return self._string(token[1:-1].replace("''", "'"))
        return self._number()

    def _column(self, name: str) -> str:
        if name not in self._columns:
            raise InvalidSyntax(f'Column "{name}" in rule expr is not referenced in PARTITION ON', rule=self._text)
        self._next()
        return name

    def _string(self, value: str) -> PartitionLiteral:
        self._next()
        return PartitionLiteral(value, "'" + value.replace("'", "''") + "'")

    def _number(self) -> PartitionLiteral:
        is_negative = self._kind == "operator" and self._token == "-"
        if self._kind == "operator" and self._token in "+-":
            self._next()
        if self._kind != "number":
            raise self._unexpected("a column or a literal")
        token = self._next()
        value = float(token)
        if len(token) > _DIGITS_MAX or value == float("inf"):
            raise InvalidSyntax(f"{token[:_DIGITS_MAX]} is too long or too large for a number")
        if not value:
            return PartitionLiteral(0, "0")
        value = int(token) if token.isdigit() else value
        value = -value if is_negative else value
        return PartitionLiteral(value, repr(value))

    def _unexpected(self, wanted: str = "AND, OR or the end") -> InvalidSyntax:
        found = f"'{self._token}'" if self._token else "the end"
        return InvalidSyntax(f"the partition rule cannot be read: expected {wanted}, found {found}", rule=self._text)
