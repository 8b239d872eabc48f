"""Tables that a datanode restores for frontends: it has the storages, and reaches the cluster as they do.

    restore ─▶ restore_state … restore_state ─▶ its end

One at a time. The frontend asks how far it is; if it is not heard of for `LEASE_SECONDS`, the restore is cancelled.
What is half restored is dropped, as after every failure.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tsdb.backup.cluster._wire import read_id, read_text, read_texts
from tsdb.errors import Busy, Cancelled, InvalidArguments, TsdbError
from tsdb.ids import SYSTEM_IDS, Ids
from tsdb.telemetry import get_logger

LEASE_SECONDS = 60.0
CLOSE_SECONDS_MAX = 30.0
"""How long a datanode that stops waits for a restore to notice it."""
REMEMBERED_MAX = 16
_ID_BYTES = 8
_LOOK_SECONDS = 0.5

_log = get_logger("tsdb.backup")


class TableRestore:
    """One table that is being restored. Thread-safe."""

    def __init__(self, job_id: str) -> None:
        self.id = job_id
        self.rows = 0
        self.error: TsdbError | None = None
        self.heard = time.monotonic()
        self.ended = threading.Event()
        self._lock = threading.Lock()
        self._is_cancelled = False
        self._stop: Callable[[], None] | None = None

    def on_cancel(self, stop: Callable[[], None]) -> None:
        """Let `stop` end what is running, at once if that is not wanted any more."""
        with self._lock:
            self._stop = stop
            is_late = self._is_cancelled
        if is_late:
            stop()

    def cancel(self) -> None:
        with self._lock:
            self._is_cancelled = True
            stop = self._stop
        if stop is not None:
            stop()

    def describe(self) -> dict[str, Any]:
        return {"is_ended": self.ended.is_set(), "rows": self.rows, "error": self.error}


RestoreTable = Callable[[Sequence[str], str, TableRestore], int]
"""Restore a table, by the arguments of the statement and the database of the session; return how many rows it has."""


class TableRestores:
    """The restores of one datanode. Thread-safe."""

    def __init__(self, restore: RestoreTable, *, ids: Ids = SYSTEM_IDS, lease_seconds: float = LEASE_SECONDS) -> None:
        self._restore = restore
        self._ids = ids
        self._lease_seconds = lease_seconds
        self._lock = threading.Lock()
        self._jobs: OrderedDict[str, TableRestore] = OrderedDict()
        self._running: TableRestore | None = None
        self._is_closed = False

    def answer(self, step: str, request: Mapping[str, Any]) -> dict[str, Any]:
        """Do a step; InvalidArguments if there is none of this name."""
        if step == "restore":
            arguments, database = read_texts(request, "arguments"), read_text(request, "database")
            return {"id": self._start(arguments, database).id}
        job = self._find(read_id(request, "id"))
        job.heard = time.monotonic()
        if step == "restore_cancel":
            job.cancel()
        elif step != "restore_state":
            raise InvalidArguments(f"a restore has no step {step!r}")
        return job.describe()

    def close(self) -> None:
        """Cancel what runs, and take no more."""
        with self._lock:
            self._is_closed = True
            running = self._running
        if running is not None:
            running.cancel()
            running.ended.wait(CLOSE_SECONDS_MAX)

    def _start(self, arguments: Sequence[str], database: str) -> TableRestore:
        with self._lock:
            if self._is_closed:
                raise Cancelled("the datanode is stopping")
            if self._running is not None:
                raise Busy("this datanode restores a table already", hint="try again when that is done")
            job = self._running = TableRestore(self._ids.token(_ID_BYTES))
            self._jobs[job.id] = job
            while len(self._jobs) > REMEMBERED_MAX:
                self._jobs.popitem(last=False)
        threading.Thread(target=self._run, args=(job, arguments, database), name="tsdb-restore", daemon=True).start()
        threading.Thread(target=self._watch, args=(job,), name="tsdb-restore-watch", daemon=True).start()
        return job

    def _run(self, job: TableRestore, arguments: Sequence[str], database: str) -> None:
        try:
            job.rows = self._restore(arguments, database, job)
        except TsdbError as error:
            job.error = error
        except Exception as error:  # noqa: BLE001 - those who wait for the job have to hear of it
            _log.exception("restoring a table failed unexpectedly")
            job.error = TsdbError(f"restoring the table failed unexpectedly: {error!r}")
        finally:
            with self._lock:
                self._running = None
            job.ended.set()

    def _watch(self, job: TableRestore) -> None:
        """Cancel a job that is no longer polled."""
        while not job.ended.wait(min(_LOOK_SECONDS, self._lease_seconds / 4)):
            if time.monotonic() - job.heard > self._lease_seconds:
                _log.warning("the restore of a table is no longer polled; it is cancelled", id=job.id)
                job.cancel()
                return

    def _find(self, job_id: str) -> TableRestore:
        with self._lock:
            job = self._jobs.get(job_id)
        if job is None:
            raise InvalidArguments(f"there is no restore with the id {job_id!r}", hint="ids are lost with a restart")
        return job
