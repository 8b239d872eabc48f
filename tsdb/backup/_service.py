"""Backups of a running server: one at a time, on a thread of its own, watched and cancelled by its id."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from tsdb.backup._destination import DestinationPlaces
from tsdb.backup._format import BackupSummary
from tsdb.backup._point import plan_own_point
from tsdb.backup._progress import BackupProgress
from tsdb.backup._repository import Repository
from tsdb.backup._restore import RestoreTarget, restore_backup
from tsdb.backup._source import BackupSource
from tsdb.backup._take import take_backup
from tsdb.clock import Clock, SystemClock
from tsdb.errors import Busy, Cancelled, InvalidArguments, TsdbError
from tsdb.ids import SYSTEM_IDS, Ids
from tsdb.kv import METADATA_FILE
from tsdb.store import LocalStore, ObjectStore, RoutedStore, is_routed
from tsdb.telemetry import counter, gauge, get_logger

RUNS = counter("tsdb_backups_total", "Backups that ended: done, failed or cancelled.", labels=("result",))
COPIED_FILES = counter("tsdb_backup_copied_files_total", "Files copied to destinations of backups.")
COPIED_BYTES = counter("tsdb_backup_copied_bytes_total", "Bytes of files copied to destinations of backups.")
LAST_SUCCESS = gauge(
    "tsdb_backup_last_success_seconds",
    "Start of the last completed backup, in seconds since 1970; 0 if there was none.",
)

_log = get_logger("tsdb.backup")

JOBS_MAX = 64
"""Of how many backups the state is remembered."""
CLOSE_SECONDS_MAX = 30.0
"""How long a server that stops waits for a backup to notice it."""
_ID_BYTES = 8
_STORAGES = "storages"


class BackupState(StrEnum):
    """What became of a backup."""

    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(slots=True, eq=False)
class BackupJob:
    """One backup."""

    id: str
    place: str
    progress: BackupProgress = field(default_factory=BackupProgress)
    state: BackupState = BackupState.RUNNING
    summary: BackupSummary | None = None
    error: TsdbError | None = None
    _ended: threading.Event = field(default_factory=threading.Event)

    def end(self, state: BackupState) -> None:
        self.state = state
        self._ended.set()

    def wait(self, seconds: float) -> bool:
        """Wait for the end; False if it has not come within this time."""
        return self._ended.wait(seconds)

    def cancel(self) -> None:
        """End it at its next step."""
        self.progress.cancel()

    def describe(self) -> dict[str, Any]:
        """Return how far it has come, for clients."""
        progress, summary = self.progress, self.summary
        return {
            "id": self.id,
            "state": self.state.value,
            "phase": progress.phase,
            "place": self.place,
            "name": None if summary is None else summary.name,
            "files_total": progress.files_total,
            "files_done": progress.files_done,
            "files_copied": progress.files_copied,
            "bytes_total": progress.bytes_total,
            "bytes_done": progress.bytes_done,
            "bytes_copied": progress.bytes_copied,
            "rows": None if summary is None else summary.rows,
            "tables": None if summary is None else summary.tables,
            "damaged": [] if summary is None else list(summary.damaged),
            "error": None if self.error is None else str(self.error),
        }


class BackupService:
    """The backups of one server. Thread-safe."""

    def __init__(
        self,
        source: BackupSource,
        places: DestinationPlaces,
        *,
        version: str,
        clock: Clock | None = None,
        ids: Ids = SYSTEM_IDS,
    ) -> None:
        self._source = source
        self._places = places
        self._version = version
        self._clock = clock or SystemClock()
        self._ids = ids
        self._lock = threading.Lock()
        self._jobs: OrderedDict[str, BackupJob] = OrderedDict()
        self._running: BackupJob | None = None
        self._is_closed = False

    def start(self, where: str, name: str | None = None, *, skips_damaged: bool = False) -> BackupJob:
        """Begin a backup; Busy if another one is running."""
        repository = self._places.open(where)
        job = BackupJob(self._ids.token(_ID_BYTES), repository.place)
        with self._lock:
            if self._is_closed:
                raise Cancelled("the server is stopping")
            if self._running is not None:
                running = self._running
                raise Busy(f"backup {running.id} to {running.place} is running", hint="try again when it has ended")
            self._running = self._jobs[job.id] = job
            while len(self._jobs) > JOBS_MAX:
                self._jobs.popitem(last=False)
        arguments = (job, repository, name, skips_damaged)
        threading.Thread(target=self._run, args=arguments, name="tsdb-backup", daemon=True).start()
        return job

    def restore_into(
        self,
        home: Path,
        where: str,
        name: str,
        *,
        tables: Sequence[str],
        progress: BackupProgress,
        to_ns: int | None = None,
    ) -> ObjectStore:
        """Restore tables of a backup into an empty directory of this machine; return the store of their files.

        All of them are in this directory, whatever storages they were in. With `to_ns`, they are as they were then.
        """
        repository, point = self._places.open(where, creates=False), None
        if to_ns is None:
            summary = repository.find(name)
            directories = list(_directories(repository, summary))
        else:
            now_ns, node_log = self._clock.now_ns(), self._source.node_log
            summary, point = plan_own_point(node_log, repository, name, to_ns, now_ns=now_ns, tables=tables)
            directories = [each for each in point.directories.values() if is_routed(each)]
        names = {directory[1:].partition("/")[0] for directory in directories}
        store = RoutedStore(LocalStore(home), {each: LocalStore(home / _STORAGES / each) for each in names})
        target = RestoreTarget(home, home / METADATA_FILE, store, home / "wal")
        restore_backup(repository, summary, target, progress, tables=tables, point=point)
        return store

    def find(self, job_id: str) -> BackupJob:
        with self._lock:
            job = self._jobs.get(job_id)
        if job is None:
            raise InvalidArguments(f"there is no backup with the id {job_id!r}", hint="ids are lost with a restart")
        return job

    def close(self) -> None:
        """Cancel what runs, and take no more."""
        with self._lock:
            self._is_closed = True
            running = self._running
        if running is not None:
            running.progress.cancel()
            running.wait(CLOSE_SECONDS_MAX)

    def _run(self, job: BackupJob, repository: Repository, name: str | None, skips_damaged: bool) -> None:
        state = BackupState.FAILED
        try:
            job.summary = take_backup(
                self._source,
                repository,
                version=self._version,
                name=name,
                skips_damaged=skips_damaged,
                progress=job.progress,
                clock=self._clock,
            )
            state = BackupState.DONE
            LAST_SUCCESS.set(job.summary.started_ms / 1000)
        except Cancelled as error:
            state, job.error = BackupState.CANCELLED, error
        except TsdbError as error:
            job.error = error
        except Exception as error:  # noqa: BLE001 - those who wait for the job have to hear of it
            _log.exception("a backup failed unexpectedly", place=job.place)
            job.error = TsdbError(f"the backup failed unexpectedly: {error!r}")
        finally:
            self._end(job, state)

    def _end(self, job: BackupJob, state: BackupState) -> None:
        with self._lock:
            self._running = None
        RUNS.labels(state.value).inc()
        COPIED_FILES.inc(job.progress.files_copied)
        COPIED_BYTES.inc(job.progress.bytes_copied)
        if job.summary is not None:
            summary = job.summary
            _log.info(
                "a backup is complete",
                name=summary.name,
                place=job.place,
                files=summary.files,
                copied_files=summary.copied_files,
                copied_bytes=summary.copied_bytes,
            )
        elif state is not BackupState.CANCELLED:
            _log.error("a backup failed", place=job.place, error=job.error)
        job.end(state)


def _directories(repository: Repository, summary: BackupSummary) -> Iterator[str]:
    """Yield the directories of regions that are not in the default storage."""
    return (region.directory for region in repository.regions(summary) if is_routed(region.directory))
