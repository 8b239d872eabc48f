"""Aggregates over runs: cells of (group of series, bucket of time), computed without touching rows one by one.

    filter ─▶ parts ─▶ segments ─┬─ read directly, nothing to check ─▶ pieces as they lie in memory ─▶ runs ─▶ cells
                                 └─ merged, or checked on rows      ─▶ blocks ─▶ runs ─▶ cells ────────────┘ combined

Rows of a series are neighbours and in the order of time, so the rows of a cell in one piece are runs: a kernel finds
where they start and stop in the times of the piece and adds up the slices. What sources overlap in is merged as for any
other scan, stretch by stretch of time, and only that. Pieces are held in batches, so that what is decoded at a time
stays within the memory of the query.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tsdb import _kernels
from tsdb.engine.errors import ScanTooLarge
from tsdb.engine.scan._blocks import Block, DirectBlock, MergedBlock, Stretches
from tsdb.engine.scan._checks import RowChecker
from tsdb.engine.scan._direct import GROUP_ROWS
from tsdb.engine.scan._expression import Node
from tsdb.engine.scan._filter import Check, Filter, make_filter
from tsdb.engine.scan._groups import Groups
from tsdb.engine.scan._merged import Bundle, LazyBundle, read_merged
from tsdb.engine.scan._parts import Part, group_rows, make_parts
from tsdb.engine.scan._plan import block_rows
from tsdb.engine.scan._run_query import Cells, Ends, RunQuery, State, Values, combine_cells
from tsdb.engine.scan._segments import Segment, make_segments
from tsdb.engine.scan._snapshot import Snapshot
from tsdb.engine.scan._statistics import ScanStatistics
from tsdb.engine.series import Positions
from tsdb.engine.source import PiecedSource, is_pieced
from tsdb.model import Column, ColumnId, SeriesTable, TimeRange

RUNS_MAX = 1 << 22
"""More runs, or cells, are not held at a time: each run takes 32 bytes, and a cell a few numbers for each column."""

_BATCH_BYTES_MAX = 64 << 20
_VALUE_BYTES = 8
_RUN_BYTES = 64


ReadChunk = Callable[[int, Sequence[str]], list[pa.Array]]
"""Returns columns of a chunk by the chunk's number and the columns' names."""


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


@dataclass(slots=True)
class RunStatistics:
    """What an aggregation did, beyond what its scans count."""

    runs: int = 0
    cells: int = 0
    pieces: int = 0
    blocks: int = 0
    series: int = 0
    plan_ns: int = 0
    """To find parts, segments and groups."""
    run_ns: int = 0
    """To read and aggregate."""


@dataclass(frozen=True, slots=True, eq=False)
class Aggregated:
    """The cells of an aggregation, and what their groups are."""

    groups: Groups
    cells: Cells | None


@dataclass(slots=True, eq=False)
class _Task:
    """One segment of one region: a part that is read directly, or a bundle that is merged."""

    scan: RegionScan
    wanted: Filter
    checks: tuple[Check, ...]
    part: Part | None = None
    bundle: Bundle | None = None
    groups: Positions = field(default_factory=lambda: np.empty(0, np.int64))

    @property
    def series(self) -> SeriesTable:
        assert self.part is not None or self.bundle is not None
        return self.part.series if self.part is not None else self.bundle.union  # type: ignore[union-attr]


def aggregate_runs(
    scans: Sequence[RegionScan],
    filter: Node | None,
    query: RunQuery,
    *,
    within: TimeRange = TimeRange.ALL,
    threads: int = 1,
    statistics: RunStatistics | None = None,
) -> Aggregated:
    """Aggregate the visible rows of regions that match, in a range of time, or raise ScanTooLarge."""
    counters = statistics or RunStatistics()
    started_ns = _now_ns(scans)
    tasks = [task for scan in scans for task in _plan(scan, filter, within)]
    groups = Groups(query.keys, [task.series for task in tasks])
    for number, task in enumerate(tasks):
        task.groups = groups.of(number)
    counters.series += sum(len(task.groups) for task in tasks)
    planned_ns = _now_ns(scans)
    counters.plan_ns += planned_ns - started_ns
    found: list[Cells] = []
    held = 0
    for part in _aggregate_tasks(tasks, query, threads, counters):
        found.append(part)
        held += len(part)
        if held > RUNS_MAX:
            raise _too_many()
    cells = combine_cells(found)
    if cells is not None:
        counters.cells += len(cells)
        # Rows of several regions meet in one cell; whoever asks wants to know all of them together.
        scans[0].statistics.add(rows_returned=int(cells.rows.sum()))
    counters.run_ns += _now_ns(scans) - planned_ns
    return Aggregated(groups, cells)


def _aggregate_tasks(
    tasks: Sequence[_Task], query: RunQuery, threads: int, statistics: RunStatistics
) -> Iterator[Cells]:
    batch = _Batch(query, threads, statistics)
    for task in tasks:
        if task.part is not None and not task.checks and _is_pieced(task.part, task.scan.snapshot, query):
            yield from batch.add_part(task, task.part)
        else:
            for block in _blocks(task, query):
                yield _aggregate_block(query, task, *block, statistics)
    yield from batch.finish()


def _too_many() -> ScanTooLarge:
    return ScanTooLarge(rows=RUNS_MAX, bytes_max=RUNS_MAX * _RUN_BYTES)


def _now_ns(scans: Sequence[RegionScan]) -> int:
    return scans[0].snapshot.clock.monotonic_ns() if scans else 0


def time_span(scans: Sequence[RegionScan], filter: Node | None) -> TimeRange | None:
    """Return a range of time that all matching rows lie in, from series blocks alone; None when no row matches."""
    spans = []
    for scan in scans:
        wanted = make_filter(scan.snapshot.schema, filter)
        for part in make_parts(scan.snapshot, wanted, ScanStatistics()):
            spans.append(part.time_range)
    if not spans:
        return None
    return TimeRange(min(span.start for span in spans), max(span.end for span in spans))


def _plan(scan: RegionScan, filter: Node | None, within: TimeRange) -> Iterator[_Task]:
    snapshot = scan.snapshot
    scan.check()
    wanted = make_filter(snapshot.schema, filter, within=within)
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


def _is_pieced(part: Part, snapshot: Snapshot, query: RunQuery) -> bool:
    """Tell whether a part's columns can be used as they lie in memory."""
    source = part.source
    if source.facts.has_tombstones or not is_pieced(source):
        return False
    columns = (snapshot.schema.by_name[name] for name in query.columns)
    return all(column is snapshot.schema.time or source.stored_type(column.id) == column.type for column in columns)


class _Batch:
    """Pieces that are aggregated together."""

    def __init__(self, query: RunQuery, threads: int, statistics: RunStatistics) -> None:
        self._query = query
        self._threads = threads
        self._statistics = statistics
        self._clear()

    def _clear(self) -> None:
        self._runs = _kernels.SeriesRuns(width=self._query.width, origin=self._query.origin, runs_max=RUNS_MAX)
        self._pieces: list[_Piece] = []
        self._bytes = 0

    def add_part(self, task: _Task, part: Part) -> Iterator[Cells]:
        """Take the runs of a part; yields cells when enough is held."""
        schema, source, query = task.scan.snapshot.schema, part.source, self._query
        assert is_pieced(source)
        columns = {name: schema.by_name[name] for name in query.columns}
        within = None if part.is_inside else (part.time_range.start, part.time_range.last)
        needs_times = query.needs_times or not part.is_inside
        row_bytes = _VALUE_BYTES * (1 + len(columns))
        for number, starts, stops, groups in _split(part, task.groups, source.piece_offsets):
            task.scan.check()
            times = source.piece(number, [schema.time.id])[0] if needs_times else None
            arrays = pa.array(starts), pa.array(stops), pa.array(groups)
            rows = int(source.piece_offsets[number + 1] - source.piece_offsets[number])
            if added := add_runs(self._runs, arrays, times, within):
                self._statistics.runs += added
                self._pieces.append(_Piece(source, number, schema.time.id, columns))
                self._bytes += rows * row_bytes
                task.scan.statistics.add(rows_read=int((stops - starts).sum()))
            if self._bytes >= _BATCH_BYTES_MAX:
                yield from self.finish()

    def finish(self) -> Iterator[Cells]:
        """Yield the cells of what is held."""
        if self._pieces:
            self._statistics.pieces += len(self._pieces)
            names = list(self._query.states)
            pieces = self._pieces
            rows = [piece.read(names) for piece in pieces] if names else []
            columns = {name: [arrays[at] for arrays in rows] for at, name in enumerate(names)}
            yield make_cells(
                self._runs,
                self._query,
                columns,
                lambda number, wanted: pieces[number].read(wanted),
                threads=self._threads,
            )
        self._clear()


@dataclass(frozen=True, slots=True, eq=False)
class _Piece:
    source: PiecedSource
    number: int
    time: ColumnId
    columns: Mapping[str, Column]

    def read(self, names: Sequence[str]) -> list[pa.Array]:
        """Return columns in the types of the table."""
        found = [self.columns[name] for name in names]
        arrays = self.source.piece(self.number, [column.id for column in found])
        return [
            values.view(column.type) if column.id == self.time else values
            for column, values in zip(found, arrays, strict=True)
        ]


def _split(
    part: Part, groups: Positions, offsets: npt.NDArray[np.int64]
) -> Iterator[tuple[int, Positions, Positions, Positions]]:
    """Yield the pieces that rows of a part lie in: number, and starts, stops and groups of their stretches."""
    starts, stops = part.starts, part.stops
    low = np.searchsorted(stops, offsets[:-1], side="right")
    high = np.searchsorted(starts, offsets[1:], side="left")
    for number in np.flatnonzero(high > low):
        cut = slice(int(low[number]), int(high[number]))
        begin, end = offsets[number], offsets[number + 1]
        own_starts, own_stops = np.maximum(starts[cut], begin) - begin, np.minimum(stops[cut], end) - begin
        yield int(number), own_starts, np.maximum(own_stops, own_starts), groups[cut]


def add_runs(
    runs: _kernels.SeriesRuns,
    stretches: tuple[pa.Array, pa.Array, pa.Array],
    times: pa.Array | None,
    within: tuple[int, int] | None = None,
) -> int:
    """Add starts, stops and groups of stretches to runs; ScanTooLarge when there are too many."""
    try:
        return runs.add(*stretches, times, within)
    except ValueError as error:
        if "more than" not in str(error):
            raise
        raise _too_many() from error


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
    runs = _kernels.SeriesRuns(width=query.width, origin=query.origin, runs_max=RUNS_MAX)
    stops = np.cumsum(block.runs.lengths)
    groups = task.groups[first + block.runs.ranks]
    times = pa.array(block.times()) if query.needs_times or schema.time.name in query.columns else None
    arrays = pa.array(stops - block.runs.lengths), pa.array(stops), pa.array(groups)
    statistics.runs += add_runs(runs, arrays, times)

    def read(name: str) -> pa.Array:
        column = schema.by_name[name]
        return times.view(column.type) if column is schema.time and times is not None else block.read(column)

    statistics.blocks += 1
    columns = {name: [read(name)] for name in query.states}
    return make_cells(runs, query, columns, lambda _, names: [read(name) for name in names], threads=1)


def make_cells(
    runs: _kernels.SeriesRuns,
    query: RunQuery,
    columns: dict[str, list[pa.Array]],
    read: ReadChunk,
    *,
    threads: int,
) -> Cells:
    """Number the cells of runs and compute their states; `read` is for the ends of cells."""
    groups, buckets = (_numpy(each) for each in runs.cells())
    names = list(query.states)
    wanted = [["count", *(state for state in query.states[name] if state != "count")] for name in names]
    found = runs.aggregate([columns[name] for name in names], wanted, threads=threads)
    states: dict[State, Values] = {}
    for name, kinds, arrays in zip(names, wanted, found, strict=True):
        parts = [part for kind in kinds for part in (("mean", "squares") if kind == "spread" else (kind,))]
        states.update({(name, part): _numpy(array) for part, array in zip(parts, arrays, strict=True)})
    rows = _numpy(runs.rows())
    return Cells(
        groups,
        buckets,
        rows,
        states,
        _read_ends(runs, query.newest, read, is_newest=True),
        _read_ends(runs, query.oldest, read, is_newest=False),
    )


def _read_ends(
    runs: _kernels.SeriesRuns, names: tuple[str, ...] | None, read: ReadChunk, *, is_newest: bool
) -> Ends | None:
    """Read columns in the rows that end cells, and nothing of the chunks that have none of them."""
    if names is None:
        return None
    chunks, rows, times = (_numpy(each) for each in runs.ends(newest=is_newest))
    order = np.argsort(chunks, kind="stable")
    touched, starts = np.unique(chunks[order], return_index=True)
    stops = np.append(starts[1:], len(order))
    # One step for all columns of a chunk: each has a price of its own that is larger than that of a few rows.
    taken = [
        pa.RecordBatch.from_arrays(read(int(chunk), names), names=list(names)).take(pa.array(rows[order[start:stop]]))
        for chunk, start, stop in zip(touched, starts, stops, strict=True)
    ]
    back = np.empty(len(order), dtype=np.int64)
    back[order] = np.arange(len(order))
    places = pa.array(back)
    joined = [pa.concat_arrays([batch.column(at) for batch in taken]).take(places) for at in range(len(names))]
    return Ends(times, dict(zip(names, joined, strict=True)))


def _numpy(array: object) -> npt.NDArray[np.int64]:
    values: npt.NDArray[np.int64] = pa.array(array).to_numpy(zero_copy_only=False)
    return values
