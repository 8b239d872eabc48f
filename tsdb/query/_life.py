"""The life of one query: until when it may run, whether it is still wanted, what it holds and what broke it.

Everything that works for a query looks here: the reader of its rows waits no longer than the deadline, scans ask
before every batch, and the first error of a scan is kept because DataFusion hands on its text only.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from tsdb.clock import Clock
from tsdb.errors import Cancelled, DeadlineExceeded
from tsdb.units import Duration

_NS_PER_SECOND = 1e9


class QueryLife:
    """What the parts of a query share; safe to use from several threads."""

    def __init__(self, clock: Clock, timeout: Duration | None, hurry: Callable[[], None] | None = None) -> None:
        """`hurry` raises when whoever waits for the query cannot wait any longer."""
        self._hurry = hurry
        self.clock = clock
        self.timeout = timeout
        self._deadline_ns = None if timeout is None else clock.monotonic_ns() + timeout
        self._lock = threading.Lock()
        self._is_over = False
        self._releases: list[Callable[[], None]] = []
        self.is_cancelled = False
        self.failure: Exception | None = None
        self.scans: list[Any] = []
        """The datasets that were handed to DataFusion, for EXPLAIN ANALYZE."""

    def check(self) -> None:
        """Raise if the query should not go on."""
        if self.is_cancelled:
            raise Cancelled("the query was cancelled")
        if self._hurry is not None:
            self._hurry()
        if self._deadline_ns is not None and self.clock.monotonic_ns() >= self._deadline_ns:
            raise self.expired()

    def expired(self) -> DeadlineExceeded:
        allowed = "" if self.timeout is None else f" of {self.timeout}"
        return DeadlineExceeded(
            f"the query did not finish before its deadline{allowed}", hint="ask for less or allow more time"
        )

    def remaining_seconds(self) -> float | None:
        """Return how long it may still take, None without a deadline."""
        if self._deadline_ns is None:
            return None
        return max(0.0, (self._deadline_ns - self.clock.monotonic_ns()) / _NS_PER_SECOND)

    def fail(self, error: Exception) -> None:
        """Keep the first error of a scan."""
        with self._lock:
            self.failure = self.failure or error

    def on_end(self, release: Callable[[], None]) -> None:
        """Have something let go when the query is over; at once if it is."""
        with self._lock:
            if not self._is_over:
                self._releases.append(release)
                return
        release()

    def cancel(self) -> None:
        self.is_cancelled = True

    def end(self) -> None:
        """Let go of everything the query holds; any number of times."""
        with self._lock:
            self._is_over = True
            releases, self._releases = self._releases, []
        for release in releases:
            release()
