"""Metadata in memory, gone with the process."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from tsdb.kv._errors import KvClosed
from tsdb.kv._protocol import Compare, Operation, PutKey, check_size, holds


class MemoryKv:
    """A dictionary behind a lock."""

    def __init__(self) -> None:
        self._pairs: dict[str, tuple[bytes, int]] = {}
        self._revision = 0
        self._lock = threading.Lock()
        self._is_closed = False

    def get(self, key: str) -> bytes | None:
        with self._lock:
            self._check_open()
            found = self._pairs.get(key)
            return None if found is None else found[0]

    def revision(self, key: str) -> int:
        with self._lock:
            self._check_open()
            found = self._pairs.get(key)
            return 0 if found is None else found[1]

    def scan(self, prefix: str) -> list[tuple[str, bytes]]:
        with self._lock:
            self._check_open()
            found = [(key, value) for key, (value, _) in self._pairs.items() if key.startswith(prefix)]
        # Text sorts by code points, which is the order of its UTF-8 bytes.
        return sorted(found)

    def transact(self, compares: Sequence[Compare], operations: Sequence[Operation]) -> bool:
        check_size(compares, operations)
        with self._lock:
            self._check_open()
            if not all(holds(each, self._pairs.get(each.key)) for each in compares):
                return False
            self._revision += 1
            for operation in operations:
                if isinstance(operation, PutKey):
                    self._pairs[operation.key] = (operation.value, self._revision)
                else:
                    self._pairs.pop(operation.key, None)
            return True

    def close(self) -> None:
        with self._lock:
            self._is_closed = True

    def _check_open(self) -> None:
        if self._is_closed:
            raise KvClosed
