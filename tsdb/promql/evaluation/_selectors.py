"""Selectors: the last samples at each step, and the windows of samples that functions look at."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tsdb import _kernels
from tsdb.promql._ast import MatrixSelector, Span, VectorSelector
from tsdb.promql.evaluation._context import EvalContext
from tsdb.promql.evaluation._source import SeriesSet
from tsdb.promql.evaluation._values import Bools, Floats, Times, Vector


def to_floats(array: object, rows: int, steps: int) -> Floats:
    """Return a matrix of a kernel."""
    result: Floats = pa.array(array).to_numpy(zero_copy_only=False).reshape(rows, steps)
    return result


def to_mask(array: object, rows: int, steps: int) -> Bools:
    """Return the mask of a matrix of a kernel."""
    found: npt.NDArray[np.uint8] = pa.array(array).to_numpy(zero_copy_only=False)
    return found.view(np.bool_).reshape(rows, steps)


def instant_vector(context: EvalContext, node: VectorSelector, times: Times) -> tuple[Vector, Times]:
    """Return the last sample of each series at each step, and when these samples were taken."""
    ats = context.shifted(times, node.shift)
    if node.extension == "smoothed":
        return _smoothed_vector(context, node, ats)
    first, last = int(ats[0]) - context.lookback_ms + 1, int(ats[-1])
    found = context.select(node.matchers, first, last)
    rows = found.labels.rows
    context.reserve(rows, len(times))
    values, seen, present = _kernels.prom_instant(
        pa.array(found.offsets), pa.array(found.times), pa.array(found.values), pa.array(ats), context.lookback_ms
    )
    mask = to_mask(present, rows, len(times))
    vector = Vector(found.labels, to_floats(values, rows, len(times)), mask, np.zeros(rows, np.bool_))
    return vector, pa.array(seen).to_numpy(zero_copy_only=False).reshape(rows, len(times))


def _smoothed_vector(context: EvalContext, node: VectorSelector, ats: Times) -> tuple[Vector, Times]:
    """Return values on the line between the samples around each step."""
    lookback = context.lookback_ms
    found = context.select(node.matchers, int(ats[0]) - lookback + 1, int(ats[-1]) + lookback).without_stale()
    rows, steps = found.labels.rows, len(ats)
    context.reserve(rows, steps)
    values, present = np.zeros((rows, steps)), np.zeros((rows, steps), np.bool_)
    for row in range(rows):
        low, high = int(found.offsets[row]), int(found.offsets[row + 1])
        if low == high:
            continue
        times, samples = found.times[low:high], found.values[low:high]
        right = np.searchsorted(times, ats, side="left")
        left = np.searchsorted(times, ats, side="right") - 1
        has_left = (left >= 0) & (times[np.maximum(left, 0)] > ats - lookback)
        has_right = right < len(times)
        has_right[has_right] = times[right[has_right]] <= ats[has_right] + lookback
        present[row] = has_left
        before, after = np.maximum(left, 0), np.minimum(right, len(times) - 1)
        gap = np.maximum(times[after] - times[before], 1)
        share = np.where(has_right & (after > before), (ats - times[before]) / gap, 0.0)
        values[row] = samples[before] + (samples[after] - samples[before]) * share
    vector = Vector(found.labels, values, present, np.zeros(rows, np.bool_))
    return vector, np.broadcast_to(ats, (rows, steps))


@dataclass(frozen=True, slots=True, eq=False)
class Windows:
    """For each step a window of samples, open on the left."""

    series: SeriesSet
    ends: Times
    range_ms: int
    span: Span
    drops_name: Bools
    extension: str = ""

    @property
    def rows(self) -> int:
        return self.series.labels.rows

    def samples_in_first(self) -> SeriesSet:
        """Return the samples of the window of the first step."""
        inside = (self.series.times > self.ends[0] - self.range_ms) & (self.series.times <= self.ends[0])
        before = np.concatenate([np.zeros(1, np.int64), np.cumsum(inside)])
        offsets = before[self.series.offsets]
        return SeriesSet(self.series.labels, offsets, self.series.times[inside], self.series.values[inside])


def selected_windows(context: EvalContext, node: MatrixSelector, times: Times) -> Windows:
    """Return the windows of a range selector."""
    selector = node.selector
    range_ms = node.range_ms if node.range_expr is None else context.duration(node.range_expr)
    ends = context.shifted(times, selector.shift)
    first, last = int(ends[0]) - range_ms + 1, int(ends[-1])
    if selector.extension:
        first -= context.lookback_ms
        last += context.lookback_ms if selector.extension == "smoothed" else 0
    found = context.select(selector.matchers, first, last).without_stale()
    drops = np.zeros(found.labels.rows, np.bool_)
    return Windows(found, ends, range_ms, node.span, drops, selector.extension)


def windows_of_vector(vector: Vector, inner: Times, ends: Times, range_ms: int, span: Span) -> Windows:
    """Return windows over the values of a vector, which was evaluated at the times `inner`."""
    vector = vector.compact()
    counts = vector.present.sum(axis=1)
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
    times = np.broadcast_to(inner, vector.present.shape)[vector.present]
    series = SeriesSet(vector.labels, offsets, times, vector.values[vector.present])
    return Windows(series, ends, range_ms, span, vector.drops_name)


def apply_range(
    windows: Windows,
    function: str,
    times: Times,
    context: EvalContext,
    *,
    first: Floats | None = None,
    second: Floats | None = None,
) -> tuple[Floats, Bools]:
    """Return what a function gives for each window, and where it gives something."""
    steps = len(times)
    context.reserve(windows.rows, steps)
    nothing = np.zeros(steps)
    values, present = _kernels.prom_range(
        function,
        pa.array(windows.series.offsets),
        pa.array(windows.series.times),
        pa.array(windows.series.values),
        pa.array(windows.ends),
        pa.array(times),
        windows.range_ms,
        pa.array(nothing if first is None else first),
        pa.array(nothing if second is None else second),
        windows.extension,
        context.lookback_ms,
    )
    return to_floats(values, windows.rows, steps), to_mask(present, windows.rows, steps)


def range_vector(windows: Windows, values: Floats, present: Bools, *, keeps_name: bool) -> Vector:
    """Return the vector of what a function gave."""
    drops = windows.drops_name if keeps_name else np.ones(windows.rows, np.bool_)
    return Vector(windows.series.labels, values, present, drops)


def extended_samples(windows: Windows, lookback_ms: int) -> SeriesSet:
    """Return the samples of the first window, with one at each of its edges."""
    start, end = int(windows.ends[0]) - windows.range_ms, int(windows.ends[0])
    is_smoothed = windows.extension == "smoothed"
    parts_times, parts_values, counts = [], [], []
    for row in range(windows.rows):
        low, high = int(windows.series.offsets[row]), int(windows.series.offsets[row + 1])
        times, values = windows.series.times[low:high], windows.series.values[low:high]
        near = (times > start - lookback_ms) & (times <= end + (lookback_ms if is_smoothed else 0))
        times, values = _with_edges(times[near], values[near], start, end, is_smoothed=is_smoothed)
        parts_times.append(times)
        parts_values.append(values)
        counts.append(len(times))
    if not counts:
        return SeriesSet.empty()
    offsets = np.cumsum([0, *counts]).astype(np.int64)
    return SeriesSet(windows.series.labels, offsets, np.concatenate(parts_times), np.concatenate(parts_values))


def _with_edges(times: Times, values: Floats, start: int, end: int, *, is_smoothed: bool) -> tuple[Times, Floats]:
    if not len(times) or times[-1] <= start:
        return times[:0], values[:0]
    first = max(int(np.searchsorted(times, start, side="right")) - 1, 0)
    inside = (times > start) & (times < end)
    if is_smoothed:
        edges = np.interp([start, end], times.astype(np.float64), values)
    else:
        edges = np.array([values[first], values[-1]])
    return (
        np.concatenate([np.array([start]), times[inside], np.array([end])]).astype(np.int64),
        np.concatenate([edges[:1], values[inside], edges[1:]]),
    )
