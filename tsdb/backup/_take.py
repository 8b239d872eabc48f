"""Taking a backup.

    lock the destination ─▶ capture the server ─▶ copy files ─▶ content ─▶ summary

The summary is written last, put-if-absent, and creates the backup. A failed or killed backup leaves files, which the
next one finds and does not send again, and a directory without a summary, which the next one removes.
"""

from __future__ import annotations

import hashlib
from contextlib import closing
from dataclasses import replace

from tsdb.backup._errors import BackupDamaged, BackupFailed, BackupNotFound
from tsdb.backup._files import CopiedRegion
from tsdb.backup._format import BackupSummary, ContentItem, MetadataPair, encode_item
from tsdb.backup._layout import check_name, content_path, name_of_time, summary_path
from tsdb.backup._lock import RepositoryLock
from tsdb.backup._position import AnyPosition, ClusterPosition
from tsdb.backup._progress import BackupProgress
from tsdb.backup._repository import Repository
from tsdb.backup._source import BackupRequest, BackupSource, CapturedSource
from tsdb.clock import Clock, SystemClock
from tsdb.errors import InvalidArguments
from tsdb.store import ObjectExists, ObjectSink, Purpose, crash_point, requests_for

CRASH_POINTS = ("backup.after_file", "backup.before_content", "backup.before_summary", "backup.after_summary")
"""The places where a test can end the process."""


@requests_for(Purpose.BACKUP)
def take_backup(
    source: BackupSource,
    repository: Repository,
    *,
    version: str,
    name: str | None = None,
    skips_damaged: bool = False,
    progress: BackupProgress | None = None,
    clock: Clock | None = None,
) -> BackupSummary:
    """Make a backup of everything that was acknowledged before this call; return what it is."""
    progress, clock = progress or BackupProgress(), clock or SystemClock()
    started_ms = clock.now_ns() // 1_000_000
    name = name_of_time(started_ms) if name is None else check_name(name)
    with RepositoryLock(repository, "backup", clock=clock) as lock:
        _check_new(repository, name)
        _sweep(repository)
        progress.phase = "flushing"
        request = BackupRequest(repository, lock.token, progress, skips_damaged=skips_damaged)
        with source.captured(request) as captured:
            # Rounded up: what was captured is from before.
            captured_ms = clock.now_ns() // 1_000_000 + 1
            progress.phase = "copying"
            job = _BackupWriter(repository, captured, progress)
            job.write(name)
            position = captured.position
        summary = job.summary(name, version, started_ms, clock.now_ns() // 1_000_000)
        summary = _with_position(summary, position, captured_ms)
        crash_point("backup.before_summary")
        progress.check()
        lock.check()
        _publish(repository, summary)
        crash_point("backup.after_summary")
    progress.phase = "done"
    return summary


def _with_position(summary: BackupSummary, position: AnyPosition | None, captured_ms: int) -> BackupSummary:
    """Say in a summary from where on shared logs have what came later."""
    if isinstance(position, ClusterPosition):
        # Clocks of other nodes may be ahead of this one.
        return replace(summary, cluster_log=replace(position, captured_ms=max(captured_ms, position.captured_ms)))
    if position is not None:
        return replace(summary, log=replace(position, captured_ms=captured_ms))
    return summary


def _check_new(repository: Repository, name: str) -> None:
    try:
        repository.summary(name)
    except BackupNotFound:
        return
    except BackupDamaged:
        pass
    raise InvalidArguments(f"a backup {name!r} already exists", place=repository.place, hint="choose another name")


def _sweep(repository: Repository) -> None:
    """Remove what backups left that did not come to their end, but not their files."""
    repository.sweep_temporary()
    for name in repository.directories().difference(repository.names()):
        repository.delete_backup(name)


def _publish(repository: Repository, summary: BackupSummary) -> None:
    path = repository.path(summary_path(summary.name))
    try:
        repository.store.put_if_absent(path, summary.encode())
    except ObjectExists:
        raise BackupFailed(f"another backup {summary.name!r} was made meanwhile", place=repository.place) from None


class _BackupWriter:
    """Writes down what was captured, as it is copied."""

    def __init__(self, repository: Repository, captured: CapturedSource, progress: BackupProgress) -> None:
        self._repository = repository
        self._captured = captured
        self._progress = progress
        self._content_bytes = 0
        self._content_digest = hashlib.sha256()
        self._regions = self._files = self._bytes = self._rows = 0
        self._damaged = [f"region {region_id}: {reason}" for region_id, reason in captured.unavailable.items()]

    def write(self, name: str) -> None:
        with self._repository.writer(content_path(name)) as sink, closing(self._captured.copied()) as regions:
            for key, value in self._captured.catalog.pairs:
                self._write_item(sink, MetadataPair(key, value))
            for copied in regions:
                self._count(copied)
                self._write_item(sink, copied.region)
            crash_point("backup.before_content")

    def summary(self, name: str, version: str, started_ms: int, finished_ms: int) -> BackupSummary:
        catalog = self._captured.catalog
        return BackupSummary(
            name=name,
            version=version,
            started_ms=started_ms,
            finished_ms=finished_ms,
            databases=catalog.databases,
            tables=catalog.tables,
            regions=self._regions,
            rows=self._rows,
            files=self._files,
            size_bytes=self._bytes,
            copied_files=self._progress.files_copied,
            copied_bytes=self._progress.bytes_copied,
            content_bytes=self._content_bytes,
            content_sha256=self._content_digest.hexdigest(),
            damaged=tuple(self._damaged),
        )

    def _write_item(self, sink: ObjectSink, item: ContentItem) -> None:
        line = encode_item(item)
        self._content_bytes += len(line)
        self._content_digest.update(line)
        sink.write(line)

    def _count(self, copied: CopiedRegion) -> None:
        files = copied.region.files
        self._regions += 1
        self._files += len(files)
        self._bytes += sum(file.size_bytes for file in files)
        self._rows += copied.rows
        self._damaged += [f"{copied.region.table}: {file_id}" for file_id in copied.damaged]
