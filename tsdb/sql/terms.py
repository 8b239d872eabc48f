"""The kinds of items of SELECT, GROUP BY and ORDER BY: a column, a time bucket, an aggregate.

    host    date_trunc('hour', ts)    date_bin(INTERVAL '5 minutes', ts)    avg(usage)    last_value(v ORDER BY ts)

Everything else may still be an expression over tags (`tsdb.sql.tag_expression`), which depends on the table.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tsdb.model import InvalidTimestamp, parse_timestamp
from tsdb.sql.clauses import Declined, TokenReader, Unread
from tsdb.sql.lexer import Token, TokenKind, unquote
from tsdb.sql.statements import Dialect
from tsdb.sql.tag_expression import TagExpression, make_expression

_PLAIN_TIME = re.compile(r"\d{4}-\d{2}-\d{2}(?:[ T]\d{2}:\d{2}:\d{2}(?:\.\d{1,9})?(Z)?)?")
_S, _DAY = 1_000_000_000, 86_400 * 1_000_000_000
_MONDAY = 4 * _DAY
"""1970-01-05 was a Monday: weeks start there."""

TRUNCATIONS_NS = {
    "microsecond": 1000, "millisecond": 1_000_000, "second": _S, "minute": 60 * _S, "hour": 3600 * _S, "day": _DAY,
    "week": 7 * _DAY,
}  # fmt: skip
_INTERVALS_NS = {**TRUNCATIONS_NS, "nanosecond": 1}

AGGREGATES = frozenset({
    "count", "sum", "avg", "mean", "min", "max", "stddev", "stddev_samp", "stddev_pop", "var", "var_samp", "var_pop",
    "first_value", "last_value", "median",
})  # fmt: skip
_ORDERED = frozenset({"first_value", "last_value"})
_BUCKETS = frozenset({"date_trunc", "date_bin"})


@dataclass(frozen=True, slots=True)
class ColumnItem:
    name: str


@dataclass(frozen=True, slots=True)
class Bucket:
    """Intervals of time of one width, of a time column."""

    column: str
    width_ns: int
    origin_ns: int | None = None
    """A local time that buckets are counted from; the first of 1970 if the query says nothing."""
    is_utc: bool = False
    """The origin is a time of UTC."""
    is_calendar: bool = False
    """They lie by what clocks show, not by the time that has passed."""


@dataclass(frozen=True, slots=True)
class Aggregate:
    """An aggregate of a column; of rows when there is none."""

    function: str
    column: str | None
    is_newest: bool = False
    """Of first_value and last_value: whether that is the newest row by time."""
    order: str | None = None
    """Of first_value and last_value: the column that rows are ordered by."""


Key: TypeAlias = ColumnItem | Bucket | TagExpression
Term: TypeAlias = Key | Aggregate | Declined


def read_term(text: str, tokens: Sequence[Token], dialect: Dialect, table: str) -> Term:
    """Return what tokens mean; a column may have the name of its table before it."""
    term, end = read_leading_term(tokens, dialect, table)
    if end == len(tokens):
        return term
    reason = term.reason if isinstance(term, Declined) else "it computes with its columns or literals"
    return make_expression(text, tokens, dialect, reason) or Declined(reason)


def read_leading_term(tokens: Sequence[Token], dialect: Dialect, table: str) -> tuple[Term, int]:
    """Return the term that tokens begin with and where it ends; Declined, and nowhere, if they begin with none."""
    reader = _TermReader(tokens, dialect, table)
    try:
        return reader.term(), reader.at
    except Unread as error:
        return Declined(str(error)), -1


class _TermReader(TokenReader):
    def term(self) -> ColumnItem | Bucket | Aggregate:
        token, behind = self.tokens[0], self.tokens[min(1, len(self.tokens) - 1)]
        if token.kind != TokenKind.WORD or behind.kind != TokenKind.OPERATOR or behind.text != "(":
            return ColumnItem(self.column())
        function = token.text.lower()
        if function not in _BUCKETS and function not in AGGREGATES:
            raise Unread(f"{function} is not an aggregate of the fast path")
        self.at = 2
        if function not in _BUCKETS:
            return self._aggregate(function)
        return self._truncation() if function == "date_trunc" else self._bin()

    def _truncation(self) -> Bucket:
        unit = self.next()
        if unit.kind != TokenKind.STRING:
            raise Unread("the unit of date_trunc is not a literal")
        width = TRUNCATIONS_NS.get(unquote(unit, self.dialect).strip().lower())
        if width is None:
            raise Unread("the unit of date_trunc does not have a fixed width")
        self.operator(",")
        column = self.column()
        self.operator(")")
        return Bucket(column, width, _MONDAY if width == 7 * _DAY else None, is_calendar=True)

    def _bin(self) -> Bucket:
        number, unit = self._interval()
        width = _interval_ns(number, unit)
        if width is None:
            raise Unread("the interval of date_bin does not have a fixed width")
        self.operator(",")
        column = self.column()
        origin, is_utc = self._origin() if self.take_operator(",") else (None, False)
        self.operator(")")
        return Bucket(column, width, origin, is_utc, is_calendar=unit.startswith(("day", "week")))

    def _interval(self) -> tuple[str, str]:
        """Read `INTERVAL '5 minutes'`, `INTERVAL '5' MINUTE` or `INTERVAL 5 MINUTE`: a number and a unit."""
        self.word("INTERVAL")
        token = self.next()
        text = unquote(token, self.dialect) if token.kind == TokenKind.STRING else token.text
        number, _, unit = text.strip().partition(" ")
        if not unit and self.tokens[self.at].kind == TokenKind.WORD:
            unit = self.next().text
        return number, unit.strip().lower()

    def _origin(self) -> tuple[int, bool]:
        """Read what date_bin counts from: a time in its plainest form, local or of UTC."""
        self.word("TIMESTAMP")
        token = self.next()
        text = unquote(token, self.dialect) if token.kind == TokenKind.STRING else ""
        match = _PLAIN_TIME.fullmatch(text)
        if match is None:
            raise Unread("the origin of date_bin is not a plain time")
        try:
            return parse_timestamp(text), match[1] is not None
        except InvalidTimestamp as error:
            raise Unread("the origin of date_bin is not a time") from error

    def _aggregate(self, function: str) -> Aggregate:
        if function == "count" and self._take_all_rows():
            return Aggregate("count", None)
        if function == "sum" and self.take_operator("("):
            return Aggregate("total", self._doubled())
        column = self.column()
        if function not in _ORDERED:
            self.operator(")")
            return Aggregate("avg" if function == "mean" else function, column)
        if not self.take_word("ORDER"):
            raise Unread(f"{function} has no order")
        self.word("BY")
        order = self.column()
        is_descending = self.take_word("DESC")
        if not is_descending:
            self.take_word("ASC")
        self.operator(")")
        return Aggregate(function, column, (function == "last_value") != is_descending, order)

    def _take_all_rows(self) -> bool:
        """Read `*)` or `1)`."""
        if self.tokens[self.at].text not in ("*", "1") or self.tokens[self.at + 1].text != ")":
            return False
        self.at += 2
        return True

    def _doubled(self) -> str:
        """Read `column) * 1e0)`: the values are added as doubles."""
        column = self.column()
        self.operator(")")
        self.operator("*")
        if self.next().text != "1e0":
            raise Unread("sum computes with a column")
        self.operator(")")
        return column


def _interval_ns(number: str, unit: str) -> int | None:
    """Return the length of `5`, `minutes`; None for what is not one number of one fixed unit."""
    width = _INTERVALS_NS.get(unit.removesuffix("s"))
    if width is None or not number.isdigit() or not int(number):
        return None
    return int(number) * width
