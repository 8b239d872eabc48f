"""The interface of a metadata store.

- Keys are text, values bytes. `scan` returns keys in the order of their UTF-8 bytes.
- A transaction is atomic and durable: its operations all happen if every comparison holds, none otherwise, and when
  `transact` returns they survive a crash.
- Each change of a key gives it a revision that no change of any key had before. A key that was deleted and put again
  therefore never looks unchanged.
- Operations on the same key in one transaction count as the last of them.
- The model is etcd's, with at most `OPERATIONS_MAX` comparisons and as many operations in one transaction; larger
  changes record their intent first, so that a restart can finish them.

Every method raises `KvUnavailable` if the store fails. A transaction whose outcome a store cannot tell raises
`KvOutcomeUnknown`. All methods are thread-safe. Stores that several processes share, with leases and watches, are in
`_coordination.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from tsdb.kv._errors import KvTooLarge

OPERATIONS_MAX = 125
"""How many comparisons, and how many operations, one transaction may have. etcd takes 128, of which our client uses one
to learn what became of a transaction, and the leader of a cluster two: to prove that it leads and to number changes,
and to number those that are noted in shared logs."""
STORE_OPERATIONS_MAX = OPERATIONS_MAX + 2
"""How many a store takes, the leader's included."""


@dataclass(frozen=True, slots=True)
class Absent:
    """Holds if there is no such key."""

    key: str


@dataclass(frozen=True, slots=True)
class Equals:
    """Holds if the key has this value."""

    key: str
    value: bytes


@dataclass(frozen=True, slots=True)
class RevisionIs:
    """Holds if the key was last changed at this revision; 0 stands for a key that is not there."""

    key: str
    revision: int


Compare = Absent | Equals | RevisionIs


@dataclass(frozen=True, slots=True)
class PutKey:
    """Set the value of a key."""

    key: str
    value: bytes


@dataclass(frozen=True, slots=True)
class DeleteKey:
    """Remove a key if it is there."""

    key: str


Operation = PutKey | DeleteKey


class KvStore(Protocol):
    """Ordered keys and values with transactions."""

    def get(self, key: str) -> bytes | None: ...

    def revision(self, key: str) -> int:
        """At which revision the key was last changed; 0 if it is not there."""
        ...

    def scan(self, prefix: str) -> list[tuple[str, bytes]]:
        """All keys that begin with a prefix, in order, as they are at one moment."""
        ...

    def transact(self, compares: Sequence[Compare], operations: Sequence[Operation]) -> bool:
        """Do all operations if every comparison holds; return whether they did."""
        ...

    def close(self) -> None: ...


def check_size(compares: Sequence[Compare], operations: Sequence[object]) -> None:
    """Refuse a transaction that another store could not take."""
    for what, count in (("comparisons", len(compares)), ("operations", len(operations))):
        if count > STORE_OPERATIONS_MAX:
            raise KvTooLarge(f"a transaction has {count} {what}, the limit is {STORE_OPERATIONS_MAX}")


def holds(compare: Compare, found: tuple[bytes, int] | None) -> bool:
    """Judge a comparison by the value and revision of its key."""
    match compare:
        case Absent():
            return found is None
        case Equals():
            return found is not None and found[0] == compare.value
        case RevisionIs():
            return compare.revision == (0 if found is None else found[1])


def plan_sequence(kv: KvStore, key: str, *, start: int, count: int = 1) -> tuple[int, Compare, PutKey]:
    """Return the first of the next numbers, and the compare and put that reserve them in a transaction."""
    found = kv.get(key)
    number = start if found is None else max(start, int(found))
    compare: Compare = Absent(key) if found is None else Equals(key, found)
    return number, compare, PutKey(key, str(number + count).encode())
