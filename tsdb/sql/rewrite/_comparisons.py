"""Columns compared with literals of another kind: a timestamp with a number or a text, a boolean with a text.

    ts > 1000                       a number counts units of the column
    ts >= '2020-01-01 08:00:00'     a text without zone is local time of the session
    ts >= '….000000195'             compared exactly: DataFusion would cut the literal to the column's unit,
    ts < TIMESTAMP '….5'            also one that says its type,
    ts::TIMESTAMP(9) < '….5'        and with a column that is cast to a finer one
    ts = text                       a column of text is local time of the session as well
    flag = 'true'

A literal that the column cannot hold is moved to the next one it can hold, in the direction that keeps the comparison
true: `ts_ms >= '….0001'` is `ts_ms >= '….001'`. Nothing equals such a literal; `col <> col` says so and stays NULL
where the column is. Only columns are looked at, and only those whose type is known for certain.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from tsdb.errors import Status, TsdbError
from tsdb.model import DataType, InvalidTimestamp, Kind, parse_timestamp
from tsdb.sql.lexer import TokenKind, unquote
from tsdb.sql.rewrite._casts import read_type
from tsdb.sql.rewrite._edits import Edits
from tsdb.sql.rewrite._layout import TokenLayout
from tsdb.sql.rewrite._tables import ColumnTypes, is_compared
from tsdb.sql.statements import Dialect

_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "==": "==", "<>": "<>", "!=": "!="}
_TIGHTER = frozenset({"+", "-", "*", "/", "%", "||", "::", ".", "[", "^", "&", "|", "<<", ">>", "->", "->>", "~"})
# What DataFusion reads by itself, in UTC.
_CANONICAL = re.compile(r"\d{4}-\d{2}-\d{2}(?:[ T]\d{2}:\d{2}:\d{2}(?:\.\d{1,9})?(?:Z|[+-]\d{2}:\d{2})?)?")
_HAS_ZONE = re.compile(r":\d+(?:\.\d+)?\s*(?:Z|[+-]\d{1,2}:?\d{0,2})\s*$", re.IGNORECASE)
_UNIT_NS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1000, "ns": 1}
_ARROW_UNITS = {"s": "s", "ms": "ms", "us": "µs", "ns": "ns"}
_UNITS_BY_NAME = {f"Timestamp({name})": unit for unit, name in _ARROW_UNITS.items()}
_INT64 = range(-(2**63), 2**63)
_TRUE = frozenset({"true", "t", "yes", "y", "1"})
_FALSE = frozenset({"false", "f", "no", "n", "0"})


# The blank behind the type is the mark by which the name of a result column shows that the cast is ours.
_IN_HEADER = re.compile(r'arrow_cast\((Int64\(-?\d+\)),Utf8\("Timestamp\(\w+\) "\)\)')


def strip_literals(header: str) -> str:
    """Return the name of a result column with the numbers that were compared with timestamps as they were written."""
    return _IN_HEADER.sub(r"\1", header) if "arrow_cast(" in header else header


class BadLiteral(TsdbError):
    """A column is compared with a text that is no value of its type."""

    status = Status.PLAN_QUERY


@dataclass(frozen=True, slots=True)
class _Literal:
    """A literal that stands alone: its first and last token, and its value."""

    start: int
    end: int
    value: int | str
    nanoseconds: int | None = None
    """Of one that says itself that it is a time."""
    text: int | None = None
    """The token of the text, of one that is cast to a time."""


@dataclass(frozen=True, slots=True)
class _Column:
    """A column in a comparison: its type, the tokens of its name, and those of the name with a cast around it."""

    kind: DataType
    name: tuple[int, int]
    start: int
    end: int


class Comparisons:
    """The comparisons of one query."""

    def __init__(self, layout: TokenLayout, edits: Edits, dialect: Dialect, columns: ColumnTypes, zone: str) -> None:
        self._layout = layout
        self._edits = edits
        self._dialect = dialect
        self._columns = columns
        self._zone = zone

    def edit(self) -> None:
        layout, names = self._layout, self._columns.compared
        if not names:
            return
        for index, token in enumerate(layout.tokens):
            if token.kind == TokenKind.WORD:
                name = token.text.lower()
            elif token.kind == TokenKind.QUOTED:
                name = unquote(token, self._dialect)
            else:
                continue
            if name not in names or not layout.is_name(index):
                continue
            if layout.is_operator(index + 1, ".") or layout.is_operator(index + 1, "("):
                continue
            start = layout.chain_start(index)
            kind = self._type_of(start, index)
            if kind is None or not is_compared(kind):
                continue
            column = self._with_cast(kind, start, index)
            self._edit_right(column)
            self._edit_left(column)
            if kind.is_timestamp and self._zone != "UTC":
                self._edit_texts(column)

    def _type_of(self, start: int, end: int) -> DataType | None:
        names = [unquote(self._layout.tokens[each], self._dialect) for each in range(start, end + 1, 2)]
        return self._columns.find(names[-2] if len(names) > 1 else None, names[-1])

    def _with_cast(self, kind: DataType, start: int, end: int) -> _Column:
        """Return a column, with the cast to a finer time that may be around it: that changes no comparison."""
        layout, name = self._layout, (start, end)
        if layout.is_operator(end + 1, "::"):
            wanted, last = read_type(layout, end + 2)
        elif start > 1 and layout.words[start - 2] == "CAST" and layout.words[end + 1] == "AS":
            wanted, last = read_type(layout, end + 2)
            last += 1
            if not layout.is_operator(start - 1, "(") or layout.partner.get(start - 1) != last:
                return _Column(kind, name, start, end)
            start -= 2
        else:
            return _Column(kind, name, start, end)
        unit = _UNITS_BY_NAME.get(wanted or "")
        if unit is None or not kind.is_timestamp or _UNIT_NS[unit] > _UNIT_NS[kind.arrow.unit]:
            return _Column(kind, name, *name)
        return _Column(kind, name, start, last)

    def _edit_right(self, column: _Column) -> None:
        """Edit what stands behind a column: an operator and a literal, BETWEEN, IN."""
        layout, start, end = self._layout, column.start, column.end
        if start and layout.tokens[start - 1].text in _TIGHTER and layout.tokens[start - 1].kind == TokenKind.OPERATOR:
            return
        token = layout.tokens[end + 1]
        if token.kind == TokenKind.OPERATOR and token.text in _MIRRORED:
            if (literal := self._literal(end + 2)) is not None:
                self._compare(column, token.text, literal, span=(start, literal.end))
            return
        index = end + 2 if layout.words[end + 1] == "NOT" else end + 1
        if layout.words[index] == "BETWEEN":
            self._between(column, index)
        elif layout.words[index] == "IN" and layout.is_operator(index + 1, "("):
            self._in_list(column, index, is_negated=index != end + 1)

    def _edit_left(self, column: _Column) -> None:
        """Edit a literal and an operator in front of a column."""
        layout, start, end = self._layout, column.start, column.end
        operator = layout.tokens[start - 1] if start else None
        if operator is None or operator.kind != TokenKind.OPERATOR or operator.text not in _MIRRORED:
            return
        behind = layout.tokens[end + 1]
        if behind.kind == TokenKind.OPERATOR and behind.text in _TIGHTER:
            return
        literal = self._literal_before(start - 2)
        if literal is not None:
            self._compare(column, _MIRRORED[operator.text], literal, span=(literal.start, end))

    def _edit_texts(self, column: _Column) -> None:
        """Edit a column of text that a time is compared with: DataFusion would read it in UTC."""
        layout = self._layout
        if self._is_tighter(column.start - 1) or self._is_tighter(column.end + 1):
            return
        if self._is_comparison(column.end + 1) and layout.is_name(column.end + 2):
            self._read_in_zone(column.end + 2, layout.chain_end(column.end + 2))
        if self._is_comparison(column.start - 1) and layout.is_name(column.start - 2):
            self._read_in_zone(layout.chain_start(column.start - 2), column.start - 2)

    def _read_in_zone(self, start: int, end: int) -> None:
        kind, tokens = self._type_of(start, end), self._layout.tokens
        if kind is None or kind.kind is not Kind.STRING or self._layout.is_operator(end + 1, "("):
            return
        if not self._is_tighter(start - 1) and not self._is_tighter(end + 1):
            text = f"zone__cast_ns({self._slice(start, end)}, '{self._zone}')"
            self._edits.replace(tokens[start].start, tokens[end].end, text)

    def _is_tighter(self, index: int) -> bool:
        """Return whether an operator binds what is beside it more tightly than a comparison does."""
        token = self._layout.tokens[index] if index >= 0 else None
        return token is not None and token.kind == TokenKind.OPERATOR and token.text in _TIGHTER

    def _is_comparison(self, index: int) -> bool:
        token = self._layout.tokens[index] if index >= 0 else None
        return token is not None and token.kind == TokenKind.OPERATOR and token.text in _MIRRORED

    def _literal(self, index: int) -> _Literal | None:
        """Read a literal that nothing is added to."""
        layout = self._layout
        typed = self._typed_literal(index)
        if typed is not None:
            behind = layout.tokens[typed.end + 1]
            return None if behind.kind == TokenKind.OPERATOR and behind.text in _TIGHTER else typed
        start, sign = index, 1
        if layout.is_operator(index, "-") or layout.is_operator(index, "+"):
            sign = -1 if layout.tokens[index].text == "-" else 1
            index += 1
        if index >= len(layout.tokens) - 1:
            return None
        token = layout.tokens[index]
        behind = layout.tokens[index + 1]
        if behind.kind == TokenKind.OPERATOR and behind.text in _TIGHTER:
            return None
        if token.kind == TokenKind.NUMBER and token.text.isdigit():
            return _Literal(start, index, sign * int(token.text))
        if token.kind == TokenKind.STRING and start == index:
            return _Literal(start, index, unquote(token, self._dialect))
        return None

    def _typed_literal(self, index: int) -> _Literal | None:
        """Read `TIMESTAMP '…'`, `'…'::TIMESTAMP(n)` or `CAST('…' AS TIMESTAMP(n))`, if DataFusion reads the time."""
        layout = self._layout
        if index + 2 >= len(layout.tokens):
            return None
        if layout.words[index] == "TIMESTAMP":
            return self._typed(index, index + 1, index + 1, "ns", is_cast=False)
        if layout.tokens[index].kind == TokenKind.STRING and layout.is_operator(index + 1, "::"):
            name, end = read_type(layout, index + 2)
            return self._typed(index, end, index, _UNITS_BY_NAME.get(name or ""), is_cast=True)
        if (
            layout.words[index] == "CAST"
            and layout.partner.get(index + 1, 0) > index + 3
            and layout.words[index + 3] == "AS"
        ):
            name, end = read_type(layout, index + 4)
            if layout.partner.get(index + 1) == end + 1:
                return self._typed(index, end + 1, index + 2, _UNITS_BY_NAME.get(name or ""), is_cast=True)
        return None

    def _typed(self, start: int, end: int, text: int, unit: str | None, *, is_cast: bool) -> _Literal | None:
        token = self._layout.tokens[text]
        if unit is None or token.kind != TokenKind.STRING:
            return None
        value = unquote(token, self._dialect)
        if _CANONICAL.fullmatch(value) is None:
            return None
        try:
            nanoseconds = parse_timestamp(value, self._zone)
        except InvalidTimestamp:
            return None
        nanoseconds -= nanoseconds % _UNIT_NS[unit]
        return _Literal(start, end, value, nanoseconds, text if is_cast else None)

    def _literal_before(self, index: int) -> _Literal | None:
        """Read a literal that ends at a token and that nothing in front belongs to."""
        layout = self._layout
        if index < 0 or layout.tokens[index].kind not in (TokenKind.NUMBER, TokenKind.STRING):
            return None
        start = index
        if layout.is_operator(index - 1, "-") and layout.tokens[index].kind == TokenKind.NUMBER:
            if index - 2 >= 0 and layout.operand_start(index - 2) is not None:
                return None
            start = index - 1
        before = layout.tokens[start - 1] if start else None
        if before is not None and before.kind == TokenKind.OPERATOR and before.text in _TIGHTER:
            return None
        if start and layout.words[start - 1] == "TIMESTAMP":
            return self._typed_literal(start - 1)
        if start and layout.words[start - 1] in ("INTERVAL", "DATE", "TIME"):
            return None
        return self._literal_at(start, index)

    def _literal_at(self, start: int, index: int) -> _Literal | None:
        token = self._layout.tokens[index]
        if token.kind == TokenKind.STRING:
            return _Literal(start, index, unquote(token, self._dialect))
        if not token.text.isdigit():
            return None
        return _Literal(start, index, int(token.text) * (1 if start == index else -1))

    def _compare(self, column: _Column, operator: str, literal: _Literal, *, span: tuple[int, int]) -> None:
        kind = column.kind
        if kind.kind is Kind.BOOLEAN:
            if literal.nanoseconds is None:
                self._edit_boolean(literal)
            return
        ticks = self._ticks(column, literal)
        if ticks is None:
            return
        low, high = ticks
        if low == high or operator in ("<", ">="):
            self._put(kind, literal, high)
        elif operator in ("<=", ">"):
            self._put(kind, literal, low)
        else:
            self._put_never(span, column, is_negated=operator in ("<>", "!="))

    def _between(self, column: _Column, index: int) -> None:
        layout, kind = self._layout, column.kind
        first = self._literal(index + 1)
        if first is None or layout.words[first.end + 1] != "AND":
            return
        second = self._literal(first.end + 2)
        if second is None or kind.kind is Kind.BOOLEAN:
            return
        lower, upper = self._ticks(column, first), self._ticks(column, second)
        if lower is not None:
            self._put(kind, first, lower[1])
        if upper is not None:
            self._put(kind, second, upper[0])

    def _in_list(self, column: _Column, index: int, *, is_negated: bool) -> None:
        """Edit the literals of a list; those that nothing equals are replaced by one that is there anyway."""
        layout, kind = self._layout, column.kind
        closing = layout.partner.get(index + 1)
        literals: list[_Literal] = []
        position = index + 2
        while closing is not None and position < closing:
            literal = self._literal(position)
            if literal is None or literal.text is not None:
                return
            literals.append(literal)
            if not layout.is_operator(literal.end + 1, ",") and literal.end + 1 != closing:
                return
            position = literal.end + 2
        if closing is None or not literals:
            return
        if kind.kind is Kind.BOOLEAN:
            for literal in literals:
                if literal.nanoseconds is None:
                    self._edit_boolean(literal)
            return
        found = [self._ticks(column, literal) for literal in literals]
        exact = [ticks[0] for ticks in found if ticks is not None and ticks[0] == ticks[1]]
        lost = [(each, ticks) for each, ticks in zip(literals, found, strict=True) if ticks and ticks[0] != ticks[1]]
        if len(lost) == len(literals):
            self._put_never((column.start, closing), column, is_negated=is_negated)
            return
        for literal, ticks in zip(literals, found, strict=True):
            if ticks is not None and ticks[0] == ticks[1]:
                self._put(kind, literal, ticks[0])
        for literal, _ in lost:
            if exact:
                self._put(kind, literal, exact[0])
            else:
                same = next(each for each, ticks in zip(literals, found, strict=True) if ticks is None)
                self._replace(literal, self._slice(same.start, same.end))

    def _ticks(self, column: _Column, literal: _Literal) -> tuple[int, int] | None:
        """Return the counts of the column's unit below and above a literal, None to leave it to DataFusion."""
        if isinstance(literal.value, int):
            # What a number counts is the unit of the cast.
            return (literal.value, literal.value) if column.name == (column.start, column.end) else None
        unit = _UNIT_NS[column.kind.arrow.unit]
        if literal.nanoseconds is not None:
            low, high = literal.nanoseconds // unit, -(-literal.nanoseconds // unit)
            return None if low == high else (low, high)
        try:
            nanoseconds = parse_timestamp(literal.value, self._zone)
        except InvalidTimestamp:
            return None
        low, high = nanoseconds // unit, -(-nanoseconds // unit)
        if (
            low == high
            and nanoseconds in _INT64
            and (self._zone == "UTC" or _HAS_ZONE.search(literal.value))
            and _CANONICAL.fullmatch(literal.value)
        ):
            return None
        return low, high

    def _put(self, kind: DataType, literal: _Literal, ticks: int) -> None:
        if ticks not in _INT64:
            raise BadLiteral(
                "the timestamp is out of range", literal=self._slice(literal.start, literal.end), type=kind.name
            )
        if literal.text is None:
            self._replace(literal, f"arrow_cast({ticks},'Timestamp({_ARROW_UNITS[kind.arrow.unit]}) ')")
            return
        # The cast around it may be edited as well.
        token = self._layout.tokens[literal.text]
        self._edits.absorb(token.start, token.end, f"'{np.datetime64(ticks, kind.arrow.unit)}'")

    def _put_never(self, span: tuple[int, int], column: _Column, *, is_negated: bool) -> None:
        tokens = self._layout.tokens
        name = self._slice(*column.name)
        replacement = f"({name} {'=' if is_negated else '<>'} {name})"
        # Before the first token stands what a cast of the column has put there.
        self._edits.absorb(tokens[span[0]].start, tokens[span[1]].end, replacement, keeps_before=False)

    def _edit_boolean(self, literal: _Literal) -> None:
        if isinstance(literal.value, int):
            return
        text = literal.value.strip().lower()
        if text not in _TRUE | _FALSE:
            raise BadLiteral("a boolean column is compared with text other than true and false", text=text)
        self._replace(literal, "true" if text in _TRUE else "false")

    def _replace(self, literal: _Literal, replacement: str) -> None:
        tokens = self._layout.tokens
        self._edits.replace(tokens[literal.start].start, tokens[literal.end].end, replacement)

    def _slice(self, start: int, end: int) -> str:
        return self._layout.text[self._layout.tokens[start].start : self._layout.tokens[end].end]
