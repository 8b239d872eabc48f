"""The write buffer of all regions together: when to flush, when writers wait, when they are refused.

    used < flush level                 write
    active >= size / 2, or used >= size   flush the largest regions
    used >= size                       writers wait, with a deadline, for a flush to free memory
    used + waiting >= reject size      writers are refused

`used` counts memtables that are written to (active) and those that wait for their flush to end. Keys of series that
memtables hand on to their successors (`kept`) are part of it; no flush frees them, so they get a quarter at most. While
the server is short of memory the size is smaller (`limit_to`): writers wait sooner, but are not refused sooner.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from tsdb.units import Size

KEPT_SHARE = 4
"""One part in so many of the buffer may hold what flushes do not free."""


class WriteBuffer:
    """Counts bytes; decides nothing but thresholds. Thread-safe."""

    def __init__(self, *, size: Size, reject_size: Size) -> None:
        self._full_size = size
        self.size = size
        self.reject_size = reject_size
        self._lock = threading.Lock()
        self._used = 0
        self._frozen = 0
        self._waiting = 0
        self._kept = 0
        self._on_release: list[Callable[[], None]] = []

    @property
    def used(self) -> int:
        return self._used

    @property
    def waiting(self) -> int:
        """Bytes of writes that wait for memory."""
        return self._waiting

    @property
    def kept(self) -> int:
        """Bytes that flushes do not free."""
        return self._kept

    @property
    def room_to_keep(self) -> int:
        """How many more bytes may outlive flushes."""
        return max(0, self.size // KEPT_SHARE - self._kept)

    @property
    def should_flush(self) -> bool:
        return self._used - self._frozen >= self.size // 2 or self._used >= self.size

    def should_stall(self, ahead: int = 0) -> bool:
        """Tell whether a write has to wait; `ahead` are bytes of writes that go first and are not counted yet."""
        return self._used + ahead >= self.size

    def should_reject(self, more: int, ahead: int = 0) -> bool:
        """Tell whether a write of this many bytes is too much; alone, it never is."""
        before = self._used + self._waiting + ahead
        return before > 0 and before + more > self.reject_size

    def limit_to(self, share: float) -> None:
        """Use at most this part of the size from now on."""
        self.size = Size(int(self._full_size * share))
        self.wake()

    def on_release(self, wake: Callable[[], None]) -> None:
        """Call this whenever memory is given back."""
        self._on_release.append(wake)

    def charge(self, delta: int) -> None:
        """Count bytes of a memtable, more or less than before."""
        with self._lock:
            self._used += delta

    def keep(self, delta: int) -> None:
        """Count bytes that flushes do not free, more or less than before; they are charged as well."""
        with self._lock:
            self._kept += delta

    def wait(self, delta: int) -> None:
        """Count bytes of writes that begin, or stop, to wait."""
        with self._lock:
            self._waiting += delta

    def freeze(self, nbytes: int) -> None:
        """A memtable of this size takes no more writes and will be flushed."""
        with self._lock:
            self._frozen += nbytes

    def release(self, frozen: int) -> None:
        """A memtable that was frozen at this size is gone; its bytes were taken back by `charge`."""
        with self._lock:
            self._frozen -= frozen
        self.wake()

    def wake(self) -> None:
        """Let waiting writers check again: after a flush, also after one that failed."""
        for wake in self._on_release:
            wake()
