"""Selectors: the last samples at each step, and the windows of samples that functions look at."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tsdb import _kernels
from tsdb.promql._ast import MatrixSelector, TextSpan, VectorSelector
from tsdb.promql.evaluation._context import EvalContext
from tsdb.promql.evaluation._native_samples import SampleNatives, last_natives, sample_natives
from tsdb.promql.evaluation._smoothed import smoothed_vector
from tsdb.promql.evaluation._source import STALE_BITS, SeriesSet
from tsdb.promql.evaluation._values import Bools, Floats, Natives, Times, Vector


def to_floats(array: object, rows: int, steps: int) -> Floats:
    """Return a matrix of a kernel."""
    result: Floats = pa.array(array).to_numpy(zero_copy_only=False).reshape(rows, steps)
    return result


def to_mask(array: object, rows: int, steps: int) -> Bools:
    """Return the mask of a matrix of a kernel."""
    found: npt.NDArray[np.uint8] = pa.array(array).to_numpy(zero_copy_only=False)
    return found.view(np.bool_).reshape(rows, steps)


def instant_vector(context: EvalContext, node: VectorSelector, times: Times) -> Vector:
    """Return the last sample of each series at each step."""
    return _last_samples(context, node, times, has_times=False)[0]


def timed_vector(context: EvalContext, node: VectorSelector, times: Times) -> tuple[Vector, Times]:
    """Return the last sample of each series at each step, and when these samples were taken."""
    vector, seen = _last_samples(context, node, times, has_times=True)
    assert seen is not None
    return vector, seen


def _last_samples(
    context: EvalContext, node: VectorSelector, times: Times, *, has_times: bool
) -> tuple[Vector, Times | None]:
    ats = context.shifted(times, node.shift)
    if node.extension == "smoothed":
        return smoothed_vector(context, node, ats)
    first, last = int(ats[0]) - context.lookback_ms + 1, int(ats[-1])
    is_watched = id(node) in context.watched
    if is_watched:
        first -= context.lookback_ms
    found = context.select(node.matchers, first, last)
    rows = found.labels.rows
    context.reserve(rows, len(times))
    natives = last_natives(found, sample_natives(context, found, is_watched=is_watched), ats, context.lookback_ms)
    if found.samples is not None:
        values, seen, present = found.samples.instant(pa.array(ats), context.lookback_ms, has_times)
    else:
        values, seen, present = _kernels.prom_instant(
            pa.array(found.offsets), pa.array(found.times), pa.array(found.values), pa.array(ats), context.lookback_ms
        )
    mask = to_mask(present, rows, len(times))
    drops = np.zeros(rows, np.bool_)
    vector = Vector(found.labels, to_floats(values, rows, len(times)), mask, drops, natives=natives)
    if not has_times:
        return vector, None
    return vector, pa.array(seen).to_numpy(zero_copy_only=False).reshape(rows, len(times))


@dataclass(frozen=True, slots=True, eq=False)
class Windows:
    """For each step a window of samples, open on the left."""

    series: SeriesSet
    """Without stale samples, unless they are left where they lie: who evaluates those leaves stale ones out."""
    ends: Times
    range_ms: int
    span: TextSpan
    drops_name: Bools
    extension: str = ""
    natives: SampleNatives | None = None

    @property
    def rows(self) -> int:
        return self.series.labels.rows

    def samples_in_first(self) -> SeriesSet:
        """Return the samples of the window of the first step."""
        series = self.series if self.series.samples is None else self.series.without_stale()
        inside = (series.times > self.ends[0] - self.range_ms) & (series.times <= self.ends[0])
        before = np.concatenate([np.zeros(1, np.int64), np.cumsum(inside)])
        offsets = before[series.offsets]
        histograms = None if self.natives is None else self.natives.take(inside).encode()
        return SeriesSet(series.labels, offsets, series.times[inside], series.values[inside], histograms)


def selected_windows(context: EvalContext, node: MatrixSelector, times: Times) -> Windows:
    """Return the windows of a range selector."""
    selector = node.selector
    range_ms = node.range_ms if node.range_expr is None else context.duration(node.range_expr)
    ends = context.shifted(times, selector.shift)
    first, last = int(ends[0]) - range_ms + 1, int(ends[-1])
    if selector.extension:
        first -= context.lookback_ms
        last += context.lookback_ms if selector.extension == "smoothed" else 0
    is_watched = id(selector) in context.watched
    if is_watched:
        first -= context.lookback_ms
    found = context.select(selector.matchers, first, last)
    natives = sample_natives(context, found, is_watched=is_watched)
    is_left = found.samples is not None and not selector.extension
    kept = found if is_left else found.without_stale()
    if natives is not None and kept is not found:
        natives = natives.take(found.values.view(np.uint64) != STALE_BITS)
    drops = np.zeros(found.labels.rows, np.bool_)
    return Windows(kept, ends, range_ms, node.span, drops, selector.extension, natives)


def windows_of_vector(vector: Vector, inner: Times, ends: Times, range_ms: int, span: TextSpan) -> Windows:
    """Return windows over the values of a vector, which was evaluated at the times `inner`."""
    vector = vector.compact()
    counts = vector.present.sum(axis=1)
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
    times = np.broadcast_to(inner, vector.present.shape)[vector.present]
    series = SeriesSet(vector.labels, offsets, times, vector.values[vector.present])
    natives = None
    if vector.natives is not None:
        # Steps skip samples and repeat them, so what a histogram knows of the one before it no longer holds.
        natives = SampleNatives(vector.natives.pool.forgetful(), vector.natives.cells[vector.present])
    return Windows(series, ends, range_ms, span, vector.drops_name, natives=natives)


def apply_range(
    windows: Windows,
    function: str,
    times: Times,
    context: EvalContext,
    *,
    first: Floats | None = None,
    second: Floats | None = None,
) -> tuple[Floats, Bools]:
    """Return what a function gives for each window, and where it gives something.

    Windows that overlap may hold far more samples than there are: they are computed a range of steps at a time, so that
    a query can be stopped in between.
    """
    steps = len(times)
    context.reserve(windows.rows, steps)
    nothing = np.zeros(steps)
    one, other = (nothing if each is None else each for each in (first, second))
    count = steps_at_once(windows, context.limits.visits_max)
    if count >= steps:
        return _apply(windows, function, slice(0, steps), times, context, one, other)
    values, present = np.empty((windows.rows, steps)), np.empty((windows.rows, steps), np.bool_)
    for start in range(0, steps, count):
        context.check()
        part = slice(start, start + count)
        values[:, part], present[:, part] = _apply(windows, function, part, times, context, one, other)
    return values, present


def steps_at_once(windows: Windows, visits_max: int, *, width: int = 1) -> int:
    """Return for how many steps the windows hold about `visits_max` numbers; a sample has `width` of them."""
    whole = int(windows.ends[-1]) - int(windows.ends[0]) + windows.range_ms
    each = windows.series.count * min(1.0, windows.range_ms / max(whole, 1))
    return max(1, int(visits_max / max(each * max(width, 1), 1.0)))


def _apply(
    windows: Windows, function: str, part: slice, times: Times, context: EvalContext, first: Floats, second: Floats
) -> tuple[Floats, Bools]:
    ends, ats, one, other = (pa.array(each[part]) for each in (windows.ends, times, first, second))
    series, range_ms = windows.series, windows.range_ms
    extension, lookback_ms = windows.extension, context.lookback_ms
    if series.samples is not None:
        values, present = series.samples.range(function, ends, ats, range_ms, one, other, extension, lookback_ms)
    else:
        columns = pa.array(series.offsets), pa.array(series.times), pa.array(series.values)
        values, present = _kernels.prom_range(
            function, *columns, ends, ats, range_ms, one, other, extension, lookback_ms
        )
    return to_floats(values, windows.rows, len(ends)), to_mask(present, windows.rows, len(ends))


def range_vector(
    windows: Windows, values: Floats, present: Bools, *, keeps_name: bool, natives: Natives | None = None
) -> Vector:
    """Return the vector of what a function gave."""
    drops = windows.drops_name if keeps_name else np.ones(windows.rows, np.bool_)
    return Vector(windows.series.labels, values, present, drops, natives=natives)
