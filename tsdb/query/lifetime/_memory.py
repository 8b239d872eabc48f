"""The last line against queries that take memory nobody counts.

DataFusion counts the memory of its operators. What expressions make, and what planning takes, is in no budget. While
large queries run, a thread reads the resident memory of the process several times a second. If it has grown since the
start of a query by more than queries may take, the query is failed, and none is admitted until its work has ended.
"""

from __future__ import annotations

import threading
import time

from tsdb.processes.resident import resident_bytes
from tsdb.query.errors import OutOfMemory
from tsdb.query.lifetime._life import QueryLife
from tsdb.query.lifetime._planning_threads import QueriesBusy, Unfinished

INTERVAL_SECONDS = 0.05
"""How often resident memory is read while large queries run."""


class MemoryWatch:
    """Fails queries since whose start resident memory has grown too much."""

    def __init__(self, growth_bytes_max: int, unfinished: Unfinished) -> None:
        """0 for the bound switches it off."""
        self.is_short = False
        """Whether the server is short of memory: no large query begins."""
        self._growth_bytes_max = growth_bytes_max
        self._unfinished = unfinished
        self._lock = threading.Lock()
        self._watched: dict[QueryLife, int] = {}
        self._is_running = False
        self._calm_bytes = 0
        """What was resident when the first of the queries that run began."""

    def admit(self) -> None:
        """Raise QueriesBusy while the server is short of memory."""
        if self.is_short:
            raise QueriesBusy(
                "the server is at its memory limit and begins no large query",
                hint="try again later; information_schema.memory_usage shows what holds the memory",
            )

    def check(self) -> None:
        """Raise QueriesBusy while memory is taken by queries that have failed and not ended."""
        if not self._growth_bytes_max or not self._unfinished.count:
            return
        if resident_bytes() - self._calm_bytes > self._growth_bytes_max:
            raise QueriesBusy(
                "cancelled queries have not returned their memory yet",
                hint="try again later, SHOW PROCESSLIST lists them",
            )

    def watch(self, life: QueryLife) -> None:
        """Watch until the query ends."""
        if not self._growth_bytes_max:
            return
        now_bytes = resident_bytes()
        with self._lock:
            if not self._watched and not self._unfinished.count:
                self._calm_bytes = now_bytes
            self._watched[life] = now_bytes
            if not self._is_running:
                self._is_running = True
                threading.Thread(target=self._run, name="query-memory", daemon=True).start()
        life.on_end(lambda: self._forget(life))

    def _forget(self, life: QueryLife) -> None:
        with self._lock:
            self._watched.pop(life, None)

    def _run(self) -> None:
        while True:
            time.sleep(INTERVAL_SECONDS)
            now_bytes = resident_bytes()
            with self._lock:
                if not self._watched:
                    self._is_running = False
                    return
                over = [life for life, start in self._watched.items() if now_bytes - start > self._growth_bytes_max]
            for life in over:
                life.fail(
                    OutOfMemory(
                        "the query was stopped: the memory of the server grew by more than "
                        f"{self._growth_bytes_max >> 20} MiB while it ran",
                        hint="reduce the query, or use shorter strings and lists",
                    )
                )
                life.cancel()
