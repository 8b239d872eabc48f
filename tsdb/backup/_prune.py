"""Deleting old backups, and the files that no other backup needs.

    read what is kept ─▶ delete backups, each with its summary first ─▶ delete files

A backup is gone with its summary. Ending anywhere leaves files that nothing refers to, which the next prune deletes.
If a backup that is kept cannot be read, nothing is deleted: its files would be among those that nothing refers to.
"""

from __future__ import annotations

from dataclasses import dataclass

from tsdb.backup._format import BackupSummary
from tsdb.backup._layout import FILES
from tsdb.backup._lock import RepositoryLock
from tsdb.backup._repository import Repository
from tsdb.errors import InvalidArguments
from tsdb.store import Purpose, requests_for


@dataclass(frozen=True, slots=True)
class PruneResult:
    """What a prune deleted."""

    deleted: tuple[str, ...]
    """The names of backups."""
    kept: tuple[str, ...]
    files: int
    size_bytes: int


@requests_for(Purpose.BACKUP)
def prune_backups(repository: Repository, *, keep: int) -> PruneResult:
    """Delete all but the newest backups; `keep` says how many stay, at least one."""
    if keep < 1:
        raise InvalidArguments(f"expected at least one backup to keep, received {keep}")
    with RepositoryLock(repository, "prune") as lock:
        repository.sweep_temporary()
        summaries = repository.summaries()
        gone, kept = summaries[:-keep], summaries[-keep:]
        needed = _needed_files(repository, kept)
        for name in sorted(repository.directories().difference(summary.name for summary in kept)):
            lock.check()
            repository.delete_backup(name)
        unneeded = [(path, size) for path, size in repository.objects(FILES) if path not in needed]
        for path, _ in unneeded:
            repository.delete(path)
    return PruneResult(
        tuple(summary.name for summary in gone),
        tuple(summary.name for summary in kept),
        len(unneeded),
        sum(size for _, size in unneeded),
    )


def _needed_files(repository: Repository, summaries: list[BackupSummary]) -> set[str]:
    needed: set[str] = set()
    for summary in summaries:
        repository.check_content(summary)
        needed.update(file.path for region in repository.regions(summary) for file in region.files)
    return needed
