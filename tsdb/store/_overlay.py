"""A store that reads one store and writes to another: the lower one is never changed.

A database that is opened read-only is opened this way: what the engine changes when it starts, from a flush during
replay to removing leftovers, is changed in the upper store, which is thrown away.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from tsdb.store._errors import ObjectExists, ObjectNotFound
from tsdb.store._protocol import DEFAULT_BUFFER_BYTES, ObjectData, ObjectMeta, ObjectSink, ObjectStore, check_path


class OverlayStore:
    """An `ObjectStore` of what lies in `upper`, or else in `lower` and was not deleted here."""

    def __init__(self, lower: ObjectStore, upper: ObjectStore) -> None:
        self._lower = lower
        self._upper = upper
        self._lock = threading.Lock()
        self._deleted: set[str] = set()
        """Paths of the lower store that are hidden."""

    def put(self, path: str, data: ObjectData) -> None:
        self._upper.put(path, data)

    def put_if_absent(self, path: str, data: ObjectData) -> None:
        if self._is_below(path):
            raise ObjectExists(path)
        self._upper.put_if_absent(path, data)

    def get(self, path: str) -> bytes:
        return self.holder(path).get(path)

    def get_range(self, path: str, offset: int, length: int) -> bytes:
        return self.holder(path).get_range(path, offset, length)

    def head(self, path: str) -> ObjectMeta:
        return self.holder(path).head(path)

    def list(self, prefix: str, start_after: str | None = None) -> Iterator[ObjectMeta]:
        found = {meta.path: meta for meta in self._lower.list(prefix, start_after) if not self._is_deleted(meta.path)}
        found.update((meta.path, meta) for meta in self._upper.list(prefix, start_after))
        return iter([found[path] for path in sorted(found)])

    def delete(self, path: str) -> None:
        with self._lock:
            self._deleted.add(check_path(path))
        self._upper.delete(path)

    def delete_prefix(self, prefix: str) -> None:
        with self._lock:
            self._deleted.update(meta.path for meta in self._lower.list(prefix))
        self._upper.delete_prefix(prefix)

    @contextmanager
    def writer(self, path: str, buffer_bytes: int = DEFAULT_BUFFER_BYTES) -> Iterator[ObjectSink]:
        with self._upper.writer(path, buffer_bytes) as sink:
            yield sink

    def open_input(self, path: str) -> pa.NativeFile:
        return self.holder(path).open_input(path)

    def holder(self, path: str) -> ObjectStore:
        """Return the store that an object is read from."""
        try:
            self._upper.head(path)
        except ObjectNotFound:
            if self._is_deleted(path):
                raise
            return self._lower
        return self._upper

    def _is_below(self, path: str) -> bool:
        try:
            self._lower.head(path)
        except ObjectNotFound:
            return False
        return not self._is_deleted(path)

    def _is_deleted(self, path: str) -> bool:
        with self._lock:
            return path in self._deleted
