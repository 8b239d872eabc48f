"""How the rows of a table are divided among its regions: one boolean expression per region, which together tile.

Every literal of the rules is a boundary on its column. Boundaries cut a column into points and gaps, numbered in order:

    gap before b0 │ b0 │ gap │ b1 │ gap behind b1 │ null
        code 0      1     2     3        4           5

Within one combination of codes, a *cell*, every comparison is constant. So the rules are evaluated once for each cell:
that exactly one of them holds in each is the proof that they tile, and the table of cells is what routes rows, however
many rules there are.

- A cell that no value can be in (between 10 and 11 for an integer, below '' for a string) needs no rule.
- A comparison with null is unknown, as in SQL. A row for which no rule is certain to hold goes to region 0; that two
  hold at once is impossible, because one that holds in spite of a null holds whatever is put in its place.
- NaN is above every number.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from tsdb.errors import InvalidArguments
from tsdb.model._partition_expr import (
    And,
    Expression,
    Or,
    PartitionComparison,
    PartitionLiteral,
    comparisons_of,
    parse_rule,
)
from tsdb.model._types import DataType, Kind

_CELLS_MAX = 1 << 20
"""A table of cells has a bound: it grows with the product of the boundaries of all columns."""

_INT64 = (-(1 << 63), (1 << 63) - 1)
_UINT64 = (0, (1 << 64) - 1)


@dataclass(frozen=True)
class _Axis:
    """One column: its boundaries in order, and which codes a value can have."""

    name: str
    type: DataType
    boundaries: tuple[Any, ...]

    @property
    def size(self) -> int:
        """How many codes there are, the one of null included."""
        return 2 * len(self.boundaries) + 2

    @cached_property
    def is_possible(self) -> npt.NDArray[np.bool_]:
        """Whether a value can have the code; null never, it needs no rule."""
        possible = np.ones(self.size, dtype=np.bool_)
        possible[-1] = False
        bounds = _integer_range(self.type)
        for code in range(self.size - 1):
            if bounds is not None:
                possible[code] = self._has_integer(code, *bounds)
            elif self.type.is_string:
                possible[code] = self._has_string(code)
        return possible

    def _has_integer(self, code: int, low: int, high: int) -> bool:
        index, is_point = divmod(code, 2)
        if is_point:
            value = self.boundaries[index]
            return bool(value == math.floor(value) and low <= value <= high)
        first = low if index == 0 else max(low, math.floor(self.boundaries[index - 1]) + 1)
        last = high if index == len(self.boundaries) else min(high, math.ceil(self.boundaries[index]) - 1)
        return first <= last

    def _has_string(self, code: int) -> bool:
        index, is_point = divmod(code, 2)
        if is_point or index == len(self.boundaries):
            return True
        before = self.boundaries[index - 1] + "\0" if index else ""
        return bool(before < self.boundaries[index])

    def describe(self, code: int) -> str:
        """Say where a cell lies on this column: `a=10`, `a<10`, `a>10`."""
        index, is_point = divmod(code, 2)
        if is_point:
            return f"{self.name}={_shown(self.boundaries[index])}"
        if index == 0:
            return f"{self.name}<{_shown(self.boundaries[0])}"
        return f"{self.name}>{_shown(self.boundaries[index - 1])}"

    def code_of(self, value: Any) -> int:
        return bisect_left(self.boundaries, value) + bisect_right(self.boundaries, value)

    def codes_of(self, values: pa.ChunkedArray | pa.Array) -> npt.NDArray[np.intp]:
        """Return the code of each value."""
        array = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
        if not self.boundaries:
            return self._with_nulls(np.zeros(len(array), dtype=np.intp), array)
        if self.type.is_string:
            return self._codes_of_strings(array)
        if pt.is_dictionary(array.type):
            array = array.cast(array.type.value_type)
        if self.type.is_float:
            numbers = pc.fill_null(array.cast(pa.float64()), 0).to_numpy(zero_copy_only=False)
            below = above = np.array([float(each) for each in self.boundaries])
        else:
            kind = pa.uint64() if self.type.kind is Kind.UINT64 else pa.int64()
            numbers = pc.fill_null(_as_integers(array, kind), 0).to_numpy(zero_copy_only=False)
            # An integer is behind 10.5 if it is behind 10, and at or behind it if it is at or behind 11.
            below = np.array([math.floor(each) for each in self.boundaries], dtype=numbers.dtype)
            above = np.array([math.ceil(each) for each in self.boundaries], dtype=numbers.dtype)
        codes = np.searchsorted(below, numbers, side="left") + np.searchsorted(above, numbers, side="right")
        return self._with_nulls(codes, array)

    def _codes_of_strings(self, array: pa.Array) -> npt.NDArray[np.intp]:
        if not pt.is_dictionary(array.type) or array.dictionary.null_count:
            array = array.cast(pa.large_string()).dictionary_encode()
        if not len(array.dictionary):
            return np.full(len(array), self.size - 1, dtype=np.intp)
        texts = array.dictionary.cast(pa.large_string())
        codes = np.zeros(len(texts), dtype=np.intp)
        for boundary in self.boundaries:
            scalar = pa.scalar(boundary, pa.large_string())
            codes += pc.greater(texts, scalar).to_numpy(zero_copy_only=False)
            codes += pc.greater_equal(texts, scalar).to_numpy(zero_copy_only=False)
        positions = pc.fill_null(array.indices.cast(pa.int64()), 0).to_numpy(zero_copy_only=False)
        return self._with_nulls(codes[positions], array)

    def _with_nulls(self, codes: npt.NDArray[np.intp], array: pa.Array) -> npt.NDArray[np.intp]:
        if array.null_count:
            codes[array.is_null().to_numpy(zero_copy_only=False)] = self.size - 1
        return codes


class PartitionRule:
    """The rules of one table. `parse` is the way to make one."""

    def __init__(self, axes: Sequence[_Axis], texts: Sequence[str], cells: npt.NDArray[np.int32]) -> None:
        self._axes = tuple(axes)
        self.texts = tuple(texts)
        """The rules in their canonical form, by region; none for a table of one region."""
        self._cells = cells

    @classmethod
    def parse(cls, columns: Sequence[str], expressions: Sequence[str], types: Mapping[str, DataType]) -> PartitionRule:
        """Read rules and prove that they tile; InvalidSyntax or InvalidArguments otherwise."""
        rules = [_typed(parse_rule(text, columns), types) for text in expressions]
        texts = [str(rule) for rule in rules]
        for position, text in enumerate(texts):
            if text in texts[:position]:
                raise InvalidArguments(f"Duplicate expr: {text}")
        axes = [_Axis(name, types[name], _boundaries(name, rules)) for name in columns]
        if math.prod(axis.size for axis in axes) > _CELLS_MAX:
            raise InvalidArguments(
                "the partition rules have too many boundaries", hint="partition by fewer columns or fewer values"
            )
        return cls(axes, texts, _tile(axes, rules))

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(axis.name for axis in self._axes)

    def boundaries(self, column: str) -> tuple[Any, ...]:
        """Return the values that the rules compare a column with, in order."""
        return next(axis.boundaries for axis in self._axes if axis.name == column)

    def route(self, table: pa.Table | pa.RecordBatch) -> npt.NDArray[np.int32]:
        """Return the index of the region of each row."""
        if not self.texts:
            return np.zeros(table.num_rows, dtype=np.int32)
        codes = tuple(axis.codes_of(table.column(axis.name)) for axis in self._axes)
        found: npt.NDArray[np.int32] = self._cells[codes]
        return found

    def prune(self, bounds: Mapping[str, tuple[Any | None, Any | None]]) -> list[int]:
        """Return the regions that can hold rows whose columns lie within bounds.

        Bounds are a least and a greatest value, both included, None where there is none. A column with bounds is not
        null. Values are those of the column's type; of a timestamp or a date, its number.
        """
        if not self.texts:
            return [0]
        slices = []
        for axis in self._axes:
            low, high = bounds.get(axis.name, (None, None))
            if low is None and high is None:
                slices.append(slice(None))
                continue
            first = 0 if low is None else axis.code_of(low)
            last = axis.size - 2 if high is None else axis.code_of(high)
            slices.append(slice(first, last + 1))
        return sorted({int(each) for each in np.unique(self._cells[tuple(slices)])})


def _shown(value: Any) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _as_integers(array: pa.Array, kind: pa.DataType) -> pa.Array:
    if pt.is_date32(array.type):
        array = array.cast(pa.int32())
    return array.cast(kind)


def _integer_range(data_type: DataType) -> tuple[int, int] | None:
    """Return the least and greatest value of a type whose values are integers, None for every other type."""
    if data_type.kind is Kind.BOOLEAN:
        return 0, 1
    if data_type.is_timestamp:
        return _INT64
    if data_type.kind is Kind.DATE:
        return -(1 << 31), (1 << 31) - 1
    if not data_type.is_integer:
        return None
    width = data_type.arrow.bit_width
    if pt.is_unsigned_integer(data_type.arrow):
        return 0, (1 << width) - 1
    return -(1 << (width - 1)), (1 << (width - 1)) - 1


def _boundaries(column: str, rules: Sequence[Expression]) -> tuple[Any, ...]:
    found = {each.value for rule in rules for each in comparisons_of(rule) if each.column == column}
    return tuple(sorted(found))


def _typed(rule: Expression, types: Mapping[str, DataType]) -> Expression:
    """Give the literals of a rule the types of their columns."""
    if isinstance(rule, PartitionComparison):
        return PartitionComparison(rule.column, rule.operator, _typed_literal(rule, types[rule.column]))
    if isinstance(rule, And):
        return And(_typed(rule.left, types), _typed(rule.right, types))
    return Or(_typed(rule.left, types), _typed(rule.right, types))


def _typed_literal(comparison: PartitionComparison, data_type: DataType) -> PartitionLiteral:
    value, text = comparison.literal.value, comparison.literal.text
    column = comparison.column
    if isinstance(value, str):
        if data_type.is_string:
            return comparison.literal
        if data_type.is_timestamp or data_type.kind is Kind.DATE:
            return PartitionLiteral(_time_of(value, data_type, column), text)
    elif isinstance(value, bool):
        if data_type.kind is Kind.BOOLEAN:
            return PartitionLiteral(int(value), text)
    elif data_type.is_float:
        return PartitionLiteral(float(value), text)
    elif data_type.is_integer or data_type.is_timestamp or data_type.kind is Kind.DATE:
        low, high = _UINT64 if data_type.kind is Kind.UINT64 else _INT64
        if low <= value <= high:
            return comparison.literal
        raise InvalidArguments("a partition rule compares with a number that its column cannot hold", rule=comparison)
    raise InvalidArguments(
        "a partition rule compares a column with a value of another type",
        rule=comparison,
        column=column,
        type=data_type.name,
    )


def _time_of(text: str, data_type: DataType, column: str) -> int:
    try:
        parsed = pa.array([text]).cast(data_type.arrow)
    except pa.ArrowInvalid as error:
        raise InvalidArguments(f"'{text}' is not a time", column=column, type=data_type.name) from error
    return int(_as_integers(parsed, pa.int64())[0].as_py())


_Truth = tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]
"""In which cells an expression is certainly true, and in which it is certainly false."""


def _tile(axes: Sequence[_Axis], rules: Sequence[Expression]) -> npt.NDArray[np.int32]:
    """Return the region of every cell; InvalidArguments for a possible cell that has none, or more than one."""
    shape = tuple(axis.size for axis in axes)
    counts, regions = np.zeros(shape, dtype=np.int32), np.zeros(shape, dtype=np.int32)
    if not rules:
        return regions
    for number, rule in enumerate(rules):
        is_true, _ = _evaluate(rule, axes)
        counts += is_true
        regions[np.broadcast_to(is_true, shape)] = number
    is_possible = np.ones(shape, dtype=np.bool_)
    for dimension, axis in enumerate(axes):
        is_possible &= _along(axis.is_possible, dimension, len(axes))
    wrong = np.argwhere(is_possible & (counts != 1))
    if len(wrong):
        cell = tuple(int(code) for code in wrong[0])
        place = ", ".join(axis.describe(code) for axis, code in zip(axes, cell, strict=True) if axis.boundaries)
        raise InvalidArguments(f"Checkpoint `{place}` is {'overlapped' if counts[cell] else 'not covered'}")
    return regions


def _evaluate(rule: Expression, axes: Sequence[_Axis]) -> _Truth:
    if isinstance(rule, PartitionComparison):
        return _compare(rule, axes)
    left_true, left_false = _evaluate(rule.left, axes)
    right_true, right_false = _evaluate(rule.right, axes)
    if isinstance(rule, And):
        return left_true & right_true, left_false | right_false
    return left_true | right_true, left_false & right_false


def _compare(rule: PartitionComparison, axes: Sequence[_Axis]) -> _Truth:
    dimension = next(position for position, axis in enumerate(axes) if axis.name == rule.column)
    axis = axes[dimension]
    codes, point = np.arange(axis.size), axis.code_of(rule.value)
    is_known = codes < axis.size - 1
    holds = rule.holds(codes, point)
    return (
        _along(is_known & holds, dimension, len(axes)),
        _along(is_known & ~holds, dimension, len(axes)),
    )


def _along(values: npt.NDArray[np.bool_], dimension: int, dimensions: int) -> npt.NDArray[np.bool_]:
    shape = [1] * dimensions
    shape[dimension] = len(values)
    return values.reshape(shape)
