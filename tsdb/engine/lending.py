"""Lending regions to other processes of this machine: what a query reads here can be read there.

    here                                              there
    ────                                              ─────
    Lender.lend(reader) ─▶ LentRegion ──────────────▶ Borrower.open ─▶ LocalReader over the same sources
    Lender.parcel() ─▶ Parcel: what is new ─────────▶ Borrower.take

Every source is sent once, under a number: of a data file its name and the directory it is in, which is that of the data
or that of the file cache; of a run in memory its columns, as shared memory beside the message. A snapshot is a list of
such numbers, and is sent again only when it has changed. What is gone here is forgotten there with the next parcel. As
long as a query has not ended, its snapshot here keeps the files that it reads there. A file of the file cache is not
evicted as long as it is lent; one that is only in a remote store is not lent.

A file that is found to be damaged there is reported by its number (`Borrower.take_damage`), and is treated here as if
it had been found here.
"""

from __future__ import annotations

import mmap
import os
import pickle
import threading
import weakref
from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from tsdb.engine.manifest import FileMeta
from tsdb.engine.reading import RegionReader
from tsdb.engine.region.reader import LocalReader
from tsdb.engine.rows.cache import Caches
from tsdb.engine.rows.compact import CompactRun
from tsdb.engine.rows.run import MemorySource, Run
from tsdb.engine.rows.source import Source
from tsdb.engine.scan import SeriesRegisters, Snapshot
from tsdb.engine.sst import DataFile
from tsdb.model import MetricView, RegionId, RegionOptions, RegionSchema
from tsdb.store import LocalCopy, LocalStore, unrouted

SHARED_BYTES_MAX = 64 << 20
"""What all runs that are lent may take; they are in memory twice then."""
SHARED_RUNS_MAX = 128
"""How many runs are lent at a time: each is an open file."""
SOON_BYTES_MAX = 1 << 20
"""A run of more bytes is copied to shared memory by another thread, and can be lent when that is done."""
PARCEL_RUNS_MAX = 32
"""How many runs one parcel may have."""
_ALIGNMENT = 64


@dataclass(frozen=True, slots=True)
class _LentFile:
    meta: FileMeta
    directory: str
    root: str
    """The local directory that the store, or its copy, is in."""
    applies_index: bool


@dataclass(frozen=True, slots=True)
class _LentRun:
    body: bytes
    """A pickled run without its columns."""
    sizes: tuple[int, ...]
    """Of its columns, one behind the other in shared memory, each at a multiple of the alignment."""


@dataclass(frozen=True, slots=True)
class _LentSnapshot:
    schema: RegionSchema
    options: RegionOptions
    sources: tuple[int, ...]


class LentRegion(NamedTuple):
    """A region for one query, in numbers that its borrower knows."""

    region_id: RegionId
    snapshot: int
    ttl_cutoff: int | None


class Parcel(NamedTuple):
    """What a borrower does not have yet, and what it need not keep."""

    news: Sequence[tuple[int, Any]]
    gone: Sequence[int]
    descriptors: Sequence[int]
    """Shared memory: one for each run among the news, in their order."""
    pinned: Sequence[MemorySource]
    """These runs: the descriptors are valid as long as this is held."""


class _Shared:
    """A run in shared memory, or on its way there."""

    __slots__ = ("descriptor", "lent", "nbytes")

    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes
        self.descriptor = -1
        self.lent: _LentRun | None = None
        """None while it is copied."""


class SharedRuns:
    """Runs in shared memory, as long as they are held here."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._runs: weakref.WeakKeyDictionary[MemorySource, _Shared] = weakref.WeakKeyDictionary()

    def share(self, run: MemorySource) -> tuple[_LentRun, int] | None:
        """Return a run and the descriptor of its columns; None if that takes too much, or is not done yet."""
        shared = self._runs.get(run)
        if shared is None:
            shared = self._begin(run)
        return None if shared is None or shared.lent is None else (shared.lent, shared.descriptor)

    def _begin(self, run: MemorySource) -> _Shared | None:
        shared = _Shared(run.nbytes_decoded)
        with self._lock:
            held = list(self._runs.values())
            if len(held) >= SHARED_RUNS_MAX or sum(each.nbytes for each in held) + shared.nbytes > SHARED_BYTES_MAX:
                return None
            self._runs[run] = shared
        if shared.nbytes <= SOON_BYTES_MAX:
            _copy(run, shared)
        else:
            threading.Thread(target=_copy, args=(run, shared), name="tsdb-share", daemon=True).start()
        return shared


def _copy(run: MemorySource, shared: _Shared) -> None:
    """Copy the columns of a run to shared memory; one that is compressed is decompressed for that."""
    buffers: list[pickle.PickleBuffer] = []
    body = pickle.dumps(run.decoded(), pickle.HIGHEST_PROTOCOL, buffer_callback=buffers.append)
    views = [each.raw() for each in buffers]
    sizes = tuple(view.nbytes for view in views)
    offsets = _offsets(sizes)
    shared.descriptor = os.memfd_create("tsdb-run", os.MFD_CLOEXEC)
    weakref.finalize(run, os.close, shared.descriptor).atexit = False
    os.ftruncate(shared.descriptor, max(offsets[-1], 1))
    for view, offset in zip(views, offsets, strict=False):
        os.pwrite(shared.descriptor, view, offset)
    shared.lent = _LentRun(body, sizes)


class Lender:
    """What one other process has been sent. Used on one thread."""

    def __init__(self, runs: SharedRuns) -> None:
        self._runs = runs
        self._numbers: dict[int, tuple[int, weakref.ref[Any], LocalCopy | None]] = {}
        """Of each object by its identity; of a file what keeps it where it is."""
        self._snapshots: dict[RegionId, tuple[_LentSnapshot, tuple[int, ...], int]] = {}
        """Of each region the last one that was sent, the identities of its sources, and its number."""
        self._dead: deque[int] = deque()
        """Identities of objects that are gone: other objects may have them by now."""
        self._last = 0
        self._news: list[tuple[int, Any]] = []
        self._descriptors: list[int] = []
        self._pinned: list[MemorySource] = []
        """The runs whose descriptors are to be sent: these are valid as long as the runs are held."""
        self._gone: deque[int] = deque()

    def number_of(self, value: Any) -> int:
        """Return the number of an object that can be pickled; it is sent if it has not been."""
        known = self._numbers.get(id(value))
        return known[0] if known is not None else self._send(value, value)

    def lend(self, reader: RegionReader) -> LentRegion | None:
        """Return a region as a borrower can open it; None if it cannot be read there."""
        if not isinstance(reader, LocalReader) or (snapshot := reader.whole) is None:
            return None
        if self._dead:
            self._forget_snapshots()
        known = self._snapshots.get(reader.region_id)
        if known is None or not _is_same(known[0], known[1], snapshot):
            known = self._lend_snapshot(reader.region_id, snapshot)
        return None if known is None else LentRegion(reader.region_id, known[2], snapshot.ttl_cutoff)

    def parcel(self) -> Parcel:
        """Return what is to be sent before what was lent can be opened."""
        gone = [self._gone.popleft() for _ in range(len(self._gone))]
        parcel = Parcel(self._news, gone, self._descriptors, self._pinned)
        self._news, self._descriptors, self._pinned = [], [], []
        return parcel

    def find_files(self, numbers: Collection[int]) -> dict[int, DataFile]:
        """Return the files of some numbers that are still known."""
        found = ((number, ref()) for number, ref, _ in list(self._numbers.values()) if number in numbers)
        return {number: file for number, file in found if isinstance(file, DataFile)}

    def _forget_snapshots(self) -> None:
        self._dead.clear()
        self._gone.extend(number for _, _, number in self._snapshots.values())
        self._snapshots.clear()

    def _lend_snapshot(
        self, region_id: RegionId, snapshot: Snapshot
    ) -> tuple[_LentSnapshot, tuple[int, ...], int] | None:
        numbers = []
        for source in snapshot.sources:
            number = self._number_of_source(source)
            if number is None:
                return None
            numbers.append(number)
        before = self._snapshots.get(region_id)
        if before is not None:
            self._gone.append(before[2])
        lent = _LentSnapshot(snapshot.schema, snapshot.options, tuple(numbers))
        self._last += 1
        self._news.append((self._last, lent))
        found = self._snapshots[region_id] = lent, tuple(map(id, snapshot.sources)), self._last
        return found

    def _number_of_source(self, source: Source) -> int | None:
        known = self._numbers.get(id(source))
        if known is not None:
            return known[0]
        if isinstance(source, DataFile):
            copy = source.local_copy()
            if copy is None:
                return None
            lent = _LentFile(source.meta, unrouted(source.directory), copy.root, source.applies_index)
            return self._send(source, lent, copy)
        if not isinstance(source, Run | CompactRun) or len(self._descriptors) >= PARCEL_RUNS_MAX:
            return None
        shared = self._runs.share(source)
        if shared is None:
            return None
        run, descriptor = shared
        self._descriptors.append(descriptor)
        self._pinned.append(source)
        return self._send(source, run)

    def _send(self, value: Any, sent: Any, copy: LocalCopy | None = None) -> int:
        self._last += 1
        number, identity = self._last, id(value)
        numbers, gone, dead = self._numbers, self._gone, self._dead

        def forget(_: weakref.ref[Any]) -> None:
            # Wherever the garbage collector runs: nothing here may wait.
            numbers.pop(identity, None)
            gone.append(number)
            dead.append(identity)

        self._numbers[identity] = number, weakref.ref(value, forget), copy
        self._news.append((number, sent))
        return number


class Borrower:
    """What this process has been sent by a lender."""

    def __init__(self, caches: Caches) -> None:
        self._caches = caches
        self._stores: dict[str, LocalStore] = {}
        """By their directories: that of the data, or that of the file cache."""
        self._registers = SeriesRegisters()
        self._held: dict[int, Any] = {}
        self._damage: dict[int, str] = {}

    @classmethod
    def of(cls, *, meta_bytes: int, vector_bytes: int) -> Borrower:
        """Return a borrower that keeps so much of what it reads."""
        return cls(Caches.of(sst_meta_bytes=meta_bytes, vector_bytes=vector_bytes, page_bytes=0))

    def take(self, news: Sequence[tuple[int, Any]], gone: Sequence[int], descriptors: Sequence[int]) -> None:
        """Hold what is new, and forget what is gone at the lender's."""
        memory = iter(descriptors)
        for number, sent in news:
            self._held[number] = self._opened(number, sent, memory.__next__)
        for number in gone:
            forgotten = self._held.pop(number, None)
            if isinstance(forgotten, DataFile):
                self._caches.evict_file(forgotten.meta.file_id)

    def held(self, number: int) -> Any:
        """Return an object that the lender has numbered."""
        return self._held[number]

    def open(self, lent: LentRegion, view: MetricView | None = None) -> LocalReader:
        """Return a reader of what the region held when it was lent, or of one table of the metric engine in it."""
        snapshot: _LentSnapshot
        snapshot, sources = self._held[lent.snapshot]
        shown = Snapshot(snapshot.schema, snapshot.options, sources, ttl_cutoff=lent.ttl_cutoff)
        return LocalReader(lent.region_id, shown, self._registers, view=view)

    def take_damage(self) -> dict[int, str]:
        """Return what is wrong with files that could not be read since this was last asked, by their numbers."""
        found, self._damage = self._damage, {}
        return found

    def _opened(self, number: int, sent: Any, descriptor: Any) -> Any:
        if isinstance(sent, _LentFile):
            store = self._stores.get(sent.root)
            if store is None:
                store = self._stores[sent.root] = LocalStore(sent.root)
            return DataFile(
                sent.meta,
                store=store,
                directory=sent.directory,
                caches=self._caches,
                applies_index=sent.applies_index,
                on_damage=lambda reason: self._damage.update({number: reason}),
            )
        if isinstance(sent, _LentRun):
            return _mapped(sent, descriptor())
        if isinstance(sent, _LentSnapshot):
            return sent, tuple(self._held[number] for number in sent.sources)
        return sent


def _is_same(lent: _LentSnapshot, sources: tuple[int, ...], snapshot: Snapshot) -> bool:
    if lent.schema is not snapshot.schema or lent.options is not snapshot.options:
        return False
    return sources == tuple(map(id, snapshot.sources))


def _mapped(run: _LentRun, descriptor: int) -> Run:
    """Return a run over shared memory, which stays mapped as long as one of its columns is held."""
    offsets = _offsets(run.sizes)
    try:
        memory = memoryview(mmap.mmap(descriptor, max(offsets[-1], 1), prot=mmap.PROT_READ))
    finally:
        os.close(descriptor)
    views = [memory[offset : offset + size] for offset, size in zip(offsets, run.sizes, strict=False)]
    found: Run = pickle.loads(run.body, buffers=views)
    return found


def _offsets(sizes: Sequence[int]) -> list[int]:
    """Return where each of some columns begins, and where the last one ends."""
    offsets = [0]
    for size in sizes:
        offsets.append(offsets[-1] + -(-size // _ALIGNMENT) * _ALIGNMENT)
    return offsets
