"""Injected time: code that needs to know or wait for time takes a `Clock`, so that tests decide what time it is."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Where time comes from."""

    def now_ns(self) -> int:
        """Wall-clock time in nanoseconds since 1970-01-01 UTC. It may jump: never measure durations with it."""
        ...

    def monotonic_ns(self) -> int:
        """Time that only goes forward, for durations and deadlines."""
        ...


class SystemClock:
    """The machine's own clocks."""

    def now_ns(self) -> int:
        return time.time_ns()

    def monotonic_ns(self) -> int:
        return time.monotonic_ns()


class ManualClock:
    """A clock that moves only when told to."""

    def __init__(self, now_ns: int = 0) -> None:
        self._now_ns = now_ns
        self._monotonic_ns = 0

    def now_ns(self) -> int:
        return self._now_ns

    def monotonic_ns(self) -> int:
        return self._monotonic_ns

    def advance(self, *, seconds: float) -> None:
        """Move both clocks forward."""
        step = round(seconds * 1e9)
        self._now_ns += step
        self._monotonic_ns += step

    def set_wall(self, now_ns: int) -> None:
        """Let the wall clock jump, as NTP or an operator may, without touching the monotonic one."""
        self._now_ns = now_ns
