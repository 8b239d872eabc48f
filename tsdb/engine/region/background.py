"""Background jobs: a few threads, flushes first, one thread that does nothing but flush.

Compactions come last and take long: with more than two threads one is always left for everything else, and no more
than half of the cores compact at a time. Those that were requested may take all threads but the one for flushes.
"""

from __future__ import annotations

import heapq
import math
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from enum import IntEnum
from typing import Any

from tsdb.engine.errors import StorageUnavailable
from tsdb.telemetry import get_logger

_log = get_logger("tsdb.background")


class Priority(IntEnum):
    """What goes first."""

    FLUSH = 0
    SORT = 1
    DELETE = 2
    REQUESTED = 3
    """Compactions and verifications that a statement waits for."""
    COMPACT = 4


_Job = tuple[int, int, Callable[[], Any], "Future[Any]"]


class Background:
    """Runs jobs on `jobs_max` threads. With more than one, the first is reserved for flushes."""

    def __init__(self, jobs_max: int) -> None:
        self._submitted = 0
        lock = threading.Lock()
        self._changed = threading.Condition(lock)
        """What the threads wait for. A job wakes one of them: all of them would delay the thread that submits."""
        self._flush_came = threading.Condition(lock)
        """What the thread for flushes waits for."""
        self._jobs: list[_Job] = []
        self._is_closing = False
        self._is_stopping = False
        self._running = 0
        self._compacting = 0
        self._compactions_max: dict[int, int] = {
            Priority.COMPACT: max(1, min(jobs_max - 2, (os.cpu_count() or 1) // 2)),
            Priority.REQUESTED: max(1, jobs_max - 1),
        }
        self._threads = [
            threading.Thread(
                target=self._run, args=(jobs_max > 1 and number == 0,), name=f"tsdb-background-{number}", daemon=True
            )
            for number in range(jobs_max)
        ]
        for thread in self._threads:
            thread.start()

    @property
    def running(self) -> int:
        """How many jobs are running now."""
        return self._running

    @property
    def queued(self) -> int:
        """How many jobs wait for a thread."""
        return len(self._jobs)

    @property
    def submitted(self) -> int:
        """How many jobs were ever queued."""
        return self._submitted

    @property
    def has_one_thread(self) -> bool:
        return len(self._threads) == 1

    @property
    def is_stopping(self) -> bool:
        """Whether nothing that takes long should go on."""
        return self._is_stopping or self._is_closing

    def stop_compactions(self) -> None:
        """Let compactions end soon: running ones check `is_stopping`, waiting ones do not begin."""
        with self._changed:
            self._is_stopping = True
            refused = [job for job in self._jobs if job[0] in self._compactions_max]
            self._jobs = [job for job in self._jobs if job[0] not in self._compactions_max]
            heapq.heapify(self._jobs)
        for _, _, _, future in refused:
            future.set_exception(StorageUnavailable("the engine is closed"))

    @property
    def has_flush_waiting(self) -> bool:
        """Whether a flush waits for a thread."""
        jobs = self._jobs
        return bool(jobs) and jobs[0][0] == Priority.FLUSH

    @property
    def compactions_queued(self) -> int:
        """How many compactions wait for a thread."""
        return sum(job[0] in self._compactions_max for job in list(self._jobs))

    @property
    def jobs_max(self) -> int:
        """How many jobs can run at a time."""
        return len(self._threads)

    def submit(self, priority: Priority, job: Callable[[], Any]) -> Future[Any]:
        """Queue a job; after `close` it is refused."""
        future: Future[Any] = Future()
        future.set_running_or_notify_cancel()
        with self._changed:
            if self._is_closing or (self._is_stopping and priority in self._compactions_max):
                future.set_exception(StorageUnavailable("the engine is closed"))
            else:
                heapq.heappush(self._jobs, (priority, self._submitted, job, future))
                self._submitted += 1
                self._changed.notify()
                if priority == Priority.FLUSH:
                    self._flush_came.notify()
        return future

    def close(self, timeout_seconds: float | None = None) -> bool:
        """Run what is queued and stop; after a while give up what has not begun, and return whether all was done."""
        with self._changed:
            self._is_closing = True
            self._changed.notify_all()
            self._flush_came.notify_all()
        deadline = None if timeout_seconds is None else time.monotonic() + timeout_seconds
        for thread in self._threads:
            thread.join(None if deadline is None else max(0.0, deadline - time.monotonic()))
        with self._changed:
            given_up, self._jobs = self._jobs, []
        for _, _, _, future in given_up:
            future.set_exception(StorageUnavailable("the engine is closed"))
        return not any(thread.is_alive() for thread in self._threads)

    def _take(self, *, only_flushes: bool) -> _Job | None:
        """Wait for the next job; None when there will be none any more."""

        def is_mine() -> bool:
            if not self._jobs:
                return False
            priority = self._jobs[0][0]
            if self._compacting >= self._compactions_max.get(priority, math.inf):
                return False
            return not only_flushes or priority == Priority.FLUSH

        changed = self._flush_came if only_flushes else self._changed
        with changed:
            changed.wait_for(lambda: is_mine() or self._is_closing)
            if not is_mine():
                return None
            self._running += 1
            taken = heapq.heappop(self._jobs)
            self._compacting += taken[0] in self._compactions_max
            return taken

    def _run(self, only_flushes: bool) -> None:
        while (taken := self._take(only_flushes=only_flushes)) is not None:
            priority, _, job, future = taken
            try:
                future.set_result(job())
            except BaseException as error:  # noqa: BLE001 - handed to the waiter; the thread lives on
                future.set_exception(error)
                _log.debug("a background job failed", error=error)
            # A thread that waits must not keep alive what its last job knew: unreferenced files are deleted.
            del taken, job, future
            with self._changed:
                self._running -= 1
                if priority in self._compactions_max:
                    self._compacting -= 1
                    self._changed.notify_all()
