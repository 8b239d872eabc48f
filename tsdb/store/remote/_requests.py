"""Requests to a remote store: limited in number, repeated with growing pauses, counted.

- A request that failed for a reason that may pass is repeated with a pause of random length, up to a number of attempts
  and for a limited time.
- A store that did not answer any attempt is regarded as down: until a request succeeds, each gets one attempt, so that
  callers learn of it at once and nobody queues up behind a store that is gone.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from typing import TypeVar

from tsdb.clock import Clock
from tsdb.store._errors import ObjectExists, ObjectNotFound, StoreUnreachable
from tsdb.store._usage import Operation, RequestLedger
from tsdb.store.remote._failures import Failure, explain
from tsdb.store.remote._operator import RemoteTuning
from tsdb.telemetry import get_logger

T = TypeVar("T")

_jitter = random.Random()
"""Of its own: threads in the background leave the generator of the module, and seeds of it, to the program."""

_log = get_logger("tsdb.store")


class RequestFailed(Exception):
    """An attempt failed for a reason that is known already."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(str(failure.error))
        self.failure = failure


class Requests:
    """The requests to one store. Thread-safe."""

    def __init__(
        self,
        ledger: RequestLedger,
        place: str,
        *,
        tuning: RemoteTuning,
        clock: Clock,
        wait: Callable[[float], object] | None = None,
    ) -> None:
        """`wait` sleeps for some seconds."""
        self.ledger = ledger
        self._place = place
        self._tuning = tuning
        self._clock = clock
        self._wait = wait or threading.Event().wait
        self._free = threading.BoundedSemaphore(tuning.requests_max)
        self._is_down = False

    @property
    def is_down(self) -> bool:
        """Whether the last request was given up."""
        return self._is_down

    def run(
        self,
        operation: Operation,
        action: str,
        path: str,
        attempt: Callable[[int], T],
        *,
        size: Callable[[T], int] = lambda _: 0,
    ) -> T:
        """Return what `attempt` returns, which gets the number of the attempt; StoreError if none succeeds."""
        began_ns = self._clock.monotonic_ns()
        number = 1
        while True:
            try:
                value = self._limited(lambda: attempt(number))  # noqa: B023 - called at once
            except Exception as error:  # noqa: BLE001 - opendal's errors have no common base worth naming
                failure = self._failure(error, action, path)
            else:
                self.ledger.add(operation, is_retry=number > 1, nbytes=size(value))
                self._recover()
                return value
            self.ledger.add(operation, is_error=_is_trouble(failure), is_retry=number > 1)
            if not self._is_over(failure, number, began_ns):
                self._wait(self._pause(number))
                number += 1
                continue
            try:
                raise failure.error from None
            finally:
                # An error that its own frame refers to would keep all frames alive, and the files that they know.
                del failure

    def once(self, operation: Operation, action: str, path: str, attempt: Callable[[], T], *, nbytes: int = 0) -> T:
        """Make a request that is not repeated here."""
        try:
            value = self._limited(attempt)
        except Exception as error:  # noqa: BLE001 - as above
            failure = self._failure(error, action, path)
        else:
            self.ledger.add(operation, nbytes=nbytes)
            return value
        self.ledger.add(operation, is_error=True)
        try:
            raise failure.error from None
        finally:
            del failure

    def _is_over(self, failure: Failure, number: int, began_ns: int) -> bool:
        """Whether a request that failed is not repeated."""
        if not failure.is_temporary:
            self._recover()
            return True
        elapsed_seconds = (self._clock.monotonic_ns() - began_ns) / 1e9
        is_late = elapsed_seconds >= self._tuning.retry_seconds_max
        if self._is_down or is_late or number >= self._tuning.attempts_max:
            self._give_up(failure)
            return True
        return False

    def _limited(self, attempt: Callable[[], T]) -> T:
        if not self._free.acquire(timeout=self._tuning.retry_seconds_max):
            busy = StoreUnreachable(f"too many requests to {self._place} are in progress")
            raise RequestFailed(Failure(busy, is_temporary=False))
        try:
            return attempt()
        finally:
            self._free.release()

    def _failure(self, error: Exception, action: str, path: str) -> Failure:
        failure = self._explained(error, action, path)
        if isinstance(failure.error, StoreUnreachable):
            failure.error.store = self.ledger.store
        return failure

    def _explained(self, error: Exception, action: str, path: str) -> Failure:
        if isinstance(error, RequestFailed):
            return error.failure
        # Uploads in parts are files of opendal, whose errors are those of files.
        if not isinstance(error, OSError) and not type(error).__module__.startswith("opendal"):
            raise error
        return explain(error, action=action, path=path, place=self._place)

    def _pause(self, number: int) -> float:
        """Return a random pause: many that failed together must not come back together."""
        longest = min(self._tuning.delay_max_seconds, self._tuning.delay_min_seconds * 2.0**number)
        return _jitter.uniform(self._tuning.delay_min_seconds, longest)

    def _give_up(self, failure: Failure) -> None:
        if not self._is_down:
            _log.warning("an object store does not answer", store=self.ledger.store, error=failure.error)
        self._is_down = True

    def _recover(self) -> None:
        if self._is_down:
            _log.info("an object store answers again", store=self.ledger.store)
        self._is_down = False


def _is_trouble(failure: Failure) -> bool:
    """Whether a failure is one of the service: that an object is there, or is not, is an answer."""
    return not isinstance(failure.error, ObjectExists | ObjectNotFound)
