"""Cutting a part into partitions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tsdb.engine.rows.series import Positions
from tsdb.engine.scan.plan.parts import Part


def cut_part(part: Part, index: int, count: int) -> Part:
    """Return one of `count` partitions of a part that are about equally long; a series may be cut."""
    starts, stops = part.estimate()
    # A series that seems to have no rows may have some: it counts as one.
    total = np.cumsum(np.maximum(stops - starts, 1))
    first, first_row = _boundary(part, starts, stops, total, int(total[-1]) * index // count)
    last, last_row = _boundary(part, starts, stops, total, int(total[-1]) * (index + 1) // count)
    own = part.slice(first, min(last + 1, len(total)))
    if not len(own.starts):
        return own
    starts_cut, stops_cut = own.starts.copy(), own.stops.copy()
    starts_cut[0] = first_row
    if last < len(total):
        stops_cut[-1] = last_row
    return replace(own, starts=starts_cut, stops=stops_cut)


def _boundary(part: Part, starts: Positions, stops: Positions, total: Positions, target: int) -> tuple[int, int]:
    """Return the series and the row at which a partition starts."""
    at = int(np.searchsorted(total, target, side="right"))
    if at == len(total):
        return at, 0
    into = target - (int(total[at - 1]) if at else 0)
    return at, int(min(starts[at] + into, stops[at])) if into else int(part.starts[at])
