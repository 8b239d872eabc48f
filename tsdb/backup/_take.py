"""Taking a backup.

    lock the destination ─▶ capture the server ─▶ copy files ─▶ content ─▶ summary

The summary is written last, put-if-absent, and makes the backup. Until then it does not exist: what a failed or killed
one leaves is files that the next one finds and does not send again, and a directory without a summary, which the next
one removes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Generator
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial

from tsdb.backup._copy import copy_pieces, each_in_parallel, hash_pieces
from tsdb.backup._errors import BackupDamaged, BackupFailed, BackupNotFound
from tsdb.backup._format import (
    BackedUpRegion,
    BackupSummary,
    ContentItem,
    MetadataPair,
    StoredFile,
    encode_item,
)
from tsdb.backup._layout import check_name, content_path, file_path, name_of_time, summary_path
from tsdb.backup._lock import RepositoryLock
from tsdb.backup._position import find_position
from tsdb.backup._progress import BackupProgress
from tsdb.backup._repository import Repository, read_pieces
from tsdb.backup._source import CapturedSource, LocalSource
from tsdb.clock import Clock, SystemClock
from tsdb.engine import PinnedFile, PinnedRegion
from tsdb.errors import InvalidArguments
from tsdb.store import (
    InvalidRange,
    ObjectExists,
    ObjectNotFound,
    ObjectSink,
    ObjectStore,
    Purpose,
    crash_point,
    read_once,
    requests_for,
)
from tsdb.telemetry import get_logger

_log = get_logger("tsdb.backup")

CRASH_POINTS = ("backup.after_file", "backup.before_content", "backup.before_summary", "backup.after_summary")
"""The places where a test can end the process."""


@requests_for(Purpose.BACKUP)
def take_backup(
    source: LocalSource,
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
        position = find_position(source)
        with source.captured(progress.check, skips_damaged=skips_damaged) as captured:
            # Rounded up: what was captured is from before.
            captured_ms = clock.now_ns() // 1_000_000 + 1
            progress.phase = "copying"
            job = _BackupWriter(source.store, repository, captured, progress, skips_damaged=skips_damaged)
            job.write(name)
        summary = job.summary(name, version, started_ms, clock.now_ns() // 1_000_000)
        if position is not None:
            summary = replace(summary, log=replace(position, captured_ms=captured_ms))
        crash_point("backup.before_summary")
        progress.check()
        lock.check()
        _publish(repository, summary)
        crash_point("backup.after_summary")
    progress.phase = "done"
    return summary


def _check_new(repository: Repository, name: str) -> None:
    try:
        repository.summary(name)
    except BackupNotFound:
        return
    except BackupDamaged:
        pass
    raise InvalidArguments(f"there is a backup {name!r} already", place=repository.place, hint="choose another name")


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


@dataclass(frozen=True, slots=True)
class _Copied:
    """A file of a region that is in the destination now; `file` is None if the region does without it."""

    region: PinnedRegion
    file: StoredFile | None


class _BackupWriter:
    """Copies what was captured, and writes down what it is."""

    def __init__(
        self,
        store: ObjectStore,
        repository: Repository,
        captured: CapturedSource,
        progress: BackupProgress,
        *,
        skips_damaged: bool,
    ) -> None:
        self._store = store
        self._repository = repository
        self._captured = captured
        self._progress = progress
        self._skips_damaged = skips_damaged
        self._present = repository.file_sizes()
        self._known = _known_checksums(repository)
        self._content_bytes = 0
        self._content_digest = hashlib.sha256()
        self._files = self._bytes = self._rows = 0

    def write(self, name: str) -> None:
        tasks = [(region, file) for region in self._captured.regions for file in region.files()]
        self._progress.expect(files=len(tasks), nbytes=sum(file.size_bytes for _, file in tasks))
        with self._repository.writer(content_path(name)) as sink, closing(self._regions(tasks)) as regions:
            for key, value in self._captured.catalog.pairs:
                self._write_item(sink, MetadataPair(key, value))
            for region in regions:
                self._write_item(sink, region)
            crash_point("backup.before_content")

    def summary(self, name: str, version: str, started_ms: int, finished_ms: int) -> BackupSummary:
        captured = self._captured
        damaged = [f"region {region_id}: {reason}" for region_id, reason in captured.unavailable.items()]
        damaged += [f"{region.table}: {file_id}" for region in captured.regions for file_id in sorted(region.damaged)]
        return BackupSummary(
            name=name,
            version=version,
            started_ms=started_ms,
            finished_ms=finished_ms,
            databases=captured.catalog.databases,
            tables=captured.catalog.tables,
            regions=len(captured.regions),
            rows=self._rows,
            files=self._files,
            size_bytes=self._bytes,
            copied_files=self._progress.files_copied,
            copied_bytes=self._progress.bytes_copied,
            content_bytes=self._content_bytes,
            content_sha256=self._content_digest.hexdigest(),
            damaged=tuple(damaged),
        )

    def _write_item(self, sink: ObjectSink, item: ContentItem) -> None:
        line = encode_item(item)
        self._content_bytes += len(line)
        self._content_digest.update(line)
        sink.write(line)

    def _regions(self, tasks: list[tuple[PinnedRegion, PinnedFile]]) -> Generator[BackedUpRegion, None, None]:
        """Copy files, and yield each region when all its files are copied, in order."""
        with closing(each_in_parallel(self._copy, tasks)) as copied:
            ahead = next(copied, None)
            for region in self._captured.regions:
                files = []
                while ahead is not None and ahead.region is region:
                    if ahead.file is not None:
                        files.append(ahead.file)
                    ahead = next(copied, None)
                self._count(region, files)
                yield BackedUpRegion(region.region_id, region.directory, region.table, region.manifest, tuple(files))

    def _count(self, region: PinnedRegion, files: list[StoredFile]) -> None:
        self._files += len(files)
        self._bytes += sum(file.size_bytes for file in files)
        self._rows += region.rows

    def _copy(self, task: tuple[PinnedRegion, PinnedFile]) -> _Copied:
        region, file = task
        try:
            stored = self._ensure(file)
        except (ObjectNotFound, InvalidRange, _WrongSize) as error:
            if not (file.is_index or self._skips_damaged):
                raise BackupFailed(
                    f"a data file cannot be copied: {error}",
                    table=region.table,
                    hint="ADMIN verify_table, or back up the rest with 'skip_damaged=true'",
                ) from error
            _log.warning("a file is not in the backup", table=region.table, file=file.path, error=error)
            return _Copied(region, None)
        crash_point("backup.after_file")
        return _Copied(region, stored)

    def _ensure(self, file: PinnedFile) -> StoredFile:
        """Return a file of the destination, copied unless it is there."""
        name, size = file_path(file), file.size_bytes
        make = partial(StoredFile, name, size, is_index=file.is_index)
        is_present = self._present.get(name) == size
        if is_present and name in self._known:
            self._progress.add_bytes(size, is_copied=False)
            self._progress.add_file(is_copied=False)
            return make(sha256=self._known[name])
        store, path = read_once(self._store, file.path)
        actual = store.head(path).size_bytes
        if actual != size:
            raise _WrongSize(f"it has {actual} bytes, expected {size}")
        pieces = read_pieces(store, path, size)
        if is_present:
            # Left by a backup that did not come to its end: objects appear whole, and ids are never used again.
            digest = hash_pieces(pieces, self._progress)
        else:
            with self._repository.writer(name) as sink:
                digest = copy_pieces(pieces, sink, self._progress)
        self._progress.add_file(is_copied=not is_present)
        return make(sha256=digest)


class _WrongSize(Exception):
    """A file of a region is not as large as its manifest says."""


def _known_checksums(repository: Repository) -> dict[str, str]:
    """Return the checksums of the files of the latest backup, by name."""
    try:
        summaries = repository.summaries()
        if not summaries:
            return {}
        repository.check_content(summaries[-1])
        return {file.path: file.sha256 for region in repository.regions(summaries[-1]) for file in region.files}
    except BackupDamaged as error:
        _log.warning("an earlier backup is damaged; checksums of its files are computed again", error=error)
        return {}
