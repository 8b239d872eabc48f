"""The life of one query: its deadline, whether it was cancelled, what it holds and what broke it.

Everything that works for a query uses it: the reader of its rows waits no longer than the deadline, scans check it
before every batch, and it keeps the first error of a scan, because DataFusion passes on only the text.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol, TypeVar

from tsdb.clock import Clock
from tsdb.errors import Cancelled, DeadlineExceeded, TsdbError
from tsdb.query.errors import execution_error
from tsdb.query.session import Statement
from tsdb.units import Duration

_NS_PER_SECOND = 1e9

T = TypeVar("T")


class Checkpoint(Protocol):
    """Called by the queries of a caller that cannot wait for long; it raises to abandon the query."""

    def __call__(self) -> None:
        """A query is about to begin its next step."""

    def before_long_step(self) -> None:
        """A step begins that cannot be interrupted and may take long, such as planning."""


_checkpoint: ContextVar[Checkpoint | None] = ContextVar("checkpoint", default=None)


def run_checked(checkpoint: Checkpoint, work: Callable[[], T]) -> T:
    """Run something whose queries call a checkpoint before their steps."""
    token = _checkpoint.set(checkpoint)
    try:
        return work()
    finally:
        _checkpoint.reset(token)


def before_long_step() -> None:
    """Call the checkpoint, if there is one, before a long step."""
    checkpoint = _checkpoint.get()
    if checkpoint is not None:
        checkpoint.before_long_step()


class QueryLife:
    """What the parts of a query share; safe to use from several threads."""

    def __init__(
        self,
        clock: Clock,
        timeout: Duration | None,
        statement: Statement | None = None,
    ) -> None:
        """`statement` is what the query runs for."""
        self._checkpoint = _checkpoint.get()
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
        """Raise if the query should not go on."""
        if self.is_cancelled:
            raise Cancelled("the query was cancelled")
        if self._checkpoint is not None:
            self._checkpoint()
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


@contextmanager
def executing(life: QueryLife) -> Iterator[None]:
    """Run a query in the calling thread: check it first, translate its errors, end it."""
    try:
        life.check()
        yield
    except TsdbError:
        raise
    except Exception as error:
        if life.is_cancelled:
            raise Cancelled("the query was cancelled") from error
        raise execution_error(error) from error
    finally:
        life.end()


def _nothing() -> None:
    """The query is in no process list."""
