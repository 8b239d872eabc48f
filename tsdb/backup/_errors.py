"""Errors of backups.

BackupFailed       the backup was not made; earlier ones are as they were
BackupNotFound     there is no such backup in the destination
BackupDamaged      an object of a backup is missing or has other bytes than it was written with
RestoreRefused     the place is not empty, or holds something else than what is to be restored
RepositoryInUse    another backup or prune works on the destination: wait for it
"""

from __future__ import annotations

from tsdb.errors import Reason, Status, TsdbError


class BackupFailed(TsdbError):
    """A backup could not be made; nothing of it is visible."""

    status = Status.STORAGE_UNAVAILABLE


class BackupNotFound(TsdbError):
    """There is no backup of this name, or none at all."""

    status = Status.INVALID_ARGUMENTS
    sql_reason = Reason.UNDEFINED_TABLE


class BackupDamaged(TsdbError):
    """An object of a backup is not what was written."""

    status = Status.STORAGE_UNAVAILABLE

    def __init__(self, path: str, reason: str, *, hint: str | None = None) -> None:
        super().__init__(f"the backup is damaged: {reason}", path=path, hint=hint)
        self.path = path
        self.reason = reason


class RestoreRefused(TsdbError):
    """A backup is not restored here; nothing was changed."""

    status = Status.ILLEGAL_STATE


class RepositoryInUse(TsdbError):
    """Another process changes the destination."""

    status = Status.RATE_LIMITED
