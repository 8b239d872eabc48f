"""Filters as trees that can be written as an expression of Arrow, as SQL, and evaluated on one row in plain Python."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import strategies as st

from tests.engine.scan.regions import Row

OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
UNITS = {"s": "Second", "ms": "Millisecond", "us": "Microsecond", "ns": "Nanosecond"}


class Condition(Protocol):
    def test(self, row: Row) -> bool | None: ...

    def arrow(self, unit: str) -> pc.Expression: ...

    def sql(self, unit: str) -> str: ...


def ordered(value: Any) -> Any:
    """Floats in SQL's order; both zeros are one."""
    if isinstance(value, float):
        return (2, 0.0) if math.isnan(value) else (1, value + 0.0)
    return value


def literal(column: str, value: Any, unit: str) -> str:
    if value is None:
        return "null"
    if column == "ts":
        return f"arrow_cast({value}, 'Timestamp({UNITS[unit]}, None)')"
    if isinstance(value, float):
        name = "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
        return repr(value) if math.isfinite(value) else f"'{name}'::double"
    return f"'{value}'" if isinstance(value, str) else str(value)


def scalar(column: str, value: Any, unit: str) -> pa.Scalar:
    kinds = {"host": pa.string(), "s": pa.string(), "zone": pa.int64(), "n": pa.int64(), "v": pa.float64()}
    if column == "ts":
        return pa.array([value], pa.int64()).view(pa.timestamp(unit))[0]
    return pa.scalar(value, kinds[column])


@dataclass(frozen=True)
class Compare:
    column: str
    sign: str
    value: Any

    def test(self, row: Row) -> bool | None:
        found = row[self.column]
        if found is None or self.value is None:
            return None
        return bool(OPERATORS[self.sign](ordered(found), ordered(self.value)))

    def arrow(self, unit: str) -> pc.Expression:
        return OPERATORS[self.sign](pc.field(self.column), scalar(self.column, self.value, unit))

    def sql(self, unit: str) -> str:
        return f"{self.column} {self.sign} {literal(self.column, self.value, unit)}"


@dataclass(frozen=True)
class In:
    column: str
    values: tuple[Any, ...]

    def test(self, row: Row) -> bool | None:
        found = row[self.column]
        if found is None:
            return None
        if any(ordered(found) == ordered(value) for value in self.values if value is not None):
            return True
        return None if None in self.values else False

    def arrow(self, unit: str) -> pc.Expression:
        kind = scalar(self.column, None, unit).type
        return pc.field(self.column).isin(pa.array(self.values, kind))

    def sql(self, unit: str) -> str:
        return f"{self.column} in ({', '.join(literal(self.column, value, unit) for value in self.values)})"


@dataclass(frozen=True)
class IsNull:
    column: str

    def test(self, row: Row) -> bool | None:
        return row[self.column] is None

    def arrow(self, unit: str) -> pc.Expression:
        return pc.field(self.column).is_null()

    def sql(self, unit: str) -> str:
        return f"{self.column} is null"


@dataclass(frozen=True)
class Flag:
    column: str

    def test(self, row: Row) -> bool | None:
        found: bool | None = row[self.column]
        return found

    def arrow(self, unit: str) -> pc.Expression:
        return pc.field(self.column)

    def sql(self, unit: str) -> str:
        return self.column


@dataclass(frozen=True)
class Same:
    """Two columns are equal."""

    left: str
    right: str

    def test(self, row: Row) -> bool | None:
        if row[self.left] is None or row[self.right] is None:
            return None
        return bool(row[self.left] == row[self.right])

    def arrow(self, unit: str) -> pc.Expression:
        return pc.field(self.left) == pc.field(self.right)

    def sql(self, unit: str) -> str:
        return f"{self.left} = {self.right}"


@dataclass(frozen=True)
class Not:
    part: Condition

    def test(self, row: Row) -> bool | None:
        found = self.part.test(row)
        return None if found is None else not found

    def arrow(self, unit: str) -> pc.Expression:
        return ~self.part.arrow(unit)

    def sql(self, unit: str) -> str:
        return f"not ({self.part.sql(unit)})"


@dataclass(frozen=True)
class Both:
    left: Condition
    right: Condition

    def test(self, row: Row) -> bool | None:
        found = (self.left.test(row), self.right.test(row))
        return False if False in found else (None if None in found else True)

    def arrow(self, unit: str) -> pc.Expression:
        return self.left.arrow(unit) & self.right.arrow(unit)

    def sql(self, unit: str) -> str:
        return f"({self.left.sql(unit)} and {self.right.sql(unit)})"


@dataclass(frozen=True)
class Either:
    left: Condition
    right: Condition

    def test(self, row: Row) -> bool | None:
        found = (self.left.test(row), self.right.test(row))
        return True if True in found else (None if None in found else False)

    def arrow(self, unit: str) -> pc.Expression:
        return self.left.arrow(unit) | self.right.arrow(unit)

    def sql(self, unit: str) -> str:
        return f"({self.left.sql(unit)} or {self.right.sql(unit)})"


SIGNS = st.sampled_from(list(OPERATORS))
HOST_VALUES = st.sampled_from(["a", "b", "ä", "nowhere", ""])
FLOAT_VALUES = st.sampled_from([0.0, -0.0, 1.5, -1.5, 100.0, float("inf"), float("-inf"), float("nan")])
TIME_VALUES = st.integers(-4, 13) | st.sampled_from([-(2**63), 2**63 - 1])

TAG_LEAVES = st.one_of(
    st.builds(Compare, st.just("host"), SIGNS, HOST_VALUES),
    st.builds(Compare, st.just("zone"), SIGNS, st.sampled_from([1, 2, 3])),
    st.builds(In, st.just("host"), st.lists(HOST_VALUES | st.none(), min_size=1, max_size=6).map(tuple)),
    st.builds(IsNull, st.sampled_from(["host", "zone"])),
)
LEAVES = st.one_of(
    TAG_LEAVES,
    st.builds(Compare, st.just("ts"), SIGNS, TIME_VALUES),
    st.builds(Compare, st.just("ts"), SIGNS, TIME_VALUES),
    st.builds(Compare, st.just("v"), SIGNS, FLOAT_VALUES),
    st.builds(Compare, st.just("n"), SIGNS, st.sampled_from([0, 3])),
    st.builds(In, st.just("n"), st.lists(st.sampled_from([0, 1, 2, 3, 5]), min_size=4, max_size=5).map(tuple)),
    st.builds(IsNull, st.sampled_from(["v", "n", "s", "b", "ts"])),
    st.just(Flag("b")),
    st.just(Same("host", "s")),
)


def trees(leaves: st.SearchStrategy[Condition]) -> st.SearchStrategy[Condition]:
    return st.recursive(
        leaves,
        lambda inner: st.builds(Both, inner, inner) | st.builds(Either, inner, inner) | st.builds(Not, inner),
        max_leaves=6,
    )


CONDITIONS: st.SearchStrategy[Condition] = trees(LEAVES)
TAG_CONDITIONS: st.SearchStrategy[Condition] = trees(TAG_LEAVES)
