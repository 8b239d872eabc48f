"""Contested keys: what two or more parts may have rows of, so that one row may hide another.

Series blocks tell of each series of a part from when to when it has rows. Where these spans of two parts overlap, the
series is contested from the later start to the earlier end. Nothing outside of that can be hidden: it is read as it
is, tombstones included, which then hide nothing either.

    part 1   ████████████████████                    contested by one series, others are alike
    part 2                  ████████████████████
                            ├──┤

Spans are compared with the hull of all earlier parts, in one pass over each part: more may be called contested than
is, never less. If the series have not too many rows, a look at their times then finds the keys that parts really have
in common. Mostly there are none: writers that are not in step have other rows, not the same ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tsdb import _kernels
from tsdb.engine.rows.series import Positions, number_series
from tsdb.engine.rows.source import Held
from tsdb.engine.scan.plan.disjoint import follow_each_other
from tsdb.engine.scan.plan.parts import Part, Times
from tsdb.model import TimeRange

_KEYS_MAX = 1 << 16
_LIMITS = np.iinfo(np.int64)
_WIDE_TIMES = 4
"""A series that is contested for so many times as long as the median of all is read apart from the others."""


@dataclass(frozen=True, slots=True, eq=False)
class Contested:
    """The contested spans of series, both ends included; a series may have several."""

    first: Times
    last: Times
    numbers: Positions
    """The series of each span."""
    count: int
    """How many series there are in all."""
    places: Sequence[Positions]
    """For each part the numbers of its series."""

    def hulls(self, count_max: int) -> list[TimeRange]:
        """Return at most so many ranges of time, in order and apart from each other, that all spans lie in."""
        if len(self.first) == 1:
            return [TimeRange(int(self.first[0]), int(self.last[0]) + 1)]
        order = np.argsort(self.first)
        first, last = self.first[order], np.maximum.accumulate(self.last[order])
        cuts = np.flatnonzero(first[1:] > last[:-1])
        if len(cuts) >= count_max:
            gaps = first[cuts + 1].astype(np.float64) - last[cuts]
            cuts = np.sort(cuts[np.argsort(gaps)[len(cuts) - count_max + 1 :]])
        starts, stops = first[np.append(0, cuts + 1)], last[np.append(cuts, len(last) - 1)]
        return [TimeRange(start, stop + 1) for start, stop in zip(starts.tolist(), stops.tolist(), strict=True)]

    def only(self, chosen: npt.NDArray[np.bool_]) -> Contested | None:
        """Return the spans of chosen series; None if there are none."""
        kept = chosen[self.numbers]
        if not kept.any():
            return None
        return replace(self, first=self.first[kept], last=self.last[kept], numbers=self.numbers[kept])

    def narrowed(self, common: CommonKeys) -> Contested:
        """Return the keys that parts have in common, each as a span."""
        return replace(self, first=common.times, last=common.times, numbers=common.numbers)

    def find_wide(self) -> npt.NDArray[np.bool_]:
        """Tell which series are contested for much longer than most are, most of all where few are contested at all."""
        ticks = np.zeros(self.count)
        np.add.at(ticks, self.numbers, self.last.astype(np.float64) - self.first + 1)
        found: npt.NDArray[np.bool_] = ticks > _WIDE_TIMES * np.median(ticks)
        return found


def find_contested(parts: Sequence[Part]) -> Contested | None:
    """Return what parts, in the order of their starts, contest; None if no two of them have a key in common."""
    count, places = number_series([part.series for part in parts])
    if follow_each_other(parts, places, count):
        return None
    earliest, latest = np.full(count, _LIMITS.max), np.full(count, _LIMITS.min)
    found: list[tuple[Times, Times, Positions]] = []
    for part, place in zip(parts, places, strict=True):
        first, last = _spans(part)
        known_first, known_last = earliest[place], latest[place]
        low, high = np.maximum(first, known_first), np.minimum(last, known_last)
        is_contested = low <= high
        if is_contested.any():
            found.append((low[is_contested], high[is_contested], place[is_contested]))
        earliest[place], latest[place] = np.minimum(first, known_first), np.maximum(last, known_last)
    if not found:
        return None
    first, last, numbers = found[0] if len(found) == 1 else map(np.concatenate, zip(*found, strict=True))
    return Contested(first, last, numbers, count, places)


@dataclass(frozen=True, slots=True, eq=False)
class CommonKeys:
    """Pairs of rows of two parts that have the same key."""

    numbers: Positions
    """The series of each pair."""
    times: Times
    one: tuple[Positions, Positions]
    """Of each pair the part and the row of the first."""
    other: tuple[Positions, Positions]
    """The same for the second."""

    def __len__(self) -> int:
        return len(self.times)


def find_common(parts: Sequence[Part], contested: Contested, rows_max: int) -> CommonKeys | None:
    """Return the keys that parts have in common; None if they, or the rows to look at, are too many."""
    is_wanted = np.zeros(contested.count, np.bool_)
    is_wanted[contested.numbers] = True
    chosen = [_choose(part, place, is_wanted) for part, place in zip(parts, contested.places, strict=True)]
    if sum(int((stops - starts).sum()) for _, starts, stops in chosen) > rows_max:
        return None
    sources = [(*rows, *_read_times(part, *rows[1:])) for part, rows in zip(parts, chosen, strict=True)]
    found = _kernels.common_keys(sources, _KEYS_MAX)
    if found is None:
        return None
    columns = [pa.array(each).to_numpy() for each in found]
    # Rows outside of the time range were compared too.
    is_inside = (columns[1] >= contested.first.min()) & (columns[1] <= contested.last.max())
    numbers, times, *rows = columns if is_inside.all() else [column[is_inside] for column in columns]
    return CommonKeys(numbers, times, (rows[0], rows[1]), (rows[2], rows[3]))


def _choose(part: Part, place: Positions, is_wanted: npt.NDArray[np.bool_]) -> tuple[Positions, Positions, Positions]:
    """Return the numbers of wanted series, and where their rows start and stop."""
    chosen = is_wanted[place]
    if chosen.all():
        return place, part.starts, part.stops
    return place[chosen], part.starts[chosen], part.stops[chosen]


def _read_times(part: Part, starts: Positions, stops: Positions) -> tuple[Positions, list[int], list[Held]]:
    """Return the times of the pieces that rows lie in, as the kernel wants them."""
    source = part.source
    offsets, columns = source.piece_offsets, [source.schema.time.id]
    numbers, _ = _kernels.touched_chunks(starts, stops, offsets)
    if not numbers:
        return offsets, [], []
    (times,) = source.pieces_at_hand(numbers, columns) or source.pieces(numbers, columns)
    return offsets, numbers, times


def _spans(part: Part) -> tuple[Times, Times]:
    """Return the first and the last time that each series can have in the time range."""
    if part.is_inside:
        return part.time_min, part.time_max
    return np.maximum(part.time_min, part.time_range.start), np.minimum(part.time_max, part.time_range.last)
