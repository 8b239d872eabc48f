"""Parts whose rows need no merge, because of every series they have different times.

Sources overlap in time as soon as writers are not in step, but the samples of one series come in order: each source has
the next stretch of them. Then nothing hides anything, and the stretches only have to be laid end to end. The series
blocks tell whether that is so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tsdb.engine.rows.series import Positions, union_ordered
from tsdb.engine.scan._parts import Part
from tsdb.model import SeriesTable


@dataclass(frozen=True, slots=True, eq=False)
class Disjoint:
    """Parts in the order in which their rows follow each other, with where their series are among all."""

    series: SeriesTable
    parts: list[Part]
    places: list[Positions]

    @property
    def rows(self) -> int:
        return sum(part.rows for part in self.parts)


def find_disjoint(parts: Sequence[Part]) -> Disjoint | None:
    """Return parts whose rows may be read as they are; None if some might hide others."""
    if not parts or any(_may_hide(part) for part in parts):
        return None
    ordered = sorted(parts, key=lambda part: part.time_range.start)
    series, places = union_ordered([part.series for part in ordered])
    latest = np.full(len(series), np.iinfo(np.int64).min)
    for part, place in zip(ordered, places, strict=True):
        if (part.time_min <= latest[place]).any():
            return None
        latest[place] = part.time_max
    return Disjoint(series, [part.narrowed() for part in ordered], places)


def _may_hide(part: Part) -> bool:
    facts = part.source.facts
    return facts.has_tombstones or not facts.is_unique or bool(part.checks)
