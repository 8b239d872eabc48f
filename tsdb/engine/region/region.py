"""A region: one horizontal part of a table, and the versions through which readers see it.

- A `Version` never changes. Readers take the region's version once and see that moment for as long as they like.
- The manifest is the truth about schema, options and files. Every commit brings the version in line (`adopt`).
- A data file that left the version is deleted when its last reader releases it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tsdb.engine.errors import ManifestFenced, ManifestNotDurable, RegionNotFound, RegionReadOnly
from tsdb.engine.manifest import Action, Edit, Manifest, QuarantinedFile, data_path
from tsdb.engine.region.context import EngineContext
from tsdb.engine.region.names import RegionNames
from tsdb.engine.region.noting import note_if_changed
from tsdb.engine.region.state import CompactionState, FlushState, RegionAccess, RegionState, Written
from tsdb.engine.region.version import FileHandle, FrozenMemtable, Version
from tsdb.engine.sst import delete_files
from tsdb.errors import TsdbError
from tsdb.model import RegionId, RegionOptions, RegionSchema
from tsdb.store import Purpose, StoreError, crash_point, requests_for
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
    """Knows the name of the region's table."""
    noted: object = None
    """What was last noted of its definition (`noting`)."""
    quarantined: Mapping[str, QuarantinedFile] = field(default_factory=dict)
    """Data files that cannot be read whole, by id: those of the manifest, and those that it does not know of yet."""

    @property
    def table(self) -> str:
        """The table of the region as `database.table`, for the log."""
        return self.names(self.id)

    def check_writable(self) -> None:
        """Raise the reason if the region accepts no writes."""
        access = self.access
        if access.is_gone:
            raise RegionNotFound(region_id=self.id)
        if access.state is RegionState.READ_ONLY:
            raise RegionReadOnly(region_id=self.id, reason=access.reason, leads_elsewhere=access.leads_elsewhere)

    @property
    def window_seconds(self) -> int | None:
        """The length of the time windows in which files are merged; None until it is chosen."""
        state = self.manifest.state
        return window_seconds(state.options) or state.compaction_window_seconds

    def use_memtable(self, context: EngineContext, schema: RegionSchema, options: RegionOptions) -> None:
        """Direct new rows to a new memtable. On the worker, or while the region is opened."""
        self.freeze(context)
        empty = self.version.mutable
        after = context.new_memtable(schema, options, self.window_seconds, after=empty)
        self.version = replace(self.version, mutable=after)
        empty.release()

    def forget_keys(self, context: EngineContext) -> None:
        """Release the series keys that were kept for the next memtable. On the worker."""
        version = self.version
        if version.mutable.is_empty and not self.access.is_gone:
            fresh = context.new_memtable(version.schema, version.options, self.window_seconds)
            self.version = replace(version, mutable=fresh)
            version.mutable.release()

    def freeze(self, context: EngineContext) -> None:
        """Freeze the active memtable. On the worker."""
        version = self.version
        if version.mutable.is_empty:
            return
        empty = context.new_memtable(version.schema, version.options, self.window_seconds, after=version.mutable)
        # Counted now: keys that the next memtable took over are no longer part of it.
        frozen = FrozenMemtable(version.mutable, self.written.entry_id, self.written.sequence, version.mutable.nbytes)
        context.buffer.freeze(frozen.nbytes)
        self.version = replace(version, mutable=empty, frozen=(*version.frozen, frozen))

    def let_go(self, context: EngineContext, state: RegionState) -> Version:
        """Stop serving, and free the memory of the rows; return the last version. On the worker."""
        self.access.state = state
        version = self.version
        empty = context.new_memtable(version.schema, version.options)
        self.version = Version(version.schema, version.options, empty, (), ())
        for memtable in version.memtables:
            memtable.release()
        for frozen in version.frozen:
            context.buffer.release(frozen.nbytes)
        context.buffer.wake()
        return version

    def _stop_for_good(self, context: EngineContext, error: TsdbError) -> None:
        """Accept no more writes: another writer has the region, or a commit may not be durable."""
        is_lost = isinstance(error, ManifestFenced)
        if self.access.is_writable:
            what = "a region leads elsewhere" if is_lost else "a region accepts no more writes until a restart"
            _log.error(what, region=self.id, table=self.table, error=error)
        self.access.stop(f"it leads elsewhere: {error}" if is_lost else str(error), leads_elsewhere=is_lost)
        if is_lost and not self.access.is_lost:
            self.access.is_lost = True
            context.events.on_lost(self.id)

    def forget(self, file_ids: Collection[str]) -> None:
        """Note that removed files are deleted, with the next commit. From any thread."""
        self.worker.call(lambda: self.manifest.forget_removed(file_ids))

    def note_damage(self, context: EngineContext, file_id: str, reason: str) -> None:
        """Quarantine a data file that could not be read. From any thread; it does not wait for that."""
        if file_id not in self.quarantined:
            self.worker.call(lambda: self.quarantine(context, {file_id: reason}))

    def quarantine(self, context: EngineContext, reasons: Mapping[str, str]) -> None:
        """Exclude damaged files from compactions, and record them in the manifest. On the worker."""
        self.quarantine_found(context, reasons)
        self.record_quarantine(context)

    def quarantine_found(self, context: EngineContext, reasons: Mapping[str, str]) -> None:
        """Exclude damaged files from compactions. On the worker, or while the engine opens."""
        now_ms = context.now_ms()
        files = self.manifest.state.files
        found = {
            file_id: QuarantinedFile(file_id, now_ms, reason)
            for file_id, reason in reasons.items()
            if file_id in files and file_id not in self.quarantined
        }
        self.quarantined = {**self.quarantined, **found}
        for file_id in found:
            # The bytes that were read may be wrong while those on the disk are not any more.
            context.caches.pages.remove_group(file_id)
        for file in found.values():
            path = data_path(self.directory, file.file_id)
            _log.error("a data file is quarantined", region=self.id, table=self.table, file=path, reason=file.reason)

    def record_quarantine(self, context: EngineContext) -> None:
        """Write quarantined files to the manifest that it does not know of. On the worker.

        If that fails they stay quarantined in memory, and it is tried again later.
        """
        known = self.manifest.state.quarantined
        news = tuple(file for file in self.quarantined.values() if file.file_id not in known)
        if not news or not self.access.is_writable:
            return
        crash_point("quarantine.before_manifest")
        try:
            self.commit(context, Edit(quarantined=news))
        except TsdbError as error:
            _log.warning("a quarantine is not recorded yet", region=self.id, table=self.table, error=error)
            return
        crash_point("quarantine.after_manifest")

    @requests_for(Purpose.MANIFEST)
    def commit(self, context: EngineContext, *actions: Action) -> None:
        """Write actions to the manifest and bring the version in line. On the worker."""
        self.resolve(context)
        try:
            self.manifest.commit(actions)
        except (ManifestFenced, ManifestNotDurable) as error:
            self._stop_for_good(context, error)
            raise
        self.adopt(context)
        note_if_changed(context, self)
        self._checkpoint()

    @requests_for(Purpose.MANIFEST)
    def resolve(self, context: EngineContext) -> None:
        """Find out whether a commit whose outcome is unknown took effect; raise if that is still unknown."""
        if not self.manifest.is_uncertain:
            return
        try:
            self.manifest.recover()
        except ManifestFenced as error:
            # The other writer may have taken over the files: only its own sweep can know.
            self.access.doubtful_files.clear()
            self._stop_for_good(context, error)
            raise
        except ManifestNotDurable as error:
            self._stop_for_good(context, error)
            raise
        self.adopt(context)
        note_if_changed(context, self)
        self.access.resume()
        for file_id in self.access.doubtful_files:
            if file_id not in self.manifest.state.files:
                delete_files(context.store, self.directory, file_id)
        self.access.doubtful_files.clear()

    def _checkpoint(self) -> None:
        """Write a checkpoint if it is due. A failure is harmless: the deltas are still there."""
        if self.manifest.needs_checkpoint:
            try:
                self.manifest.checkpoint()
            except StoreError as error:
                _log.warning("a checkpoint of the manifest failed", region=self.id, table=self.table, error=error)

    def adopt(self, context: EngineContext) -> None:
        """Bring the version in line with the manifest: schema, options, files, and which memtables are still needed."""
        state, version = self.manifest.state, self.version
        if state.schema != version.mutable.schema or state.options != version.options:
            self.use_memtable(context, state.schema, state.options)
            version = self.version
        known = {handle.meta.file_id: handle for handle in version.files}
        files = tuple(known.get(file_id) or FileHandle(context, self, meta) for file_id, meta in state.files.items())
        needed = tuple(each for each in version.frozen if each.sequence > state.flushed_sequence)
        flushed = version.frozen[: len(version.frozen) - len(needed)]
        self.version = Version(state.schema, state.options, version.mutable, needed, files)
        unrecorded = {file_id: file for file_id, file in self.quarantined.items() if file_id in state.files}
        self.quarantined = {**unrecorded, **state.quarantined}
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
