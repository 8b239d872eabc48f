"""Copies of objects as files of a local directory, within a number of bytes.

    {directory}/LOCK                      one process at a time
    {directory}/files/{store}/{path}      a copy; its content is that of the object
    {directory}/files/…/{name}.tmp-…      a copy that is being written

A copy is written under a temporary name, synced and moved into place, so that a crash leaves a whole file or none.
Nothing but the directory says what is there: a start lists it, and looks at each file (size, first and last bytes) when
it is first used.

Nothing here raises because of the disk: what cannot be written is not kept, what cannot be read is not there. Errors
are counted and logged. After one that is not about a single file, nothing is written for a while.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import pyarrow as pa

from tsdb.clock import Clock, SystemClock
from tsdb.errors import StartError
from tsdb.ids import SYSTEM_IDS, Ids
from tsdb.store._errors import InvalidRange
from tsdb.store._files import Files, read_exactly
from tsdb.store._lock import DirectoryInUse, DirectoryLock
from tsdb.store._protocol import TEMPORARY_MARK
from tsdb.store.file_cache._content import is_whole
from tsdb.store.file_cache._entries import CacheEntries, CacheEntry, LocalCopy
from tsdb.store.file_cache._health import OF_ONE_FILE, CacheHealth
from tsdb.store.file_cache._write import CacheWrite
from tsdb.telemetry import CacheState, CacheStatistics

FREE_BYTES_MIN = 512 << 20
"""Space that the cache leaves on its disk: the log may be on the same one, and needs it more."""

_FILES = "files"
_RESERVE_ATTEMPTS = 4


class FileCache:
    """The files of a cache directory. Thread-safe; no lock is held while a file is read, written or deleted."""

    def __init__(
        self,
        directory: str | Path,
        capacity_bytes: int,
        *,
        files: Files | None = None,
        clock: Clock | None = None,
        ids: Ids = SYSTEM_IDS,
        free_bytes_min: int = FREE_BYTES_MIN,
    ) -> None:
        """Take a cache directory; StartError if another process has it. One that cannot be used keeps nothing."""
        self.directory = Path(directory).absolute()
        self._root = self.directory / _FILES
        self.files = files or Files()
        self.ids = ids
        clock = clock or SystemClock()
        self.health = CacheHealth(self.directory, clock)
        self._free_bytes_min = free_bytes_min
        self._lock = threading.Lock()
        self._committing = threading.Lock()
        self._entries = CacheEntries(capacity_bytes)
        self._writing: dict[str, set[CacheWrite]] = {}
        self._stuck: dict[str, int] = {}
        """Sizes of files that could not be deleted: they count until they are."""
        self._hits = self._misses = self._evictions = 0
        self._is_closed = False
        self._claim = DirectoryLock(self.directory, key="storage.cache_path", clock=clock)
        self._open()

    @property
    def capacity_bytes(self) -> int:
        return self._entries.capacity_bytes

    def close(self) -> None:
        """Let another process have the directory; nothing is written any more."""
        self._is_closed = True
        self._claim.release()

    def locate(self, key: str) -> Path:
        return self._root / key

    def read(self, key: str, offset: int = 0, length: int | None = None) -> bytes | None:
        """Read a part of a copy, or all of it; None if it is not here."""
        entry = self._use(key)
        if entry is None:
            return None
        wanted = entry.size_bytes - offset if length is None else length
        if offset < 0 or wanted < 0 or offset + wanted > entry.size_bytes:
            raise InvalidRange(key.partition("/")[2], offset=offset, length=wanted, size_bytes=entry.size_bytes)
        try:
            data = self._read(self.locate(key), offset, wanted)
        except OSError as error:
            self.distrust(key, error)
            return None
        if len(data) != wanted:
            self.distrust(key, f"it has {offset + len(data)} bytes, expected {entry.size_bytes}")
            return None
        self._count_hit()
        return data

    def open_file(self, key: str) -> pa.NativeFile | None:
        """Open a copy; None if it is not here. It stays readable when it is evicted."""
        if self._use(key) is None:
            return None
        try:
            file = pa.OSFile(str(self.locate(key)), "rb")
        except OSError as error:
            self.distrust(key, error)
            return None
        self._count_hit()
        return file

    def has(self, key: str) -> bool:
        return self._use(key) is not None

    def is_known(self, key: str) -> bool:
        """Whether there is a copy, which may turn out to be torn when it is read."""
        with self._lock:
            return self._entries.find(key) is not None

    def hold(self, store: str, paths: Sequence[str]) -> LocalCopy | None:
        """Return where copies of objects are, which are not evicted as long as that is held.

        None if one is not here, or was not read since the start. No file is touched.
        """
        copy = LocalCopy(str(self._root / store))
        with self._lock:
            for path in paths:
                entry = self._entries.use(f"{store}/{path}")
                if entry is None or not entry.is_checked:
                    return None
                entry.hold(copy)
        return copy

    def begin(self, key: str) -> CacheWrite | None:
        """Begin to write a copy; None if nothing is written now."""
        if not self.is_writable or not (self._claim.is_held or self._open_again()):
            return None
        write = CacheWrite(self, key)
        with self._lock:
            self._writing.setdefault(key, set()).add(write)
        return write

    @property
    def is_writable(self) -> bool:
        return not self._is_closed and self.health.suspension is None

    def drop(self, key: str) -> None:
        """Delete a copy; one that is being written is not kept."""
        self._drop([key])

    def drop_below(self, store: str, prefix: str) -> None:
        """Delete the copies of all objects under a prefix."""
        start = f"{store}/{prefix}/" if prefix else f"{store}/"
        with self._lock:
            keys = {key for key, _ in self._entries if key.startswith(start)}
            keys.update(key for key in self._writing if key.startswith(start))
        self._drop(keys)
        self._prune(self._root / start.rstrip("/"))

    def distrust(self, key: str, reason: str | OSError) -> None:
        """Delete a copy that cannot be read, or whose content is wrong."""
        # A copy that was evicted meanwhile is no error.
        if self.is_known(key):
            self.health.note(reason, file=self.locate(key))
        self._drop([key])

    def reconcile(self, store: str, prefix: str, sizes: Mapping[str, int]) -> None:
        """Delete copies of an earlier process of objects that a complete listing of a prefix does not have."""
        start = f"{store}/{prefix}/" if prefix else f"{store}/"
        with self._lock:
            old = [
                key
                for key, entry in self._entries
                if not entry.is_checked
                and key.startswith(start)
                and sizes.get(key.removeprefix(f"{store}/")) != entry.size_bytes
            ]
        self._drop(old)

    def reserve(self, size_bytes: int) -> bool:
        """Make room for bytes of a copy that is being written; False if there is none."""
        if self._stuck:
            self._delete_stuck()
        for _ in range(_RESERVE_ATTEMPTS):
            limit = self._limit()
            with self._lock:
                if self._entries.reserve(size_bytes, limit):
                    return True
                victims = self._entries.take_victims(size_bytes, limit)
            if victims is None:
                return False
            gone = sum(self._delete(key, entry.size_bytes) for key, entry in victims)
            with self._lock:
                self._evictions += gone
        return False

    def release(self, size_bytes: int) -> None:
        with self._lock:
            self._entries.release(size_bytes)

    def install(self, write: CacheWrite, size_bytes: int, *, is_new: bool, move: Callable[[], None]) -> bool:
        """Let a copy that is written take its place; False if nobody wants it any more."""
        # Otherwise an older content could be moved over a newer one.
        with self._committing:
            with self._lock:
                if write.is_unwanted:
                    return False
                old = self._entries.take(write.key)
            try:
                move()
            except OSError:
                if old is not None:
                    self._delete(write.key, old.size_bytes)
                raise
            if self._add(write, size_bytes, is_new=is_new, replaced_bytes=0 if old is None else old.size_bytes):
                return True
        # Deleted while it was moved.
        self.files.unlink(self.locate(write.key))
        return False

    def _add(self, write: CacheWrite, size_bytes: int, *, is_new: bool, replaced_bytes: int) -> bool:
        """Add a copy that is in its place, unless nobody wants it any more; it replaces the others of its object."""
        with self._lock:
            self._entries.release(self._stuck.pop(write.key, 0) + replaced_bytes)
            if write.is_unwanted:
                return False
            self._entries.add(write.key, CacheEntry(size_bytes, is_checked=True), is_new=is_new)
            for other in self._writing[write.key]:
                other.is_unwanted |= other is not write
        return True

    def end(self, write: CacheWrite) -> None:
        """A copy is written, or will not be."""
        with self._lock:
            writes = self._writing.get(write.key, set())
            writes.discard(write)
            if not writes:
                self._writing.pop(write.key, None)

    def note_miss(self) -> None:
        with self._lock:
            self._misses += 1

    def statistics(self) -> CacheStatistics:
        suspension = self.health.suspension
        with self._lock:
            return CacheStatistics(
                name="file",
                capacity_bytes=self.capacity_bytes,
                bytes=self._entries.used,
                entries=len(self._entries),
                hits=self._hits,
                misses=self._misses,
                evictions=self._evictions,
                errors=self.health.errors,
                state=CacheState.ON if suspension is None else CacheState.SUSPENDED,
                reason=None if suspension is None else suspension.reason,
                since_ms=None if suspension is None else suspension.since_ms,
                last_error=self.health.last_error,
            )

    def _open(self) -> None:
        """Take the directory and list it: oldest first, as far as times of files say that."""
        try:
            self._claim.acquire()
        except DirectoryInUse:
            raise
        except StartError as error:
            cause = error.__cause__
            self.health.suspend(cause if isinstance(cause, OSError) else str(error), file=self.directory)
            return
        found = sorted(self._list(self._root), key=lambda each: each[2])
        for file, size_bytes, _ in found:
            self._entries.used += size_bytes
            self._entries.add(str(file.relative_to(self._root)), CacheEntry(size_bytes, is_checked=False), is_new=False)
        # Smaller than it was: what is too much goes now.
        self.reserve(0)

    def _open_again(self) -> bool:
        """Take a directory that could not be used at the start."""
        try:
            self._open()
        except DirectoryInUse as error:
            self.health.suspend(str(error), file=self.directory)
        return self._claim.is_held

    def _list(self, directory: Path) -> list[tuple[Path, int, int]]:
        """Return the files below a directory with size and time; what a crash left half written is deleted."""
        found: list[tuple[Path, int, int]] = []
        try:
            for name, is_directory in self.files.entries(directory):
                path = directory / name
                if is_directory:
                    found += self._list(path)
                elif TEMPORARY_MARK in name:
                    self.files.unlink(path)
                else:
                    stat = self.files.stat(path)
                    found.append((path, stat.st_size, stat.st_mtime_ns))
        except FileNotFoundError:
            return found
        except OSError as error:
            self.health.note(error, file=directory)
        return found

    def _use(self, key: str) -> CacheEntry | None:
        """Return a copy that can be read, and note that it is used."""
        with self._lock:
            entry = self._entries.use(key)
        if entry is None or entry.is_checked:
            return entry
        try:
            is_good = is_whole(self.files, self.locate(key), entry.size_bytes)
        except OSError as error:
            self.distrust(key, error)
            return None
        if not is_good:
            self.distrust(key, "it is not whole")
            return None
        entry.is_checked = True
        return entry

    def _read(self, file: Path, offset: int, length: int) -> bytes:
        fd = self.files.open(file, os.O_RDONLY)
        try:
            return read_exactly(self.files, fd, length, offset)
        finally:
            self.files.close(fd)

    def _count_hit(self) -> None:
        with self._lock:
            self._hits += 1

    def _limit(self) -> int:
        """Return how many bytes may be used: less than the capacity if the disk gets full otherwise."""
        try:
            free = self.files.free_bytes(self.directory)
        except OSError:
            return self.capacity_bytes
        with self._lock:
            return min(self.capacity_bytes, max(0, self._entries.used + free - self._free_bytes_min))

    def _drop(self, keys: Collection[str]) -> None:
        taken = []
        with self._lock:
            for key in keys:
                for write in self._writing.get(key, ()):
                    write.is_unwanted = True
                entry = self._entries.take(key)
                if entry is not None:
                    taken.append((key, entry.size_bytes))
        for key, size_bytes in taken:
            self._delete(key, size_bytes)

    def _delete(self, key: str, size_bytes: int) -> bool:
        """Delete the file of an entry that was taken out; one that cannot be deleted keeps its bytes."""
        file = self.locate(key)
        try:
            self.files.unlink(file)
        except OSError as error:
            if error.errno not in OF_ONE_FILE:
                self.health.note(error, file=file)
                with self._lock:
                    self._stuck[key] = size_bytes
                return False
        self.release(size_bytes)
        return True

    def _delete_stuck(self) -> None:
        with self._lock:
            stuck, self._stuck = self._stuck, {}
        for key, size_bytes in stuck.items():
            self._delete(key, size_bytes)

    def _prune(self, directory: Path) -> None:
        """Remove directories that are empty now."""
        with suppress(OSError):
            for name, is_directory in self.files.entries(directory):
                if is_directory:
                    self._prune(directory / name)
            self.files.rmdir(directory)
