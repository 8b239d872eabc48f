"""How much work runs on a datanode at a time: requests of readers take a slot while they compute."""

from __future__ import annotations

import threading
from collections.abc import Callable

from tsdb.clock import Clock
from tsdb.errors import Busy

_LOOK_SECONDS = 0.25
"""How often a request that waits looks whether its client is still there."""


class RequestSlots:
    """As many slots as there are threads for requests; first come, about first served."""

    def __init__(self, count: int, clock: Clock) -> None:
        self.count = count
        self._clock = clock
        self._free = threading.Semaphore(count)
        self._lock = threading.Lock()
        self.running = 0
        self.waiting = 0

    def acquire(self, deadline_ns: int, is_gone: Callable[[], bool]) -> None:
        """Take a slot; Busy if none is free before the deadline, or once the client is gone."""
        if not self._free.acquire(blocking=False):
            self._wait(deadline_ns, is_gone)
        with self._lock:
            self.running += 1

    def release(self) -> None:
        with self._lock:
            self.running -= 1
        self._free.release()

    def _wait(self, deadline_ns: int, is_gone: Callable[[], bool]) -> None:
        with self._lock:
            self.waiting += 1
        try:
            while True:
                left = (deadline_ns - self._clock.monotonic_ns()) / 1e9
                if left <= 0 or is_gone():
                    break
                if self._free.acquire(timeout=min(left, _LOOK_SECONDS)):
                    return
        finally:
            with self._lock:
                self.waiting -= 1
        raise Busy(
            f"the datanode was busy with {self.count} other requests until the deadline",
            hint="try again later, or raise rpc_runtime_size",
        )
