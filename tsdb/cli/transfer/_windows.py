"""A span of time in windows, which are fetched one after the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class TimeWindows:
    """Windows of the same length from a start to an end, both in milliseconds; the end belongs to the last one."""

    start_ms: int
    end_ms: int
    step_ms: int
    is_open: bool = False
    """Whether the end is the moment at which the import began: an import that continues keeps it."""

    def __len__(self) -> int:
        return max(0, -(-(self.end_ms - self.start_ms + 1) // self.step_ms))

    def __getitem__(self, number: int) -> tuple[int, int]:
        """Return first and last millisecond of a window."""
        start = self.start_ms + number * self.step_ms
        return start, min(start + self.step_ms - 1, self.end_ms)

    def identity(self) -> list[object]:
        return [self.step_ms, *([] if self.is_open else [self.start_ms, self.end_ms])]

    def kept(self, extra: dict[str, Any]) -> TimeWindows:
        """The windows of an earlier run, if there was one."""
        if "start_ms" not in extra:
            return self
        return TimeWindows(extra["start_ms"], extra["end_ms"], self.step_ms, self.is_open)

    def to_extra(self) -> dict[str, Any]:
        return {"start_ms": self.start_ms, "end_ms": self.end_ms}
