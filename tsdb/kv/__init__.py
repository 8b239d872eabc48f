"""Metadata as keys and values: small, ordered, changed only by transactions that compare before they write.

Everything above works on `KvStore`; which one it is, is decided by the component: `SqliteKv` for a server of its own,
`MemoryKv` for tests.
"""

from tsdb.kv._errors import KvClosed, KvConflict, KvTooLarge, KvUnavailable
from tsdb.kv._memory import MemoryKv
from tsdb.kv._protocol import (
    OPERATIONS_MAX,
    Absent,
    Compare,
    Delete,
    Equals,
    KvStore,
    Operation,
    Put,
    RevisionIs,
)
from tsdb.kv._sequence import plan_sequence
from tsdb.kv._sqlite import SqliteKv

__all__ = [
    "OPERATIONS_MAX",
    "Absent",
    "Compare",
    "Delete",
    "Equals",
    "KvClosed",
    "KvConflict",
    "KvStore",
    "KvTooLarge",
    "KvUnavailable",
    "MemoryKv",
    "Operation",
    "Put",
    "RevisionIs",
    "SqliteKv",
    "plan_sequence",
]
