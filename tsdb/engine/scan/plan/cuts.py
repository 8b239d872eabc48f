"""Cutting parts that overlap, so that only what they contest is merged.

    file      ████████████████████████            file alone ├────────────┤
    memtable                 ██████████████       merged                   ├──────┤
                                                  memtable alone                   ├─────┤

- Rows that newer ones hide are left out if they are few (`hidden.py`): then nothing is merged.
- Outside of the hulls of what is contested each part is read alone, if it has rows enough there to be worth a cut.
- What is inside of several hulls is merged in one go, as long as it is little: to begin a merge costs more than to
  merge some hundred rows.
- Where a few series are contested for long, as after a backfill, they are merged apart from all others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from tsdb.engine.scan.plan.apart import APART
from tsdb.engine.scan.plan.contested import CommonKeys, Contested, find_common, find_contested
from tsdb.engine.scan.plan.hidden import leave_out_hidden
from tsdb.engine.scan.plan.parts import Part
from tsdb.engine.tuning import ScanTuning
from tsdb.model import MergeMode, RegionOptions, TimeRange

Group = list[Part]
"""Parts that are read together."""

_HULLS_MAX = 32
_LEFT_OUT_MAX = 1 << 12
"""So many rows, if newer ones hide them, are cut out of their parts."""
_SERIES_ROWS = 4
"""A cut costs a search for each series, which takes as long as merging so many of its rows."""
_SPLIT_GAIN = 2


def separate(parts: Sequence[Part], options: RegionOptions, tuning: ScanTuning, version: int) -> Iterator[Group]:
    """Yield parts that overlap in groups that have no key in common; `version` is that of the schema."""
    if len(parts) == 1:
        yield list(parts)
        return
    ordered = sorted(parts, key=lambda part: part.time_range.start)
    if APART.has_all(ordered, version):
        yield from ([part] for part in ordered)
        return
    contested = find_contested(ordered)
    common = None if contested is None else find_common(ordered, contested, tuning.look_rows_max)
    if common is not None and common.is_of_all_rows and not len(common):
        APART.note(ordered, version)
    alone = _find_alone(ordered, contested, common, options)
    if contested is None or alone is not None:
        yield from ([part] for part in alone or ordered)
        return
    if common is not None:
        contested = contested.narrowed(common)
    cuts = _Cuts.of(ordered, contested, tuning)
    halves = _split(cuts, contested) if cuts.rows >= tuning.split_rows_min else [cuts]
    for half in halves:
        yield from half.groups()


def _find_alone(
    parts: Group, contested: Contested | None, common: CommonKeys | None, options: RegionOptions
) -> Group | None:
    """Return parts that have no key in common; None if that takes more than leaving out a few rows."""
    if contested is None or common is None:
        return None
    if not len(common):
        return parts
    counts_newest = options.merge_mode is MergeMode.LAST_ROW and not options.append_mode
    if not counts_newest or len(common) > _LEFT_OUT_MAX or not all(part.source.facts.is_unique for part in parts):
        return None
    return leave_out_hidden(parts, common)


@dataclass(frozen=True, slots=True, eq=False)
class _Cuts:
    """Parts, and the ranges of time between what they contest."""

    parts: Group
    gaps: list[TimeRange]
    """In order; each has rows enough to be cut out of the merge."""
    hulls: list[TimeRange]
    """What is left: in order, and all parts lie in gaps and hulls together."""
    tuning: ScanTuning

    @classmethod
    def of(cls, parts: Group, contested: Contested | None, tuning: ScanTuning) -> _Cuts:
        span = TimeRange(parts[0].time_range.start, max(part.time_range.end for part in parts))
        if contested is None:
            return cls(parts, [span], [], tuning)
        found = contested.hulls(_HULLS_MAX)
        between = [TimeRange(one.end, other.start) for one, other in pairwise(found)]
        gaps = [TimeRange(span.start, found[0].start), *between, TimeRange(found[-1].end, span.end)]
        kept = [gap for gap in gaps if not gap.is_empty and _gain(parts, gap) >= tuning.cut_rows_min]
        bounds = [span.start, *(time for gap in kept for time in (gap.start, gap.end)), span.end]
        hulls = [TimeRange(bounds[at], bounds[at + 1]) for at in range(0, len(bounds), 2)]
        return cls(parts, kept, [hull for hull in hulls if not hull.is_empty], tuning)

    @property
    def rows(self) -> float:
        """About how many rows are merged."""
        return sum(_rows_in(part, hull) for hull in self.hulls for part in self.parts)

    def groups(self) -> Iterator[Group]:
        for gap in self.gaps:
            yield from ([part] for part in self._within(gap))
        merged: Group = []
        rows = 0.0
        for hull in self.hulls:
            merged += self._within(hull)
            rows += sum(_rows_in(part, hull) for part in self.parts)
            if rows >= self.tuning.partition_rows_min:
                yield merged
                merged, rows = [], 0.0
        if merged:
            yield merged

    def _within(self, span: TimeRange) -> Group:
        return [part.within(span) for part in self.parts if part.time_range.overlaps(span)]


def _split(cuts: _Cuts, contested: Contested) -> list[_Cuts]:
    """Cut series that are contested for long and others apart, if far fewer rows have to be merged then."""
    is_wide = contested.find_wide()
    if not is_wide.any() or is_wide.all():
        return [cuts]
    halves = []
    for chosen in (is_wide, ~is_wide):
        taken = [
            part.take(np.flatnonzero(chosen[place])) for part, place in zip(cuts.parts, contested.places, strict=True)
        ]
        halves.append(_Cuts.of([part for part in taken if len(part.starts)], contested.only(chosen), cuts.tuning))
    return halves if sum(half.rows for half in halves) * _SPLIT_GAIN <= cuts.rows else [cuts]


def _gain(parts: Group, gap: TimeRange) -> float:
    """Return about how many rows need not be merged if a range of time is cut out, less what the cuts cost."""
    inside = [part for part in parts if part.time_range.overlaps(gap)]
    return sum(_rows_in(part, gap) - _SERIES_ROWS * len(part.starts) for part in inside)


def _rows_in(part: Part, span: TimeRange) -> float:
    """Guess how many rows a part has in a range of time, as if they were spread evenly."""
    own = part.time_range
    ticks = min(own.end, span.end) - max(own.start, span.start)
    return part.rows * ticks / (own.end - own.start) if ticks > 0 else 0.0
