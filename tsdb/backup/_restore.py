"""Restoring a backup into an empty place.

    mark ─▶ data files, verified while they are copied ─▶ manifests ─▶ (log) ─▶ metadata ─▶ remove the mark

While the mark is there, no server starts in the directory. The same restore can be run again: files that are there
with the right bytes are not copied again. Anything else that is not empty is refused before it is touched.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import islice, takewhile
from pathlib import Path
from typing import Any, Protocol

import orjson

from tsdb.backup._copy import copy_pieces, each_in_parallel, hash_pieces
from tsdb.backup._errors import BackupDamaged, RestoreRefused
from tsdb.backup._format import BackedUpRegion, BackupSummary, ContentItem, MetadataPair, StoredFile
from tsdb.backup._layout import content_path, file_path
from tsdb.backup._planning import PointInTime
from tsdb.backup._progress import BackupProgress
from tsdb.backup._repository import Repository, read_pieces
from tsdb.backup._times import format_time
from tsdb.catalog import keep_tables, known_regions
from tsdb.engine import files_of_manifest, manifest_directory, place_region
from tsdb.engine.listing import DATA
from tsdb.errors import StartError
from tsdb.kv import OPERATIONS_MAX, KvStore, MemoryKv, PutKey, SqliteKv
from tsdb.model import RegionId
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
    "restore.after_log",
    "restore.after_metadata",
)


class ClusterTarget(Protocol):
    """The metadata of a cluster that is not running."""

    def read_mark(self) -> dict[str, Any] | None:
        """Return what an unfinished restore has left."""

    def begin(self, mark: dict[str, Any]) -> None:
        """Leave a mark until `publish`; RestoreRefused if the cluster is running, or not empty."""

    def publish(self, metadata: KvStore) -> None: ...


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
    cluster: ClusterTarget | None = None
    """The metadata of a cluster, which takes the place of that in `home`; there may be anything in `home` then."""

    @property
    def place(self) -> str:
        """What is restored, as people call it."""
        return str(self.home) if self.cluster is None else "the cluster"


def check_restored(home: Path) -> None:
    """Refuse to start where a restore did not come to its end; StartError."""
    mark = _read_mark(home)
    if mark is not None:
        to_time = f" --to-time {mark['to_time']}" if mark.get("to_time") else ""
        raise StartError(
            f"the restore of backup {mark.get('backup')} into {home} is not complete",
            hint=f"run it again: tsdb restore --from {mark.get('from')} --backup {mark.get('backup')}{to_time}",
        )


@dataclass(frozen=True, slots=True)
class _Plan:
    """What of a backup is restored where."""

    repository: Repository
    summary: BackupSummary
    target: RestoreTarget
    metadata: MemoryKv
    chosen: frozenset[RegionId] | None
    """Without it, all regions."""
    mark: dict[str, Any]
    point: PointInTime | None = None
    """Roll the regions forward to it."""

    def regions(self) -> Iterator[BackedUpRegion]:
        if self.point is not None:
            yield from self.point.regions.values()
            return
        for region in self.repository.regions(self.summary):
            if self.chosen is None or region.region_id in self.chosen:
                yield region


@requests_for(Purpose.BACKUP)
def restore_backup(
    repository: Repository,
    summary: BackupSummary,
    target: RestoreTarget,
    progress: BackupProgress | None = None,
    *,
    tables: Sequence[str] = (),
    point: PointInTime | None = None,
) -> int:
    """Restore a backup; RestoreRefused if the target is not empty, BackupDamaged if an object is not what it was.

    With `tables` (`database.table`, `database.*`), only these are restored, without views. With `point`, which was
    planned for the same backup and tables, everything is as it was then; return how many rows the log had for that.
    """
    progress = progress or BackupProgress()
    plan = _plan(repository, summary, target, tables, point)
    _check_empty(plan)
    _expect(plan, progress)
    files = Files()
    _write_mark(plan, files)
    crash_point("restore.after_mark")
    progress.phase = "copying"
    with closing(each_in_parallel(partial(_restore_file, plan, progress), _tasks(plan))) as restored:
        for _ in restored:
            crash_point("restore.after_file")
    crash_point("restore.after_files")
    progress.phase = "manifests"
    placed = _place_regions(plan)
    crash_point("restore.after_manifests")
    rolled = 0
    if point is not None:
        progress.phase = "log"
        rolled = point.roll_forward(target.store)
    crash_point("restore.after_log")
    progress.phase = "metadata"
    _restore_metadata(plan, placed, files)
    crash_point("restore.after_metadata")
    if target.cluster is None:
        files.unlink(target.home / MARK)
        files.fsync_dir(target.home)
    progress.phase = "done"
    return rolled


def _plan(
    repository: Repository,
    summary: BackupSummary,
    target: RestoreTarget,
    tables: Sequence[str],
    point: PointInTime | None,
) -> _Plan:
    repository.check_content(summary)
    mark: dict[str, Any] = {
        "from": repository.place,
        "backup": summary.name,
        "content_sha256": summary.content_sha256,
        "tables": sorted(tables),
        "to_time": None if point is None else format_time(point.to_ns),
    }
    if point is not None:
        return _Plan(repository, summary, target, point.metadata, None, mark, point)
    metadata = MemoryKv()
    for batch in _batches(repository.content(summary)):
        metadata.transact([], batch)
    chosen = frozenset(keep_tables(metadata, tables)) if tables else None
    return _Plan(repository, summary, target, metadata, chosen, mark)


def _batches(content: Iterable[ContentItem]) -> Iterator[list[PutKey]]:
    """Yield the metadata of a backup in batches that fit a transaction; it stands in front of everything else."""
    pairs = takewhile(lambda item: isinstance(item, MetadataPair), content)
    puts = (PutKey(item.key, item.value) for item in pairs if isinstance(item, MetadataPair))
    while batch := list(islice(puts, OPERATIONS_MAX)):
        yield batch


def _read_mark(home: Path) -> dict[str, Any] | None:
    try:
        found = orjson.loads((home / MARK).read_bytes())
    except FileNotFoundError:
        return None
    except orjson.JSONDecodeError:
        found = None
    return found if isinstance(found, dict) else {}


def _mark_of(target: RestoreTarget) -> dict[str, Any] | None:
    return _read_mark(target.home) if target.cluster is None else target.cluster.read_mark()


def _write_mark(plan: _Plan, files: Files) -> None:
    if plan.target.cluster is None:
        replace_file(files, plan.target.home / MARK, orjson.dumps(plan.mark))
    else:
        plan.target.cluster.begin(plan.mark)


def _check_empty(plan: _Plan) -> None:
    """Refuse a place where something else is than an earlier attempt of the same restore."""
    target = plan.target
    mark = _mark_of(target)
    if mark is not None:
        if all(mark.get(key) == plan.mark[key] for key in ("content_sha256", "tables", "to_time")):
            return
        raise RestoreRefused(
            f"{target.place} has an unfinished restore of another backup, other tables or another time",
            backup=mark.get("backup"),
            hint="run that again, or delete what is there first",
        )
    if target.cluster is None:
        _check_home(target)
    for prefix in _prefixes(plan):
        found = next(iter(target.store.list(prefix)), None)
        if found is not None:
            raise RestoreRefused("the storage holds data files", found=found.path, hint="choose another place or root")
    if target.shared_log is not None:
        found = next(iter(target.shared_log.list("wal")), None)
        if found is not None:
            raise RestoreRefused("the storage holds a shared log", found=found.path, hint="choose another root")


def _check_home(target: RestoreTarget) -> None:
    if target.metadata.exists():
        raise RestoreRefused(f"{target.home} holds a database", found=target.metadata.name, hint="choose another place")
    if target.wal_directory.is_dir() and (entries := sorted(target.wal_directory.iterdir())):
        raise RestoreRefused(f"{target.wal_directory} holds a log", found=entries[0].name, hint="choose another place")


def _prefixes(plan: _Plan) -> list[str]:
    """Where data files must not be: in all storages.

    For a point in time, one of them may be that of the server whose log is read, as long as nothing is restored to it.
    """
    found = list(everywhere(plan.target.store, DATA))
    if plan.point is None:
        return found
    used = [region.directory for region in plan.regions()]
    return [each for each in found if each == DATA or any(path.startswith(f"{each}/") for path in used)]


def _expect(plan: _Plan, progress: BackupProgress) -> None:
    """Say how much there is to do; RestoreRefused if there is no room for it."""
    count = size_bytes = 0
    for _, file in _tasks(plan):
        count += 1
        size_bytes += file.size_bytes
    progress.expect(files=count, nbytes=size_bytes)
    free = free_bytes(plan.target.store, f"{DATA}/x")
    if free is not None and free < size_bytes and _mark_of(plan.target) is None:
        raise RestoreRefused(
            f"the files have {size_bytes} bytes, {plan.target.home} has room for {free}", hint="free space"
        )


_Task = tuple[str, StoredFile]
"""Where a file goes, and what it is."""


def _tasks(plan: _Plan) -> Iterator[_Task]:
    for region in plan.regions():
        stored = {file.path: file for file in region.files}
        for file in files_of_manifest(region.manifest, region.directory):
            # A damaged file may have been left out: the region knows what to do without it.
            found = stored.get(file_path(file))
            if found is not None:
                yield file.path, found


def _restore_file(plan: _Plan, progress: BackupProgress, task: _Task) -> None:
    path, file = task
    store = plan.target.store
    if _is_there(store, path, file, progress):
        progress.add_file(is_copied=False)
        return
    with store.writer(path) as sink:
        digest = copy_pieces(plan.repository.pieces(file.path, file.size_bytes), sink, progress)
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


def _place_regions(plan: _Plan) -> set[RegionId]:
    placed: set[RegionId] = set()
    path = content_path(plan.summary.name)
    for region in plan.regions():
        try:
            if plan.point is not None:
                # An earlier attempt may have committed what it replayed.
                plan.target.store.delete_prefix(manifest_directory(region.directory))
            place_region(plan.target.store, region.region_id, region.directory, region.manifest)
        except (LookupError, TypeError, ValueError) as error:
            raise BackupDamaged(path, f"the manifest of region {region.region_id} cannot be used: {error!r}") from error
        placed.add(region.region_id)
    return placed


def _restore_metadata(plan: _Plan, placed: set[RegionId], files: Files) -> None:
    """Compare the metadata with the regions, write it beside its place, and move it into place."""
    target, summary = plan.target, plan.summary
    missing = set(known_regions(plan.metadata, target.store)) - placed
    if missing and not summary.damaged:
        reason = f"regions of its tables are not in it: {', '.join(map(str, sorted(missing)[:5]))}"
        raise BackupDamaged(content_path(summary.name), reason)
    if target.cluster is not None:
        target.cluster.publish(plan.metadata)
        return
    temporary = target.metadata.with_name(f"{target.metadata.name}{_TEMPORARY}")
    for leftover in target.home.glob(f"{temporary.name}*"):
        leftover.unlink()
    kv = SqliteKv(temporary)
    try:
        for batch in _batches(MetadataPair(key, value) for key, value in plan.metadata.scan("")):
            kv.transact([], batch)
    finally:
        kv.close()
    files.rename(temporary, target.metadata)
    files.fsync_dir(target.home)
