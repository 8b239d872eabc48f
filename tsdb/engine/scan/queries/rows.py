"""Rows of a plan, as blocks or as record batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from tsdb.engine.scan.plan.plan import ScanPlan, ScanTask
from tsdb.engine.scan.readers.block import Block
from tsdb.engine.scan.readers.blocks import block_rows, read_blocks
from tsdb.engine.scan.readers.projection import Projection
from tsdb.model import Column

_FIRST_ROWS = 65_536


class Partition:
    """One of the partitions of a scan."""

    def __init__(self, plan: ScanPlan, tasks: Sequence[ScanTask]) -> None:
        self._plan = plan
        self._tasks = tasks

    def blocks(self, columns: Sequence[Column], *, memory_bytes_max: int) -> Iterator[Block]:
        """Yield the matching rows; `columns` are those that will be read of them."""
        snapshot, wanted = self._plan.snapshot, self._plan.wanted
        names = wanted.row_names.union(column.name for column in columns)
        rows_max = block_rows(snapshot, names, memory_bytes_max)
        # The first block is small, so that a query with a limit reads little.
        first_rows_max = _FIRST_ROWS if names else rows_max
        for task in self._tasks:
            found = read_blocks(
                snapshot,
                wanted,
                task,
                rows_max=rows_max,
                first_rows_max=first_rows_max,
                check=snapshot.check,
                picks=True,
            )
            for looked_at, block in found:
                snapshot.check()
                first_rows_max = rows_max
                self._plan.statistics.add(rows_read=looked_at, rows_returned=block.rows)
                if block.rows:
                    yield block

    def batches(self, projection: Projection, *, memory_bytes_max: int) -> Iterator[pa.RecordBatch]:
        """Yield the matching rows as record batches."""
        check = self._plan.snapshot.check
        check()
        for block in self.blocks(projection.columns, memory_bytes_max=memory_bytes_max):
            for batch in projection.batches(block):
                yield batch
                check()


def partition_scan(plan: ScanPlan, count: int) -> list[Partition]:
    """Divide a scan into partitions for as many threads."""
    return [Partition(plan, tasks) for tasks in plan.split(count)]


def all_blocks(plan: ScanPlan, columns: Sequence[Column]) -> Iterator[Block]:
    """Yield all matching rows."""
    return Partition(plan, plan.tasks()).blocks(columns, memory_bytes_max=plan.snapshot.memory_bytes_max)
