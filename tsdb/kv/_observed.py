"""A metadata store that reports its changes to an observer, in the order in which they were made."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence

from tsdb.kv._protocol import Compare, KvStore, Operation, PutKey


class ObservedKv:
    """Calls `on_change` after each transaction, before its caller knows that it was made. Thread-safe."""

    def __init__(self, kv: KvStore, on_change: Callable[[Mapping[str, bytes | None]], None]) -> None:
        """`on_change` gets the keys that were put, with their values, and those that were deleted, with None."""
        self._kv = kv
        self._on_change = on_change
        self._lock = threading.Lock()

    def get(self, key: str) -> bytes | None:
        return self._kv.get(key)

    def revision(self, key: str) -> int:
        return self._kv.revision(key)

    def scan(self, prefix: str) -> list[tuple[str, bytes]]:
        return self._kv.scan(prefix)

    def transact(self, compares: Sequence[Compare], operations: Sequence[Operation]) -> bool:
        with self._lock:
            is_done = self._kv.transact(compares, operations)
            if is_done and operations:
                self._on_change({each.key: each.value if isinstance(each, PutKey) else None for each in operations})
        return is_done

    def close(self) -> None:
        self._kv.close()
