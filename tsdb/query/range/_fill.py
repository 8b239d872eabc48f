"""Gaps filled: every series gets all slots from its first to its last, and what is NULL there gets a value.

All of it works on whole columns. Rows come sorted by series and slot, and stay so.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from tsdb.query.range._plan import SLOT, PlannedCall, RangePlan
from tsdb.query.range._runner import RangeRunner
from tsdb.query.range._series import series_starts
from tsdb.sql.range_query import Fill, FillKind, RangePlanError


@dataclass(frozen=True, slots=True)
class _Grid:
    """All slots of all series: where each series begins and which known row stands where."""

    slots: np.ndarray
    starts: np.ndarray
    """The first row of every series."""
    series: np.ndarray
    """The series of each row."""
    rows: np.ndarray
    """The known row of each row, -1 where there is none."""
    first_known: np.ndarray
    """The first known row of each series."""


def check_fills(plan: RangePlan) -> dict[str, pa.Scalar]:
    """Refuse fills that do not fit the type of their column; return the constants by column."""
    constants = {}
    for call in plan.calls:
        if call.fill is None:
            continue
        if call.fill.kind is FillKind.LINEAR and not _is_numeric(call.kind):
            raise RangePlanError(f"FILL LINEAR needs numbers, {call.column.alone!r} is {call.kind}")
        if call.fill.kind is FillKind.CONSTANT:
            constants[call.column.name] = _constant(call.fill, call)
    return constants


def fill_gaps(plan: RangePlan, table: pa.Table, runner: RangeRunner) -> pa.Table:
    """Return the table with all slots."""
    constants = check_fills(plan)
    # One row, what the calls give over no rows, where that is not NULL.
    empty = None if plan.empty_sql is None else runner.run(plan.empty_sql)
    starts = series_starts([table.column(column.name) for column in plan.by], table.num_rows)
    slots = table.column(SLOT).to_numpy()
    lengths = _lengths(slots, starts, plan.times.align)
    runner.slots.reserve(lengths, len(plan.columns))
    grid = _grid(slots, starts, lengths.astype(np.int64), plan.times.align)
    is_gap = grid.rows < 0
    rows = pa.array(grid.rows, mask=is_gap)
    series_rows = pa.array(grid.first_known[grid.series])
    columns, fields = [pa.array(grid.slots)], [table.schema.field(SLOT)]
    for column in plan.by:
        runner.check()
        columns.append(table.column(column.name).combine_chunks().take(series_rows))
        fields.append(table.schema.field(column.name))
    for call in plan.calls:
        runner.check()
        values = table.column(call.column.name).combine_chunks().take(rows)
        if empty is not None and (of_nothing := empty.column(call.column.name)[0]).is_valid:
            values = pc.if_else(pa.array(is_gap), of_nothing.cast(values.type), values)
        values = _filled(call, values, grid, constants)
        columns.append(values)
        field = table.schema.field(call.column.name)
        fields.append(field.with_type(values.type).with_nullable(True))
    return pa.table(columns, schema=pa.schema(fields))


def _lengths(slots: np.ndarray, starts: np.ndarray, align: int) -> np.ndarray:
    """Return how many slots each series has from its first to its last."""
    if not len(slots):
        return np.zeros(0, np.uint64)
    unsigned = slots.astype(np.uint64)
    with np.errstate(over="ignore"):
        lengths: np.ndarray = (unsigned[np.append(starts[1:], len(slots)) - 1] - unsigned[starts]) // np.uint64(align)
    return lengths + np.uint64(1)


def _grid(slots: np.ndarray, starts: np.ndarray, counts: np.ndarray, align: int) -> _Grid:
    if not len(slots):
        none = np.zeros(0, np.int64)
        return _Grid(none, none, none, none, none)
    ends = np.append(starts[1:], len(slots))
    with np.errstate(over="ignore"):
        unsigned = slots.astype(np.uint64)
        grid_starts = np.cumsum(counts) - counts
        series = np.repeat(np.arange(len(starts)), counts)
        known_series = np.repeat(np.arange(len(starts)), ends - starts)
        steps = np.arange(counts.sum()) - grid_starts[series]
        all_slots = slots[starts][series] + steps * align
        offsets = ((unsigned - unsigned[starts][known_series]) // np.uint64(align)).astype(np.int64)
    rows = np.full(len(series), -1, np.int64)
    rows[grid_starts[known_series] + offsets] = np.arange(len(slots))
    return _Grid(all_slots, grid_starts, series, rows, starts)


def _filled(call: PlannedCall, values: pa.Array, grid: _Grid, constants: dict[str, pa.Scalar]) -> pa.Array:
    kind = None if call.fill is None else call.fill.kind
    if kind is FillKind.PREV:
        return _previous(values, grid)
    if kind is FillKind.LINEAR:
        return _linear(values, grid)
    if kind is FillKind.CONSTANT and values.null_count:
        return pc.if_else(pc.is_null(values), constants[call.column.name], values)
    return values


def _previous(values: pa.Array, grid: _Grid) -> pa.Array:
    if not values.null_count:
        return values
    is_known = np.asarray(pc.is_valid(values))
    latest = np.maximum.accumulate(np.where(is_known, np.arange(len(values)), -1))
    return values.take(pa.array(latest, mask=latest < grid.starts[grid.series]))


def _linear(values: pa.Array, grid: _Grid) -> pa.Array:
    """Interpolate between the known neighbours, extrapolate at the ends from the two nearest known."""
    target = values.type if pt.is_floating(values.type) else pa.float64()
    known_mask = np.asarray(pc.is_valid(values))
    known = np.flatnonzero(known_mask)
    # An integer that a double cannot hold becomes the nearest one: the line between two points is no more exact.
    if not values.null_count or len(known) < 2:
        return values.cast(target, safe=False)
    numbers = values.cast(pa.float64(), safe=False).fill_null(0.0).to_numpy(zero_copy_only=False).copy()
    gaps = np.flatnonzero(~known_mask)
    right = np.searchsorted(known, gaps)
    left = right - 1
    left, right = _within_series(known, left, right, grid.series, gaps)
    is_open = left < 0
    left, right = np.maximum(left, 0), np.maximum(right, 0)
    x0, x1 = known[left], known[right]
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        slope = (numbers[x1] - numbers[x0]) / np.maximum(x1 - x0, 1)
        numbers[gaps] = numbers[x0] + slope * (gaps - x0)
    mask = np.zeros(len(numbers), bool)
    mask[gaps[is_open]] = True
    return pa.array(numbers, mask=mask).cast(target)


def _within_series(
    known: np.ndarray, left: np.ndarray, right: np.ndarray, series: np.ndarray, gaps: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Choose for every gap two known points of its own series, -1 where it has fewer; `left < right`."""

    def belongs(points: np.ndarray) -> np.ndarray:
        inside = (points >= 0) & (points < len(known))
        found: np.ndarray = inside & (series[known[np.where(inside, points, 0)]] == series[gaps])
        return found

    left_fits, right_fits = belongs(left), belongs(right)
    before = ~right_fits & left_fits & belongs(left - 1)
    after = ~left_fits & right_fits & belongs(right + 1)
    both = left_fits & right_fits
    first = np.select([both, before, after], [left, left - 1, right], -1)
    second = np.select([both, before, after], [right, left, right + 1], -1)
    return first, second


def _is_numeric(kind: pa.DataType) -> bool:
    return bool(pt.is_integer(kind) or pt.is_floating(kind) or pt.is_decimal(kind))


def _constant(fill: Fill, call: PlannedCall) -> pa.Scalar:
    try:
        if pt.is_boolean(call.kind) and fill.constant.lower() not in ("true", "false"):
            raise pa.ArrowInvalid("not a boolean")
        return pa.scalar(fill.constant).cast(call.kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise RangePlanError(
            f"FILL {fill.constant} does not fit {call.column.alone!r}, whose type is {call.kind}"
        ) from error
