"""Requests to a remote store: limited in number, repeated with growing pauses, counted.

- A request that failed for a reason that may pass is repeated with a pause of random length, up to a number of attempts
  and for a limited time.
- A store that did not answer any attempt is regarded as down: until a request succeeds, each gets one attempt, so that
  callers learn of it at once and nobody queues up behind a store that is gone.
- The ledger knows whether the store is down or refuses, since when, and the last error.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from typing import TypeVar

from tsdb.clock import Clock
from tsdb.store._errors import ObjectExists, ObjectNotFound, StoreMisconfigured, StoreUnreachable
from tsdb.store._usage import Operation, RequestLedger, StoreState
from tsdb.store.remote._failures import Failure, explain
from tsdb.store.remote._operator import RemoteTuning
from tsdb.telemetry import get_logger

T = TypeVar("T")

_jitter = random.Random()
"""Of its own: threads in the background leave the generator of the module, and seeds of it, to the program."""

_MS_NS = 1_000_000

_log = get_logger("tsdb.store")


class _TooBusy(StoreUnreachable):
    """The service was not asked: there are too many requests already."""


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

    @property
    def is_down(self) -> bool:
        """Whether the last request was given up."""
        return self.ledger.condition.state is StoreState.DOWN

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
            self._count_failure(operation, failure, is_retry=number > 1)
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
        self.ledger.note_error(str(failure.error))
        try:
            raise failure.error from None
        finally:
            del failure

    def _is_over(self, failure: Failure, number: int, began_ns: int) -> bool:
        """Whether a request that failed is not repeated."""
        if not failure.is_temporary:
            self._note_answer(failure)
            return True
        elapsed_seconds = (self._clock.monotonic_ns() - began_ns) / 1e9
        is_late = elapsed_seconds >= self._tuning.retry_seconds_max
        if self.is_down or is_late or number >= self._tuning.attempts_max:
            self._give_up(failure)
            return True
        return False

    def _limited(self, attempt: Callable[[], T]) -> T:
        if not self._free.acquire(timeout=self._tuning.retry_seconds_max):
            raise RequestFailed(Failure(_TooBusy(f"too many requests to {self._place} are in progress"), False))
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

    def _count_failure(self, operation: Operation, failure: Failure, *, is_retry: bool) -> None:
        is_trouble = _is_trouble(failure)
        self.ledger.add(operation, is_error=is_trouble, is_retry=is_retry)
        if is_trouble:
            self.ledger.note_error(str(failure.error))

    def _give_up(self, failure: Failure) -> None:
        if self._enter(StoreState.DOWN, str(failure.error)):
            _log.warning("an object store does not answer", store=self.ledger.store, error=failure.error)

    def _note_answer(self, failure: Failure) -> None:
        """Note that the service answered, although not with success."""
        if isinstance(failure.error, StoreMisconfigured):
            if self._enter(StoreState.REFUSING, str(failure.error)):
                _log.warning("an object store refuses requests", store=self.ledger.store, error=failure.error)
        elif not isinstance(failure.error, _TooBusy):
            self._recover()

    def _recover(self) -> None:
        if self.ledger.condition.state is not StoreState.OK and self._enter(StoreState.OK):
            _log.info("an object store answers again", store=self.ledger.store)

    def _enter(self, state: StoreState, reason: str | None = None) -> bool:
        return self.ledger.enter(state, self._clock.now_ns() // _MS_NS, reason)


def _is_trouble(failure: Failure) -> bool:
    """Whether a failure is one of the service: that an object is there, or is not, is an answer."""
    return not isinstance(failure.error, ObjectExists | ObjectNotFound)
