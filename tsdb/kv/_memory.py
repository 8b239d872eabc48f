"""Metadata in memory, gone with the process.

It keeps the whole contract of a shared store, for one process: `use_memory_store` of metasrv, and tests. Leases end by
the injected clock; keys of a lease that has ended are deleted by the next call of any method. It has no history: a
watch whose reader falls too far behind, or that begins at an earlier revision, starts over with a `WatchReset`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count

from tsdb.clock import Clock, SystemClock
from tsdb.kv._coordination import (
    KeyDeleted,
    KeyEvent,
    KeyPut,
    KvEntry,
    PutLeased,
    SharedOperation,
    WatchReset,
    last_of_each_key,
)
from tsdb.kv._errors import KvClosed, LeaseLost
from tsdb.kv._leases import KvLease
from tsdb.kv._memory_watch import MemoryKvWatch
from tsdb.kv._protocol import Compare, DeleteKey, check_size, holds


class _Held:
    """A lease as the store sees it."""

    def __init__(self, holder: KvLease, expires_ns: int) -> None:
        self.holder = holder
        self.expires_ns = expires_ns


class MemoryKv:
    """A dictionary behind a lock."""

    def __init__(self, clock: Clock | None = None, *, keeps_leases: bool = True) -> None:
        """With `keeps_leases` off, leases are not renewed by themselves: the test that has the clock does it."""
        self._clock: Clock = clock or SystemClock()
        self._keeps_leases = keeps_leases
        self._pairs: dict[str, KvEntry] = {}
        self._leases: dict[int, _Held] = {}
        self._lease_ids = count(1)
        self._watches: list[MemoryKvWatch] = []
        self._revision = 0
        self._lock = threading.Lock()
        self._is_closed = False

    def get(self, key: str) -> bytes | None:
        found = self.find(key)
        return None if found is None else found.value

    def revision(self, key: str) -> int:
        found = self.find(key)
        return 0 if found is None else found.revision

    def find(self, key: str) -> KvEntry | None:
        with self._opened():
            return self._pairs.get(key)

    def scan(self, prefix: str) -> list[tuple[str, bytes]]:
        return list(self.snapshot(prefix).pairs)

    def snapshot(self, prefix: str) -> WatchReset:
        with self._opened():
            return self._snapshot(prefix)

    def transact(self, compares: Sequence[Compare], operations: Sequence[SharedOperation]) -> bool:
        check_size(compares, operations)
        with self._opened():
            for each in compares:
                found = self._pairs.get(each.key)
                if not holds(each, None if found is None else (found.value, found.revision)):
                    return False
            counting = last_of_each_key(operations)
            self._check_leases(counting)
            self._apply(counting)
            return True

    def grant_lease(self, ttl_seconds: int, on_lost: Callable[[KvLease], None] | None = None) -> KvLease:
        with self._opened():
            now_ns = self._clock.monotonic_ns()
            lease = KvLease(
                next(self._lease_ids),
                ttl_seconds=ttl_seconds,
                granted_ns=now_ns,
                clock=self._clock,
                server=self,
                on_lost=on_lost,
            )
            self._leases[lease.id] = _Held(lease, now_ns + round(ttl_seconds * 1e9))
        if self._keeps_leases:
            lease.keep()
        return lease

    def renew_lease(self, lease_id: int, timeout_seconds: float) -> float | None:
        with self._opened():
            held = self._leases.get(lease_id)
            if held is None:
                return None
            held.expires_ns = self._clock.monotonic_ns() + round(held.holder.ttl_seconds * 1e9)
            return held.holder.ttl_seconds

    def revoke_lease(self, lease_id: int) -> None:
        with self._opened():
            self._end_lease(lease_id)

    def end_leases(self) -> None:
        """Delete the keys of leases whose time is over, as every other call does too."""
        with self._opened():
            pass

    def watch(self, prefix: str, *, after_revision: int | None = None) -> MemoryKvWatch:
        with self._opened():
            first = None if after_revision == self._revision else self._snapshot(prefix)
            watch = MemoryKvWatch(
                prefix, first, snapshot=self.snapshot, end_leases=self.end_leases, forget=self._forget
            )
            self._watches.append(watch)
            return watch

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            leases, watches = [held.holder for held in self._leases.values()], list(self._watches)
            self._leases.clear()
        for watch in watches:
            watch.close()
        for lease in leases:
            lease.abandon()

    @contextmanager
    def _opened(self) -> Iterator[None]:
        with self._lock:
            if self._is_closed:
                raise KvClosed
            self._end_leases()
            yield

    def _snapshot(self, prefix: str) -> WatchReset:
        found = [(key, entry.value) for key, entry in self._pairs.items() if key.startswith(prefix)]
        # Text sorts by code points, which is the order of its UTF-8 bytes.
        return WatchReset(self._revision, tuple(sorted(found)))

    def _check_leases(self, operations: Sequence[SharedOperation]) -> None:
        for each in operations:
            if isinstance(each, PutLeased) and each.lease_id not in self._leases:
                raise LeaseLost("the lease of a key has ended", key=each.key, lease=each.lease_id)

    def _apply(self, operations: Sequence[SharedOperation]) -> None:
        self._revision += 1
        events: list[KeyEvent] = []
        for each in operations:
            if isinstance(each, DeleteKey):
                if self._pairs.pop(each.key, None) is not None:
                    events.append(KeyDeleted(each.key, self._revision))
                continue
            lease_id = each.lease_id if isinstance(each, PutLeased) else 0
            self._pairs[each.key] = KvEntry(each.value, self._revision, lease_id)
            events.append(KeyPut(each.key, each.value, self._revision))
        for watch in self._watches:
            watch.offer(self._revision, events)

    def _end_leases(self) -> None:
        now_ns = self._clock.monotonic_ns()
        for lease_id in [lease_id for lease_id, held in self._leases.items() if held.expires_ns <= now_ns]:
            self._end_lease(lease_id)

    def _end_lease(self, lease_id: int) -> None:
        if self._leases.pop(lease_id, None) is not None:
            self._apply([DeleteKey(key) for key, entry in sorted(self._pairs.items()) if entry.lease_id == lease_id])

    def _forget(self, watch: MemoryKvWatch) -> None:
        with self._lock:
            self._watches = [each for each in self._watches if each is not watch]
