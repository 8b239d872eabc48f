"""Metadata as keys and values: small, ordered, changed only by compare-and-set transactions.

Callers use `KvStore`; the component chooses the implementation: `SqliteKv` for a standalone server, `MemoryKv` for
tests. What several processes share is a `CoordinationStore`, with leases, watches and elections: etcd (`tsdb.kv.etcd`,
imported only where it is used), and `MemoryKv` for one process. Processes that do not have the store follow it with a
`MirrorKv`. A standalone server shares nothing: `SqliteKv` has none of these.
"""

from tsdb.kv._coordination import (
    CoordinationStore,
    KeyDeleted,
    KeyEvent,
    KeyPut,
    KvWatch,
    PutLeased,
    SharedOperation,
    WatchChanges,
    WatchReset,
)
from tsdb.kv._election import Election, LeaderChange, Leadership
from tsdb.kv._errors import (
    KvClosed,
    KvConflict,
    KvDenied,
    KvOutcomeUnknown,
    KvTooLarge,
    KvUnavailable,
    LeadershipLost,
    LeaseLost,
)
from tsdb.kv._leases import KvLease
from tsdb.kv._memory import MemoryKv
from tsdb.kv._mirror import MirrorKv
from tsdb.kv._observed import ObservedKv
from tsdb.kv._protocol import (
    OPERATIONS_MAX,
    STORE_OPERATIONS_MAX,
    Absent,
    Compare,
    DeleteKey,
    Equals,
    KvStore,
    Operation,
    PutKey,
    RevisionIs,
    plan_sequence,
)
from tsdb.kv._sqlite import METADATA_FILE, SqliteKv

__all__ = [
    "METADATA_FILE",
    "OPERATIONS_MAX",
    "STORE_OPERATIONS_MAX",
    "Absent",
    "Compare",
    "CoordinationStore",
    "DeleteKey",
    "Election",
    "Equals",
    "KeyDeleted",
    "KeyEvent",
    "KeyPut",
    "KvClosed",
    "KvConflict",
    "KvDenied",
    "KvLease",
    "KvOutcomeUnknown",
    "KvStore",
    "KvTooLarge",
    "KvUnavailable",
    "KvWatch",
    "LeaderChange",
    "Leadership",
    "LeadershipLost",
    "LeaseLost",
    "MemoryKv",
    "MirrorKv",
    "ObservedKv",
    "Operation",
    "PutKey",
    "PutLeased",
    "RevisionIs",
    "SharedOperation",
    "SqliteKv",
    "WatchChanges",
    "WatchReset",
    "plan_sequence",
]
