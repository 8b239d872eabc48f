"""Plans of scans: what is read, and which share of it a fragment reads.

    filter ─▶ parts ─▶ segments ─▶ share i of n ─▶ blocks ─▶ checks on rows ─▶ batches

Share i has the i-th part of the rows of every large segment, cut between series or within one. So shares are equally
long, and, where segments have the same series, rows of one series meet in one share, which aggregations like. Small
segments are dealt out whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from tsdb.engine.rows.merge import STRIPE_ROWS
from tsdb.engine.scan._blocks import Block
from tsdb.engine.scan._checks import RowChecker
from tsdb.engine.scan._direct import GROUP_ROWS, read_direct, share_direct
from tsdb.engine.scan._filter import Check, Filter, RowFilter, SeriesCheck, make_filter
from tsdb.engine.scan._merged import LazyBundle, read_merged, share_merged
from tsdb.engine.scan._parts import Part, make_parts
from tsdb.engine.scan._picked import can_pick, pick
from tsdb.engine.scan._projection import Projection
from tsdb.engine.scan._segments import Segment, make_segments
from tsdb.engine.scan._snapshot import Snapshot
from tsdb.engine.scan._statistics import ScanStatistics
from tsdb.model import Column, Semantic

_BLOCK_ROWS_MIN = 4096
_FIRST_ROWS = 65_536
# A segment of fewer rows is not worth being shared out.
_SHARED_ROWS_MIN = 8192
# Of each value there are about this many copies at a time: as read, sorted, filtered.
_COPIES = 3
_KEY_BYTES = 32
_VARIABLE_BYTES = 64


@dataclass(frozen=True, slots=True, eq=False)
class _Task:
    """What one share reads of one segment: a part as it is, or the share of parts that are merged."""

    checks: tuple[Check, ...]
    part: Part | None = None
    bundle: LazyBundle | None = None
    share: tuple[int, int] = (0, 1)


class Share:
    """One of the shares of a scan."""

    def __init__(self, snapshot: Snapshot, wanted: Filter, tasks: list[_Task], statistics: ScanStatistics) -> None:
        self._snapshot = snapshot
        self._wanted = wanted
        self._tasks = tasks
        self._statistics = statistics

    def blocks(self, columns: Sequence[Column], *, memory_bytes_max: int) -> Iterator[Block]:
        """Yield the matching rows; `columns` are those that will be read of them."""
        schema = self._snapshot.schema
        names = self._wanted.row_names.union(column.name for column in columns)
        rows_max = block_rows([schema.by_name[name] for name in names], memory_bytes_max)
        # The first block is small, so that a query with a limit reads little.
        first_rows_max = _FIRST_ROWS if names else rows_max
        for task in self._tasks:
            for looked_at, found in self._select(task, first_rows_max, rows_max):
                self._snapshot.check()
                first_rows_max = rows_max
                self._statistics.add(rows_read=looked_at, rows_returned=found.rows)
                if found.rows:
                    yield found

    def _select(self, task: _Task, first_rows_max: int, rows_max: int) -> Iterator[tuple[int, Block]]:
        """Yield the rows of a task that pass its checks, each block with how many rows were looked at for it."""
        schema, part = self._snapshot.schema, task.part
        if part is not None and can_pick(part, schema, task.checks):
            yield from pick(part, schema, task.checks, rows_max=rows_max, group_rows_max=GROUP_ROWS)
            return
        checker = RowChecker(schema, self._wanted.tags, task.checks)
        for block in self._read(task, first_rows_max, rows_max):
            self._snapshot.check()
            yield block.rows, checker.select(block)

    def batches(self, projection: Projection, *, memory_bytes_max: int) -> Iterator[pa.RecordBatch]:
        """Yield the matching rows as record batches."""
        self._snapshot.check()
        for block in self.blocks(projection.columns, memory_bytes_max=memory_bytes_max):
            for batch in projection.batches(block):
                yield batch
                self._snapshot.check()

    def _read(self, task: _Task, first_rows_max: int, rows_max: int) -> Iterator[Block]:
        if task.part is not None:
            yield from read_direct(task.part, block_rows_max=rows_max, first_rows_max=first_rows_max)
        elif task.bundle is not None:
            bundle = share_merged(task.bundle.get(), *task.share)
            yield from read_merged(self._snapshot.schema, self._snapshot.options, bundle, stripe_rows=rows_max)


class ScanPlan:
    """A scan that is ready to be shared out and read."""

    def __init__(
        self, snapshot: Snapshot, wanted: Filter, segments: Sequence[Segment], statistics: ScanStatistics
    ) -> None:
        self._snapshot = snapshot
        self._wanted = wanted
        self._segments = segments
        self._statistics = statistics
        merged = sum(1 for segment in segments if not segment.is_direct)
        statistics.add(segments_merged=merged, segments_direct=len(segments) - merged)

    def split(self, count: int) -> list[Share]:
        """Return `count` shares. What is decided here costs no time later, when threads compete for Python."""
        tasks: list[list[_Task]] = [[] for _ in range(count)]
        for number, segment in enumerate(self._segments):
            if count == 1 or segment.rows < _SHARED_ROWS_MIN:
                tasks[number % count] += _share(segment, 1)
            else:
                for own, task in zip(tasks, _share(segment, count), strict=True):
                    own.append(task)
        return [Share(self._snapshot, self._wanted, own, self._statistics) for own in tasks]

    @property
    def segments(self) -> int:
        return len(self._segments)

    def blocks(self, columns: Sequence[Column]) -> Iterator[Block]:
        """Yield all matching rows."""
        (share,) = self.split(1)
        return share.blocks(columns, memory_bytes_max=self._snapshot.memory_bytes_max)


def _share(segment: Segment, count: int) -> list[_Task]:
    """Share a segment out."""
    checks = tuple({id(check): check for part in segment.parts for check in part.checks}.values())
    if segment.is_direct:
        (part,) = segment.parts
        parts = [part] if count == 1 else [share_direct(part, index, count) for index in range(count)]
        return [_Task(checks, part=each) for each in parts]
    bundle = LazyBundle(segment.parts)
    return [_Task(checks, bundle=bundle, share=(index, count)) for index in range(count)]


def plan_scan(
    snapshot: Snapshot, filter: RowFilter, statistics: ScanStatistics, also: tuple[SeriesCheck, ...] = ()
) -> ScanPlan:
    """Decide what a scan reads; no row is read for that."""
    wanted = make_filter(snapshot.schema, filter, also=also)
    parts = make_parts(snapshot, wanted, statistics)
    return ScanPlan(snapshot, wanted, make_segments(snapshot.options, parts), statistics)


def scan_batches(
    snapshot: Snapshot,
    columns: Sequence[str],
    filter: RowFilter = None,
    *,
    statistics: ScanStatistics | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the visible rows that match, one segment of time after the other, each sorted by series and time."""
    projection = Projection(snapshot.schema, columns)
    (share,) = plan_scan(snapshot, filter, statistics or ScanStatistics()).split(1)
    return share.batches(projection, memory_bytes_max=snapshot.memory_bytes_max)


def block_rows(columns: Sequence[Column], bytes_max: int) -> int:
    """Return how many rows with these columns may be held at a time."""
    row_bytes = _KEY_BYTES + sum(_value_bytes(column) for column in columns)
    return max(_BLOCK_ROWS_MIN, min(STRIPE_ROWS, bytes_max // (row_bytes * _COPIES)))


def _value_bytes(column: Column) -> int:
    if column.semantic is Semantic.TIMESTAMP:
        return 0
    try:
        return max(1, int(column.type.bit_width) // 8)
    except ValueError:
        return _VARIABLE_BYTES
