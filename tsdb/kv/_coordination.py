"""The interface of a metadata store that several processes share: leases and watches beside keys and values.

- A lease is kept alive by its store until it is revoked. It is lost when the store cannot renew it in time; keys that
  were put under it are then deleted by the store, in one change. The holder judges by its own monotonic clock, from the
  moment a renewal was *sent*: it knows of the loss no later than the store acts on it.
- A watch shows every change of the keys with a prefix, in order, once, whatever happens to connections meanwhile. It
  begins with everything there is (`WatchReset`), or behind a given revision. If the store no longer has the history,
  it shows everything there is again: who keeps a copy of the keys replaces it.
- All changes of one transaction are in the same `WatchChanges`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from tsdb.kv._leases import KvLease
from tsdb.kv._protocol import Compare, KvStore, Operation


@dataclass(frozen=True, slots=True)
class PutLeased:
    """Set the value of a key, until the lease ends or the key is put again."""

    key: str
    value: bytes
    lease_id: int


SharedOperation = Operation | PutLeased


@dataclass(frozen=True, slots=True)
class KvEntry:
    """A key's value, the revision of its last change, and its lease (0: none)."""

    value: bytes
    revision: int
    lease_id: int


@dataclass(frozen=True, slots=True)
class KeyPut:
    """A key was set."""

    key: str
    value: bytes
    revision: int


@dataclass(frozen=True, slots=True)
class KeyDeleted:
    """A key was removed, by a transaction or because its lease ended."""

    key: str
    revision: int


KeyEvent = KeyPut | KeyDeleted


@dataclass(frozen=True, slots=True)
class WatchReset:
    """All keys with the prefix, in order, as they were at a revision: nothing else was there."""

    revision: int
    pairs: tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True)
class WatchChanges:
    """What changed, in order, up to a revision."""

    revision: int
    events: tuple[KeyEvent, ...]


class KvWatch(Protocol):
    """A stream of changes. One thread may wait at a time."""

    def wait(self, timeout_seconds: float) -> WatchReset | WatchChanges | None:
        """Return what comes next, None if nothing comes in this time; raise `KvClosed` when the watch is closed.

        While the store cannot be reached nothing comes, and `problem` says why. A store that refuses the watch for
        good raises its error.
        """
        ...

    @property
    def problem(self) -> str | None:
        """Why nothing can come at the moment."""
        ...

    def close(self) -> None: ...


class CoordinationStore(KvStore, Protocol):
    """Keys and values that several processes share."""

    def find(self, key: str) -> KvEntry | None: ...

    def snapshot(self, prefix: str) -> WatchReset:
        """All keys with a prefix and the revision at which they are read."""
        ...

    def transact(self, compares: Sequence[Compare], operations: Sequence[SharedOperation]) -> bool:
        """As for every store; raise `LeaseLost`, changing nothing, if a lease has ended."""
        ...

    def grant_lease(self, ttl_seconds: int, on_lost: Callable[[KvLease], None] | None = None) -> KvLease:
        """Begin a lease and keep it alive. The store may grant a longer time than asked for.

        `on_lost` is called once, on a thread of the store, when the lease is lost; not when it is revoked.
        """
        ...

    def watch(self, prefix: str, *, after_revision: int | None = None) -> KvWatch:
        """Watch the keys with a prefix, from now with everything there is, or from a revision."""
        ...


def last_of_each_key(operations: Sequence[SharedOperation]) -> list[SharedOperation]:
    """Leave out operations that a later one of the same transaction undoes."""
    return list({operation.key: operation for operation in operations}.values())
