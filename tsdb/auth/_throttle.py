"""Failed logins are counted, and when there are too many, further ones are refused unseen.

There are two buckets of failures for every attempt: that of the address and the user, and the larger one of the address
alone, which also stops those who try many names. A failure takes one out of both; they fill again with time. The right
password is refused too while a bucket is empty: else guessing would go on. Both tables are bounded; the entries that
have been quiet for longest go first.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass

from tsdb.auth._errors import TooManyFailedLogins
from tsdb.clock import Clock, SystemClock
from tsdb.telemetry import gauge

PAIR_FAILURES_MAX = 20
"""How many logins of one user from one address may fail in a row."""
PAIR_REFILL_SECONDS = 3.0
"""After this time one more may."""
CLIENT_FAILURES_MAX = 200
"""How many logins from one address may fail in a row, whatever the user."""
CLIENT_REFILL_SECONDS = 0.3
ENTRIES_MAX = 10_000
"""How many pairs, and how many addresses, are remembered."""
USER_CHARS_MAX = 128
"""Of the name of a user, for the table: names come from outside."""

_TRACKED = gauge("tsdb_auth_failing_clients", "Pairs of address and user with recent failed logins; at most 10,000.")


@dataclass(slots=True)
class _Bucket:
    failures: float
    at_ns: int


class _Buckets:
    """Failures by key; each leaves after a while."""

    def __init__(self, failures_max: int, refill_seconds: float) -> None:
        self._failures_max = failures_max
        self._refill_ns = refill_seconds * 1e9
        self._buckets: OrderedDict[object, _Bucket] = OrderedDict()

    def __len__(self) -> int:
        return len(self._buckets)

    def wait_seconds(self, key: object, now_ns: int) -> float:
        """How long until one more attempt is allowed; 0 if it is now."""
        bucket = self._buckets.get(key)
        if bucket is None:
            return 0.0
        left = bucket.failures - (now_ns - bucket.at_ns) / self._refill_ns
        if left <= 0:
            del self._buckets[key]
            return 0.0
        return max(0.0, (left - self._failures_max + 1) * self._refill_ns / 1e9)

    def add(self, key: object, now_ns: int) -> None:
        bucket = self._buckets.get(key)
        if bucket is None:
            if len(self._buckets) >= ENTRIES_MAX:
                self._buckets.popitem(last=False)
            self._buckets[key] = _Bucket(1.0, now_ns)
            return
        bucket.failures = max(0.0, bucket.failures - (now_ns - bucket.at_ns) / self._refill_ns) + 1.0
        bucket.at_ns = now_ns
        self._buckets.move_to_end(key)

    def forget(self, key: object) -> None:
        self._buckets.pop(key, None)


class LoginThrottle:
    """Counts failed logins. Safe to use from many threads."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._pairs = _Buckets(PAIR_FAILURES_MAX, PAIR_REFILL_SECONDS)
        self._clients = _Buckets(CLIENT_FAILURES_MAX, CLIENT_REFILL_SECONDS)

    def __len__(self) -> int:
        return len(self._pairs)

    def check(self, client: str, user: str) -> None:
        """Raise TooManyFailedLogins if this attempt must wait."""
        if not self._clients and not self._pairs:
            return
        now_ns = self._clock.monotonic_ns()
        with self._lock:
            wait = max(
                self._pairs.wait_seconds(_pair(client, user), now_ns), self._clients.wait_seconds(client, now_ns)
            )
        if wait > 0:
            raise TooManyFailedLogins(retry_after_seconds=int(wait) + 1)

    def note_failure(self, client: str, user: str) -> None:
        now_ns = self._clock.monotonic_ns()
        with self._lock:
            self._pairs.add(_pair(client, user), now_ns)
            self._clients.add(client, now_ns)
            _TRACKED.set(len(self._pairs))

    def note_success(self, client: str, user: str) -> None:
        """Forget the failures of the pair; those of the address stay, it may be guessing at other users."""
        if not self._pairs:
            return
        with self._lock:
            self._pairs.forget(_pair(client, user))
            _TRACKED.set(len(self._pairs))


def _pair(client: str, user: str) -> tuple[str, str]:
    return client, user[:USER_CHARS_MAX]
