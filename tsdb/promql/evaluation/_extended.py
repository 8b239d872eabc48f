"""The samples of anchored and smoothed range selectors as results show them: with one at each edge of the window."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tsdb import _kernels
from tsdb.promql.evaluation._native_samples import to_cells
from tsdb.promql.evaluation._selectors import Windows
from tsdb.promql.evaluation._source import SeriesSet
from tsdb.promql.evaluation._values import Cells, Floats, Times


def extended_samples(windows: Windows, lookback_ms: int) -> SeriesSet:
    """Return the samples of the first window, with one at each of its edges."""
    start, end = int(windows.ends[0]) - windows.range_ms, int(windows.ends[0])
    is_smoothed = windows.extension == "smoothed"
    edges = _Edges(windows, start, end, is_smoothed=is_smoothed)
    parts_times, parts_values, counts = [], [], []
    for row in range(windows.rows):
        low, high = int(windows.series.offsets[row]), int(windows.series.offsets[row + 1])
        times, values = windows.series.times[low:high], windows.series.values[low:high]
        near = (times > start - lookback_ms) & (times <= end + (lookback_ms if is_smoothed else 0))
        cells = None if windows.natives is None else windows.natives.cells[low:high][near]
        times, values = edges.extend(times[near], values[near], cells)
        parts_times.append(times)
        parts_values.append(values)
        counts.append(len(times))
    if not counts:
        return SeriesSet.empty()
    offsets = np.cumsum([0, *counts]).astype(np.int64)
    return SeriesSet(
        windows.series.labels, offsets, np.concatenate(parts_times), np.concatenate(parts_values), edges.encode()
    )


class _Edges:
    """Puts samples at the edges of a window."""

    def __init__(self, windows: Windows, start: int, end: int, *, is_smoothed: bool) -> None:
        self._start, self._end, self._is_smoothed = start, end, is_smoothed
        self._pool = None if windows.natives is None else windows.natives.pool
        self._before: list[Cells] = []
        self._after: list[Cells] = []
        self._shares: list[Floats] = []

    def extend(self, times: Times, values: Floats, cells: Cells | None) -> tuple[Times, Floats]:
        if not len(times) or times[-1] <= self._start:
            return times[:0], values[:0]
        inside = np.flatnonzero((times > self._start) & (times < self._end))
        left, right, shares = self._around(times)
        before = np.concatenate([left[:1], inside, left[1:]])
        after = np.concatenate([right[:1], inside, right[1:]])
        share = np.concatenate([shares[:1], np.zeros(len(inside)), shares[1:]])
        if cells is not None:
            is_way = (cells[before] >= 0) & (cells[after] >= 0)
            self._before.append(cells[before])
            self._after.append(np.where(is_way, cells[after], cells[before]))
            self._shares.append(np.where(is_way, share, 0.0))
        at = np.concatenate([np.array([self._start]), times[inside], np.array([self._end])]).astype(np.int64)
        return at, values[before] + (values[after] - values[before]) * share

    def _around(self, times: Times) -> tuple[Times, Times, Floats]:
        """Return the samples before and after both edges, and how far from one to the other each edge is."""
        edges = np.array([self._start, self._end])
        before = np.maximum(np.searchsorted(times, edges, side="right") - 1, 0)
        if not self._is_smoothed:
            return before, before, np.zeros(2)
        after = np.minimum(np.searchsorted(times, edges, side="left"), len(times) - 1)
        after = np.maximum(after, before)
        gap = np.maximum(times[after] - times[before], 1)
        return before, after, np.where(after > before, (edges - times[before]) / gap, 0.0)

    def encode(self) -> pa.Array | None:
        """Return the histograms among all samples, in their stored form."""
        if self._pool is None or not self._before:
            return None
        before, after = np.concatenate(self._before), np.concatenate(self._after)
        mask = before >= 0
        pool, found, _ = self._pool.interpolate(
            pa.array(before[mask]), pa.array(after[mask]), pa.array(np.concatenate(self._shares)[mask])
        )
        cells = np.full(len(before), -1, np.int32)
        cells[mask] = to_cells(found)
        return _encoded(pool, cells)


def _encoded(pool: _kernels.Histograms, cells: Cells) -> pa.Array | None:
    return pa.array(pool.encode(pa.array(cells))) if (cells >= 0).any() else None
