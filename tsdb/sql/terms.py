"""Aggregates over one table by tags and a bucket of time, recognised.

    SELECT date_trunc('hour', ts) AS bucket, host, avg(usage) FROM cpu
    WHERE host IN ('a', 'b') AND ts >= … AND ts < … GROUP BY 1, 2 ORDER BY bucket DESC, 2 LIMIT 5

Dashboards ask this all day. What an item may be: a tag, a bucket, an aggregate of a column, or something that may be
an expression over tags; rows may be ordered by items and limited. Everything else is `OtherClause`, with the reason.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tsdb.model import InvalidTimestamp, parse_timestamp
from tsdb.sql.clauses import ClauseReader, Condition, OtherClause
from tsdb.sql.lexer import Token, TokenKind, unquote
from tsdb.sql.rewrite import KEYWORDS
from tsdb.sql.statements import Dialect
from tsdb.sql.tag_expression import TagExpression, find_end, make_expression, split_at_and

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
ITEMS_MAX = 512
# Words behind an operand that make more of it.
_INFIX = frozenset({"AND", "OR", "NOT", "IS", "IN", "LIKE", "ILIKE", "BETWEEN", "SIMILAR", "COLLATE", "AT"})


@dataclass(frozen=True, slots=True)
class ColumnItem:
    name: str


@dataclass(frozen=True, slots=True)
class Bucket:
    """Stretches of time of one width, of a time column."""

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
Term: TypeAlias = Key | Aggregate


@dataclass(frozen=True, slots=True)
class Item:
    """One column of the answer."""

    term: Term
    alias: str | None


@dataclass(frozen=True, slots=True)
class Order:
    """One thing that rows are ordered by: the number of an item."""

    item: int
    is_descending: bool
    nulls_first: bool


@dataclass(frozen=True, slots=True)
class Wanted:
    """A condition, and the same as an expression for the case that it is not what it seems to be."""

    condition: Condition
    expression: TagExpression | None


@dataclass(frozen=True, slots=True)
class SeriesQuery:
    """What such a query asks for."""

    items: tuple[Item, ...]
    table: tuple[str, ...]
    where: tuple[Wanted, ...]
    """What must all hold."""
    keys: tuple[Key, ...]
    is_grouped: bool
    order: tuple[Order, ...]
    limit: int | None
    offset: int
    shape: str
    """The text without its conditions: queries of one shape over one table have the same columns."""


def read_series_query(text: str, tokens: list[Token], dialect: Dialect) -> SeriesQuery:
    """Return what a query asks for; OtherClause if it is of another kind."""
    if tokens[0].word != "SELECT":
        raise OtherClause("it is no SELECT")
    return _Reader(text, tokens, dialect).read()


class _Reader(ClauseReader):
    """Reads a whole query."""

    def __init__(self, text: str, tokens: list[Token], dialect: Dialect) -> None:
        super().__init__(tokens, dialect, at=1)
        self._text = text

    def read(self) -> SeriesQuery:
        self._table_name = self._find_table_name()
        items = self._items()
        self.word("FROM")
        table = self.table()
        where_start = self._tokens[self._at].start
        where = self._where() if self.take_word("WHERE") else ()
        where_end = self._tokens[self._at].start
        keys, is_grouped = self._group(items)
        order = self._order(items) if self._take_by("ORDER") else ()
        limit = self.limit() if self.take_word("LIMIT") else None
        offset = self.limit() if self.take_word("OFFSET") else 0
        if limit is None and offset and self.take_word("LIMIT"):
            limit = self.limit()
        if not self.at_end():
            raise OtherClause(f"it has a clause that is not known here: {self._tokens[self._at].text}")
        if not is_grouped and not any(isinstance(item.term, Aggregate) for item in items):
            others = [item.term.reason for item in items if isinstance(item.term, TagExpression)]
            raise OtherClause(others[0] if others else "it has no aggregate")
        shape = self._text[:where_start] + "\0" + self._text[where_end:]
        return SeriesQuery(items, table, where, keys, is_grouped, order, limit, offset, shape)

    def _where(self) -> tuple[Wanted, ...]:
        """Read conditions; of those that must all hold, one that is not plain may be an expression over tags."""
        start = self._at
        self._at = find_end(self._tokens, start, is_item=False)
        return tuple(self._condition_of(piece) for piece in split_at_and(self._tokens[start : self._at]))

    def _condition_of(self, tokens: Sequence[Token]) -> Wanted:
        if not tokens:
            raise OtherClause("a condition is empty")
        last = tokens[-1]
        reason = "a condition is none that compares a column with literals"
        reader = ClauseReader([*tokens, Token(TokenKind.END, "", last.end, last.end)], self._dialect)
        reader._table_name = self._table_name
        try:
            found = reader.condition()
            if reader.at_end():
                reason = "a condition compares a column with a literal of another type"
                return Wanted(found, make_expression(self._text, tokens, self._dialect, reason))
        except OtherClause as error:
            reason = str(error)
        expression = make_expression(self._text, tokens, self._dialect, reason)
        if expression is None:
            raise OtherClause(reason)
        return Wanted(expression, expression)

    def _find_table_name(self) -> str | None:
        """Look ahead for the name behind FROM: columns may have it before them."""
        for index, token in enumerate(self._tokens):
            if token.word == "FROM":
                at = index + 1
                last = len(self._tokens) - 1
                while at + 2 < last and self._tokens[at + 1].text == ".":
                    at += 2
                name = self._tokens[at]
                return unquote(name, self._dialect) if name.kind in (TokenKind.WORD, TokenKind.QUOTED) else None
        return None

    def _items(self) -> tuple[Item, ...]:
        items = [self._item()]
        while self.take_operator(","):
            items.append(self._item())
            if len(items) > ITEMS_MAX:
                raise OtherClause("it has too many columns")
        return tuple(items)

    def _item(self) -> Item:
        term = self._term_of_item()
        if self.take_word("AS"):
            return Item(term, self._alias())
        token = self._tokens[self._at]
        if token.kind == TokenKind.QUOTED or (token.kind == TokenKind.WORD and token.word not in KEYWORDS):
            return Item(term, self._alias())
        return Item(term, None)

    def _alias(self) -> str:
        token = self.next()
        if token.kind == TokenKind.QUOTED or (token.kind == TokenKind.WORD and token.word not in KEYWORDS):
            return unquote(token, self._dialect)
        raise OtherClause("a name of a column is a word of SQL")

    def _term_of_item(self) -> Term:
        start = self._at
        try:
            found = self._plain_term()
            behind = self._tokens[self._at]
            is_operator = behind.kind == TokenKind.OPERATOR and behind.text not in (",", ")", ";")
            if is_operator or behind.word in _INFIX:
                raise OtherClause("it computes with its columns or literals")
            return found
        except OtherClause as error:
            end = find_end(self._tokens, start, is_item=True)
            expression = make_expression(self._text, self._tokens[start:end], self._dialect, str(error))
            if expression is None:
                raise
            self._at = end
            return expression

    def _plain_term(self) -> Term:
        token, behind = self._tokens[self._at], self._tokens[min(self._at + 1, len(self._tokens) - 1)]
        is_call = token.kind == TokenKind.WORD and behind.kind == TokenKind.OPERATOR and behind.text == "("
        if not is_call:
            return ColumnItem(self.column())
        function = token.text.lower()
        if function in _BUCKETS:
            self._at += 2
            term: Term = self._truncation() if function == "date_trunc" else self._bin()
        elif function in AGGREGATES:
            self._at += 2
            term = self._aggregate(function)
        else:
            raise OtherClause(f"{function} is none of the functions that runs are aggregated by")
        self._end_call()
        return term

    def _end_call(self) -> None:
        token = self._tokens[self._at]
        if token.word in ("FILTER", "OVER", "WITHIN", "IGNORE", "RESPECT", "RANGE", "FILL", "ALIGN"):
            raise OtherClause(f"a call has {token.word}")
        self._end_operand()

    def _truncation(self) -> Bucket:
        unit = self.next()
        if unit.kind != TokenKind.STRING:
            raise OtherClause("date_trunc has a unit that is no literal")
        width = TRUNCATIONS_NS.get(unquote(unit, self._dialect).strip().lower())
        if width is None:
            raise OtherClause("date_trunc has a unit whose stretches are not all of one width")
        self.operator(",")
        column = self.column()
        self.operator(")")
        return Bucket(column, width, _MONDAY if width == 7 * _DAY else None, is_calendar=True)

    def _bin(self) -> Bucket:
        self.word("INTERVAL")
        token = self.next()
        width = _interval_ns(unquote(token, self._dialect)) if token.kind == TokenKind.STRING else None
        if width is None:
            raise OtherClause("date_bin has an interval that is not a number of fixed units")
        self.operator(",")
        column = self.column()
        origin, is_utc = self._origin() if self.take_operator(",") else (None, False)
        self.operator(")")
        unit = unquote(token, self._dialect).strip().partition(" ")[2].strip().lower()
        return Bucket(column, width, origin, is_utc, is_calendar=unit.startswith(("day", "week")))

    def _origin(self) -> tuple[int, bool]:
        """Read what date_bin counts from: a time in its plainest form, local or of UTC."""
        self.word("TIMESTAMP")
        token = self.next()
        text = unquote(token, self._dialect) if token.kind == TokenKind.STRING else ""
        match = _PLAIN_TIME.fullmatch(text)
        if match is None:
            raise OtherClause("date_bin has an origin that is no plain time")
        try:
            return parse_timestamp(text), match[1] is not None
        except InvalidTimestamp as error:
            raise OtherClause("date_bin has an origin that is no time") from error

    def _aggregate(self, function: str) -> Aggregate:
        if function == "count" and self.take_operator("*"):
            self.operator(")")
            return Aggregate("count", None)
        if function == "count" and self._tokens[self._at].text == "1" and self._tokens[self._at + 1].text == ")":
            self._at += 2
            return Aggregate("count", None)
        if function == "sum" and self.take_operator("("):
            return Aggregate("total", self._doubled())
        column = self.column()
        if function not in _ORDERED:
            self.operator(")")
            return Aggregate("avg" if function == "mean" else function, column)
        if not self._take_by("ORDER"):
            raise OtherClause(f"{function} has no order")
        order = self.column()
        is_descending = self._direction()
        self.operator(")")
        return Aggregate(function, column, (function == "last_value") != is_descending, order)

    def _doubled(self) -> str:
        """Read `column) * 1e0)`: the values are added as doubles."""
        column = self.column()
        self.operator(")")
        self.operator("*")
        if self.next().text != "1e0":
            raise OtherClause("sum computes with a column")
        self.operator(")")
        return column

    def _direction(self) -> bool:
        if self.take_word("DESC"):
            return True
        self.take_word("ASC")
        return False

    def _take_by(self, word: str) -> bool:
        if self._tokens[self._at].word != word:
            return False
        self._at += 1
        self.word("BY")
        return True

    def _group(self, items: tuple[Item, ...]) -> tuple[tuple[Key, ...], bool]:
        if not self._take_by("GROUP"):
            return (), False
        keys = [self._key(items)]
        while self.take_operator(","):
            keys.append(self._key(items))
        return tuple(dict.fromkeys(keys)), True

    def _key(self, items: tuple[Item, ...]) -> Key:
        token = self._tokens[self._at]
        if token.kind == TokenKind.NUMBER:
            term: Term = items[self._position(len(items))].term
        else:
            term = self._term_of_item()
            if isinstance(term, ColumnItem):
                # A name can be a column or what the answer calls one; who knows the table tells.
                named = [item.term for item in items if item.alias == term.name]
                if named and named[0] != term:
                    term = AmbiguousKey(term.name, named[0])
        if isinstance(term, Aggregate):
            raise OtherClause("it is grouped by an aggregate")
        return term

    def _position(self, count: int) -> int:
        number = self.limit()
        if not 1 <= number <= count:
            raise OtherClause("it names a column by a number that there is not")
        return number - 1

    def _order(self, items: tuple[Item, ...]) -> tuple[Order, ...]:
        found = [self._order_item(items)]
        while self.take_operator(","):
            found.append(self._order_item(items))
        return tuple(found)

    def _order_item(self, items: tuple[Item, ...]) -> Order:
        if self._tokens[self._at].kind == TokenKind.NUMBER:
            item = self._position(len(items))
        else:
            item = self._find_item(items)
        is_descending = self._direction()
        nulls_first = is_descending
        if self.take_word("NULLS"):
            nulls_first = self.take_word("FIRST")
            if not nulls_first:
                self.word("LAST")
        return Order(item, is_descending, nulls_first)

    def _find_item(self, items: tuple[Item, ...]) -> int:
        term = self._term_of_item()
        if isinstance(term, ColumnItem):
            for number, item in enumerate(items):
                if item.alias == term.name:
                    return number
        for number, item in enumerate(items):
            if item.term == term:
                return number
        raise OtherClause("it is ordered by something that is not in its answer")


@dataclass(frozen=True, slots=True)
class AmbiguousKey(ColumnItem):
    """A key by a name that the answer gives to something else: the column if the table has it, else that."""

    other: Term = ColumnItem("")


def _interval_ns(text: str) -> int | None:
    """Return the length of `5 minutes`; None for what is not one number of one fixed unit."""
    number, _, unit = text.strip().partition(" ")
    width = _INTERVALS_NS.get(unit.strip().lower().removesuffix("s"))
    if width is None or not number.isdigit() or not int(number):
        return None
    return int(number) * width
