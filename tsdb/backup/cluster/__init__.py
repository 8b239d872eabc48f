"""Backups of a cluster: one datanode writes them down, each datanode copies the files of its own regions.

    frontend ─ start, state, cancel ─▶ a datanode: `BackupService` over a `ClusterSource`
                                          ├─ flush, pin, copy, look, release ─▶ every datanode: `BackupNode`
                                          └─ hold, release ─▶ the leading metadata server

Frontends and metadata servers have no storage; data passes through none of them. All steps are requests of the data
plane (`RemoteRegions.backup`), described in `_wire`. What is written is the same as by a standalone server.
"""

from tsdb.backup.cluster._client import ClusterBackups, RemoteJob, RemoteRestore
from tsdb.backup.cluster._maker import BackupVerbs
from tsdb.backup.cluster._node import BackupNode
from tsdb.backup.cluster._publish import RESTORE_MARK, ClusterMetadata
from tsdb.backup.cluster._restores import TableRestore, TableRestores
from tsdb.backup.cluster._source import ClusterSource, ClusterTimes

__all__ = [
    "RESTORE_MARK",
    "BackupNode",
    "BackupVerbs",
    "ClusterBackups",
    "ClusterMetadata",
    "ClusterSource",
    "ClusterTimes",
    "RemoteJob",
    "RemoteRestore",
    "TableRestore",
    "TableRestores",
]
