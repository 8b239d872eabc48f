"""Segments: parts that must be read together, because they can hold rows of the same key.

Parts are first clustered by overlap in time, a cluster then by overlap of their ranges of series. What is left of a
cluster is cut, so that no more is merged than has to be (`cuts.py`): rows that come late cost what they are. Where
sources overlap in time only because writers were not in step, each series still has its next rows in the next source;
then no two parts share a key, and each is a segment of its own.

A segment of one part whose keys are unique is read directly.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tsdb.engine.scan.plan.cuts import separate
from tsdb.engine.scan.plan.parts import Part
from tsdb.engine.scan.snapshot.snapshot import Snapshot
from tsdb.model import RegionOptions

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


def make_segments(snapshot: Snapshot, parts: Sequence[Part]) -> list[Segment]:
    """Arrange parts in segments, in the order of time."""
    options = snapshot.options
    if len(parts) == 1:
        # The usual case of a query of few series, in less time than looking for what overlaps takes.
        (alone,) = parts
        return [Segment((alone,), alone.source.facts.is_unique or _is_kept(options, alone))]
    kept = [part for part in parts if _is_kept(options, part)]
    if not kept:
        return cluster_segments(snapshot, parts)
    # What append mode keeps hides nothing and is not hidden: only what was written before it is to be merged.
    merged = cluster_segments(snapshot, [part for part in parts if not _is_kept(options, part)])
    return sorted([*merged, *(Segment((part,), True) for part in kept)], key=lambda segment: segment.start)


def cluster_segments(snapshot: Snapshot, parts: Sequence[Part]) -> list[Segment]:
    """Arrange parts so that rows of one series that overlap in time are in one segment."""
    options, tuning = snapshot.options, snapshot.tuning
    groups = [
        group
        for cluster in _cluster_by_time(parts)
        for component in _cluster_by_series(cluster)
        for group in separate(component, options, tuning, snapshot.schema.version)
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
