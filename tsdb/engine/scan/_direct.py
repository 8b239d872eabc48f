"""Reading a part as it is: slices of columns, no sort."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from tsdb.engine.rows.series import Positions
from tsdb.engine.scan._blocks import DirectBlock, Stretches
from tsdb.engine.scan._parts import Part, group_rows

# Series are narrowed to the time range in groups of about this many rows, which bounds what is read for it.
GROUP_ROWS = 1 << 20


def read_direct(part: Part, *, block_rows_max: int, first_rows_max: int) -> Iterator[DirectBlock]:
    """Yield the rows of a part in blocks, of which the first may be smaller; tombstones are left out."""
    rows_max = min(first_rows_max, block_rows_max)
    for group in _narrowed_groups(part):
        stretches = Stretches(group)
        position = 0
        while position < stretches.rows:
            until = min(stretches.rows, position + rows_max)
            block = DirectBlock(group, stretches, position, until)
            yield block.puts() if part.source.facts.has_tombstones else block
            position, rows_max = until, block_rows_max


def _narrowed_groups(part: Part) -> Iterator[Part]:
    if part.is_inside:
        yield part
        return
    for first, last in group_rows(part.starts, part.stops, GROUP_ROWS):
        yield part.slice(first, last).narrowed()


def share_direct(part: Part, index: int, count: int) -> Part:
    """Return one of `count` shares of a part that are about equally long; a series may be cut."""
    starts, stops = part.estimate()
    # A series that seems to have no rows may have some: it counts as one.
    total = np.cumsum(np.maximum(stops - starts, 1))
    first, first_row = _boundary(part, starts, stops, total, int(total[-1]) * index // count)
    last, last_row = _boundary(part, starts, stops, total, int(total[-1]) * (index + 1) // count)
    share = part.slice(first, min(last + 1, len(total)))
    if not len(share.starts):
        return share
    share_starts, share_stops = share.starts.copy(), share.stops.copy()
    share_starts[0] = first_row
    if last < len(total):
        share_stops[-1] = last_row
    return replace(share, starts=share_starts, stops=share_stops)


def _boundary(part: Part, starts: Positions, stops: Positions, total: Positions, target: int) -> tuple[int, int]:
    """Return the series and the row at which a share starts."""
    at = int(np.searchsorted(total, target, side="right"))
    if at == len(total):
        return at, 0
    into = target - (int(total[at - 1]) if at else 0)
    return at, int(min(starts[at] + into, stops[at])) if into else int(part.starts[at])
