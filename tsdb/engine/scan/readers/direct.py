"""Reading a part as it is: slices of columns, no sort."""

from __future__ import annotations

from collections.abc import Iterator

from tsdb.engine.scan.plan.parts import Part, group_rows
from tsdb.engine.scan.readers.block import DirectBlock, RowRanges


def read_direct(part: Part, *, block_rows_max: int, first_rows_max: int) -> Iterator[DirectBlock]:
    """Yield the rows of a part in blocks, of which the first may be smaller; tombstones are left out."""
    rows_max = min(first_rows_max, block_rows_max)
    for first, group in _narrowed_groups(part):
        row_ranges = RowRanges(group)
        position = 0
        while position < row_ranges.rows:
            until = min(row_ranges.rows, position + rows_max)
            block = DirectBlock(group, row_ranges, position, until, first=first)
            yield block.puts() if part.source.facts.has_tombstones else block
            position, rows_max = until, block_rows_max


def _narrowed_groups(part: Part) -> Iterator[tuple[int, Part]]:
    """Yield parts of the series in the time range, each with the number of its first series."""
    if part.is_inside:
        yield 0, part
        return
    for first, last in group_rows(part.starts, part.stops, part.tuning.group_rows):
        yield first, part.slice(first, last).narrowed()
