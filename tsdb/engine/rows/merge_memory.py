"""The memory of merges in the background: flushes take what they need, compactions wait for what is left.

A flush frees more memory than it takes and must never wait. Compactions can: one of them always runs, however small the
budget is, others only beside what is taken already.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_LOOK_SECONDS = 0.5


class MergeMemory:
    """Counts bytes that merges hold. Thread-safe."""

    def __init__(self, bytes_max: int) -> None:
        self._full_bytes = bytes_max
        self.bytes_max = bytes_max
        self._changed = threading.Condition()
        self._used = 0
        self._compactions = 0

    @property
    def used(self) -> int:
        return self._used

    def limit_to(self, share: float) -> None:
        """Use at most this part of the budget from now on; what is taken already is not taken away."""
        with self._changed:
            self.bytes_max = int(self._full_bytes * share)
            self._changed.notify_all()

    @contextmanager
    def flushing(self, nbytes: int) -> Iterator[None]:
        """Take memory at once."""
        self._take(nbytes, compactions=0)
        try:
            yield
        finally:
            self._take(-nbytes, compactions=0)

    @contextmanager
    def compacting(self, nbytes: int, check: Callable[[], None]) -> Iterator[None]:
        """Take memory when there is enough, or when no other compaction has any; `check` ends the wait by raising."""
        with self._changed:
            while self._compactions and self._used + nbytes > self.bytes_max:
                check()
                self._changed.wait(_LOOK_SECONDS)
            self._used += nbytes
            self._compactions += 1
        try:
            yield
        finally:
            self._take(-nbytes, compactions=-1)

    def _take(self, nbytes: int, *, compactions: int) -> None:
        with self._changed:
            self._used += nbytes
            self._compactions += compactions
            self._changed.notify_all()
