"""The interface of object storage.

Objects are immutable in spirit: they are written whole and become visible whole. A path is a relative POSIX
path of plain components (`data/public/1024/manifest/0.json`). A prefix is a path too and means everything
below it: `data/1` holds `data/1/x` but not `data/10/x`; the empty prefix means everything. Calls block: they
belong on worker threads.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import pyarrow as pa

from tsdb.store._errors import InvalidPath
from tsdb.store._files import Buffer

ObjectData: TypeAlias = Buffer | pa.Buffer | list[Buffer | pa.Buffer] | tuple[Buffer | pa.Buffer, ...]
TEMPORARY_MARK = ".tmp-"
DEFAULT_BUFFER_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class ObjectMeta:
    """The metadata of an object."""

    path: str
    size_bytes: int
    modified_ns: int


class ObjectSink(Protocol):
    """Where the bytes of a new object go, front to back. File enough for the writers of `pyarrow`."""

    @property
    def closed(self) -> bool: ...

    def write(self, data: Buffer, /) -> int: ...

    def tell(self) -> int: ...

    def flush(self) -> None: ...

    def close(self) -> None: ...

    def writable(self) -> bool:
        return True

    def readable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return False


class ObjectStore(Protocol):
    """Objects by path. When a call that writes returns, the object is durable."""

    def put(self, path: str, data: ObjectData) -> None:
        """Write an object, or replace it: a reader sees the old one or the new one, whole."""
        ...

    def put_if_absent(self, path: str, data: ObjectData) -> None:
        """Write an object that must not exist yet: of several callers one wins, the others get ObjectExists.

        After any other error the object may be there or not.
        """
        ...

    def get(self, path: str) -> bytes:
        """Read an object."""
        ...

    def get_range(self, path: str, offset: int, length: int) -> bytes:
        """Read exactly `length` bytes from `offset`; InvalidRange if the object does not hold them all."""
        ...

    def head(self, path: str) -> ObjectMeta:
        """Say what is known of an object without reading it."""
        ...

    def list(self, prefix: str, start_after: str | None = None) -> Iterator[ObjectMeta]:
        """List what lies under a prefix, sorted by path, beginning behind `start_after`."""
        ...

    def delete(self, path: str) -> None:
        """Delete an object; one that does not exist counts as deleted."""
        ...

    def delete_prefix(self, prefix: str) -> None:
        """Delete every object under a prefix."""
        ...

    def writer(self, path: str, buffer_bytes: int = DEFAULT_BUFFER_BYTES) -> AbstractContextManager[ObjectSink]:
        """Write an object in pieces: it appears, durable, when the block ends; never if the block raises."""
        ...

    def open_input(self, path: str) -> pa.NativeFile:
        """Open an object for random access by `pyarrow`."""
        ...


def check_path(path: str) -> str:
    """Return the path if it may name an object, raise InvalidPath otherwise."""
    if not path:
        raise InvalidPath(path, "it is empty")
    if "\0" in path:
        raise InvalidPath(path, "it holds a zero byte")
    for component in path.split("/"):
        if component in ("", ".", ".."):
            raise InvalidPath(path, f"it has the component {component!r}")
    if TEMPORARY_MARK in path:
        raise InvalidPath(path, f"{TEMPORARY_MARK!r} marks temporary files")
    return path


def check_prefix(prefix: str) -> str:
    """Return the prefix without its closing slash if it may be one, raise InvalidPath otherwise."""
    prefix = prefix.removesuffix("/")
    return check_path(prefix) if prefix else prefix


def as_buffers(data: ObjectData) -> Sequence[memoryview]:
    """View the parts of an object's content as bytes, without copying them."""
    parts: Sequence[Any] = data if isinstance(data, list | tuple) else [data]
    return [memoryview(part).cast("B") for part in parts]
