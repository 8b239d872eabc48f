"""Windows that slide over bins: aggregates of many bins put together, for all windows at once.

Bins are sorted by series and time. A window is a stretch of bins [low, high) of one series. Sums of integers come from
running totals. Sums of floats are added up from stretches of 1, 2, 4, … bins, so that a large value outside a window
leaves no rounding error in it. Minima and maxima overlap two such stretches.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tsdb.query.range._plan import SLOT, PlannedCall, RangePlan, part_name
from tsdb.query.range._runner import RangeRunner
from tsdb.query.range._series import series_starts
from tsdb.query.range._times import Times

_INT64_MAX = (1 << 63) - 1


class BinsTooFarApart(Exception):
    """The series and times of the bins do not fit into one number; the other form of the plan must be used."""


@dataclass(frozen=True, slots=True)
class _Slots:
    """The slots that any bin belongs to."""

    series: np.ndarray
    """The series of each, counted from 0."""
    times: np.ndarray


def slide(plan: RangePlan, bins: pa.Table, runner: RangeRunner) -> pa.Table:
    """Return the table of slots that the direct form would have given, from bins."""
    times, width = plan.times, plan.bin_width
    bins = _with_slots(bins, times)
    starts = series_starts([bins.column(column.name) for column in plan.by], bins.num_rows)
    series = np.zeros(bins.num_rows, np.int64)
    series[starts[1:]] = 1
    series = np.cumsum(series)
    moments = bins.column(SLOT).to_numpy()
    last, counts = _counts_of(series, moments, times)
    runner.slots.reserve(counts, len(plan.columns))
    slots = _slots_of(series, last, counts, times)
    keys = _Keys.of(moments, slots.times, len(starts), width, times.widest)
    bin_keys = keys.of_times(series, moments)
    slot_keys = keys.of_times(slots.series, slots.times)
    low = np.searchsorted(bin_keys, slot_keys)
    columns = {SLOT: pa.array(slots.times)}
    first_rows = pa.array(starts[slots.series])
    for column in plan.by:
        columns[column.name] = bins.column(column.name).combine_chunks().take(first_rows)
    for call, span in zip(plan.calls, times.spans, strict=True):
        runner.check()
        high = np.searchsorted(bin_keys, slot_keys + span // width)
        columns[call.column.name] = _aggregate(call, bins, low, high)
    fields = [bins.schema.field(column.name) for column in plan.by]
    schema = pa.schema(
        [pa.field(SLOT, pa.int64()), *fields, *(pa.field(call.column.name, call.kind) for call in plan.calls)]
    )
    return pa.table(list(columns.values()), schema=schema)


def _with_slots(bins: pa.Table, times: Times) -> pa.Table:
    """Leave out bins whose last slot would come before the earliest time."""
    moments = bins.column(SLOT).to_numpy()
    room = _minus(moments, np.int64(times.low))
    behind = _behind(moments, times)
    return bins.filter(pa.array(room >= behind.astype(np.uint64)))


def _behind(moments: np.ndarray, times: Times) -> np.ndarray:
    """How far each bin lies behind the last slot before it."""
    return (moments % times.align + (times.align - times.origin % times.align)) % times.align


def _minus(left: np.ndarray, right: np.ndarray | np.int64) -> np.ndarray:
    """Return left - right, which is not negative, in a type that holds every difference."""
    with np.errstate(over="ignore"):
        difference: np.ndarray = left.astype(np.uint64) - np.asarray(right).astype(np.uint64)
    return difference


def _counts_of(series: np.ndarray, moments: np.ndarray, times: Times) -> tuple[np.ndarray, np.ndarray]:
    """Return the last slot of each bin and how many slots it adds: those that no earlier bin of its series has."""
    behind = _behind(moments, times)
    last = moments - behind
    align = np.uint64(times.align)
    reach = ((times.widest - behind + times.align - 1) // times.align).astype(np.uint64)
    counts = np.minimum(reach, _minus(last, np.int64(times.low)) // align + np.uint64(1)).astype(np.int64)
    if len(moments) > 1:
        fresh = np.minimum(_minus(last[1:], last[:-1]) // align, reach[1:]).astype(np.int64)
        counts[1:] = np.where(series[1:] == series[:-1], np.minimum(counts[1:], fresh), counts[1:])
    return last, counts


def _slots_of(series: np.ndarray, last: np.ndarray, counts: np.ndarray, times: Times) -> _Slots:
    ends = np.cumsum(counts)
    backwards = np.repeat(ends, counts) - 1 - np.arange(ends[-1] if len(ends) else 0)
    return _Slots(np.repeat(series, counts), np.repeat(last, counts) - backwards * times.align)


@dataclass(frozen=True, slots=True)
class _Keys:
    """Series and time in one integer, in the order of both."""

    base: int
    width: int
    stride: int

    @classmethod
    def of(cls, moments: np.ndarray, slots: np.ndarray, series: int, width: int, widest: int) -> _Keys:
        if not len(slots):
            return cls(0, width, 1)
        base = int(slots.min())
        stride = (int(moments.max()) - base + widest) // width + 2
        if stride * (series + 1) > _INT64_MAX:
            raise BinsTooFarApart
        return cls(base, width, stride)

    def of_times(self, series: np.ndarray, times: np.ndarray) -> np.ndarray:
        offsets = (_minus(times, np.int64(self.base)) // np.uint64(self.width)).astype(np.int64)
        return series * self.stride + offsets


def _aggregate(call: PlannedCall, bins: pa.Table, low: np.ndarray, high: np.ndarray) -> pa.Array:
    parts = [bins.column(part_name(call, number)).combine_chunks() for number in range(len(call.parts))]
    function = call.call.function
    if function == "count":
        return pa.array(_sums(parts[0].to_numpy(zero_copy_only=False), low, high)).cast(call.kind)
    if function in ("first_value", "last_value"):
        rows = low if function == "first_value" else high - 1
        return parts[0].take(pa.array(rows, mask=low >= high)).cast(call.kind)
    if function in ("min", "max"):
        return _extremes(parts[0], low, high, is_max=function == "max").cast(call.kind)
    known = _sums(np.asarray(pc.is_valid(parts[0])).astype(np.int64), low, high)
    totals = _sums(parts[0].fill_null(0).to_numpy(zero_copy_only=False), low, high)
    if function == "avg":
        counts = _sums(parts[1].to_numpy(zero_copy_only=False), low, high)
        totals = totals / np.maximum(counts, 1)
    return pa.array(totals, mask=known == 0).cast(call.kind)


def _sums(values: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    if values.dtype.kind in "iu":
        with np.errstate(over="ignore"):
            running = np.concatenate([np.zeros(1, values.dtype), np.cumsum(values)])
            sums: np.ndarray = running[high] - running[low]
        return sums
    totals = np.zeros(len(low), values.dtype)
    lengths, position = high - low, low.copy()
    stretch, size = values, 1
    with np.errstate(over="ignore", invalid="ignore"):
        while len(lengths) and size <= lengths.max():
            takes = (lengths & size) != 0
            totals[takes] += stretch[position[takes]]
            position[takes] += size
            stretch = stretch[:-size] + stretch[size:] if size < len(stretch) else stretch[:0]
            size *= 2
    return totals


def _extremes(values: pa.Array, low: np.ndarray, high: np.ndarray, *, is_max: bool) -> pa.Array:
    """Minima and maxima by rank, so that every type that can be sorted is served alike; NaN is the greatest."""
    order = pc.sort_indices(values).to_numpy()
    known = len(values) - values.null_count
    missing = -1 if is_max else known
    ranks = np.full(len(values), missing, np.int64)
    ranks[order[:known]] = np.arange(known)
    join = np.maximum if is_max else np.minimum
    lengths = high - low
    found = np.full(len(low), missing, np.int64)
    stretch, size = ranks, 1
    while len(lengths) and size <= lengths.max():
        fits = (lengths >= size) & (lengths < 2 * size)
        found[fits] = join(stretch[low[fits]], stretch[high[fits] - size])
        stretch = join(stretch[:-size], stretch[size:]) if size < len(stretch) else stretch[:0]
        size *= 2
    is_missing = found == missing
    found[is_missing] = 0
    rows = order[found] if known else np.zeros(len(low), np.int64)
    return values.take(pa.array(rows, mask=is_missing))
