"""How far changes of a cluster's catalog are: what the metadata keeps of each, and what still fails to be finished.

change ─▶ its first transaction notes it ─▶ its last one notes the end     `_records`
recovery ─▶ attempts at what was left ─▶ Running, at last Poisoned          `_recovery`, `_attempts`
"""

from tsdb.catalog.progress._attempts import ATTEMPTS_MAX, Attempts, UnfinishedChange
from tsdb.catalog.progress._records import (
    KEPT_MAX,
    ChangeRecord,
    ProcedureState,
    RunningChange,
    forget_old_changes,
    load_changes,
    making,
    read_change,
    running_change,
)
from tsdb.catalog.progress._recovery import RecoveryAttempt

__all__ = [
    "ATTEMPTS_MAX",
    "KEPT_MAX",
    "Attempts",
    "ChangeRecord",
    "ProcedureState",
    "RecoveryAttempt",
    "RunningChange",
    "UnfinishedChange",
    "forget_old_changes",
    "load_changes",
    "making",
    "read_change",
    "running_change",
]
