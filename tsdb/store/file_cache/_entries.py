"""What lies in the file cache, and what has to go when something else is to come: no I/O, no lock.

- `used` is the size of all files, complete or being written. It never exceeds the capacity: bytes are reserved before
  they are written, and given back after their file is deleted.
- New files, written by this process, are pinned: they are what queries of recent data and the next compactions read.
  They may take half of the capacity; beyond that the oldest of them become ordinary.
- Of the ordinary files the least recently used goes first. One that is lent to another process does not go.
- Index files have a share of a fifth: as long as all of them take no more, data files do not push them out. They are
  small and decide which parts of much larger data files are read, so one costs little to keep and much to miss.
"""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Iterator

from tsdb.store.file_cache._content import is_index

PINNED_SHARE = 0.5
INDEX_SHARE = 0.2


class LocalCopy:
    """A directory that holds copies of some objects. As long as this is held, they are not evicted.

    Their paths in the directory are those of the objects.
    """

    __slots__ = ("__weakref__", "root")

    def __init__(self, root: str) -> None:
        self.root = root


class CacheEntry:
    """One file of the cache."""

    __slots__ = ("_holders", "is_checked", "is_pinned", "size_bytes")

    def __init__(self, size_bytes: int, *, is_checked: bool) -> None:
        self.size_bytes = size_bytes
        self.is_checked = is_checked
        """Whether its content was looked at in this process: files of an earlier one may be torn."""
        self.is_pinned = False
        self._holders: list[weakref.ref[LocalCopy]] = []

    @property
    def is_held(self) -> bool:
        return any(holder() is not None for holder in self._holders)

    def hold(self, copy: LocalCopy) -> None:
        self._holders = [holder for holder in self._holders if holder() is not None]
        self._holders.append(weakref.ref(copy))


class CacheEntries:
    """Files by their keys, within a number of bytes."""

    def __init__(self, capacity_bytes: int) -> None:
        self.capacity_bytes = capacity_bytes
        self.used = 0
        """Of files, complete or not."""
        self.pinned_bytes = 0
        self.index_bytes = 0
        """Of complete index files, pinned or not."""
        self._pinned: OrderedDict[str, CacheEntry] = OrderedDict()
        self._ordinary: OrderedDict[str, CacheEntry] = OrderedDict()

    def __len__(self) -> int:
        return len(self._pinned) + len(self._ordinary)

    def __iter__(self) -> Iterator[tuple[str, CacheEntry]]:
        yield from self._pinned.items()
        yield from self._ordinary.items()

    def find(self, key: str) -> CacheEntry | None:
        """Return a file; that is no use of it."""
        return self._ordinary.get(key) or self._pinned.get(key)

    def use(self, key: str) -> CacheEntry | None:
        """Return a file and note that it is used."""
        entry = self._ordinary.get(key)
        if entry is not None:
            self._ordinary.move_to_end(key)
            return entry
        return self._pinned.get(key)

    def add(self, key: str, entry: CacheEntry, *, is_new: bool) -> None:
        """Add a file whose bytes are reserved already; one of the same key is gone before."""
        self._count_index(key, entry.size_bytes)
        if not is_new:
            self._ordinary[key] = entry
            return
        entry.is_pinned = True
        self._pinned[key] = entry
        self.pinned_bytes += entry.size_bytes
        while self.pinned_bytes > self.capacity_bytes * PINNED_SHARE:
            self._unpin(*self._pinned.popitem(last=False))

    def take(self, key: str) -> CacheEntry | None:
        """Take a file out; its bytes stay reserved until `release`."""
        entry = self._ordinary.pop(key, None)
        if entry is None and (entry := self._pinned.pop(key, None)) is not None:
            self.pinned_bytes -= entry.size_bytes
        if entry is not None:
            self._count_index(key, -entry.size_bytes)
        return entry

    def reserve(self, size_bytes: int, limit: int) -> bool:
        """Reserve bytes, if not more than `limit` are used then."""
        if self.used + size_bytes > min(limit, self.capacity_bytes):
            return False
        self.used += size_bytes
        return True

    def release(self, size_bytes: int) -> None:
        """Give bytes back: their file is deleted, or was never written."""
        self.used -= size_bytes

    def take_victims(self, size_bytes: int, limit: int) -> list[tuple[str, CacheEntry]] | None:
        """Take out files that have to be deleted before bytes can be reserved; None if that would not be enough."""
        limit = min(limit, self.capacity_bytes)
        excess = self.used + size_bytes - limit
        index_excess = self.index_bytes - limit * INDEX_SHARE
        victims: list[str] = []
        for key, entry in self._ordinary.items():
            if excess <= 0:
                break
            if entry.is_held or (is_index(key) and index_excess <= 0):
                continue
            victims.append(key)
            excess -= entry.size_bytes
            index_excess -= entry.size_bytes if is_index(key) else 0
        if excess > 0:
            return None
        return [(key, taken) for key in victims if (taken := self.take(key)) is not None]

    def _count_index(self, key: str, size_bytes: int) -> None:
        if is_index(key):
            self.index_bytes += size_bytes

    def _unpin(self, key: str, entry: CacheEntry) -> None:
        entry.is_pinned = False
        self.pinned_bytes -= entry.size_bytes
        self._ordinary[key] = entry
