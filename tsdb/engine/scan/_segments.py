"""Segments: parts that must be read together, because they can hold rows of the same key.

Parts are first clustered by overlap in time, a cluster then by overlap of their ranges of series. What is left of a
cluster is cut where a single part covers a long stretch of time, so that late rows in a memtable do not drag a whole
data file through the merge:

    file      ████████████████████████            segments   ├ file alone ─┤├ merge ┤├ memtable alone ┤
    memtable                 ██████████████

Where sources overlap in time only because writers were not in step, each series still has its next stretch of rows in
the next source. Then no two parts share a key, and each is a segment of its own.

A segment of one part whose keys are unique is read directly.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from tsdb.engine.rows.series import number_series
from tsdb.engine.scan._parts import Part
from tsdb.model import RegionOptions, TimeRange

# A part alone must have about this many rows for a cut to pay: every cut costs a binary search per series.
_ALONE_ROWS_MIN = 65_536

Key = tuple[tuple[bool, Any], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Segment:
    """Parts that no other segment shares a key with."""

    parts: tuple[Part, ...]
    is_direct: bool
    """There is one part, and none of its rows hides another."""

    @property
    def rows(self) -> int:
        """The rows of all parts, those included that may turn out to be outside of the time range."""
        return sum(part.rows for part in self.parts)

    @property
    def start(self) -> int:
        return min(part.time_range.start for part in self.parts)


def make_segments(options: RegionOptions, parts: Sequence[Part]) -> list[Segment]:
    """Arrange parts in segments, in the order of time."""
    if len(parts) == 1:
        # The usual case of a query of few series, in less time than looking for what overlaps takes.
        (alone,) = parts
        return [Segment((alone,), alone.source.facts.is_unique or _is_kept(options, alone))]
    kept = [part for part in parts if _is_kept(options, part)]
    if not kept:
        return cluster_segments(options, parts)
    # What append mode keeps hides nothing and is not hidden: only what was written before it is to be merged.
    merged = cluster_segments(options, [part for part in parts if not _is_kept(options, part)])
    return sorted([*merged, *(Segment((part,), True) for part in kept)], key=lambda segment: segment.start)


def cluster_segments(options: RegionOptions, parts: Sequence[Part]) -> list[Segment]:
    """Arrange parts so that rows of one series that overlap in time are in one segment."""
    groups = [
        group
        for cluster in _cluster_by_time(parts)
        for component in _cluster_by_series(cluster)
        for group in _separate(component)
    ]
    segments = [
        Segment(tuple(group), len(group) == 1 and (group[0].source.facts.is_unique or _is_kept(options, group[0])))
        for group in groups
    ]
    return sorted(segments, key=lambda segment: segment.start)


def _is_kept(options: RegionOptions, part: Part) -> bool:
    return options.keeps_all(part.source.facts.sequence_min)


def _start(part: Part) -> int:
    return part.time_range.start


def _cluster_by_time(parts: Sequence[Part]) -> Iterator[list[Part]]:
    cluster: list[Part] = []
    end = 0
    for part in sorted(parts, key=_start):
        if cluster and part.time_range.start >= end:
            yield cluster
            cluster = []
        end = max(end, part.time_range.end) if cluster else part.time_range.end
        cluster.append(part)
    if cluster:
        yield cluster


def _cluster_by_series(parts: list[Part]) -> Iterator[list[Part]]:
    if len(parts) == 1 or _begin_alike(parts) or not _has_comparable_tags(parts[0]):
        yield parts
        return
    ranges = sorted(
        ((_key(part, 0), _key(part, len(part.series) - 1), part) for part in parts), key=lambda item: item[0]
    )
    cluster: list[Part] = []
    last: Key = ()
    for low, high, part in ranges:
        if cluster and low > last:
            yield cluster
            cluster = []
        last = max(last, high) if cluster else high
        cluster.append(part)
    yield cluster


def _begin_alike(parts: list[Part]) -> bool:
    """Tell whether all parts have the same first series: then their ranges overlap, and no tags are looked at."""
    first = parts[0].series
    return all(part.series.tsid[0] == first.tsid[0] and part.series.check[0] == first.check[0] for part in parts[1:])


def _has_comparable_tags(part: Part) -> bool:
    """Tell whether Python orders the values of tags as series are ordered."""
    types = part.series.tags_schema.types
    return bool(types) and all(pa.types.is_string(kind) or pa.types.is_integer(kind) for kind in types)


def _key(part: Part, position: int) -> Key:
    values = [column[position].as_py() for column in part.series.read_tags().columns]
    return tuple((value is not None, value) if value is not None else (False, 0) for value in values)


def _separate(parts: list[Part]) -> Iterator[list[Part]]:
    """Tell parts apart that overlap in time and series, as far as they share no key."""
    if len(parts) > 1 and _are_disjoint(parts):
        yield from ([part] for part in parts)
    else:
        yield from _cut_alone(parts)


def _are_disjoint(parts: list[Part]) -> bool:
    """Tell whether each series has all its rows of one part before those of the next."""
    ordered = sorted(parts, key=_start)
    count, places = number_series([part.series for part in ordered])
    latest = np.full(count, np.iinfo(np.int64).min)
    for part, place in zip(ordered, places, strict=True):
        if (part.time_min <= latest[place]).any():
            return False
        latest[place] = part.time_max
    return True


def _cut_alone(parts: list[Part]) -> Iterator[list[Part]]:
    """Cut parts that overlap at the ends of long stretches of time that only one of them covers."""
    if len(parts) == 1:
        yield parts
        return
    low = min(part.time_range.start for part in parts)
    high = max(part.time_range.end for part in parts)
    for alone in [*_find_alone(parts), TimeRange(high, high)]:
        yield from _overlapping(parts, TimeRange(low, alone.start))
        yield from _overlapping(parts, alone)
        low = alone.end


def _overlapping(parts: list[Part], span: TimeRange) -> Iterator[list[Part]]:
    found = [part.within(span) for part in parts if not span.is_empty and part.time_range.overlaps(span)]
    if found:
        yield found


def _find_alone(parts: list[Part]) -> Iterator[TimeRange]:
    """Yield the spans, in order, that one part covers with rows enough."""
    events = sorted(
        [(part.time_range.start, 1, number) for number, part in enumerate(parts)]
        + [(part.time_range.end, 0, number) for number, part in enumerate(parts)]
    )
    active: set[int] = set()
    since = 0
    for time, is_start, number in events:
        if len(active) == 1 and time > since:
            part = parts[next(iter(active))]
            share = (time - since) / (part.time_range.end - part.time_range.start)
            if share * part.rows >= _ALONE_ROWS_MIN:
                yield TimeRange(since, time)
        since = time
        if is_start:
            active.add(number)
        else:
            active.discard(number)
