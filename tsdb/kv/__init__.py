"""Metadata as keys and values: small, ordered, changed only by compare-and-set transactions.

Callers use `KvStore`; the component chooses the implementation: `SqliteKv` for a standalone server, `MemoryKv` for
tests.
"""

from tsdb.kv._errors import KvClosed, KvConflict, KvTooLarge, KvUnavailable
from tsdb.kv._memory import MemoryKv
from tsdb.kv._protocol import (
    OPERATIONS_MAX,
    Absent,
    Compare,
    DeleteKey,
    Equals,
    KvStore,
    Operation,
    PutKey,
    RevisionIs,
)
from tsdb.kv._sequence import plan_sequence
from tsdb.kv._sqlite import SqliteKv

__all__ = [
    "OPERATIONS_MAX",
    "Absent",
    "Compare",
    "DeleteKey",
    "Equals",
    "KvClosed",
    "KvConflict",
    "KvStore",
    "KvTooLarge",
    "KvUnavailable",
    "MemoryKv",
    "Operation",
    "PutKey",
    "RevisionIs",
    "SqliteKv",
    "plan_sequence",
]
