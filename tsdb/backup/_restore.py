"""Restoring a backup into an empty place.

    mark ─▶ data files, verified while they are copied ─▶ manifests ─▶ metadata ─▶ remove the mark

While the mark is there, no server starts in the directory. The same restore can be run again: files that are there
with the right bytes are not copied again. Anything else that is not empty is refused before it is touched.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from tsdb.backup._copy import copy_pieces, each_in_parallel, hash_pieces
from tsdb.backup._errors import BackupDamaged, RestoreRefused
from tsdb.backup._format import BackedUpRegion, BackupSummary, MetadataPair, StoredFile
from tsdb.backup._layout import content_path, file_path
from tsdb.backup._progress import BackupProgress
from tsdb.backup._repository import Repository, read_pieces
from tsdb.catalog import known_regions
from tsdb.engine import files_of_manifest, place_region
from tsdb.engine.listing import DATA
from tsdb.errors import StartError
from tsdb.kv import OPERATIONS_MAX, PutKey, SqliteKv
from tsdb.store import (
    Files,
    ObjectNotFound,
    ObjectStore,
    Purpose,
    crash_point,
    everywhere,
    free_bytes,
    replace_file,
    requests_for,
)

MARK = "restore.json"
"""In the data directory until everything is restored."""
_TEMPORARY = ".restoring"

CRASH_POINTS = (
    "restore.after_mark",
    "restore.after_file",
    "restore.after_files",
    "restore.after_manifests",
    "restore.after_metadata",
)


@dataclass(frozen=True, slots=True)
class RestoreTarget:
    """Where a server will find what is restored. The caller holds the lock of the data directory."""

    home: Path
    metadata: Path
    """The file of the metadata."""
    store: ObjectStore
    wal_directory: Path
    shared_log: ObjectStore | None = None
    """The store of the log, if that is shared."""


def check_restored(home: Path) -> None:
    """Refuse to start where a restore did not come to its end; StartError."""
    mark = _read_mark(home)
    if mark is not None:
        raise StartError(
            f"the restore of backup {mark.get('backup')} into {home} is not complete",
            hint=f"run it again: tsdb restore --from {mark.get('from')} --backup {mark.get('backup')}",
        )


@requests_for(Purpose.BACKUP)
def restore_backup(
    repository: Repository, summary: BackupSummary, target: RestoreTarget, progress: BackupProgress | None = None
) -> None:
    """Restore a backup; RestoreRefused if the target is not empty, BackupDamaged if an object is not what it was."""
    progress = progress or BackupProgress()
    repository.check_content(summary)
    _check_empty(repository, summary, target)
    _check_room(summary, target)
    files = Files()
    mark = {"from": repository.place, "backup": summary.name, "content_sha256": summary.content_sha256}
    replace_file(files, target.home / MARK, orjson.dumps(mark))
    crash_point("restore.after_mark")
    progress.phase = "copying"
    progress.expect(files=summary.files, nbytes=summary.size_bytes)
    for _ in each_in_parallel(
        lambda task: _restore_file(repository, target, task, progress), _tasks(repository, summary)
    ):
        crash_point("restore.after_file")
    crash_point("restore.after_files")
    progress.phase = "manifests"
    placed = _place_regions(repository, summary, target)
    crash_point("restore.after_manifests")
    progress.phase = "metadata"
    _restore_metadata(repository, summary, target, placed, files)
    crash_point("restore.after_metadata")
    files.unlink(target.home / MARK)
    files.fsync_dir(target.home)
    progress.phase = "done"


def _read_mark(home: Path) -> dict[str, Any] | None:
    try:
        found = orjson.loads((home / MARK).read_bytes())
    except FileNotFoundError:
        return None
    except orjson.JSONDecodeError:
        found = None
    return found if isinstance(found, dict) else {}


def _check_empty(repository: Repository, summary: BackupSummary, target: RestoreTarget) -> None:
    """Refuse a place where something else is than an earlier attempt of the same restore."""
    mark = _read_mark(target.home)
    if mark is not None:
        if mark.get("content_sha256") == summary.content_sha256:
            return
        raise RestoreRefused(
            f"{target.home} has an unfinished restore of another backup",
            backup=mark.get("backup"),
            hint="run that again, or delete the directory first",
        )
    if target.metadata.exists():
        raise RestoreRefused(f"{target.home} holds a database", found=target.metadata.name, hint="choose another place")
    for prefix in everywhere(target.store, DATA):
        found = next(iter(target.store.list(prefix)), None)
        if found is not None:
            raise RestoreRefused("the storage holds data files", found=found.path, hint="choose another place or root")
    if target.wal_directory.is_dir() and (entries := sorted(target.wal_directory.iterdir())):
        raise RestoreRefused(f"{target.wal_directory} holds a log", found=entries[0].name, hint="choose another place")
    if target.shared_log is not None:
        found = next(iter(target.shared_log.list("wal")), None)
        if found is not None:
            raise RestoreRefused("the storage holds a shared log", found=found.path, hint="choose another root")


def _check_room(summary: BackupSummary, target: RestoreTarget) -> None:
    free = free_bytes(target.store, f"{DATA}/x")
    if free is not None and free < summary.size_bytes and _read_mark(target.home) is None:
        raise RestoreRefused(
            f"the backup has {summary.size_bytes} bytes of files, {target.home} has room for {free}", hint="free space"
        )


_Task = tuple[str, StoredFile]
"""Where a file goes, and what it is."""


def _tasks(repository: Repository, summary: BackupSummary) -> Iterator[_Task]:
    for region in repository.regions(summary):
        stored = {file.path: file for file in region.files}
        for file in files_of_manifest(region.manifest, region.directory):
            # A damaged file may have been left out: the region knows what to do without it.
            found = stored.get(file_path(file))
            if found is not None:
                yield file.path, found


def _restore_file(repository: Repository, target: RestoreTarget, task: _Task, progress: BackupProgress) -> None:
    path, file = task
    if _is_there(target.store, path, file, progress):
        progress.add_file(is_copied=False)
        return
    with target.store.writer(path) as sink:
        digest = copy_pieces(repository.pieces(file.path, file.size_bytes), sink, progress)
        if digest != file.sha256:
            raise BackupDamaged(file.path, "its checksum is wrong")
    progress.add_file(is_copied=True)


def _is_there(store: ObjectStore, path: str, file: StoredFile, progress: BackupProgress) -> bool:
    """Whether an earlier attempt restored a file."""
    try:
        if store.head(path).size_bytes != file.size_bytes:
            return False
    except ObjectNotFound:
        return False
    silent = BackupProgress()
    is_same = hash_pieces(read_pieces(store, path, file.size_bytes), silent) == file.sha256
    if is_same:
        progress.add_bytes(file.size_bytes, is_copied=False)
    return is_same


def _place_regions(repository: Repository, summary: BackupSummary, target: RestoreTarget) -> set[int]:
    placed: set[int] = set()
    for region in repository.regions(summary):
        _place(region, target, content_path(summary.name))
        placed.add(region.region_id)
    return placed


def _place(region: BackedUpRegion, target: RestoreTarget, path: str) -> None:
    try:
        place_region(target.store, region.region_id, region.directory, region.manifest)
    except (LookupError, TypeError, ValueError) as error:
        raise BackupDamaged(path, f"the manifest of region {region.region_id} cannot be used: {error!r}") from error


def _restore_metadata(
    repository: Repository, summary: BackupSummary, target: RestoreTarget, placed: set[int], files: Files
) -> None:
    """Write the metadata beside its place, compare it with the regions, and move it into place."""
    temporary = target.metadata.with_name(f"{target.metadata.name}{_TEMPORARY}")
    for leftover in target.home.glob(f"{temporary.name}*"):
        leftover.unlink()
    kv = SqliteKv(temporary)
    try:
        batch: list[PutKey] = []
        for item in repository.content(summary):
            if not isinstance(item, MetadataPair):
                break
            batch.append(PutKey(item.key, item.value))
            if len(batch) == OPERATIONS_MAX:
                kv.transact([], batch)
                batch = []
        kv.transact([], batch)
        missing = set(known_regions(kv, target.store)) - placed
    finally:
        kv.close()
    if missing and not summary.damaged:
        reason = f"regions of its tables are not in it: {', '.join(map(str, sorted(missing)[:5]))}"
        raise BackupDamaged(content_path(summary.name), reason)
    files.rename(temporary, target.metadata)
    files.fsync_dir(target.home)
