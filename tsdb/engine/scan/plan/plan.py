"""Plans of scans: what all readers read.

    filter ─▶ parts ─▶ segments ─▶ tasks ─┬─▶ partition i of n ─▶ blocks ─▶ batches of rows
                                          ├─▶ blocks ─▶ whole series
                                          └─▶ pieces, ends or blocks ─▶ cells of aggregates

Partition i has the i-th part of the rows of every large segment, cut between series or within one. So partitions are
about equally long, and, where segments have the same series, the rows of one series are in one partition, which makes
aggregations faster. Small segments are not cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tsdb.engine.scan.filters.filter import Check, ScanFilter
from tsdb.engine.scan.plan.merge_set import LazyMergeSet, MergeSet, cut_merge_set
from tsdb.engine.scan.plan.partitions import cut_part
from tsdb.engine.scan.plan.parts import Part, make_parts
from tsdb.engine.scan.plan.segments import Segment, cluster_segments, make_segments
from tsdb.engine.scan.plan.skipped import skip_rows
from tsdb.engine.scan.snapshot.snapshot import Snapshot
from tsdb.engine.scan.snapshot.statistics import ScanStatistics
from tsdb.model import SeriesTable, TimeRange


@dataclass(frozen=True, slots=True, eq=False)
class ScanTask:
    """What is read of one segment: a part as it is, or parts that are merged."""

    checks: tuple[Check, ...]
    part: Part | None = None
    merged: LazyMergeSet | None = None
    partition: tuple[int, int] = (0, 1)
    """Which of how many partitions of `merged`."""
    span: TimeRange = TimeRange.ALL
    """What is wanted of `merged`."""

    @property
    def series(self) -> SeriesTable:
        return self.part.series if self.part is not None else self.merge_set().union

    @property
    def time_range(self) -> TimeRange:
        if self.part is not None:
            return self.part.time_range
        assert self.merged is not None
        return self.merged.time_range.intersection(self.span)

    def merge_set(self) -> MergeSet:
        """Return the parts to merge; their union is made when the first task needs it."""
        assert self.merged is not None
        own = cut_merge_set(self.merged.get(), *self.partition)
        return own if self.span == TimeRange.ALL else own.within(self.span)

    def within(self, span: TimeRange) -> ScanTask:
        """Return the task with a smaller range of time; its series stay the same."""
        if span.contains(self.time_range):
            return self
        if self.part is not None:
            return replace(self, part=self.part.within(span))
        return replace(self, span=self.span.intersection(span))


@dataclass(frozen=True, slots=True, eq=False)
class ScanPlan:
    """What a scan reads of a snapshot."""

    snapshot: Snapshot
    wanted: ScanFilter
    segments: Sequence[Segment]
    statistics: ScanStatistics

    def __post_init__(self) -> None:
        merged = sum(1 for segment in self.segments if not segment.is_direct)
        self.statistics.add(segments_merged=merged, segments_direct=len(self.segments) - merged)

    def tasks(self) -> list[ScanTask]:
        """Return one task for each segment."""
        return [task for segment in self.segments for task in _cut(segment, 1)]

    def split(self, count: int) -> list[list[ScanTask]]:
        """Return the tasks of `count` partitions, or of one if there are few rows.

        What is decided here costs no time later, when threads compete for Python.
        """
        if count == 1 or sum(segment.rows for segment in self.segments) < self.snapshot.tuning.partition_rows_min:
            return [self.tasks()]
        tasks: list[list[ScanTask]] = [[] for _ in range(count)]
        for number, segment in enumerate(self.segments):
            if segment.rows < self.snapshot.tuning.partition_rows_min:
                tasks[number % count] += _cut(segment, 1)
            else:
                for own, task in zip(tasks, _cut(segment, count), strict=True):
                    own.append(task)
        return tasks


def _cut(segment: Segment, count: int) -> list[ScanTask]:
    """Cut a segment into partitions."""
    checks = tuple({id(check): check for part in segment.parts for check in part.checks}.values())
    if segment.is_direct:
        (part,) = segment.parts
        parts = [part] if count == 1 else [cut_part(part, index, count) for index in range(count)]
        return [ScanTask(checks, part=each) for each in parts]
    merged = LazyMergeSet(segment.parts)
    return [ScanTask(checks, merged=merged, partition=(index, count)) for index in range(count)]


def plan_scan(snapshot: Snapshot, wanted: ScanFilter, statistics: ScanStatistics) -> ScanPlan:
    """Decide what a scan reads; at most the times of rows are read for that, where sources overlap."""
    parts = make_parts(snapshot, wanted, statistics)
    segments = make_segments(snapshot, parts)
    if wanted.on_rows or wanted.texts:
        segments = skip_rows(snapshot.schema, segments, wanted.texts, statistics)
    return ScanPlan(snapshot, wanted, segments, statistics)


def plan_in_order(
    snapshot: Snapshot, wanted: ScanFilter, parts: Sequence[Part], statistics: ScanStatistics
) -> ScanPlan:
    """Decide how parts are read so that rows of one series and time come in the order of sequences, in any mode."""
    return ScanPlan(snapshot, wanted, cluster_segments(snapshot, parts), statistics)
