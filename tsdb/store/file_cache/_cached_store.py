"""An object store whose data and index files are kept as local files.

    write: the store and a local file at once; the copy counts when the store has all of it
    read:  the local file, or else the store, which fills the cache (`_fills`)
    delete: the store, then the local file

Manifests, markers and everything else go to the store alone, and so do questions of what exists: the store is the
truth, the cache only holds what it was given or has read. Objects that are kept never change once they are written, as
names of data files are never used again; where one is replaced all the same, its copy is replaced with it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa

from tsdb.store._errors import InvalidRange, StoreError
from tsdb.store._files import Buffer
from tsdb.store._protocol import (
    DEFAULT_BUFFER_BYTES,
    ObjectData,
    ObjectMeta,
    ObjectSink,
    ObjectStore,
    as_buffers,
    check_path,
    check_prefix,
)
from tsdb.store.file_cache._cache import FileCache
from tsdb.store.file_cache._content import is_kept
from tsdb.store.file_cache._entries import LocalCopy
from tsdb.store.file_cache._fills import Fills
from tsdb.store.file_cache._write import CacheWrite
from tsdb.telemetry import get_logger

SMALL_BYTES_MAX = 4 << 20
"""An object of no more bytes is downloaded whole when a part of it is read."""
PIECE_BYTES = 8 << 20
"""How much of a large object is downloaded at a time."""
SIZES_MAX = 100_000
"""Of how many objects the size is remembered."""

_UNKNOWN = 1 << 62

_log = get_logger("tsdb.cache")


class CachedStore:
    """An `ObjectStore` over another one, with local copies of some of its objects."""

    def __init__(
        self, store: ObjectStore, cache: FileCache, name: str = "default", *, keeps: Callable[[str], bool] = is_kept
    ) -> None:
        """`name` tells the objects of several stores in one cache apart."""
        self._store = store
        self.cache = cache
        self._name = name
        self._keeps = keeps
        self._sizes: OrderedDict[str, int] = OrderedDict()
        self.fills = Fills(self._fill)

    def put(self, path: str, data: ObjectData) -> None:
        if not self._keeps(path):
            self._store.put(path, data)
            return
        parts = as_buffers(data)
        with self._writing(path) as copy:
            self._store.put(path, data)
            if copy is not None:
                copy.write_all(parts)
            self._settle(path, sum(len(part) for part in parts), copy)

    def put_if_absent(self, path: str, data: ObjectData) -> None:
        self._store.put_if_absent(path, data)

    def get(self, path: str) -> bytes:
        if not self._keeps(path):
            return self._store.get(path)
        content = self.cache.read(self._key(path))
        if content is not None:
            return content
        self.cache.note_miss()
        size_bytes = self._size_of(path)
        if size_bytes is not None and size_bytes <= SMALL_BYTES_MAX:
            content = self._share(path, size_bytes)
        return self._store.get(path) if content is None else content

    def get_range(self, path: str, offset: int, length: int) -> bytes:
        if not self._keeps(path):
            return self._store.get_range(path, offset, length)
        found = self.cache.read(self._key(path), offset, length)
        if found is not None:
            return found
        self.cache.note_miss()
        return self._fetch(path, offset, length)

    def behind(self, path: str) -> ObjectStore:
        """Return where an object is read from by those who read it once: a copy is used, but none is made."""
        return self if self.has_local(path) else self._store

    def head(self, path: str) -> ObjectMeta:
        return self._store.head(path)

    def list(self, prefix: str, start_after: str | None = None) -> Iterator[ObjectMeta]:
        sizes: dict[str, int] = {}
        for meta in self._store.list(prefix, start_after):
            if self._keeps(meta.path):
                sizes[meta.path] = meta.size_bytes
            yield meta
        for path, size_bytes in sizes.items():
            self._remember(path, size_bytes)
        if start_after is None:
            self.cache.reconcile(self._name, check_prefix(prefix), sizes)

    def delete(self, path: str) -> None:
        try:
            self._store.delete(path)
        finally:
            self._forget(path)

    def delete_prefix(self, prefix: str) -> None:
        try:
            self._store.delete_prefix(prefix)
        finally:
            self.cache.drop_below(self._name, check_prefix(prefix))

    @contextmanager
    def writer(self, path: str, buffer_bytes: int = DEFAULT_BUFFER_BYTES) -> Iterator[ObjectSink]:
        if not self._keeps(path):
            with self._store.writer(path, buffer_bytes) as sink:
                yield sink
            return
        with self._writing(path) as copy:
            with self._store.writer(path, buffer_bytes) as sink:
                yield sink if copy is None else _Tee(sink, copy)
                size_bytes = sink.tell()
            self._settle(path, size_bytes, copy)

    def open_input(self, path: str) -> pa.NativeFile:
        if not self._keeps(path):
            return self._store.open_input(path)
        file = self.cache.open_file(self._key(path))
        if file is not None:
            return file
        self.cache.note_miss()
        size_bytes = self._size_of(path) if self.cache.is_writable else None
        if size_bytes is not None and size_bytes <= SMALL_BYTES_MAX:
            content = self._share(path, size_bytes)
            if content is not None:
                return pa.BufferReader(content)
        # The input of the store may read ahead. A compaction that goes through a file once does not make it local.
        elif size_bytes is not None and size_bytes <= self.cache.capacity_bytes:
            self.fills.note_read(path, size_bytes, 0)
        return self._store.open_input(path)

    def local_copy(self, paths: Sequence[str]) -> LocalCopy | None:
        """Return where copies of objects are, and keep them there as long as that is held.

        None if one is not here: it is downloaded in the background. Nothing is read here.
        """
        copy = self.cache.hold(self._name, paths)
        if copy is None and self.cache.is_writable:
            for path in paths:
                size_bytes = self._sizes.get(path, _UNKNOWN)
                if size_bytes <= self.cache.capacity_bytes and not self.cache.is_known(self._key(path)):
                    self.fills.want(path, size_bytes)
        return copy

    def has_local(self, path: str) -> bool:
        """Whether there is a copy of an object."""
        return self._keeps(path) and self.cache.has(self._key(path))

    def distrust(self, path: str) -> None:
        """The content of an object was found to be wrong: if there is a copy of it, the next read is of the store."""
        self.cache.distrust(self._key(path), "its content is damaged")

    def _key(self, path: str) -> str:
        return f"{self._name}/{check_path(path)}"

    @contextmanager
    def _writing(self, path: str) -> Iterator[CacheWrite | None]:
        """Write an object and a copy of it; whatever becomes of the first, an old copy is not kept."""
        copy = self.cache.begin(self._key(path))
        try:
            yield copy
        except BaseException:
            self._forget(path)
            raise
        finally:
            if copy is not None:
                copy.abandon()

    def _settle(self, path: str, size_bytes: int, copy: CacheWrite | None) -> None:
        """The store has taken an object: keep its copy, if the store really has all of it.

        Otherwise reads go to the store, and find out what is wrong there before anybody relies on it.
        """
        is_kept = copy is not None and not copy.is_over and self._has_all(path, size_bytes)
        if is_kept and copy is not None:
            is_kept = copy.commit(size_bytes, is_new=True)
        if is_kept:
            self._remember(path, size_bytes)
        else:
            self._forget(path)

    def _has_all(self, path: str, size_bytes: int) -> bool:
        try:
            return self._store.head(path).size_bytes == size_bytes
        except StoreError:
            return False

    def _fetch(self, path: str, offset: int, length: int) -> bytes:
        """Read a range from the store, and let the cache have the object if it is worth it."""
        size_bytes = self._size_of(path) if self.cache.is_writable else None
        if size_bytes is not None and size_bytes <= SMALL_BYTES_MAX:
            content = self._share(path, size_bytes)
            if content is not None:
                if offset < 0 or length < 0 or offset + length > size_bytes:
                    raise InvalidRange(path, offset=offset, length=length, size_bytes=size_bytes)
                return content[offset : offset + length]
        found = self._read_store(path, offset, length)
        if size_bytes is not None and SMALL_BYTES_MAX < size_bytes <= self.cache.capacity_bytes:
            self.fills.note_read(path, size_bytes, length)
        return found

    def _read_store(self, path: str, offset: int, length: int) -> bytes:
        found = self._store.get_range(path, offset, length)
        if len(found) != length:
            raise StoreError(f"the store returned {len(found)} of {length} bytes", path=path, hint="try again")
        return found

    def _share(self, path: str, size_bytes: int) -> bytes | None:
        """Download a small object once for all who want it now; None if that did not work."""

        def download() -> bytes:
            # Another reader's download may have ended between this one's look into the cache and its turn here.
            found = self.cache.read(self._key(path))
            if found is not None:
                return found
            content = self._store.get(path)
            if len(content) == size_bytes:
                copy = self.cache.begin(self._key(path))
                if copy is not None:
                    copy.write(content)
                    copy.commit(size_bytes, is_new=False)
                return content
            # Replaced since its size was learnt, or a read that was cut off: let the store answer.
            self._sizes.pop(path, None)
            raise StoreError(f"the store returned {len(content)} of {size_bytes} bytes", path=path)

        try:
            return self.fills.share(path, download)
        except StoreError as error:
            _log.debug("an object could not be downloaded to the cache", path=path, error=error)
            return None

    def _fill(self, path: str, size_bytes: int) -> None:
        """Download a large object. On a thread of its own."""
        copy = self.cache.begin(self._key(path))
        if copy is None:
            return
        try:
            for offset in range(0, size_bytes, PIECE_BYTES):
                if copy.is_over or copy.is_unwanted:
                    return
                copy.write(self._read_store(path, offset, min(PIECE_BYTES, size_bytes - offset)))
            copy.commit(size_bytes, is_new=False)
        except StoreError as error:
            _log.debug("an object could not be downloaded to the cache", path=path, error=error)
        finally:
            copy.abandon()

    def _size_of(self, path: str) -> int | None:
        """Return the size of an object; None if the store does not say."""
        size_bytes = self._sizes.get(path)
        if size_bytes is None:
            try:
                size_bytes = self._store.head(path).size_bytes
            except StoreError:
                return None
            self._remember(path, size_bytes)
        return size_bytes

    def _remember(self, path: str, size_bytes: int) -> None:
        self._sizes[path] = size_bytes
        while len(self._sizes) > SIZES_MAX:
            self._sizes.popitem(last=False)

    def _forget(self, path: str) -> None:
        self._sizes.pop(path, None)
        if self._keeps(path):
            self.cache.drop(self._key(path))


class _Tee(ObjectSink):
    """A sink whose content also goes to a copy."""

    def __init__(self, sink: ObjectSink, copy: CacheWrite) -> None:
        self._sink = sink
        self._copy = copy

    @property
    def closed(self) -> bool:
        return self._sink.closed

    def write(self, data: Buffer, /) -> int:
        written = self._sink.write(data)
        self._copy.write(data)
        return written

    def tell(self) -> int:
        return self._sink.tell()

    def flush(self) -> None:
        self._sink.flush()

    def close(self) -> None:
        self._sink.close()
