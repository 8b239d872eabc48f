"""Reading parts that share keys: merged in stripes of series, and of time where one series is too long."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tsdb.engine.rows.merge import Merge, Selection
from tsdb.engine.rows.slices import Slices
from tsdb.engine.scan.plan.merge_set import MergeSet
from tsdb.engine.scan.plan.parts import group_rows
from tsdb.engine.scan.readers.block import MergedBlock
from tsdb.model import RegionOptions, RegionSchema, TimeRange


def read_merged(
    schema: RegionSchema, options: RegionOptions, merge_set: MergeSet, *, stripe_rows: int
) -> Iterator[MergedBlock]:
    """Yield the merged rows of a merge set in blocks."""
    if not merge_set.parts:
        return
    counts = merge_set.count_rows(estimated=False)
    for first, last in group_rows(np.zeros_like(counts), counts, merge_set.parts[0].tuning.group_rows):
        group = merge_set.slice(first, last).narrowed()
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


def _cut_long_series(merge_set: MergeSet, stripe_rows: int) -> Iterator[MergeSet]:
    """Cut a merge set in time until no series has more rows than a stripe; a stripe holds all rows of a series."""
    counts = merge_set.count_rows(estimated=False)
    if not counts.any():
        return
    span = merge_set.time_range
    if counts.max() <= stripe_rows or span.end - span.start < 2:
        yield merge_set
        return
    middle = _middle_time(merge_set, int(counts.argmax()), span)
    for half in (TimeRange(span.start, middle), TimeRange(middle, span.end)):
        yield from _cut_long_series(merge_set.within(half).narrowed(), stripe_rows)


def _middle_time(merge_set: MergeSet, rank: int, span: TimeRange) -> int:
    """Return a time that has about half of the rows of a series before it, and lies inside of a span."""
    longest = 0
    middle = span.start
    for part, places in zip(merge_set.parts, merge_set.places, strict=True):
        at = int(np.searchsorted(places, rank))
        if at == len(places) or places[at] != rank or part.stops[at] - part.starts[at] <= longest:
            continue
        longest = int(part.stops[at] - part.starts[at])
        row = int(part.starts[at]) + longest // 2
        middle = int(part.source.times(Slices.one(row, row + 1))[0])
    return min(max(middle, span.start + 1), span.end - 1)
