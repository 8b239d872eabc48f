"""When a failed call to etcd is tried again: the other members at once, then with pauses, until the deadline."""

from __future__ import annotations

import random
from collections.abc import Callable

from tsdb.clock import Clock
from tsdb.kv._errors import KvClosed
from tsdb.kv.etcd._failures import EtcdFailure, FailureKind
from tsdb.kv.etcd._settings import EtcdTuning

_DOUBLINGS_MAX = 16
_jitter = random.Random()
"""Of its own: threads in the background leave the generator of the module, and seeds of it, to the program."""


def backoff_seconds(tuning: EtcdTuning, doublings: int) -> float:
    return min(tuning.backoff_max_seconds, tuning.backoff_min_seconds * float(2 ** min(doublings, _DOUBLINGS_MAX)))


class CallRetry:
    """The attempts of one operation, and its deadline."""

    def __init__(
        self,
        timeout_seconds: float,
        *,
        tuning: EtcdTuning,
        clock: Clock,
        members: int,
        wait_closed: Callable[[float], bool],
    ) -> None:
        """`wait_closed` waits until the client is closed, and returns whether it is."""
        self._tuning = tuning
        self._clock = clock
        self._deadline_ns = clock.monotonic_ns() + round(timeout_seconds * 1e9)
        self._members = members
        self._wait_closed = wait_closed
        self._failed = 0
        self._logins = 0

    def remaining_seconds(self) -> float:
        return max(0.0, (self._deadline_ns - self._clock.monotonic_ns()) / 1e9)

    def wait(self, failure: EtcdFailure) -> bool:
        """Wait as long as it makes sense before the next attempt; return False if there should be none."""
        if failure.kind is FailureKind.TOKEN:
            # A token that is refused right after the login is no matter of time.
            self._logins += 1
            return self._logins <= self._members + 1 and self.remaining_seconds() > 0
        if not failure.is_passing:
            return False
        self._failed += 1
        pause = self._pause_seconds()
        if pause >= self.remaining_seconds():
            return False
        if self._wait_closed(pause):
            raise KvClosed
        return True

    def _pause_seconds(self) -> float:
        """The other members are asked at once; when all have failed, there is a pause."""
        if self._failed % self._members:
            return 0.0
        return backoff_seconds(self._tuning, self._failed // self._members - 1) * _jitter.uniform(0.5, 1.0)
