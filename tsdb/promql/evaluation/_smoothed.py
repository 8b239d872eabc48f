"""Smoothed selectors: at each step the value on the line between the samples around it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tsdb.promql._ast import VectorSelector
from tsdb.promql._lexer import go_quote
from tsdb.promql.evaluation._context import EvalContext
from tsdb.promql.evaluation._labels import NAME
from tsdb.promql.evaluation._native_samples import SampleNatives, sample_natives, to_cells
from tsdb.promql.evaluation._source import STALE_BITS, SeriesSet
from tsdb.promql.evaluation._values import Bools, Cells, Floats, Natives, Rows, Times, Vector

_SUBTRACTED, _ADDED = 16, 32


def smoothed_vector(context: EvalContext, node: VectorSelector, ats: Times) -> tuple[Vector, Times]:
    """Return values on the line between the samples around each step.

    Behind the last sample its value stays; before the first there is none. A step with floats and histograms around it
    has no value.
    """
    lookback = context.lookback_ms
    whole = context.select(node.matchers, int(ats[0]) - lookback + 1, int(ats[-1]) + lookback)
    natives = sample_natives(context, whole, is_watched=False)
    found = whole.without_stale()
    if natives is not None and found is not whole:
        natives = natives.take(whole.values.view(np.uint64) != STALE_BITS)
    rows, steps = found.labels.rows, len(ats)
    context.reserve(rows, steps)
    values, present = np.zeros((rows, steps)), np.zeros((rows, steps), np.bool_)
    around = _Around(context, node, found, natives, ats)
    for row in range(rows):
        context.check()
        low, high = int(found.offsets[row]), int(found.offsets[row + 1])
        if low < high:
            values[row], present[row] = around.row(row, low, high)
    vector = Vector(found.labels, values, present, np.zeros(rows, np.bool_), natives=around.natives(present))
    return vector, np.broadcast_to(ats, (rows, steps))


class _Around:
    """Finds the samples around each step, and remembers between which histograms steps lie."""

    def __init__(
        self, context: EvalContext, node: VectorSelector, found: SeriesSet, natives: SampleNatives | None, ats: Times
    ) -> None:
        self._context, self._node, self._found, self._natives, self._ats = context, node, found, natives, ats
        shape = (found.labels.rows, len(ats))
        self._before = np.full(shape, -1, np.int32)
        self._after = np.full(shape, -1, np.int32)
        self._shares = np.zeros(shape)

    def row(self, row: int, low: int, high: int) -> tuple[Floats, Bools]:
        times, samples, ats = self._found.times[low:high], self._found.values[low:high], self._ats
        lookback = self._context.lookback_ms
        right = np.searchsorted(times, ats, side="left")
        left = np.searchsorted(times, ats, side="right") - 1
        has_left = (left >= 0) & (times[np.maximum(left, 0)] > ats - lookback)
        has_right = right < len(times)
        has_right[has_right] = times[right[has_right]] <= ats[has_right] + lookback
        before, after = np.maximum(left, 0), np.minimum(right, len(times) - 1)
        gap = np.maximum(times[after] - times[before], 1)
        share = np.where(has_right & (after > before), (ats - times[before]) / gap, 0.0)
        if self._natives is not None:
            cells = self._natives.cells[low:high]
            if (cells >= 0).any():
                has_left &= self._keep_histograms(row, times, cells, before, after, share)
        return samples[before] + (samples[after] - samples[before]) * share, has_left

    def _keep_histograms(self, row: int, times: Times, cells: Cells, before: Rows, after: Rows, share: Floats) -> Bools:
        """Remember the histograms around each step; return the steps that have not both kinds around them."""
        lookback = self._context.lookback_ms
        seen = np.concatenate([np.zeros(1, np.int64), np.cumsum(cells >= 0)])
        first = np.searchsorted(times, self._ats - lookback, side="right")
        last = np.searchsorted(times, self._ats + lookback, side="right")
        histograms = seen[last] - seen[first]
        is_mixed: Bools = (histograms > 0) & (histograms < last - first)
        if is_mixed.any():
            name = go_quote(self._found.labels.take(np.array([row], np.intp)).column(NAME).texts()[0])
            self._context.annotations.warn(
                f"encountered a mix of histograms and floats for metric name {name}", self._node.span
            )
        self._before[row], self._after[row], self._shares[row] = cells[before], cells[after], share
        return ~is_mixed

    def natives(self, present: Bools) -> Natives | None:
        """Return the histograms of all steps; where there is no way between two of them, the step loses its value."""
        if self._natives is None:
            return None
        mask = present & (self._before >= 0)
        after = np.where(self._after >= 0, self._after, self._before)
        pool, found, flags = self._natives.pool.interpolate(
            pa.array(self._before[mask]), pa.array(after[mask]), pa.array(self._shares[mask])
        )
        cells = np.full(mask.shape, -1, np.int32)
        cells[mask] = to_cells(found)
        self._remark(mask & (cells < 0), int(np.bitwise_or.reduce(to_cells(flags), initial=0)))
        present &= ~(mask & (cells < 0))
        return Natives.of(pool, cells)

    def _remark(self, lost: Bools, flags: int) -> None:
        annotations, span = self._context.annotations, self._node.span
        rows = np.flatnonzero(lost.any(axis=1))
        for name in dict.fromkeys(self._found.labels.take(rows).column(NAME).texts()):
            annotations.warn(
                "vector contains a mix of histograms with exponential and custom buckets schemas for metric name "
                f"{go_quote(name)}",
                span,
            )
        if flags & _SUBTRACTED:
            annotations.info("mismatched custom buckets were reconciled during subtraction", span)
        if flags & _ADDED:
            annotations.info("mismatched custom buckets were reconciled during addition", span)
