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

from tsdb import _kernels
from tsdb.arrays import as_numpy
from tsdb.engine.rows.series import Positions
from tsdb.engine.rows.slices import Slices
from tsdb.engine.scan.plan.contested import CommonKeys, Side
from tsdb.engine.scan.plan.parts import Part, Times

_PARTS_MAX = 16
"""More parts than this are not made: a merge is cheaper."""


def leave_out_hidden(parts: Sequence[Part], common: CommonKeys) -> list[Part] | None:
    """Return parts without the rows that newer ones hide; None if they would be too many.

    For parts whose keys are unique, where the newest row of a key counts as a whole.
    """
    found: list[Part] = []
    more_max = _PARTS_MAX
    hidden = {each.source: each for each in _find_hidden(parts, common)}
    for number, part in enumerate(parts):
        if number not in hidden:
            found.append(part)
            continue
        cut = hidden[number].cut_out(part, more_max + 1)
        if cut is None:
            return None
        found += cut
        more_max -= len(cut) - 1
    return found


@dataclass(frozen=True, slots=True, eq=False)
class _Hidden:
    """Rows of one part that newer ones hide, in order."""

    source: int
    rows: Positions
    before: Times
    """The time of the row before each."""
    after: Times

    def cut_out(self, part: Part, parts_max: int) -> list[Part] | None:
        """Return what is left: row ranges up to the first hole of each series, then those from hole to hole."""
        left_out = self.rows, self.before, self.after
        sets = _kernels.cut_rows(part.starts, part.stops, part.time_min, part.time_max, left_out, parts_max)
        return None if sets is None else [self._take(part, each) for each in sets]

    def _take(self, part: Part, columns: Sequence[_kernels.ArrowArray]) -> Part:
        places, starts, stops, time_min, time_max = map(as_numpy, columns)
        own = part if len(places) == len(part.starts) else part.take(places)
        return replace(own, starts=starts, stops=stops, time_min=time_min, time_max=time_max)


def _find_hidden(parts: Sequence[Part], common: CommonKeys) -> Iterator[_Hidden]:
    """Yield the rows that newer ones of the same key hide, by part."""
    is_older = _tell_older(parts, common)
    one, other = common.one, common.other
    sources = np.where(is_older, one.sources, other.sources)
    rows = np.where(is_older, one.rows, other.rows)
    before, after = np.where(is_older, one.before, other.before), np.where(is_older, one.after, other.after)
    order = np.lexsort((rows, sources))
    # A row that several others hide is there several times.
    order = order[np.append(True, (np.diff(rows[order]) != 0) | (np.diff(sources[order]) != 0))]
    bounds = np.flatnonzero(np.diff(sources[order])) + 1
    for own in np.split(order, bounds):
        yield _Hidden(int(sources[own[0]]), rows[own], before[own], after[own])


def _tell_older(parts: Sequence[Part], common: CommonKeys) -> npt.NDArray[np.bool_]:
    """Tell of each pair whether the first row is the older one: its sequence is lower."""
    lowest = np.array([part.source.facts.sequence_min for part in parts], np.uint64)
    highest = np.array([part.source.facts.sequence_max for part in parts], np.uint64)
    one, other = common.one, common.other
    is_older = highest[one.sources] < lowest[other.sources]
    # Mostly all of one part is older than all of the other: then no sequences are read.
    is_open = ~is_older & (highest[other.sources] >= lowest[one.sources])
    if is_open.any():
        is_older[is_open] = _read_sequences(parts, one.only(is_open)) < _read_sequences(parts, other.only(is_open))
    return is_older


def _read_sequences(parts: Sequence[Part], side: Side) -> npt.NDArray[np.uint64]:
    """Return the sequences of some rows."""
    sequences = np.zeros(len(side.rows), np.uint64)
    for number in np.unique(side.sources):
        is_own = side.sources == number
        own, back = np.unique(side.rows[is_own], return_inverse=True)
        sequences[is_own] = parts[number].source.sequences(Slices(own, own + 1))[back]
    return sequences
