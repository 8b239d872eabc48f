"""Backups of a server or cluster: a consistent copy of metadata and data files, taken while it runs, and its restore.

    take:     flush ─▶ pin metadata and manifests at one moment ─▶ copy files that the destination lacks ─▶ summary
    restore:  mark the directory ─▶ files, verified ─▶ manifests ─▶ metadata ─▶ remove the mark
    point:    the backup before it ─▶ the shared logs from there on ─▶ what everything was then (`plan_point`)

A destination (`Repository`) holds several backups that share data files. `docs/format/backup.md` describes its objects.
`BackupService` runs backups inside a server; `cluster` has what a cluster needs beside; everything else works on a
destination without a server.
"""

from __future__ import annotations

from typing import TypeAlias

from tsdb.backup._destination import DestinationPlaces, StoragePlace
from tsdb.backup._errors import BackupDamaged, BackupFailed, BackupNotFound, RestoreRefused
from tsdb.backup._format import BackupSummary
from tsdb.backup._lock import RepositoryLock
from tsdb.backup._planning import PointInTime
from tsdb.backup._point import choose_backup, plan_point, rolls_until
from tsdb.backup._position import ClusterPosition, LogPosition
from tsdb.backup._progress import BackupProgress
from tsdb.backup._prune import prune_backups
from tsdb.backup._repository import LATEST, Repository
from tsdb.backup._restore import RestoreTarget, check_restored, restore_backup
from tsdb.backup._service import BackupJob, BackupService
from tsdb.backup._source import LocalSource
from tsdb.backup._take import take_backup
from tsdb.backup._times import format_time, parse_time
from tsdb.backup._verify import verify_backup
from tsdb.backup.cluster import ClusterBackups, RemoteJob

AnyBackups: TypeAlias = BackupService | ClusterBackups
"""What a database makes backups with: its own service, or the datanodes of its cluster."""
AnyJob: TypeAlias = BackupJob | RemoteJob

__all__ = [
    "LATEST",
    "AnyBackups",
    "AnyJob",
    "BackupDamaged",
    "BackupFailed",
    "BackupJob",
    "BackupNotFound",
    "BackupProgress",
    "BackupService",
    "BackupSummary",
    "ClusterPosition",
    "DestinationPlaces",
    "LocalSource",
    "LogPosition",
    "PointInTime",
    "Repository",
    "RepositoryLock",
    "RestoreRefused",
    "RestoreTarget",
    "StoragePlace",
    "check_restored",
    "choose_backup",
    "format_time",
    "parse_time",
    "plan_point",
    "prune_backups",
    "restore_backup",
    "rolls_until",
    "take_backup",
    "verify_backup",
]
