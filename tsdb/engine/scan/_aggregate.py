"""Aggregates over runs: cells of (group of series, bucket of time), computed without touching rows one by one.

    filter ─▶ parts ─▶ segments ─┬─ read directly, nothing to check ─▶ pieces as they lie in memory ─▶ runs ─▶ cells
                                 └─ merged, or checked on rows      ─▶ blocks ─▶ runs ─▶ cells ────────────┘ combined

Rows of a series are neighbours and in the order of time, so the rows of a cell in one piece are runs: a kernel finds
where they start and stop in the times of the piece and adds up the slices. What sources overlap in is merged as for any
other scan, stretch by stretch of time, and only that. Pieces are held in batches, so that what is decoded at a time
stays within the memory of the query.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from tsdb.engine.rows.series import Positions
from tsdb.engine.scan import _pieces
from tsdb.engine.scan._blocks import Block, DirectBlock, MergedBlock, Stretches
from tsdb.engine.scan._checks import RowChecker
from tsdb.engine.scan._direct import GROUP_ROWS
from tsdb.engine.scan._ends import aggregate_ends, take_ends
from tsdb.engine.scan._filter import Check, Evaluate, Filter
from tsdb.engine.scan._groups import GroupKeys, groups_of, merge_groups
from tsdb.engine.scan._merged import Bundle, LazyBundle, read_merged
from tsdb.engine.scan._parts import Part, group_rows, make_parts
from tsdb.engine.scan._pieces import (
    PieceBatch,
    RunStatistics,
    add_runs,
    can_take_pieces,
    make_cells,
    new_runs,
    too_many_runs,
)
from tsdb.engine.scan._plan import block_rows
from tsdb.engine.scan._run_query import Cells, RunQuery, Values, combine_cells
from tsdb.engine.scan._segments import Segment, make_segments
from tsdb.engine.scan._snapshot import Snapshot
from tsdb.engine.scan._statistics import ScanStatistics
from tsdb.model import SeriesTable, TimeRange

GATHERED_MAX = 1 << 19
"""Of more values than this, held at a time, a plan finds the middle in less time and on several threads."""


def _nothing() -> None: ...


@dataclass(frozen=True, slots=True)
class RegionScan:
    """A region to aggregate, and where to count what that takes."""

    snapshot: Snapshot
    statistics: ScanStatistics
    is_wanted: Callable[[], None] = _nothing
    """Raises when the query is over."""

    def check(self) -> None:
        self.is_wanted()
        self.snapshot.check()


@dataclass(frozen=True, slots=True, eq=False)
class Aggregated:
    """The cells of an aggregation, what their groups are, and what it took since it was planned."""

    groups: GroupKeys
    cells: Cells | None
    statistics: RunStatistics


def merge_aggregated(parts: Sequence[Aggregated]) -> Aggregated:
    """Put the cells of several regions together, or raise ScanTooLarge."""
    if len(parts) == 1:
        return parts[0]
    statistics = RunStatistics.total(part.statistics for part in parts)
    filled = [(part.groups, part.cells) for part in parts if part.cells is not None]
    if not filled:
        return Aggregated(GroupKeys(0), None, statistics)
    groups, numbers = merge_groups([keys for keys, _ in filled])
    renumbered = [replace(cells, groups=own[cells.groups]) for (_, cells), own in zip(filled, numbers, strict=True)]
    _check_held(renumbered)
    cells = combine_cells(renumbered)
    statistics.cells = 0 if cells is None else len(cells)
    return Aggregated(groups, cells, statistics)


def _check_held(parts: Sequence[Cells]) -> None:
    gathered = sum(len(values) for part in parts for values in part.gathered.values())
    if sum(len(part) for part in parts) > _pieces.RUNS_MAX or gathered > GATHERED_MAX:
        raise too_many_runs()


@dataclass(slots=True, eq=False)
class _Task:
    """One segment of one region: a part that is read directly, or a bundle that is merged."""

    scan: RegionScan
    wanted: Filter
    checks: tuple[Check, ...]
    part: Part | None = None
    bundle: Bundle | None = None
    groups: Positions = field(init=False)
    """Of each series, once all tasks are known."""

    @property
    def series(self) -> SeriesTable:
        assert self.part is not None or self.bundle is not None
        return self.part.series if self.part is not None else self.bundle.union  # type: ignore[union-attr]

    @property
    def time_range(self) -> TimeRange:
        assert self.part is not None or self.bundle is not None
        return self.part.time_range if self.part is not None else self.bundle.time_range  # type: ignore[union-attr]

    def within(self, span: TimeRange) -> _Task:
        """Return the task with a smaller range of time; its series stay the same."""
        if span.contains(self.time_range):
            return self
        cut = replace(
            self,
            part=None if self.part is None else self.part.within(span),
            bundle=None if self.bundle is None else self.bundle.within(span),
        )
        cut.groups = self.groups
        return cut


class RunPlan:
    """What an aggregation reads: decided once, run over any range of time."""

    def __init__(
        self,
        scan: RegionScan,
        wanted: Filter,
        query: RunQuery,
        evaluate: Evaluate | None = None,
    ) -> None:
        """`evaluate` computes the keys of the query that are not tags."""
        self._scan = scan
        self._query = query
        self._clock = scan.snapshot.clock
        self._statistics = RunStatistics()
        started_ns = self._clock.monotonic_ns()
        self._tasks = list(_plan(scan, wanted))
        self._groups = groups_of(query.keys, [task.series for task in self._tasks], query.computed, evaluate)
        for number, task in enumerate(self._tasks):
            task.groups = self._groups.of(number)
        self._statistics.series += self.series
        self._statistics.plan_ns += self._clock.monotonic_ns() - started_ns

    @property
    def series(self) -> int:
        """How many series are read, in all sources together."""
        return sum(len(task.groups) for task in self._tasks)

    @property
    def time_range(self) -> TimeRange | None:
        """A range of time that all matching rows lie in, known from series blocks; None when no row matches."""
        spans = [task.time_range for task in self._tasks]
        if not spans:
            return None
        return TimeRange(min(span.start for span in spans), max(span.end for span in spans))

    def run(self, *, within: TimeRange = TimeRange.ALL, threads: int = 1) -> Aggregated:
        """Aggregate the visible rows that match, in a range of time, or raise ScanTooLarge."""
        counters = self._statistics
        started_ns = self._clock.monotonic_ns()
        tasks = [task.within(within) for task in self._tasks if task.time_range.overlaps(within)]
        found: list[Cells] = []
        held = gathered = 0
        for part in self._aggregate(tasks, threads):
            found.append(part)
            held += len(part)
            gathered += sum(len(values) for values in part.gathered.values())
            if held > _pieces.RUNS_MAX or gathered > GATHERED_MAX:
                raise too_many_runs()
        cells = combine_cells(found)
        if cells is not None:
            counters.cells += len(cells)
            self._scan.statistics.add(rows_returned=cells.row_count)
        counters.run_ns += self._clock.monotonic_ns() - started_ns
        return Aggregated(self._groups.keys, cells, counters)

    def _aggregate(self, tasks: Sequence[_Task], threads: int) -> Iterable[Cells]:
        query, counters = self._query, self._statistics
        if not query.is_of_ends:
            return _aggregate_tasks(tasks, query, threads, counters)
        return aggregate_ends(
            tasks, query, self._groups.keys.count, lambda task: _aggregate_task_ends(task, query, threads, counters)
        )


def _aggregate_tasks(
    tasks: Sequence[_Task], query: RunQuery, threads: int, statistics: RunStatistics
) -> Iterator[Cells]:
    batch = PieceBatch(query, threads, statistics)
    for task in tasks:
        part, schema = task.part, task.scan.snapshot.schema
        if part is not None and not task.checks and not query.gathered and can_take_pieces(part, schema, query):
            yield from batch.add_part(part, schema, task.groups, task.scan.statistics, task.scan.check)
        else:
            for block in _blocks(task, query):
                yield _aggregate_block(query, task, *block, statistics)
    yield from batch.finish()


def _aggregate_task_ends(task: _Task, query: RunQuery, threads: int, statistics: RunStatistics) -> list[Cells]:
    """Return the cells of one task, if only the ends of groups are wanted."""
    task.scan.check()
    part, schema = task.part, task.scan.snapshot.schema
    if part is not None and not task.checks and can_take_pieces(part, schema, query):
        ends = take_ends(part, schema, query, task.groups)
        if ends is not None:
            task.scan.statistics.add(rows_read=len(ends))
            statistics.runs += len(ends)
            return [ends]
    return list(_aggregate_tasks([task], query, threads, statistics))


def _plan(scan: RegionScan, wanted: Filter) -> Iterator[_Task]:
    snapshot = scan.snapshot
    scan.check()
    segments = make_segments(snapshot.options, make_parts(snapshot, wanted, scan.statistics))
    merged = sum(1 for segment in segments if not segment.is_direct)
    scan.statistics.add(segments_merged=merged, segments_direct=len(segments) - merged)
    for segment in segments:
        checks = _checks_of(segment)
        if segment.is_direct:
            yield _Task(scan, wanted, checks, part=segment.parts[0])
        else:
            yield _Task(scan, wanted, checks, bundle=LazyBundle(segment.parts).get())


def _checks_of(segment: Segment) -> tuple[Check, ...]:
    return tuple({id(check): check for part in segment.parts for check in part.checks}.values())


def _blocks(task: _Task, query: RunQuery) -> Iterator[tuple[Block, int]]:
    """Yield the rows of a task that pass its checks, with where the series of each block start among the task's."""
    snapshot = task.scan.snapshot
    checker = RowChecker(snapshot.schema, task.wanted.tags, task.checks)
    names = task.wanted.row_names.union(query.columns)
    rows_max = block_rows([snapshot.schema.by_name[name] for name in names], snapshot.memory_bytes_max)
    read = _merged_blocks(task, rows_max) if task.bundle is not None else _direct_blocks(task, rows_max)
    for block, first in read:
        task.scan.check()
        found = checker.select(block)
        task.scan.statistics.add(rows_read=block.rows)
        if found.rows:
            yield found, first


def _direct_blocks(task: _Task, rows_max: int) -> Iterator[tuple[DirectBlock, int]]:
    part = task.part
    assert part is not None
    for low, high in group_rows(part.starts, part.stops, GROUP_ROWS):
        group = part.slice(low, high).narrowed()
        stretches = Stretches(group)
        for start in range(0, stretches.rows, rows_max):
            block = DirectBlock(group, stretches, start, min(stretches.rows, start + rows_max))
            yield block.puts() if part.source.facts.has_tombstones else block, low


def _merged_blocks(task: _Task, rows_max: int) -> Iterator[tuple[MergedBlock, int]]:
    assert task.bundle is not None
    snapshot = task.scan.snapshot
    for block in read_merged(snapshot.schema, snapshot.options, task.bundle, stripe_rows=rows_max):
        yield block, block.first


def _aggregate_block(query: RunQuery, task: _Task, block: Block, first: int, statistics: RunStatistics) -> Cells:
    schema = task.scan.snapshot.schema
    runs = new_runs(query)
    stops = np.cumsum(block.runs.lengths)
    groups = task.groups[first + block.runs.ranks]
    times = pa.array(block.times()) if query.needs_times or schema.time.name in query.columns else None
    statistics.runs += add_runs(runs, stops - block.runs.lengths, stops, groups, times)

    def read(name: str) -> pa.Array:
        column = schema.by_name[name]
        return times.view(column.type) if column is schema.time and times is not None else block.read(column)

    statistics.blocks += 1
    columns = {name: [read(name)] for name in query.states}
    cells = make_cells(runs, query, columns, lambda _, names: [read(name) for name in names], threads=1)
    if query.gathered:
        of_rows = _cells_of_rows(query, cells, np.repeat(groups, block.runs.lengths), times)
        cells.gathered.update({name: _gather(columns[name][0], of_rows) for name in query.gathered})
    return cells


def _cells_of_rows(query: RunQuery, cells: Cells, groups: Positions, times: pa.Array | None) -> Positions:
    """Return the number of the cell of each row."""
    if not query.width or times is None or not len(cells):
        return np.searchsorted(cells.groups, groups)
    first, last = int(cells.buckets.min()), int(cells.buckets.max())
    stride = last - first + 1
    if (int(cells.groups.max()) + 1) * stride >= 1 << 62:
        raise too_many_runs()
    buckets = np.floor_divide(times.to_numpy() - query.origin, query.width)
    own = cells.groups * stride + (cells.buckets - first)
    found: Positions = np.searchsorted(own, groups * stride + (buckets - first))
    return found


def _gather(values: pa.Array, of_rows: Positions) -> Values:
    """Return the values that are not null, cell after cell, as doubles: what lies between two of them is none else."""
    if values.null_count:
        valid = values.is_valid().to_numpy(zero_copy_only=False)
        values, of_rows = values.drop_null(), of_rows[valid]
    found: Values = values.to_numpy().astype(np.float64, copy=False)[np.argsort(of_rows, kind="stable")]
    return found
