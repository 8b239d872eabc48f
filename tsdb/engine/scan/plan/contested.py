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

from tsdb import _kernels
from tsdb.arrays import as_numpy
from tsdb.engine.rows.series import Positions
from tsdb.engine.rows.source import Held
from tsdb.engine.scan.plan.parts import Part, Times
from tsdb.model import TimeRange

_KEYS_MAX = 1 << 16
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
    found = _kernels.contested_spans(
        [
            (
                part.series.tsid,
                part.series.check,
                part.time_min,
                part.time_max,
                part.time_range.start,
                part.time_range.last,
            )
            for part in parts
        ]
    )
    if found is None:
        return None
    (first, last, numbers), count, own = found
    places = [as_numpy(each) for each in own] or [np.arange(count)] * len(parts)
    return Contested(as_numpy(first), as_numpy(last), as_numpy(numbers), count, places)


@dataclass(frozen=True, slots=True, eq=False)
class Side:
    """One row of each of some pairs."""

    sources: Positions
    """The part it is of."""
    rows: Positions
    before: Times
    """The time of the row before it in its series, the least number if there is none."""
    after: Times
    """The time of the row after it, the greatest number if there is none."""

    def only(self, chosen: npt.NDArray[np.bool_]) -> Side:
        return Side(self.sources[chosen], self.rows[chosen], self.before[chosen], self.after[chosen])


@dataclass(frozen=True, slots=True, eq=False)
class CommonKeys:
    """Pairs of rows of two parts that have the same key."""

    numbers: Positions
    """The series of each pair."""
    times: Times
    one: Side
    other: Side
    is_of_all_rows: bool
    """All rows of the sources were looked at, those included that are not wanted."""

    def __len__(self) -> int:
        return len(self.times)

    def within(self, first: int, last: int) -> CommonKeys:
        """Return the pairs from a first to a last time."""
        chosen = (self.times >= first) & (self.times <= last)
        if chosen.all():
            return self
        return CommonKeys(
            self.numbers[chosen], self.times[chosen], self.one.only(chosen), self.other.only(chosen), False
        )


def find_common(parts: Sequence[Part], contested: Contested, rows_max: int) -> CommonKeys | None:
    """Return the keys that parts have in common; None if they, or the rows to look at, are too many."""
    is_wanted = np.zeros(contested.count, np.bool_)
    is_wanted[contested.numbers] = True
    chosen = [_choose(part, place, is_wanted) for part, place in zip(parts, contested.places, strict=True)]
    counts = [int((stops - starts).sum()) for _, starts, stops in chosen]
    if sum(counts) > rows_max:
        return None
    sources = [(*rows, *_read_times(part, *rows[1:])) for part, rows in zip(parts, chosen, strict=True)]
    found = _kernels.common_keys(sources, _KEYS_MAX)
    if found is None:
        return None
    numbers, times, *sides = map(as_numpy, found)
    is_of_all_rows = all(map(_is_whole, parts, counts))
    common = CommonKeys(numbers, times, Side(*sides[:4]), Side(*sides[4:]), is_of_all_rows)
    if not len(common):
        return common
    # Rows outside of the time range were compared too.
    return common.within(int(contested.first.min()), int(contested.last.max()))


def _is_whole(part: Part, count: int) -> bool:
    """Tell whether `count` rows that are looked at are all that may have a key in common with others."""
    facts = part.source.facts
    if count == facts.rows:
        return True
    # If all series are there, those that are not looked at have spans that overlap with no other.
    return part.rows == facts.rows and part.time_range.contains(facts.time_range)


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
    (times,) = source.pieces_at_hand(numbers, columns) or source.pieces_as_held(numbers, columns)
    return offsets, numbers, times
