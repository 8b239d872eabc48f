"""Cutting hidden rows out of parts: a few keys that two parts have cost no merge.

Of the rows of one key the newest counts, so all others can be left out, and what is left is read as it is. A row range
with a row left out becomes two; the second one is in a part of its own, because a part has a series only once:

    part     ████████░█████████░░██████       hidden rows, consecutive ones are one hole
    parts    ████████
                      █████████
                                 ██████
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from tsdb.engine.rows.series import Positions
from tsdb.engine.rows.slices import Slices
from tsdb.engine.scan.plan.contested import CommonKeys
from tsdb.engine.scan.plan.parts import Part, Times

_PARTS_MAX = 16
"""More parts than this are not made: a merge is cheaper."""


def leave_out_hidden(parts: Sequence[Part], common: CommonKeys) -> list[Part] | None:
    """Return parts without the rows that newer ones hide; None if they would be too many.

    For parts whose keys are unique, where the newest row of a key counts as a whole.
    """
    one, other = (_read_sequences(parts, *side) for side in (common.one, common.other))
    is_older = one < other
    sources = np.where(is_older, common.one[0], common.other[0])
    rows = np.where(is_older, common.one[1], common.other[1])
    found: list[Part] = []
    for number, part in enumerate(parts):
        hidden = np.unique(rows[sources == number])
        found += _cut_out(part, _Holes.of(part, hidden)) if len(hidden) else [part]
        if len(found) > len(parts) + _PARTS_MAX:
            return None
    return found


def _read_sequences(parts: Sequence[Part], sources: Positions, rows: Positions) -> npt.NDArray[np.uint64]:
    """Return the sequences of some rows."""
    sequences = np.zeros(len(rows), np.uint64)
    for number in np.unique(sources):
        is_own = sources == number
        own, back = np.unique(rows[is_own], return_inverse=True)
        sequences[is_own] = parts[number].source.sequences(Slices(own, own + 1))[back]
    return sequences


@dataclass(frozen=True, slots=True, eq=False)
class _Holes:
    """Row ranges to leave out, in order."""

    series: Positions
    """The place of each one's series in the part."""
    starts: Positions
    stops: Positions
    levels: Positions
    """How many holes of the same series come before it."""

    @classmethod
    def of(cls, part: Part, hidden: Positions) -> _Holes:
        series = np.searchsorted(part.stops, hidden, side="right")
        is_first = np.append(True, (np.diff(hidden) != 1) | (np.diff(series) != 0))
        first = np.flatnonzero(is_first)
        own, starts, stops = series[first], hidden[first], hidden[np.append(first[1:], len(hidden)) - 1] + 1
        levels = np.arange(len(own)) - np.searchsorted(own, own)
        return cls(own, starts, stops, levels)


def _cut_out(part: Part, holes: _Holes) -> Iterator[Part]:
    """Yield the row ranges up to the first hole of each series, then those from hole to hole."""
    stops = part.stops.copy()
    first = holes.levels == 0
    stops[holes.series[first]] = holes.starts[first]
    yield from _filled(part, np.arange(len(stops)), part.starts, stops)
    for level in range(int(holes.levels.max()) + 1):
        own = np.flatnonzero(holes.levels == level)
        # The next hole is where the range ends, if it is one of the same series.
        ends = part.stops[holes.series[own]]
        has_next = np.append(holes.levels, 0)[own + 1] == level + 1
        ends[has_next] = holes.starts[own[has_next] + 1]
        yield from _filled(part, holes.series[own], holes.stops[own], ends)


def _filled(part: Part, series: Positions, starts: Positions, stops: Positions) -> Iterator[Part]:
    """Yield a part of row ranges of some series, without those that are empty."""
    kept = np.flatnonzero(starts < stops)
    if not len(kept):
        return
    own = part if len(kept) == len(part.starts) else part.take(series[kept])
    starts, stops = starts[kept], stops[kept]
    time_min = _exact(part, own.time_min, starts, starts != own.starts)
    time_max = _exact(part, own.time_max, stops - 1, stops != own.stops)
    yield replace(own, starts=starts, stops=stops, time_min=time_min, time_max=time_max)


def _exact(part: Part, known: Times, rows: Positions, is_new: npt.NDArray[np.bool_]) -> Times:
    """Return the times of rows, of which only some are not known."""
    if not is_new.any():
        return known
    times = known.copy()
    times[is_new] = part.source.times(Slices(rows[is_new], rows[is_new] + 1))
    return times
