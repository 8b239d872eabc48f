"""A region: one horizontal part of a table, and the versions through which readers see it.

- A `Version` never changes. Readers take the region's version once and see that moment for as long as they like.
- The manifest is the truth about schema, options and files. Every commit brings the version in line (`adopt`).
- A data file that left the version is deleted when its last reader releases it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tsdb.engine.errors import ManifestFenced, ManifestNotDurable, RegionNotFound, RegionReadOnly
from tsdb.engine.manifest import Action, Manifest
from tsdb.engine.region.context import EngineContext
from tsdb.engine.region.names import RegionNames
from tsdb.engine.region.state import CompactionState, FlushState, RegionAccess, RegionState, Written
from tsdb.engine.region.version import FileHandle, FrozenMemtable, Version
from tsdb.engine.rows.memtable import Memtable
from tsdb.engine.sst import delete_files
from tsdb.errors import TsdbError
from tsdb.model import RegionId, RegionOptions
from tsdb.store import StoreError
from tsdb.telemetry import get_logger

if TYPE_CHECKING:
    from tsdb.engine.region.worker import Worker

_log = get_logger("tsdb.region")

_NS_PER_SECOND = 1_000_000_000


@dataclass(slots=True, eq=False, weakref_slot=True)
class Region:
    """One region, open in this process.

    `id`, `directory`, `worker`, `manifest` and `names` never change. Everything else, and what the manifest holds,
    changes in turns of the region's worker (`Worker.call`; a turn may run on a thread of a writer or of the log), and
    while the engine opens, on the thread that opens it. The exceptions: a broken log stops writing from its own thread
    (`access`); the end of a sort clears `written.is_sorting` on a background thread; the housekeeping thread sets
    `flush.last_ns` of a region without rows in memory; when the engine is closed, the thread whose step is refused ends
    `compaction`. Any thread may read, without a lock: numbers, flags and `version` are replaced as a whole, so a reader
    sees the old or the new value. Lists of waiters and of doubtful files are for the worker only.
    """

    id: RegionId
    directory: str
    worker: Worker
    manifest: Manifest
    version: Version
    written: Written
    flush: FlushState
    compaction: CompactionState
    access: RegionAccess = field(default_factory=RegionAccess)
    names: RegionNames = field(default_factory=RegionNames)
    """Knows what the table of the region is called."""

    @property
    def table(self) -> str:
        """The table of the region as `database.table`, for the log."""
        return self.names(self.id)

    def check_writable(self) -> None:
        """Raise the reason if the region takes no writes."""
        state = self.access.state
        if state is RegionState.DROPPED:
            raise RegionNotFound(region_id=self.id)
        if state is RegionState.READ_ONLY:
            raise RegionReadOnly(region_id=self.id, reason=self.access.reason)

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
        frozen = FrozenMemtable(version.mutable, self.written.entry_id, self.written.sequence, version.mutable.nbytes)
        context.buffer.freeze(frozen.nbytes)
        empty = context.new_memtable(version.schema, version.options, self.window_seconds)
        self.version = replace(version, mutable=empty, frozen=(*version.frozen, frozen))

    def _stop_for_good(self, error: TsdbError) -> None:
        if self.access.is_writable:
            _log.error("a region takes no more writes until a restart", region=self.id, table=self.table, error=error)
        self.access.stop(str(error))

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
        """Find out whether a commit whose outcome is unknown took effect; raise if that is still unknown."""
        if not self.manifest.is_uncertain:
            return
        try:
            self.manifest.recover()
        except ManifestFenced as error:
            # The other writer may have taken over the files: only its own sweep can know.
            self.access.doubtful_files.clear()
            self._stop_for_good(error)
            raise
        except ManifestNotDurable as error:
            self._stop_for_good(error)
            raise
        self.adopt(context)
        self.access.resume()
        for file_id in self.access.doubtful_files:
            if file_id not in self.manifest.state.files:
                delete_files(context.store, self.directory, file_id)
        self.access.doubtful_files.clear()

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
        context.wal.floor(self.id, state.flushed_entry_id)


def window_seconds(options: RegionOptions) -> int | None:
    """Return how long the windows of a region are if its options say so."""
    window = options.compaction_window
    return max(1, window // _NS_PER_SECOND) if window else None
