"""`tsdb backup` and `tsdb restore`: a client of a running server, and commands on destinations without one."""

from tsdb.cli.backups._offline import (
    OfflineCluster,
    OfflineRestore,
    run_list,
    run_prune,
    run_restore,
    run_verify,
)
from tsdb.cli.backups._online import OnlineBackup, run_backup

__all__ = [
    "OfflineCluster",
    "OfflineRestore",
    "OnlineBackup",
    "run_backup",
    "run_list",
    "run_prune",
    "run_restore",
    "run_verify",
]
