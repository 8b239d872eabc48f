"""Copying the data files of pinned regions to a destination, several at a time.

A file keeps its id: one that is there with the right size is not sent again. What cannot be copied concerns its region
only; who asked decides what that means for the backup.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from tsdb.backup._copy import copy_pieces, each_in_parallel, hash_pieces
from tsdb.backup._errors import BackupDamaged, BackupFailed
from tsdb.backup._format import BackedUpRegion, StoredFile
from tsdb.backup._layout import file_path
from tsdb.backup._progress import BackupProgress
from tsdb.backup._repository import Repository, read_pieces
from tsdb.engine import PinnedFile, PinnedRegion
from tsdb.model import RegionId
from tsdb.store import InvalidRange, ObjectNotFound, ObjectStore, crash_point, read_once
from tsdb.telemetry import get_logger

_log = get_logger("tsdb.backup")


@dataclass(frozen=True, slots=True)
class CopiedRegion:
    """A region whose files are all in the destination."""

    region: BackedUpRegion
    rows: int
    damaged: tuple[str, ...] = ()
    """The ids of files that were quarantined, and are copied as they are."""


@dataclass(frozen=True, slots=True)
class FailedRegion:
    """A region of which a data file could not be copied."""

    region_id: RegionId
    error: BackupFailed


RegionOutcome: TypeAlias = CopiedRegion | FailedRegion


@dataclass(frozen=True, slots=True)
class _Copied:
    """A file of a region that is in the destination now; `file` is None if the region does without it."""

    region: PinnedRegion
    file: StoredFile | None
    error: BackupFailed | None = None


class FileCopier:
    """Copies files of regions from their store to a destination."""

    def __init__(
        self, store: ObjectStore, repository: Repository, progress: BackupProgress, *, skips_damaged: bool
    ) -> None:
        """With `skips_damaged`, regions do without files that are missing or have another size."""
        self._store = store
        self._repository = repository
        self._progress = progress
        self._skips_damaged = skips_damaged
        self._present = repository.file_sizes()
        self._known = _known_checksums(repository)

    def regions(self, pinned: Sequence[PinnedRegion]) -> Generator[CopiedRegion, None, None]:
        """Yield each region when all its files are copied, in order; BackupFailed if one cannot be."""
        with closing(self.outcomes(pinned)) as outcomes:
            for outcome in outcomes:
                if isinstance(outcome, FailedRegion):
                    raise outcome.error
                yield outcome

    def outcomes(self, pinned: Sequence[PinnedRegion]) -> Generator[RegionOutcome, None, None]:
        """Yield the outcome of each region, in order."""
        tasks = [(region, file) for region in pinned for file in region.files()]
        with closing(each_in_parallel(self._copy, tasks)) as copied:
            ahead = next(copied, None)
            for region in pinned:
                files, error = [], None
                while ahead is not None and ahead.region is region:
                    error = error or ahead.error
                    if ahead.file is not None:
                        files.append(ahead.file)
                    ahead = next(copied, None)
                yield _outcome(region, files) if error is None else FailedRegion(region.region_id, error)

    def _copy(self, task: tuple[PinnedRegion, PinnedFile]) -> _Copied:
        region, file = task
        try:
            stored = self._ensure(file)
        except (ObjectNotFound, InvalidRange, _WrongSize) as error:
            if not (file.is_index or self._skips_damaged):
                return _Copied(region, None, _not_copied(region, error))
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


def _outcome(region: PinnedRegion, files: list[StoredFile]) -> CopiedRegion:
    backed_up = BackedUpRegion(region.region_id, region.directory, region.table, region.manifest, tuple(files))
    return CopiedRegion(backed_up, region.rows, tuple(sorted(region.damaged)))


def _not_copied(region: PinnedRegion, error: Exception) -> BackupFailed:
    failure = BackupFailed(
        f"a data file cannot be copied: {error}",
        table=region.table,
        hint="ADMIN verify_table, or back up the rest with 'skip_damaged=true'",
    )
    failure.__cause__ = error
    return failure


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
