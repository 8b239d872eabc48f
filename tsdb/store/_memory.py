"""Objects in memory: for tests and temporary databases."""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa

from tsdb.clock import Clock, SystemClock
from tsdb.store._errors import InvalidRange, ObjectExists, ObjectNotFound
from tsdb.store._protocol import (
    DEFAULT_BUFFER_BYTES,
    ObjectData,
    ObjectMeta,
    ObjectSink,
    as_buffers,
    check_path,
    check_prefix,
)


class MemoryStore:
    """An `ObjectStore` that lives as long as the process."""

    def __init__(self, *, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._objects: dict[str, tuple[bytes, int]] = {}

    def put(self, path: str, data: ObjectData) -> None:
        content = b"".join(as_buffers(data))
        with self._lock:
            self._objects[check_path(path)] = (content, self._clock.now_ns())

    def put_if_absent(self, path: str, data: ObjectData) -> None:
        content = b"".join(as_buffers(data))
        with self._lock:
            if check_path(path) in self._objects:
                raise ObjectExists(path)
            self._objects[path] = (content, self._clock.now_ns())

    def get(self, path: str) -> bytes:
        return self._find(path)[0]

    def get_range(self, path: str, offset: int, length: int) -> bytes:
        content = self.get(path)
        if offset < 0 or length < 0 or offset + length > len(content):
            raise InvalidRange(path, offset=offset, length=length, size_bytes=len(content))
        return content[offset : offset + length]

    def head(self, path: str) -> ObjectMeta:
        content, modified_ns = self._find(path)
        return ObjectMeta(path, len(content), modified_ns)

    def list(self, prefix: str, start_after: str | None = None) -> Iterator[ObjectMeta]:
        with self._lock:
            found = [
                ObjectMeta(path, len(self._objects[path][0]), self._objects[path][1])
                for path in self._under(prefix)
                if start_after is None or path > start_after
            ]
        return iter(found)

    def delete(self, path: str) -> None:
        with self._lock:
            self._objects.pop(check_path(path), None)

    def delete_prefix(self, prefix: str) -> None:
        with self._lock:
            for path in self._under(prefix):
                del self._objects[path]

    @contextmanager
    def writer(self, path: str, buffer_bytes: int = DEFAULT_BUFFER_BYTES) -> Iterator[ObjectSink]:
        check_path(path)
        sink = _MemorySink()
        yield sink
        self.put(path, sink.getvalue())

    def open_input(self, path: str) -> pa.NativeFile:
        return pa.BufferReader(self.get(path))

    def _find(self, path: str) -> tuple[bytes, int]:
        with self._lock:
            try:
                return self._objects[check_path(path)]
            except KeyError:
                raise ObjectNotFound(path) from None

    def _under(self, prefix: str) -> Sequence[str]:
        prefix = check_prefix(prefix)
        start = f"{prefix}/" if prefix else ""
        return sorted(path for path in self._objects if path.startswith(start))


class _MemorySink(io.BytesIO):
    """A buffer that a writer may close without losing what it holds."""

    def close(self) -> None:
        return None
