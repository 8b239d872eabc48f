"""Checking backups: every byte of their files against the checksums."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tsdb.backup._copy import each_in_parallel, hash_pieces
from tsdb.backup._errors import BackupDamaged
from tsdb.backup._format import BackupSummary, StoredFile
from tsdb.backup._progress import BackupProgress
from tsdb.backup._repository import Repository
from tsdb.store import Purpose, requests_for


@dataclass(frozen=True, slots=True)
class BackupCheck:
    """The result of verifying backups."""

    backups: int
    files: int
    size_bytes: int
    damaged: tuple[tuple[str, str], ...]
    """Objects and what is wrong with each."""


@requests_for(Purpose.BACKUP)
def verify_backup(
    repository: Repository, summaries: Sequence[BackupSummary], progress: BackupProgress | None = None
) -> BackupCheck:
    """Read everything that backups need, each file once."""
    progress = progress or BackupProgress()
    progress.phase = "verifying"
    damaged: list[tuple[str, str]] = []
    files: dict[str, StoredFile] = {}
    for summary in summaries:
        try:
            repository.check_content(summary)
            files.update((file.path, file) for region in repository.regions(summary) for file in region.files)
        except BackupDamaged as error:
            damaged.append((error.path, error.reason))
    progress.expect(files=len(files), nbytes=sum(file.size_bytes for file in files.values()))

    def check(file: StoredFile) -> str | None:
        try:
            check_file(repository, file, progress)
        except BackupDamaged as error:
            return error.reason
        finally:
            progress.add_file(is_copied=False)
        return None

    reasons = each_in_parallel(check, files.values())
    damaged += [(path, reason) for path, reason in zip(files, reasons, strict=True) if reason is not None]
    return BackupCheck(len(summaries), len(files), progress.bytes_total, tuple(damaged))


def check_file(repository: Repository, file: StoredFile, progress: BackupProgress) -> None:
    """Compare a file with its checksum; BackupDamaged."""
    if hash_pieces(repository.pieces(file.path, file.size_bytes), progress) != file.sha256:
        raise BackupDamaged(file.path, "its checksum is wrong")
