"""The life of one query: its deadline, whether it was cancelled, what it holds and what broke it.

Everything that works for a query uses it: the reader of its rows waits no longer than the deadline, scans check it
before every batch, and it keeps the first error of a scan, because DataFusion passes on only the text.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, TypeVar

from tsdb.clock import Clock
from tsdb.errors import Cancelled, QueryTimeout, TsdbError
from tsdb.query._checkpoint import current_checkpoint
from tsdb.query.errors import execution_error
from tsdb.query.session import Statement
from tsdb.telemetry import current_span
from tsdb.units import Duration

_NS_PER_SECOND = 1e9

T = TypeVar("T")


class QueryLife:
    """What the parts of a query share; safe to use from several threads."""

    def __init__(
        self,
        clock: Clock,
        timeout: Duration | None,
        statement: Statement | None = None,
        *,
        is_wanted: Callable[[], None] | None = None,
    ) -> None:
        """`statement` is what the query runs for. `is_wanted` raises when the query is to end for another reason."""
        self._checkpoint = current_checkpoint()
        self.span = current_span()
        """What scans on other threads belong to, if the query is traced."""
        self._is_wanted = is_wanted
        self._statement = statement
        self.clock = clock
        self.timeout = timeout
        self._deadline_ns = None if timeout is None else clock.monotonic_ns() + timeout
        self._lock = threading.Lock()
        self._is_over = False
        self._releases: list[Callable[[], None]] = []
        self._stops: list[Callable[[], None]] = []
        self.is_cancelled = False
        self.failure: Exception | None = None
        self.scans: list[Any] = []
        """The datasets that were handed to DataFusion, for EXPLAIN ANALYZE."""
        if statement is not None:
            statement.on_cancel(self.cancel)

    def check(self) -> None:
        """Raise if the query should not go on; it pauses here if others have precedence."""
        self._check_end()
        if self._checkpoint is not None:
            self._checkpoint(self._check_end)

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Wait for other threads or processes; others may run meanwhile."""
        if self._checkpoint is None:
            yield
            return
        self._checkpoint.begin_wait()
        yield
        self._checkpoint.end_wait(self._check_end)

    def wait_for(self, future: Future[T]) -> T:
        """Return the result of a future; TimeoutError at the deadline."""
        if future.done():
            return future.result()
        with self.waiting():
            return future.result(self.remaining_seconds())

    def _check_end(self) -> None:
        if self._is_wanted is not None:
            self._is_wanted()
        if self.is_cancelled:
            raise Cancelled("the query was cancelled")
        if self._deadline_ns is not None and self.clock.monotonic_ns() >= self._deadline_ns:
            raise self.expired()

    def expired(self) -> QueryTimeout:
        allowed = "" if self.timeout is None else f" of {self.timeout}"
        return QueryTimeout(
            f"the query did not finish before its deadline{allowed}", hint="reduce the query or allow more time"
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

    def on_cancel(self, stop: Callable[[], None]) -> None:
        """Have `stop` called when the query is cancelled; at once if it was."""
        with self._lock:
            self._stops.append(stop)
            is_late = self.is_cancelled
        if is_late:
            stop()

    def cancel(self) -> None:
        with self._lock:
            self.is_cancelled = True
            stops, self._stops = self._stops, []
        for stop in stops:
            stop()

    def hold(self) -> Callable[[], None]:
        """Keep the statement in the process list until the returned function is called."""
        return _nothing if self._statement is None else self._statement.hold()

    def end(self) -> None:
        """Let go of everything the query holds; any number of times."""
        with self._lock:
            self._is_over = True
            releases, self._releases = self._releases, []
            self._stops.clear()
        for release in releases:
            release()


class Executing:
    """Run a query in the calling thread: check it first, translate its errors, end it."""

    __slots__ = ("_life",)

    def __init__(self, life: QueryLife) -> None:
        self._life = life

    def __enter__(self) -> None:
        try:
            self._life.check()
        except BaseException:
            self._life.end()
            raise

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        life = self._life
        life.end()
        if error is None or isinstance(error, TsdbError) or not isinstance(error, Exception):
            return
        if life.is_cancelled:
            raise Cancelled("the query was cancelled") from error
        raise execution_error(error) from error


def _nothing() -> None:
    """The query is in no process list."""
