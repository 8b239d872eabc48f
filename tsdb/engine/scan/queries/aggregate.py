"""Aggregates over runs: cells of (group of series, bucket of time), computed without touching rows one by one.

    filter ─▶ parts ─▶ segments ─┬─ read directly, nothing to check ─▶ pieces as they lie in memory ─▶ runs ─▶ cells
                                 └─ merged, or checked on rows      ─▶ blocks ─▶ runs ─▶ cells ────────────┘ combined

Rows of a series are neighbours and in the order of time, so the rows of a cell in one piece are runs: a kernel finds
where they start and stop in the times of the piece and adds up the slices. Only what sources
overlap in is merged, as for any other scan. Pieces are held in batches, so that what is decoded at a time stays within
the memory of the query.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from tsdb.engine.rows.series import Positions
from tsdb.engine.scan.cells.groups import GroupKeys, groups_of, merge_groups
from tsdb.engine.scan.cells.run_query import Cells, RunQuery, Values, combine_cells
from tsdb.engine.scan.filters.filter import Evaluate, ScanFilter
from tsdb.engine.scan.plan.merge_set import hull
from tsdb.engine.scan.plan.parts import Part
from tsdb.engine.scan.plan.plan import ScanTask, plan_scan
from tsdb.engine.scan.readers import pieces
from tsdb.engine.scan.readers.block import Block
from tsdb.engine.scan.readers.blocks import block_rows, read_blocks
from tsdb.engine.scan.readers.ends import aggregate_ends, take_ends
from tsdb.engine.scan.readers.pieces import (
    PieceBatch,
    RunStatistics,
    add_runs,
    can_take_pieces,
    make_cells,
    new_runs,
    too_many_runs,
)
from tsdb.engine.scan.snapshot.snapshot import Snapshot
from tsdb.engine.scan.snapshot.statistics import ScanStatistics
from tsdb.model import RegionSchema, TimeRange

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
    if sum(len(part) for part in parts) > pieces.RUNS_MAX or gathered > GATHERED_MAX:
        raise too_many_runs()


@dataclass(frozen=True, slots=True, eq=False)
class _GroupedTask:
    """A task of the plan, and the group of each of its series."""

    task: ScanTask
    groups: Positions
    time_range: TimeRange
    """Of the task."""

    def within(self, span: TimeRange) -> _GroupedTask:
        if span.contains(self.time_range):
            return self
        task = self.task.within(span)
        return _GroupedTask(task, self.groups, task.time_range)


class RunPlan:
    """What an aggregation reads: decided once, run over any range of time."""

    def __init__(
        self,
        scan: RegionScan,
        wanted: ScanFilter,
        query: RunQuery,
        evaluate: Evaluate | None = None,
    ) -> None:
        """`evaluate` computes the keys of the query that are not tags."""
        self._scan = scan
        self._query = query
        self._clock = scan.snapshot.clock
        self._statistics = RunStatistics()
        started_ns = self._clock.monotonic_ns()
        scan.check()
        self._plan = plan_scan(scan.snapshot, wanted, scan.statistics)
        tasks = self._plan.tasks()
        self._groups = groups_of(query.keys, [task.series for task in tasks], query.computed, evaluate)
        self._tasks = [_GroupedTask(task, self._groups.of(at), task.time_range) for at, task in enumerate(tasks)]
        self._statistics.series += self.series
        self._statistics.plan_ns += self._clock.monotonic_ns() - started_ns

    @property
    def series(self) -> int:
        """How many series are read, in all sources together."""
        return sum(len(task.groups) for task in self._tasks)

    @property
    def time_range(self) -> TimeRange | None:
        """A range of time that all matching rows lie in, known from series blocks; None when no row matches."""
        return hull([task.time_range for task in self._tasks]) if self._tasks else None

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
            if held > pieces.RUNS_MAX or gathered > GATHERED_MAX:
                raise too_many_runs()
        cells = combine_cells(found)
        if cells is not None:
            counters.cells += len(cells)
            self._scan.statistics.add(rows_returned=cells.row_count)
        counters.run_ns += self._clock.monotonic_ns() - started_ns
        return Aggregated(self._groups.keys, cells, counters)

    def _aggregate(self, tasks: Sequence[_GroupedTask], threads: int) -> Iterable[Cells]:
        if not self._query.is_of_ends:
            return self._read_tasks(tasks, threads)
        return aggregate_ends(tasks, self._query, self._groups.keys.count, lambda task: self._read_ends(task, threads))

    def _read_tasks(self, tasks: Sequence[_GroupedTask], threads: int) -> Iterator[Cells]:
        """Yield the cells of tasks, from pieces where possible and from blocks elsewhere."""
        query, scan = self._query, self._scan
        schema = scan.snapshot.schema
        batch = PieceBatch(query, threads, self._statistics)
        for grouped in tasks:
            part = self._part_as_it_is(grouped.task)
            if part is not None and not query.gathered:
                yield from batch.add_part(part, schema, grouped.groups, scan.statistics, scan.check)
            else:
                for block in self._blocks(grouped.task):
                    yield _aggregate_block(query, schema, grouped.groups, block, self._statistics)
        yield from batch.finish()

    def _read_ends(self, grouped: _GroupedTask, threads: int) -> list[Cells]:
        """Return the cells of one task, if only the ends of groups are wanted."""
        self._scan.check()
        part = self._part_as_it_is(grouped.task)
        if part is not None:
            ends = take_ends(part, self._scan.snapshot.schema, self._query, grouped.groups)
            if ends is not None:
                self._scan.statistics.add(rows_read=len(ends))
                self._statistics.runs += len(ends)
                return [ends]
        return list(self._read_tasks([grouped], threads))

    def _part_as_it_is(self, task: ScanTask) -> Part | None:
        """Return the part of a task if its columns can be used as they lie in memory."""
        part = task.part
        if part is None or task.checks or not can_take_pieces(part, self._scan.snapshot.schema, self._query):
            return None
        return part

    def _blocks(self, task: ScanTask) -> Iterator[Block]:
        """Yield the rows of a task that pass its checks."""
        snapshot, wanted = self._scan.snapshot, self._plan.wanted
        names = wanted.row_names.union(self._query.columns)
        rows_max = block_rows(snapshot, names, snapshot.memory_bytes_max)
        for looked_at, block in read_blocks(
            snapshot, wanted, task, rows_max=rows_max, first_rows_max=rows_max, check=self._scan.check
        ):
            self._scan.statistics.add(rows_read=looked_at)
            if block.rows:
                yield block


def _aggregate_block(
    query: RunQuery, schema: RegionSchema, task_groups: Positions, block: Block, statistics: RunStatistics
) -> Cells:
    runs = new_runs(query)
    stops = np.cumsum(block.runs.lengths)
    groups = task_groups[block.first + block.runs.ranks]
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
