"""A range of time, half open, in the unit of the column it belongs to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

INT64_MIN = -(1 << 63)
INT64_MAX = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class TimeRange:
    """`start <= t < end`; Python integers, so that `end` can lie one past the largest timestamp."""

    start: int
    end: int
    ALL: ClassVar[TimeRange]

    @classmethod
    def of(cls, times: npt.NDArray[np.int64]) -> TimeRange:
        """Return the smallest range that holds all times; there must be at least one."""
        return cls(int(np.minimum.reduce(times)), int(np.maximum.reduce(times)) + 1)

    @property
    def is_empty(self) -> bool:
        return self.start >= self.end

    @property
    def last(self) -> int:
        """The last time in the range."""
        return self.end - 1

    def overlaps(self, other: TimeRange) -> bool:
        return self.start < other.end and other.start < self.end

    def contains(self, other: TimeRange) -> bool:
        return self.start <= other.start and other.end <= self.end

    def union(self, other: TimeRange) -> TimeRange:
        return TimeRange(min(self.start, other.start), max(self.end, other.end))

    def intersection(self, other: TimeRange) -> TimeRange:
        if other.contains(self):
            return self
        return TimeRange(max(self.start, other.start), min(self.end, other.end))


TimeRange.ALL = TimeRange(INT64_MIN, INT64_MAX + 1)
