"""Threads that plan large queries, and the count of work that goes on after its query was cancelled.

DataFusion cannot be interrupted while it plans, nor between two batches of rows. A query that has reached
its deadline or was killed may therefore keep a thread busy for a while. `Unfinished` counts such
work: it stays in the process list until it ends, and above `UNFINISHED_MAX` no further query that could end like that
is admitted. `Planning` plans large queries on threads of its own, so that the caller can stop waiting. Small queries
are planned in the calling thread: planning them takes milliseconds.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError, ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar

from tsdb.errors import Busy, Cancelled
from tsdb.query.lifetime._life import QueryLife

T = TypeVar("T")

UNFINISHED_MAX = 8
"""How many cancelled queries may still be running when another large one begins."""

PLANNING_THREADS_MAX = 32
"""How many large queries are planned at the same time; further ones wait until their deadline."""


class QueriesBusy(Busy):
    """Cancelled queries still hold what another query would need."""


class Unfinished:
    """The work of cancelled queries that has not ended yet."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0

    @property
    def count(self) -> int:
        return self._count

    def check(self) -> None:
        """Raise QueriesBusy if too many are unfinished."""
        if self._count >= UNFINISHED_MAX:
            raise QueriesBusy(
                f"{self._count} cancelled queries have not stopped yet",
                hint="try again later, SHOW PROCESSLIST lists them",
            )

    def add(self, life: QueryLife) -> Callable[[], None]:
        """Count work that goes on after its query was cancelled, until the returned function is called."""
        release = life.hold()
        with self._lock:
            self._count += 1

        def end() -> None:
            with self._lock:
                self._count -= 1
            release()

        return end


class Planning:
    """The threads that plan large queries."""

    def __init__(self, unfinished: Unfinished) -> None:
        self._unfinished = unfinished
        self._pool = ThreadPoolExecutor(PLANNING_THREADS_MAX, thread_name_prefix="query-planner")

    def run(self, life: QueryLife, work: Callable[[], T], discard: Callable[[T], None]) -> T:
        """Return what `work` does, or raise at the deadline or when the query is cancelled.

        Abandoned work runs to its end, and `discard` gets its result.
        """
        self._unfinished.check()
        answer: Future[T] = Future()
        started = self._pool.submit(work)
        started.add_done_callback(lambda done: _hand_over(done, answer, discard))

        def cancel() -> None:
            _give_up(answer, life.failure or Cancelled("the query was cancelled"))

        life.on_cancel(cancel)
        try:
            return life.wait_for(answer)
        except TimeoutError:
            if not _give_up(answer, life.expired()):
                return answer.result()
            raise life.expired() from None
        finally:
            life.end()
            if not started.cancel() and not started.done():
                end = self._unfinished.add(life)
                started.add_done_callback(lambda _: end())

    def close(self) -> None:
        """Let the threads end; planning that goes on is not waited for."""
        self._pool.shutdown(wait=False, cancel_futures=True)


def _hand_over(done: Future[T], answer: Future[T], discard: Callable[[T], None]) -> None:
    """Give the outcome to the waiting caller; discard it if there is none."""
    if done.cancelled():
        return
    try:
        error = done.exception()
        if error is not None:
            answer.set_exception(error)
        else:
            answer.set_result(done.result())
    except InvalidStateError:
        if done.exception() is None:
            discard(done.result())


def _give_up(answer: Future[T], error: Exception) -> bool:
    with suppress(InvalidStateError):
        answer.set_exception(error)
        return True
    return False
