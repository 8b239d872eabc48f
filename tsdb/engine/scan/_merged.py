"""Reading parts that share keys: merged in stripes of series, and of time where one series is too long."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tsdb.engine.rows.merge import Merge, Selection
from tsdb.engine.rows.series import Positions, union_ordered
from tsdb.engine.rows.slices import Slices
from tsdb.engine.scan._blocks import MergedBlock
from tsdb.engine.scan._direct import GROUP_ROWS
from tsdb.engine.scan._parts import Part, group_rows, slice_series
from tsdb.model import RegionOptions, RegionSchema, SeriesTable, TimeRange

# With fewer series than this per share, shares are ranges of time instead of ranges of series.
_SERIES_PER_SHARE_MIN = 2


@dataclass(frozen=True, slots=True, eq=False)
class Bundle:
    """Parts with the union of their series."""

    parts: tuple[Part, ...]
    union: SeriesTable
    places: tuple[Positions, ...]
    """For each part, where its series are in the union."""

    def slice(self, first: int, last: int) -> Bundle:
        """Return the series of the union from `first` to before `last`."""
        if (first, last) == (0, len(self.union)):
            return self
        cuts = [np.searchsorted(places, [first, last]) for places in self.places]
        chosen = [(part.slice(low, high), places[low:high] - first) for part, places, (low, high) in self._with(cuts)]
        kept = [(part, places) for part, places in chosen if len(places)]
        return Bundle(
            tuple(part for part, _ in kept),
            slice_series(self.union, first, last),
            tuple(places for _, places in kept),
        )

    def _with(self, cuts: Sequence[Positions]) -> Iterator[tuple[Part, Positions, tuple[int, int]]]:
        for part, places, (low, high) in zip(self.parts, self.places, cuts, strict=True):
            yield part, places, (int(low), int(high))

    def take(self, ranks: Positions) -> Bundle:
        """Return some of the series of the union, in order."""
        moved = np.full(len(self.union), -1, dtype=np.int64)
        moved[ranks] = np.arange(len(ranks))
        chosen = [np.flatnonzero(moved[places] >= 0) for places in self.places]
        return Bundle(
            tuple(part.take(positions) for part, positions in zip(self.parts, chosen, strict=True)),
            self.union.take(ranks),
            tuple(moved[places[positions]] for places, positions in zip(self.places, chosen, strict=True)),
        )

    def within(self, time_range: TimeRange) -> Bundle:
        return Bundle(tuple(part.within(time_range) for part in self.parts), self.union, self.places)

    def narrowed(self) -> Bundle:
        return Bundle(tuple(part.narrowed() for part in self.parts), self.union, self.places)

    @property
    def time_range(self) -> TimeRange:
        ranges = [part.time_range for part in self.parts]
        return TimeRange(min(each.start for each in ranges), max(each.end for each in ranges))

    def count_rows(self, *, estimated: bool) -> Positions:
        """Return how many rows each series of the union has in all parts."""
        counts = np.zeros(len(self.union), dtype=np.int64)
        for part, places in zip(self.parts, self.places, strict=True):
            starts, stops = part.estimate() if estimated else (part.starts, part.stops)
            counts[places] += stops - starts
        return counts


class LazyBundle:
    """Makes the bundle of a segment when the first fragment needs it, once for all fragments."""

    def __init__(self, parts: tuple[Part, ...]) -> None:
        self._parts = parts
        self._lock = threading.Lock()
        self._bundle: Bundle | None = None

    def get(self) -> Bundle:
        with self._lock:
            if self._bundle is None:
                union, places = union_ordered([part.series for part in self._parts])
                self._bundle = Bundle(self._parts, union, tuple(places))
            return self._bundle


def share_merged(bundle: Bundle, index: int, count: int) -> Bundle:
    """Return one of `count` shares of a bundle that are about equally long."""
    if count == 1:
        return bundle
    if len(bundle.union) < count * _SERIES_PER_SHARE_MIN:
        span = bundle.time_range
        ticks = span.end - span.start
        return bundle.within(TimeRange(span.start + ticks * index // count, span.start + ticks * (index + 1) // count))
    total = np.cumsum(np.maximum(bundle.count_rows(estimated=True), 1))
    targets = [int(total[-1]) * each // count for each in (index, index + 1)]
    first, last = np.searchsorted(total, targets, side="right")
    return bundle.slice(int(first), int(last))


def read_merged(
    schema: RegionSchema, options: RegionOptions, bundle: Bundle, *, stripe_rows: int
) -> Iterator[MergedBlock]:
    """Yield the merged rows of a bundle in blocks."""
    counts = bundle.count_rows(estimated=False)
    for first, last in group_rows(np.zeros_like(counts), counts, GROUP_ROWS):
        group = bundle.slice(first, last).narrowed()
        for piece in _cut_long_series(group, stripe_rows):
            selections = [Selection(part.source, part.starts, part.stops) for part in piece.parts]
            merge = Merge(
                schema,
                options,
                selections,
                keep_tombstones=False,
                stripe_rows=stripe_rows,
                union=(piece.union, list(piece.places)),
            )
            for stripe in merge.stripes():
                yield MergedBlock(merge.series, stripe, first=first).puts()


def _cut_long_series(bundle: Bundle, stripe_rows: int) -> Iterator[Bundle]:
    """Cut a bundle in time until no series has more rows than a stripe; a stripe holds all rows of a series."""
    counts = bundle.count_rows(estimated=False)
    if not counts.any():
        return
    span = bundle.time_range
    if counts.max() <= stripe_rows or span.end - span.start < 2:
        yield bundle
        return
    middle = _middle_time(bundle, int(counts.argmax()), span)
    for half in (TimeRange(span.start, middle), TimeRange(middle, span.end)):
        yield from _cut_long_series(bundle.within(half).narrowed(), stripe_rows)


def _middle_time(bundle: Bundle, rank: int, span: TimeRange) -> int:
    """Return a time that has about half of the rows of a series before it, and lies inside of a span."""
    longest = 0
    middle = span.start
    for part, places in zip(bundle.parts, bundle.places, strict=True):
        at = int(np.searchsorted(places, rank))
        if at == len(places) or places[at] != rank or part.stops[at] - part.starts[at] <= longest:
            continue
        longest = int(part.stops[at] - part.starts[at])
        row = int(part.starts[at]) + longest // 2
        middle = int(part.source.times(Slices.one(row, row + 1))[0])
    return min(max(middle, span.start + 1), span.end - 1)
