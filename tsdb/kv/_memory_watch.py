"""A watch of a store in memory: changes wait in a bounded queue for their reader."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence

from tsdb.kv._coordination import KeyEvent, WatchChanges, WatchReset
from tsdb.kv._errors import KvClosed

BACKLOG_MAX = 1024
"""How many changes may wait for a reader; with more, it gets the complete state again."""
_EXPIRY_CHECK_SECONDS = 0.1


class MemoryKvWatch:
    """What happened to the keys with a prefix and was not read yet.

    `offer` is called with the lock of the store held, and takes its own: nothing that holds the watch's lock may call
    the store. Leases end when the store is used (`end_leases`), also a store that is only watched.
    """

    def __init__(
        self,
        prefix: str,
        first: WatchReset | None,
        *,
        snapshot: Callable[[str], WatchReset],
        end_leases: Callable[[], None],
        forget: Callable[[MemoryKvWatch], None],
    ) -> None:
        self.problem: str | None = None
        self._prefix = prefix
        self._waiting: deque[WatchReset | WatchChanges] = deque([] if first is None else [first])
        self._has_gap = False
        self._is_closed = False
        self._snapshot = snapshot
        self._end_leases = end_leases
        self._forget = forget
        self._changed = threading.Condition()

    def offer(self, revision: int, events: Sequence[KeyEvent]) -> None:
        mine = tuple(event for event in events if event.key.startswith(self._prefix))
        if not mine:
            return
        with self._changed:
            if self._has_gap or len(self._waiting) >= BACKLOG_MAX:
                self._waiting.clear()
                self._has_gap = True
            else:
                self._waiting.append(WatchChanges(revision, mine))
            self._changed.notify()

    def wait(self, timeout_seconds: float) -> WatchReset | WatchChanges | None:
        deadline = time.monotonic() + timeout_seconds
        while True:
            found = self._take(min(_EXPIRY_CHECK_SECONDS, deadline - time.monotonic()))
            if found is not None or time.monotonic() >= deadline:
                return found
            self._end_leases()

    def close(self) -> None:
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        self._forget(self)

    def _take(self, timeout_seconds: float) -> WatchReset | WatchChanges | None:
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._has_gap or self._is_closed, max(0.0, timeout_seconds))
            if self._is_closed:
                raise KvClosed
            if not self._has_gap:
                return self._waiting.popleft() if self._waiting else None
            # From here on changes queue again; those up to the snapshot are in it as well, and left out below.
            self._has_gap = False
        found = self._snapshot(self._prefix)
        with self._changed:
            while self._waiting and self._waiting[0].revision <= found.revision:
                self._waiting.popleft()
        return found
