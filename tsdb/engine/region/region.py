"""A region: one horizontal part of a table, and the versions through which readers see it.

- A `Version` never changes. Readers take the region's version once and see that moment for as long as they like.
- Everything else of a region is changed in the turns of its worker: entry ids, sequences, manifest, state. Who wants
  something changed asks the worker (`Worker.call`).
- The manifest is the truth about schema, options and files. Whoever changes it brings the version in line by `adopt`.
- A data file that left the version is deleted when the last reader lets go of it.
"""

from __future__ import annotations

import weakref
from collections.abc import Collection
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from tsdb.engine.errors import ManifestFenced, ManifestNotDurable, RegionNotFound, RegionReadOnly
from tsdb.engine.manifest import Action, FileMeta, Manifest
from tsdb.engine.region.background import Background, Priority
from tsdb.engine.region.context import EngineContext
from tsdb.engine.region.names import RegionNames
from tsdb.engine.rows.memtable import Memtable
from tsdb.engine.sst import SstFile, delete_files
from tsdb.errors import TsdbError
from tsdb.model import RegionId, RegionOptions, RegionSchema
from tsdb.store import StoreError
from tsdb.telemetry import get_logger
from tsdb.units import Duration

if TYPE_CHECKING:
    from tsdb.engine.region.worker import Worker

_log = get_logger("tsdb.region")

_NS_PER_SECOND = 1_000_000_000


class RegionState(StrEnum):
    """What a region can do."""

    WRITABLE = "writable"
    READ_ONLY = "read_only"
    DROPPED = "dropped"


class FileHandle:
    """A data file of a version; once it is obsolete, it is deleted when nobody reads it any more."""

    __slots__ = ("__weakref__", "_fate", "meta", "source")

    def __init__(self, context: EngineContext, region: Region, meta: FileMeta) -> None:
        self.meta = meta
        self.source = SstFile(meta, store=context.store, directory=region.directory, caches=context.caches)
        self._fate = _Fate()
        # Not the region itself: what `finalize` holds lives as long as the handle, which the region holds.
        owner = weakref.ref(region)
        weakref.finalize(self, _let_go, self._fate, context, owner, region.directory, meta).atexit = False

    def obsolete(self) -> None:
        """The file belongs to no version any more."""
        self._fate.is_obsolete = True


@dataclass(slots=True)
class _Fate:
    is_obsolete: bool = False


def _let_go(fate: _Fate, context: EngineContext, owner: weakref.ref[Region], directory: str, meta: FileMeta) -> None:
    """Delete an obsolete file, on a background thread: the last reader may be one that must not wait.

    Here nothing else may be done: the garbage collector can call this anywhere, also inside the lock of a cache.
    """
    if not fate.is_obsolete:
        return

    def delete() -> None:
        context.caches.evict_file(meta.file_id)
        delete_files(context.store, directory, meta.file_id)
        region = owner()
        if region is not None:
            region.forget([meta.file_id])

    background: Background = context.background
    background.submit(Priority.DELETE, delete)


@dataclass(frozen=True, slots=True, eq=False)
class FrozenMemtable:
    """A memtable that takes no more rows, with what is durable once it is flushed."""

    memtable: Memtable
    entry_id: int
    sequence: int
    nbytes: int


@dataclass(frozen=True, slots=True, eq=False)
class Version:
    """All that readers see of a region."""

    schema: RegionSchema
    options: RegionOptions
    mutable: Memtable
    frozen: tuple[FrozenMemtable, ...]
    files: tuple[FileHandle, ...]

    @property
    def memtables(self) -> tuple[Memtable, ...]:
        """Oldest first."""
        return (*(each.memtable for each in self.frozen), self.mutable)

    @property
    def memtable_bytes(self) -> int:
        return sum(memtable.nbytes for memtable in self.memtables)


@dataclass(frozen=True, slots=True)
class StrictWindows:
    """A wish that no file reaches from one window of time into the next."""

    length: Duration | None = None
    """None leaves the windows as they are."""
    start_ns: int | None = None
    """Only files with rows from here on, and before the end, are cut."""
    end_ns: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class CompactionWaiter:
    """Somebody who asked for a compaction."""

    done: Future[None]
    strict: StrictWindows | None = None
    """Files are to be cut, too."""


@dataclass(slots=True, eq=False, weakref_slot=True)
class Region:
    """One region, open in this process."""

    id: RegionId
    directory: str
    manifest: Manifest
    worker: Worker
    version: Version
    last_entry_id: int
    last_sequence: int
    last_flush_ns: int
    """Monotonic time of the last flush, or of opening."""
    state: RegionState = RegionState.WRITABLE
    read_only_reason: str = ""
    is_paused: bool = False
    """It takes no writes only until the outcome of its last commit is known."""
    is_flushing: bool = False
    flush_waiters: list[Future[None]] = field(default_factory=list)
    """Those who asked for a flush while one was under way: the next one is for them."""
    is_sorting: bool = False
    flush_failures: int = 0
    retry_flush_ns: int = 0
    """After failures, the monotonic time before which no further flush is tried."""
    is_compacting: bool = False
    compaction_waiters: list[CompactionWaiter] = field(default_factory=list)
    """Those who asked for a compaction while one was under way."""
    compaction_failures: int = 0
    compact_due_ns: int = 0
    """The monotonic time at which files are looked at again, to see what should be merged. A flush makes it now."""
    compact_rest_ns: int = 0
    """The monotonic time before which they are not, whatever happens: after a merge, and longer after a failure."""
    damaged_files: set[str] = field(default_factory=set)
    """Files that a compaction could not read, and leaves alone."""
    written_bytes: int = 0
    """Bytes of rows that were written since the region was opened."""
    names: RegionNames = field(default_factory=RegionNames)
    """Knows what the table of the region is called."""
    seen_bytes: int = -1
    """How many of them there were when somebody looked last."""
    quiet_since_ns: int = 0
    """The monotonic time since which they are so many."""
    doubtful_files: list[str] = field(default_factory=list)
    """Files of a commit whose outcome is unknown: part of the region, or to be deleted."""

    @property
    def table(self) -> str:
        """The table of the region as `database.table`, for the log."""
        return self.names(self.id)

    def check_writable(self) -> None:
        """Raise the error that tells a writer why not."""
        if self.state is RegionState.DROPPED:
            raise RegionNotFound(region_id=self.id)
        if self.state is RegionState.READ_ONLY:
            raise RegionReadOnly(region_id=self.id, reason=self.read_only_reason)

    @property
    def window_seconds(self) -> int | None:
        """How long the windows of time are in which files are merged; None until that is chosen."""
        state = self.manifest.state
        return window_seconds(state.options) or state.compaction_window_seconds

    def new_memtable(self, context: EngineContext) -> Memtable:
        """Make an empty memtable for the schema and the options that the manifest has."""
        state = self.manifest.state
        return context.new_memtable(state.schema, state.options, self.window_seconds)

    def freeze(self, context: EngineContext) -> None:
        """Let the memtable that is written to take no more rows. On the worker."""
        version = self.version
        if version.mutable.is_empty:
            return
        frozen = FrozenMemtable(version.mutable, self.last_entry_id, self.last_sequence, version.mutable.nbytes)
        context.buffer.freeze(frozen.nbytes)
        empty = context.new_memtable(version.schema, version.options, self.window_seconds)
        self.version = replace(version, mutable=empty, frozen=(*version.frozen, frozen))

    def stop_writing(self, reason: str) -> None:
        """Take no more writes, and say why; reads go on."""
        if self.state is not RegionState.DROPPED:
            self.state = RegionState.READ_ONLY
            self.read_only_reason = reason
            self.is_paused = False

    def pause_writing(self, reason: str) -> None:
        """Take no writes until the commit whose outcome is unknown is resolved."""
        if self.state is RegionState.WRITABLE:
            self.stop_writing(reason)
            self.is_paused = True

    def _stop_for_good(self, error: TsdbError) -> None:
        if self.state is RegionState.WRITABLE:
            _log.error("a region takes no more writes until a restart", region=self.id, table=self.table, error=error)
        self.stop_writing(str(error))

    def forget(self, file_ids: Collection[str]) -> None:
        """Note that removed files are deleted, with the next commit. From any thread."""
        self.worker.call(lambda: self.manifest.forget_removed(file_ids))

    def commit(self, context: EngineContext, *actions: Action) -> None:
        """Write actions to the manifest and bring the version in line. On the worker."""
        self.resolve(context)
        try:
            self.manifest.commit(actions)
        except (ManifestFenced, ManifestNotDurable) as error:
            self._stop_for_good(error)
            raise
        self.adopt(context)
        self._checkpoint()

    def resolve(self, context: EngineContext) -> None:
        """Find out whether a commit whose outcome is unknown took effect; raise if that cannot be told yet."""
        if not self.manifest.is_uncertain:
            return
        try:
            self.manifest.recover()
        except ManifestFenced as error:
            # The other writer may have taken over the files: only its own sweep can tell.
            self.doubtful_files.clear()
            self._stop_for_good(error)
            raise
        except ManifestNotDurable as error:
            self._stop_for_good(error)
            raise
        self.adopt(context)
        if self.is_paused:
            self.state, self.is_paused = RegionState.WRITABLE, False
        for file_id in self.doubtful_files:
            if file_id not in self.manifest.state.files:
                delete_files(context.store, self.directory, file_id)
        self.doubtful_files.clear()

    def _checkpoint(self) -> None:
        """Write a checkpoint if it is time. Failing costs nothing: what it would have covered is still there."""
        if self.manifest.needs_checkpoint:
            try:
                self.manifest.checkpoint()
            except StoreError as error:
                _log.warning("a checkpoint of the manifest failed", region=self.id, table=self.table, error=error)

    def adopt(self, context: EngineContext) -> None:
        """Bring the version in line with the manifest: schema, options, files, and which memtables are still needed."""
        state, version = self.manifest.state, self.version
        if state.schema != version.mutable.schema or state.options != version.options:
            self.freeze(context)
            version = replace(self.version, mutable=self.new_memtable(context))
        known = {handle.meta.file_id: handle for handle in version.files}
        files = tuple(known.get(file_id) or FileHandle(context, self, meta) for file_id, meta in state.files.items())
        needed = tuple(each for each in version.frozen if each.sequence > state.flushed_sequence)
        flushed = version.frozen[: len(version.frozen) - len(needed)]
        self.version = Version(state.schema, state.options, version.mutable, needed, files)
        for file_id in known.keys() - state.files.keys():
            known[file_id].obsolete()
        for each in flushed:
            each.memtable.release()
            context.buffer.release(each.nbytes)
        context.wal.set_flushed(self.id, state.flushed_entry_id)


def window_seconds(options: RegionOptions) -> int | None:
    """Return how long the windows of a region are if its options say so."""
    window = options.compaction_window
    return max(1, window // _NS_PER_SECOND) if window else None
