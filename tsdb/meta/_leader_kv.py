"""The metadata as only a leader may change it.

Each transaction is conditional on the leadership, so that a server that was deposed without knowing it changes nothing,
and puts `__catalog_version` too: who has seen that revision of the key has seen the change. Changes of what belongs
into a backup are noted in the shared log of a datanode, if datanodes keep these (`_history`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import count

from tsdb.kv import Compare, CoordinationStore, Leadership, Operation, PutKey
from tsdb.meta._history import CatalogHistory
from tsdb.meta._keys import CATALOG_VERSION


class LeaderKv:
    """A `KvStore` over the shared store, for one leadership."""

    def __init__(self, store: CoordinationStore, leadership: Leadership) -> None:
        self._store = store
        self._leadership = leadership
        self._numbers = count(1)
        self.history: CatalogHistory | None = None
        """What has changes noted; set by the leader before it changes anything."""

    def get(self, key: str) -> bytes | None:
        return self._store.get(key)

    def revision(self, key: str) -> int:
        return self._store.revision(key)

    def scan(self, prefix: str) -> list[tuple[str, bytes]]:
        return self._store.scan(prefix)

    def transact(self, compares: Sequence[Compare], operations: Sequence[Operation]) -> bool:
        """As for every store; LeadershipLost, changing nothing, if another may lead."""
        if not operations:
            return self._leadership.transact(compares, [])
        if self.history is not None:
            return self.history.record(operations, partial(self._transact, compares))
        return self._transact(compares, operations)

    def transact_plainly(self, operations: Sequence[Operation]) -> bool:
        """Make a change that is not noted."""
        return self._transact([], operations)

    def _transact(self, compares: Sequence[Compare], operations: Sequence[Operation]) -> bool:
        number = f"{self._leadership.term}.{next(self._numbers)}".encode()
        return self._leadership.transact(compares, [*operations, PutKey(CATALOG_VERSION, number)])

    def version(self) -> int:
        """The revision of the newest change, as far as leaders made it."""
        return self._store.revision(CATALOG_VERSION)

    def close(self) -> None:
        """The store belongs to the server, and stays open."""
