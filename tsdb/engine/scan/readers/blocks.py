"""The reader of blocks: rows of a task that pass its checks, whether its parts are merged or read as they are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from tsdb.engine.rows.merge import STRIPE_ROWS
from tsdb.engine.scan.filters.filter import ScanFilter
from tsdb.engine.scan.plan.plan import ScanTask
from tsdb.engine.scan.readers.block import Block
from tsdb.engine.scan.readers.checks import RowChecker
from tsdb.engine.scan.readers.direct import read_direct
from tsdb.engine.scan.readers.merged import read_merged
from tsdb.engine.scan.readers.picked import can_pick, pick
from tsdb.engine.scan.snapshot.snapshot import Snapshot
from tsdb.model import Column, Semantic

# Of each value there are about this many copies at a time: as read, sorted, filtered.
_COPIES = 3
_KEY_BYTES = 32
_VARIABLE_BYTES = 64


def read_blocks(
    snapshot: Snapshot,
    wanted: ScanFilter,
    task: ScanTask,
    *,
    rows_max: int,
    first_rows_max: int,
    check: Callable[[], None],
    picks: bool = False,
) -> Iterator[tuple[int, Block]]:
    """Yield the rows of a task that pass its checks, each block with how many rows were looked at for it.

    With `picks`, rows are picked out of pieces where that is possible; blocks are then smaller. `check` raises when the
    query is over.
    """
    schema, part = snapshot.schema, task.part
    if picks and part is not None and can_pick(part, schema, task.checks):
        yield from pick(part, schema, task.checks, rows_max=rows_max)
        return
    checker = RowChecker(schema, wanted.tags, task.checks)
    blocks: Iterator[Block]
    if part is not None:
        blocks = read_direct(part, block_rows_max=rows_max, first_rows_max=first_rows_max)
    else:
        blocks = read_merged(schema, snapshot.options, task.merge_set(), stripe_rows=rows_max)
    for block in blocks:
        check()
        yield block.rows, checker.select(block)


def block_rows(snapshot: Snapshot, names: Iterable[str], bytes_max: int) -> int:
    """Return how many rows with these columns may be held at a time."""
    columns = [snapshot.schema.by_name[name] for name in names]
    row_bytes = _KEY_BYTES + sum(_value_bytes(column) for column in columns)
    return max(snapshot.tuning.block_rows_min, min(STRIPE_ROWS, bytes_max // (row_bytes * _COPIES)))


def _value_bytes(column: Column) -> int:
    if column.semantic is Semantic.TIMESTAMP:
        return 0
    try:
        return max(1, int(column.type.bit_width) // 8)
    except ValueError:
        return _VARIABLE_BYTES
