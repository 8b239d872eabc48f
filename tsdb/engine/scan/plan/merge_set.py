"""Merge sets: parts that can hold rows of the same key, with the union of their series."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tsdb.engine.rows.series import Positions, union_ordered
from tsdb.engine.scan.plan.parts import Part, slice_series
from tsdb.model import SeriesTable, TimeRange

# With fewer series than this for each partition, partitions are ranges of time instead of ranges of series.
_PARTITION_SERIES_MIN = 2


@dataclass(frozen=True, slots=True, eq=False)
class MergeSet:
    """Parts with the union of their series."""

    parts: tuple[Part, ...]
    union: SeriesTable
    places: tuple[Positions, ...]
    """For each part, where its series are in the union."""

    def slice(self, first: int, last: int) -> MergeSet:
        """Return the series of the union from `first` to before `last`."""
        if (first, last) == (0, len(self.union)):
            return self
        cuts = [np.searchsorted(places, [first, last]) for places in self.places]
        chosen = [(part.slice(low, high), places[low:high] - first) for part, places, (low, high) in self._with(cuts)]
        kept = [(part, places) for part, places in chosen if len(places)]
        return MergeSet(
            tuple(part for part, _ in kept),
            slice_series(self.union, first, last),
            tuple(places for _, places in kept),
        )

    def _with(self, cuts: Sequence[Positions]) -> Iterator[tuple[Part, Positions, tuple[int, int]]]:
        for part, places, (low, high) in zip(self.parts, self.places, cuts, strict=True):
            yield part, places, (int(low), int(high))

    def within(self, time_range: TimeRange) -> MergeSet:
        return MergeSet(tuple(part.within(time_range) for part in self.parts), self.union, self.places)

    def narrowed(self) -> MergeSet:
        return MergeSet(tuple(part.narrowed() for part in self.parts), self.union, self.places)

    @property
    def time_range(self) -> TimeRange:
        return hull([part.time_range for part in self.parts])

    def count_rows(self, *, estimated: bool) -> Positions:
        """Return how many rows each series of the union has in all parts."""
        counts = np.zeros(len(self.union), dtype=np.int64)
        for part, places in zip(self.parts, self.places, strict=True):
            starts, stops = part.estimate() if estimated else (part.starts, part.stops)
            counts[places] += stops - starts
        return counts


class LazyMergeSet:
    """Makes the merge set of a segment when the first partition needs it, once for all of them."""

    def __init__(self, parts: tuple[Part, ...]) -> None:
        self._parts = parts
        self._lock = threading.Lock()
        self._merge_set: MergeSet | None = None

    @property
    def time_range(self) -> TimeRange:
        return hull([part.time_range for part in self._parts])

    def get(self) -> MergeSet:
        with self._lock:
            if self._merge_set is None:
                union, places = union_ordered([part.series for part in self._parts])
                self._merge_set = MergeSet(self._parts, union, tuple(places))
            return self._merge_set


def cut_merge_set(merge_set: MergeSet, index: int, count: int) -> MergeSet:
    """Return one of `count` partitions of a merge set that are about equally long."""
    if count == 1:
        return merge_set
    if len(merge_set.union) < count * _PARTITION_SERIES_MIN:
        span = merge_set.time_range
        ticks = span.end - span.start
        return merge_set.within(
            TimeRange(span.start + ticks * index // count, span.start + ticks * (index + 1) // count)
        )
    total = np.cumsum(np.maximum(merge_set.count_rows(estimated=True), 1))
    targets = [int(total[-1]) * each // count for each in (index, index + 1)]
    first, last = np.searchsorted(total, targets, side="right")
    return merge_set.slice(int(first), int(last))


def hull(ranges: Sequence[TimeRange]) -> TimeRange:
    """Return the range of time from the start of the first range to the end of the last."""
    return TimeRange(min(each.start for each in ranges), max(each.end for each in ranges))
