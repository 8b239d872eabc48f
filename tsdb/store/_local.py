"""Objects as files below a directory, durable and atomic.

An object is written to a temporary file beside its place, synced, and moved into place; then the directory is
synced. So a crash at any moment leaves the old object or the new one, and what `put` has returned for
survives a power loss. Temporary files (`*.tmp-*`) are never listed; `sweep_temporary` removes what a crash
left of them.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pyarrow as pa

from tsdb.ids import SYSTEM_IDS, Ids
from tsdb.store._crash import crash_point
from tsdb.store._errors import InvalidRange, ObjectExists, ObjectNotFound, wrap_os_error
from tsdb.store._files import Buffer, Files, make_directories, read_exactly, write_all
from tsdb.store._protocol import (
    DEFAULT_BUFFER_BYTES,
    TEMPORARY_MARK,
    ObjectData,
    ObjectMeta,
    ObjectSink,
    as_buffers,
    check_path,
    check_prefix,
)

_TEMPORARY_BYTES = 8
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL
_ABSENT = (errno.ENOENT, errno.ENOTDIR, errno.EISDIR)


class LocalStore:
    """An `ObjectStore` on a local file system."""

    def __init__(self, root: str | Path, *, files: Files | None = None, ids: Ids = SYSTEM_IDS) -> None:
        self._root = Path(root).absolute()
        self._files = files or Files()
        self._ids = ids
        with _wrapped("create the directory", str(self._root)):
            make_directories(self._files, self._root)

    @property
    def root(self) -> Path:
        return self._root

    def put(self, path: str, data: ObjectData) -> None:
        with self.writer(path) as sink:
            for part in as_buffers(data):
                sink.write(part)

    def put_if_absent(self, path: str, data: ObjectData) -> None:
        target = self._locate(path)
        with self._temporary(target, DEFAULT_BUFFER_BYTES) as sink:
            for part in as_buffers(data):
                sink.write(part)
            sink.sync()
            with _wrapped("write", path):
                crash_point("store.put_if_absent.before_link")
                try:
                    self._files.link(sink.path, target)
                except FileExistsError:
                    raise ObjectExists(path) from None
                crash_point("store.put_if_absent.after_link")
                self._files.unlink(sink.path)
                self._files.fsync_dir(target.parent)

    def get(self, path: str) -> bytes:
        with self._reading(path) as fd:
            return read_exactly(self._files, fd, self._files.size(fd), 0)

    def get_range(self, path: str, offset: int, length: int) -> bytes:
        with self._reading(path) as fd:
            size = self._files.size(fd)
            if offset < 0 or length < 0 or offset + length > size:
                raise InvalidRange(path, offset=offset, length=length, size_bytes=size)
            return read_exactly(self._files, fd, length, offset)

    def head(self, path: str) -> ObjectMeta:
        target = self._locate(path)
        with _wrapped("look at", path):
            found = self._files.stat(target)
        if not stat.S_ISREG(found.st_mode):
            raise ObjectNotFound(path)
        return ObjectMeta(path, found.st_size, found.st_mtime_ns)

    def list(self, prefix: str, start_after: str | None = None) -> Iterator[ObjectMeta]:
        prefix = check_prefix(prefix)
        return self._walk(self._root / prefix, f"{prefix}/" if prefix else "", start_after or "")

    def delete(self, path: str) -> None:
        target = self._locate(path)
        with suppress(ObjectNotFound), _wrapped("delete", path):
            self._files.unlink(target)
            self._files.fsync_dir(target.parent)

    def delete_prefix(self, prefix: str) -> None:
        prefix = check_prefix(prefix)
        directory = self._root / prefix
        with suppress(ObjectNotFound), _wrapped("delete", prefix):
            self._empty(directory)
            if prefix:
                self._files.rmdir(directory)
                directory = directory.parent
            self._files.fsync_dir(directory)

    @contextmanager
    def writer(self, path: str, buffer_bytes: int = DEFAULT_BUFFER_BYTES) -> Iterator[ObjectSink]:
        target = self._locate(path)
        with self._temporary(target, buffer_bytes) as sink:
            yield sink
            sink.sync()
            with _wrapped("write", path):
                crash_point("store.put.before_rename")
                self._files.rename(sink.path, target)
                crash_point("store.put.after_rename")
                self._files.fsync_dir(target.parent)

    def open_input(self, path: str) -> pa.NativeFile:
        # Not a memory map: a read error of the disk must become an exception, not a signal that ends the
        # process.
        target = self._locate(path)
        if target.is_dir():
            raise ObjectNotFound(path)
        with _wrapped("open", path):
            return pa.OSFile(str(target), "rb")

    def sweep_temporary(self) -> int:
        """Remove what a crash left half written, at the start, before any write; return how many files."""
        with _wrapped("remove temporary files", str(self._root)):
            return self._sweep(self._root)

    def free_bytes(self) -> int | None:
        """Return how much space is left for more objects; None if that is unknown."""
        try:
            return self._files.free_bytes(self._root)
        except OSError:
            return None

    def _locate(self, path: str) -> Path:
        return self._root / check_path(path)

    @contextmanager
    def _reading(self, path: str) -> Iterator[int]:
        target = self._locate(path)
        with _wrapped("read", path):
            fd = self._files.open(target, os.O_RDONLY)
            try:
                yield fd
            finally:
                self._files.close(fd)

    @contextmanager
    def _temporary(self, target: Path, buffer_bytes: int) -> Iterator[_LocalSink]:
        """A new file beside `target`, gone afterwards unless it was moved away."""
        path = target.with_name(f"{target.name}{TEMPORARY_MARK}{self._ids.token(_TEMPORARY_BYTES)}")
        with _wrapped("write", str(target)):
            fd = self._create(path)
        sink = _LocalSink(self._files, path, fd, buffer_bytes, name=str(target))
        try:
            yield sink
        finally:
            sink.close_file()
            with suppress(OSError):
                self._files.unlink(path)

    def _create(self, path: Path) -> int:
        for _ in range(8):
            make_directories(self._files, path.parent)
            # A delete_prefix that runs meanwhile may take the directory away again.
            with suppress(FileNotFoundError):
                return self._files.open(path, _CREATE)
        return self._files.open(path, _CREATE)

    def _walk(self, directory: Path, prefix: str, start_after: str) -> Iterator[ObjectMeta]:
        # With its slash, a directory sorts among its siblings exactly where the paths below it belong.
        for name in self._names(directory):
            path = prefix + name
            if name.endswith("/"):
                if path > start_after or start_after.startswith(path):
                    yield from self._walk(directory / name[:-1], path, start_after)
            elif path > start_after and TEMPORARY_MARK not in name:
                with suppress(ObjectNotFound):
                    yield self.head(path)

    def _names(self, directory: Path) -> Sequence[str]:
        """The names in a directory, sorted, directories with a slash behind; nothing if it does not exist."""
        try:
            with _wrapped("list", str(directory)):
                entries = self._files.entries(directory)
        except ObjectNotFound:
            return []
        return sorted(f"{name}/" if is_directory else name for name, is_directory in entries)

    def _sweep(self, directory: Path) -> int:
        count = 0
        for name in self._names(directory):
            if name.endswith("/"):
                count += self._sweep(directory / name[:-1])
            elif TEMPORARY_MARK in name:
                self._files.unlink(directory / name)
                count += 1
        return count

    def _empty(self, directory: Path) -> None:
        for name in self._names(directory):
            if name.endswith("/"):
                self._empty(directory / name[:-1])
                self._files.rmdir(directory / name[:-1])
            else:
                self._files.unlink(directory / name)


class _LocalSink(ObjectSink):
    """Collects small writes and passes them on to a file in pieces of `buffer_bytes`."""

    def __init__(self, files: Files, path: Path, fd: int, buffer_bytes: int, *, name: str) -> None:
        self.path = path
        self._name = name
        self._files = files
        self._fd: int | None = fd
        self._buffer = bytearray()
        self._buffer_bytes = buffer_bytes
        self._written = 0

    @property
    def closed(self) -> bool:
        return self._fd is None

    def write(self, data: Buffer, /) -> int:
        view = memoryview(data).cast("B")
        if len(self._buffer) + len(view) > self._buffer_bytes:
            self.flush()
        if len(view) >= self._buffer_bytes:
            self._write(view)
        else:
            self._buffer += view
        self._written += len(view)
        return len(view)

    def tell(self) -> int:
        return self._written

    def flush(self) -> None:
        if self._buffer:
            self._write(self._buffer)
            self._buffer = bytearray()

    def close(self) -> None:
        """Nothing: the writer's block decides when the object is complete, and closes the file."""

    def sync(self) -> None:
        self.flush()
        crash_point("store.put.before_sync")
        with _wrapped("write", self._name):
            self._files.fsync(self._open_fd())
        self.close_file()

    def close_file(self) -> None:
        if self._fd is not None:
            fd, self._fd = self._fd, None
            self._files.close(fd)

    def _write(self, data: Buffer) -> None:
        with _wrapped("write", self._name):
            write_all(self._files, self._open_fd(), data)

    def _open_fd(self) -> int:
        if self._fd is None:
            raise ValueError(f"the writer of {self._name} is closed")
        return self._fd


@contextmanager
def _wrapped(operation: str, path: str) -> Iterator[None]:
    """Turn errors of the operating system into those of the store; leave all others alone."""
    try:
        yield
    except OSError as error:
        if error.errno in _ABSENT and operation != "write":
            raise ObjectNotFound(path) from error
        raise wrap_os_error(error, operation=operation, path=path) from error
