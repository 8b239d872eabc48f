"""Caches bounded by bytes: what was read stays in memory as long as it earns its place.

    new ─▶ probation ─(used again)▶ protected ─(over its limit)▶ probation ─(oldest, over capacity)▶ gone

- An entry that is used once never pushes out one that is used often: a scan of everything passes through probation and
  leaves the protected part alone.
- One load per key at a time: other requests for the key wait for it. No lock is held while a load runs.
- A capacity of 0 switches a cache off: every request loads, nothing is kept.

Values are shared between threads and must not be changed.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import chain, islice
from operator import attrgetter
from typing import Any, Generic, NamedTuple, TypeVar

from tsdb.model import ColumnId
from tsdb.telemetry import CacheState, CacheStatistics

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

_PROTECTED_SHARE = 0.8
PAGES = "page"
DROPPED_MAX = 1000
"""So many unused entries are dropped at a look: others wait for the lock meanwhile, for a millisecond or two."""


@dataclass(slots=True, eq=False)
class _Entry(Generic[V]):
    value: V
    size_bytes: int
    look: int
    """Between which looks it was used last."""


class _Load(Generic[V]):
    """A load that is under way; others wait for it."""

    def __init__(self) -> None:
        self.done = threading.Event()
        self.value: V | None = None
        self.has_value = False
        self.is_unwanted = False
        """The key was removed meanwhile: waiters get the value, the cache does not keep it."""


class ByteCache(Generic[K, V]):
    """A segmented LRU cache weighed in bytes. Thread-safe."""

    def __init__(self, capacity_bytes: int, name: str, group_of: Callable[[K], Hashable] = lambda key: key) -> None:
        """`group_of` says which keys are forgotten together (`remove_group`)."""
        self.name = name
        self._group_of = group_of
        self._full_bytes = capacity_bytes
        self.capacity_bytes = capacity_bytes
        """What it may hold at the moment."""
        self._lock = threading.Lock()
        self._probation: OrderedDict[K, _Entry[V]] = OrderedDict()
        self._protected: OrderedDict[K, _Entry[V]] = OrderedDict()
        self._bytes = 0
        self._protected_bytes = 0
        self._groups: dict[Hashable, set[K]] = {}
        self._loading: dict[K, _Load[V]] = {}
        self._hits = 0
        self._misses = 0
        self._evictions = 0
        self._look = 0
        """How often `drop_unused` has looked."""

    @property
    def is_enabled(self) -> bool:
        return self.capacity_bytes > 0

    def get_or_load(self, key: K, load: Callable[[], V], weigh: Callable[[V], int]) -> V:
        """Return the value of a key; `load` makes it if it is not here, `weigh` says how many bytes it takes."""
        if not self.is_enabled:
            with self._lock:
                self._misses += 1
            return load()
        while True:
            with self._lock:
                found = self._touch(key)
                if found is not None:
                    self._hits += 1
                    return found.value
                under_way = self._loading.get(key)
                if under_way is None:
                    self._misses += 1
                    mine = self._loading[key] = _Load()
                    break
            under_way.done.wait()
            if under_way.has_value:
                with self._lock:
                    self._hits += 1
                return under_way.value  # type: ignore[return-value]
            # The load failed, and its error went to the caller that ran it: try again, for an error of this caller.
        return self._run(key, mine, load, weigh)

    def get_many(self, keys: Sequence[K]) -> list[V | None]:
        """Return the values of keys, None for those that are not here."""
        with self._lock:
            entries = [self._touch(key) for key in keys]
            found = [None if entry is None else entry.value for entry in entries]
            # The load of what is missing counts as the miss.
            self._hits += len(entries) - entries.count(None)
            return found

    def has_all(self, keys: Iterable[K]) -> bool:
        """Tell whether all keys are here; that does not count as a use."""
        with self._lock:
            return all(key in self._protected or key in self._probation for key in keys)

    def put(self, key: K, value: V, size_bytes: int) -> None:
        """Keep a value that is at hand already."""
        with self._lock:
            self._insert(key, value, size_bytes)

    def peek(self, key: K) -> V | None:
        """Return the value of a key if it is here; that counts as no use of it."""
        with self._lock:
            found = self._protected.get(key) or self._probation.get(key)
            return None if found is None else found.value

    def remove_group(self, group: Hashable) -> None:
        """Forget the keys of a group, those that are being loaded included; the others are not looked at."""
        with self._lock:
            for key, load in self._loading.items():
                load.is_unwanted |= self._group_of(key) == group
            for key in list(self._groups.get(group, ())):
                self._remove(key)

    def limit_to(self, share: float) -> int:
        """Hold at most this part of the configured capacity from now on, what is used most; return the bytes freed."""
        with self._lock:
            before = self._bytes
            self.capacity_bytes = int(self._full_bytes * share)
            self._evict(self.capacity_bytes)
            return before - self._bytes

    def drop_unused(self, entries_max: int = DROPPED_MAX) -> int:
        """Forget what was not used between the last look and this one; return the bytes freed."""
        with self._lock:
            before = self._bytes
            entries = chain(self._probation.items(), self._protected.items())
            unused = (key for key, entry in entries if entry.look < self._look)
            for key in list(islice(unused, entries_max)):
                self._remove(key)
            self._look += 1
            return before - self._bytes

    def statistics(self) -> CacheStatistics:
        with self._lock:
            return CacheStatistics(
                name=self.name,
                capacity_bytes=self.capacity_bytes,
                bytes=self._bytes,
                entries=len(self._probation) + len(self._protected),
                hits=self._hits,
                misses=self._misses,
                evictions=self._evictions,
                state=CacheState.ON if self.is_enabled else CacheState.OFF,
                reason=None if self.is_enabled else "its capacity is 0",
            )

    def _run(self, key: K, mine: _Load[V], load: Callable[[], V], weigh: Callable[[V], int]) -> V:
        try:
            value = load()
            size_bytes = weigh(value)
            mine.value, mine.has_value = value, True
        finally:
            with self._lock:
                del self._loading[key]
                if mine.has_value and not mine.is_unwanted:
                    self._insert(key, value, size_bytes)
            mine.done.set()
        return value

    def _touch(self, key: K) -> _Entry[V] | None:
        """Find an entry and note that it was used."""
        found = self._protected.get(key)
        if found is not None:
            self._protected.move_to_end(key)
            found.look = self._look
            return found
        found = self._probation.pop(key, None)
        if found is None:
            return None
        found.look = self._look
        self._protected[key] = found
        self._protected_bytes += found.size_bytes
        while self._protected_bytes > self.capacity_bytes * _PROTECTED_SHARE:
            oldest, entry = self._protected.popitem(last=False)
            self._protected_bytes -= entry.size_bytes
            self._probation[oldest] = entry
        return found

    def _insert(self, key: K, value: V, size_bytes: int) -> None:
        self._remove(key)
        # What is larger than the whole cache would push out everything and still not fit.
        if size_bytes > self.capacity_bytes:
            return
        self._evict(self.capacity_bytes - size_bytes)
        self._probation[key] = _Entry(value, size_bytes, self._look)
        self._groups.setdefault(self._group_of(key), set()).add(key)
        self._bytes += size_bytes

    def _evict(self, bytes_max: int) -> None:
        while self._bytes > bytes_max:
            if self._probation:
                key, entry = self._probation.popitem(last=False)
            else:
                key, entry = self._protected.popitem(last=False)
                self._protected_bytes -= entry.size_bytes
            self._unlist(key)
            self._bytes -= entry.size_bytes
            self._evictions += 1

    def _remove(self, key: K) -> None:
        entry = self._probation.pop(key, None)
        if entry is None:
            entry = self._protected.pop(key, None)
            if entry is None:
                return
            self._protected_bytes -= entry.size_bytes
        self._unlist(key)
        self._bytes -= entry.size_bytes

    def _unlist(self, key: K) -> None:
        group = self._group_of(key)
        keys = self._groups[group]
        keys.discard(key)
        if not keys:
            del self._groups[group]


class MetaKey(NamedTuple):
    """What is known of a data file: `footer`, `block`, `index` or a page of the index, by blob and number."""

    file_id: str
    part: str


class ColumnForm(IntEnum):
    """What is kept of a decoded column."""

    HELD = 0
    """The values of a row group; integers may be in a narrower type than they were written in."""
    WIDE = 1
    """The same in the type they were written in."""
    FIRST_ROWS = 2
    """The values in the first rows of all series of a file."""
    LAST_ROWS = 3


class ColumnKey(NamedTuple):
    """A decoded column of a data file."""

    file_id: str
    column: ColumnId
    row_group: int = 0
    """0 in forms that are of the whole file."""
    form: ColumnForm = ColumnForm.HELD


class PageKey(NamedTuple):
    """A column chunk of a data file as it is stored."""

    file_id: str
    offset: int
    length: int


_FILE = attrgetter("file_id")


@dataclass(frozen=True, slots=True)
class Caches:
    """The caches that all data files of a process share."""

    sst_meta: ByteCache[MetaKey, Any]
    """Footers, series blocks and pages of indexes."""
    vectors: ByteCache[ColumnKey, Any]
    """Decoded columns."""
    pages: ByteCache[PageKey, bytes]
    """Columns of files in a remote store as they are stored, so that decoding them again does not touch the store."""

    @classmethod
    def of(cls, *, sst_meta_bytes: int, vector_bytes: int, page_bytes: int) -> Caches:
        return cls(
            ByteCache(sst_meta_bytes, "sst_meta", _FILE),
            ByteCache(vector_bytes, "vector", _FILE),
            ByteCache(page_bytes, PAGES, _FILE),
        )

    @classmethod
    def disabled(cls) -> Caches:
        return cls.of(sst_meta_bytes=0, vector_bytes=0, page_bytes=0)

    def evict_file(self, file_id: str) -> None:
        """Forget a file that was deleted."""
        self.sst_meta.remove_group(file_id)
        self.vectors.remove_group(file_id)
        self.pages.remove_group(file_id)

    def limit_to(self, share: float) -> int:
        """Hold at most this part of the configured capacities from now on; return the bytes freed."""
        return sum(each.limit_to(share) for each in (self.pages, self.vectors, self.sst_meta))

    def statistics(self) -> tuple[CacheStatistics, ...]:
        return self.sst_meta.statistics(), self.vectors.statistics(), self.pages.statistics()
