"""The region engine: regions of one process over one store and one log.

`Engine` opens, finds and closes regions and hands each request to the module of its verb. Any thread may call it; calls
that change a region return futures, completed by the region's worker.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any

from tsdb.clock import Clock, SystemClock
from tsdb.engine.entry import check_batch, encode_batch, open_payload
from tsdb.engine.errors import LogFenced, ManifestMismatch, RegionNotFound, SchemaOutdated, StorageUnavailable
from tsdb.engine.gauges import watch_engine
from tsdb.engine.index import clean_spills
from tsdb.engine.listing import DATA
from tsdb.engine.log import EncodedPayload, FrameKind, LateLog, LogStatistics, LogStore, SegmentFacts
from tsdb.engine.log.shared import Journal
from tsdb.engine.memory import EngineMemory
from tsdb.engine.reading import no_check
from tsdb.engine.region import change, trim
from tsdb.engine.region.background import Background
from tsdb.engine.region.compact import start_compaction
from tsdb.engine.region.compaction_history import CompactionRecord
from tsdb.engine.region.context import EngineContext, EngineOptions
from tsdb.engine.region.creating import create_region
from tsdb.engine.region.drop import drop_quarantined, drop_region
from tsdb.engine.region.flush import start_flush
from tsdb.engine.region.hand_in import HandIn, start_hand_in
from tsdb.engine.region.housekeeping import Housekeeping
from tsdb.engine.region.moves import PROOF_TIMEOUT, Moves
from tsdb.engine.region.noting import CREATED, NOTED, describe, journal_of, note
from tsdb.engine.region.pin import PinnedRegion, start_pin
from tsdb.engine.region.quarantine import VerifiedFiles, start_give_up, start_verify
from tsdb.engine.region.reader import LocalReader
from tsdb.engine.region.recovery import recover_all
from tsdb.engine.region.region import Region
from tsdb.engine.region.roster import Roster
from tsdb.engine.region.snapshot import take_snapshot
from tsdb.engine.region.stat import FileFacts, RegionStat, describe_files, find_time_range, stat_region
from tsdb.engine.region.state import StrictWindows
from tsdb.engine.region.traced_reader import TracedReader
from tsdb.engine.region.worker import Worker
from tsdb.engine.region.write import PendingWrite, check_operation
from tsdb.engine.rows.cache import PAGES, Caches
from tsdb.engine.rows.merge_memory import MergeMemory
from tsdb.engine.rows.write_buffer import WriteBuffer
from tsdb.engine.scan import SeriesRegisters, Snapshot
from tsdb.engine.sst import check_storable
from tsdb.errors import TsdbError, Unsupported
from tsdb.ids import SYSTEM_IDS, Ids
from tsdb.memory import MemoryOwner
from tsdb.model import (
    Batch,
    LateEntry,
    LateRows,
    MetricView,
    RegionId,
    RegionOpening,
    RegionOptions,
    RegionSchema,
    SchemaChange,
    TimeRange,
)
from tsdb.store import (
    LocalStore,
    ObjectStore,
    RequestFacts,
    all_stores,
    file_cache_of,
    local_store_of,
    request_facts,
    routed_path,
)
from tsdb.telemetry import CacheState, CacheStatistics, current_span, get_logger
from tsdb.units import Duration

CLOSE_GRACE = Duration.of_seconds(30)
_NO_PAGES: dict[str, Any] = {
    "state": CacheState.UNUSED,
    "reason": "data files are local: the operating system caches them",
}
_LAST_SECONDS = 1.0
"""What a worker gets beyond that: it only has to refuse what is queued, unless the store hangs."""

_log = get_logger("tsdb.engine")


class Engine:
    """The regions of one process."""

    def __init__(self, context: EngineContext) -> None:
        self._context = context
        self._roster = Roster()
        self.housekeeping = Housekeeping(context, self._roster.regions)
        self._moves = Moves(context, self._roster, self.housekeeping, self._worker_of)
        self.housekeeping.before_purge = self._moves.left.refresh
        self._is_member = False
        """It is one of several nodes between which regions move."""
        self._workers = [
            Worker(
                f"tsdb-region-{number}",
                buffer=context.buffer,
                clock=context.clock,
                log=context.wal,
                after=self.housekeeping.after_write,
            )
            for number in range(context.options.num_workers)
        ]
        self._scan_parallelism = context.options.scan_parallelism or max(1, (os.cpu_count() or 1) // 4)
        self._registers = SeriesRegisters(context.options.series_registers_size)
        self.memory = EngineMemory(context, self._registers)
        self._is_closed = False
        self.refused: Mapping[RegionId, TsdbError] = {}
        """Regions that should have been opened at startup but were not: they lead elsewhere, or do not exist."""
        context.buffer.on_release(self.housekeeping.relieve)
        self._unwatch = watch_engine(self)

    @classmethod
    def open(
        cls,
        store: ObjectStore,
        log: LogStore,
        *,
        options: EngineOptions | None = None,
        regions: Mapping[RegionId, str] | Sequence[RegionOpening] | None = None,
        clock: Clock | None = None,
        ids: Ids = SYSTEM_IDS,
        on_fatal: Callable[[TsdbError], None] | None = None,
        on_region_lost: Callable[[RegionId], None] | None = None,
        has_housekeeping: bool = True,
        names: Callable[[RegionId], str | None] | None = None,
        on_memory: Callable[[MemoryOwner], None] = lambda owner: None,
    ) -> Engine:
        """Open the engine and everything in it; return when all regions are ready. The engine then owns the log.

        `regions` are those the catalog knows, by their directories; without it they are found by their manifests. A
        node of a cluster has openings instead: other nodes have other regions of the same store. Those that could not
        be opened are in `refused`; `on_region_lost` is called when another node turns out to have one, which should
        then be closed. `names` returns the table of a region, for the log. `on_memory` gets the owner of the engine's
        memory before the log is replayed. The caller holds the lock of the data directory.
        """
        options, clock = options or EngineOptions(), clock or SystemClock()
        # Rounded up: a file of the same millisecond is from before, too, as long as nothing has been written yet.
        started_ms = -(-clock.now_ns() // 1_000_000)
        try:
            for each in all_stores(store):
                if isinstance(each, LocalStore):
                    each.sweep_temporary()
            if options.index_intermediate_path is not None:
                clean_spills(options.index_intermediate_path)
        except BaseException:
            log.seal(clean=False)
            raise
        buffer = WriteBuffer(size=options.global_write_buffer_size, reject_size=options.global_write_buffer_reject_size)
        caches = Caches.of(
            sst_meta_bytes=options.sst_meta_cache_size,
            vector_bytes=options.vector_cache_size,
            page_bytes=options.page_cache_size,
        )
        background = Background(options.max_background_jobs)
        memory = MergeMemory(options.merge_memory_size)
        context = EngineContext(options, store, log, buffer, background, caches, clock, ids, memory)
        if names is not None:
            context.names.find = names
        if on_region_lost is not None:
            context.events.on_lost = on_region_lost
        engine = cls(context)
        log.on_broken(engine._stop_writing)
        if on_fatal is not None:
            log.on_broken(on_fatal)
        on_memory(engine.memory)
        try:
            engine._open_all(regions, started_ms=started_ms)
        except BaseException:
            engine.close(flush=False)
            raise
        if has_housekeeping:
            engine.housekeeping.start()
        return engine

    @property
    def context(self) -> EngineContext:
        return self._context

    @property
    def quarantined(self) -> Mapping[RegionId, str]:
        """Regions that are not served, and why."""
        return self._roster.quarantined

    @property
    def served_regions(self) -> list[Region]:
        return self._roster.regions()

    def last_entries(self, count_max: int) -> dict[RegionId, int]:
        """The last entries of regions that are open here; of some, if there are more."""
        return {region.id: region.written.entry_id for region in self._roster.regions()[:count_max]}

    def region_ids(self) -> tuple[RegionId, ...]:
        """The regions that are open here, without those that are quarantined."""
        return self._roster.ids()

    def journal(self, metadata: Iterable[tuple[str, bytes]]) -> Journal | None:
        """Begin to record schema changes, if the log has a retention; None otherwise.

        To be called once, before anything is changed; `metadata` is all that there is.
        """
        journal = journal_of(self._context)
        if journal is not None:
            journal.write_base(metadata, [describe(region, NOTED) for region in self._roster.regions()])
        return journal

    @property
    def directories(self) -> dict[str, Path]:
        """The directories of the data and the log, if they are on a local disk."""
        store, log = self._context.store, self._context.wal.directory
        data, file_cache = local_store_of(store, DATA), file_cache_of(store)
        found = {} if data is None else {"data": data.root}
        if log is not None:
            found["wal"] = log
        if file_cache is not None:
            found["cache"] = file_cache.directory
        return found

    def cache_statistics(self) -> list[CacheStatistics]:
        """Describe every cache of data files."""
        store, file_cache = self._context.store, file_cache_of(self._context.store)
        found = list(self._context.caches.statistics())
        if all(isinstance(each, LocalStore) for each in all_stores(store)):
            found = [
                replace(each, **_NO_PAGES) if each.name == PAGES and each.capacity_bytes else each for each in found
            ]
        return found if file_cache is None else [*found, file_cache.statistics()]

    def name_regions(self, find: Callable[[RegionId], str | None]) -> None:
        """Let the log name the table of a region; `find` is called for every line about one."""
        self._context.names.find = find

    def create_region(
        self, region_id: RegionId, directory: str, schema: RegionSchema, options: RegionOptions | None = None
    ) -> None:
        """Create a region, or open it if it exists with this schema; ManifestMismatch if it has another."""
        with self._roster.transit([region_id]):
            region = self._roster.get(region_id)
            if region is None:
                self._create(region_id, directory, schema, options or RegionOptions())
            elif region.version.schema != schema:
                raise ManifestMismatch("the region exists with another schema", region_id=region_id)

    def _create(self, region_id: RegionId, directory: str, schema: RegionSchema, options: RegionOptions) -> None:
        self._check_open()
        check_storable(schema)
        self._roster.check_not_quarantined(region_id)
        if self.housekeeping.is_dropping(directory):
            raise ManifestMismatch(
                "the region was dropped and is not deleted yet", directory=directory, hint="try again later"
            )
        worker = self._worker_of(region_id)
        region = create_region(self._context, self._roster, worker, region_id, directory, schema, options)
        if self._is_member and self._context.wal.node_log is not None:
            self._context.wal.node_log.remember({region_id: directory})
        note(self._context, region, CREATED)
        self._roster.add(region)

    def open_regions(self, openings: Sequence[RegionOpening]) -> dict[RegionId, TsdbError | None]:
        """Open regions that are assigned to this node; return for each the reason why it is not open, or None.

        Each manifest is claimed under the epoch of its opening; then rows are taken over from the logs of other nodes
        and flushed. What is open under the epoch already stays as it is. May be repeated; any thread may call it.
        """
        self._check_open()
        return self._moves.open(openings)

    def close_region(self, region_id: RegionId, *, flush: bool) -> Future[None]:
        """Stop writes to a region, flush it if asked, and let it go; its files stay. Nothing happens if it is not here:
        then it is RegionNotFound to ask for a flush, because its rows may be in the log; RegionQuarantined if it is not
        served, and it stays so.

        If the flush fails, the future has the error, and the region takes writes again. Without a flush, its rows stay
        in the log until another owner has flushed them.
        """
        return self._moves.close(region_id, flush=flush)

    def hand_in(
        self,
        region_id: RegionId,
        node: int,
        entries: Sequence[LateEntry],
        *,
        is_last: bool,
        epochs: Sequence[int] = (),
    ) -> Future[list[LateRows]]:
        """Take rows that a node had acknowledged when the region was taken over from it, and nobody could read.

        They lose against everything that was written since. An entry is taken once, however often it is sent. With
        `is_last` the node has no more; nor has it anything for the takeovers of `epochs`.
        """
        request = HandIn(node, tuple(entries), is_last, frozenset(epochs))
        return start_hand_in(self._context, self._region(region_id), request)

    def takeovers(self, region_ids: Sequence[RegionId]) -> dict[RegionId, list[tuple[int, int]]]:
        """Return, for each region, the epochs of its takeovers and the last entries that could be read."""
        found = {each: self._region(each).manifest.state.takeovers for each in region_ids}
        return {each: [(one.epoch, one.entry_id) for one in takeovers] for each, takeovers in found.items()}

    @property
    def late(self) -> LateLog | None:
        """The late rows that this node has to send to the new owners of its regions; None if that is impossible."""
        node_log = self._context.wal.node_log
        return None if node_log is None else node_log.late

    @property
    def has_all_late(self) -> bool:
        """Whether `late` has all that this node ever acknowledged and nobody could read."""
        node_log = self._context.wal.node_log
        return node_log is not None and node_log.is_continued

    def prove_ownership(self, timeout: Duration = PROOF_TIMEOUT) -> bool:
        """Whether the log of this node was its own at a moment after this call; False if that cannot be known in time.

        Costs one small object in the store. As long as it is true, no other node has taken over regions of this one.
        """
        return self._moves.prove_ownership(timeout)

    def schema(self, region_id: RegionId, *, at_least: int = 0) -> RegionSchema:
        return self._region(region_id).version.schema

    def write(
        self,
        region_id: RegionId,
        batch: Batch,
        *,
        timeout: Duration | None = None,
        schema_version: int | None = None,
    ) -> Future[int]:
        """Write or delete rows. The future gives the number of rows once they are durable and visible.

        With `schema_version`, the write is refused with SchemaOutdated if the region has another version of its schema,
        now or when its turn comes. Otherwise a batch follows the schema as long as none of its values could be lost.
        """
        region = self._region(region_id)
        version = region.version
        if schema_version not in (None, version.schema.version):
            raise SchemaOutdated(region_id=region_id, expected=schema_version, current=version.schema.version)
        check_operation(region, batch)
        check_batch(version.schema, batch)
        payload = encode_batch(version.schema, batch) if batch.rows else None
        return self._submit(region, version.schema, batch, payload, timeout, must_fit=schema_version is not None)

    def write_encoded(
        self,
        region_id: RegionId,
        payload: EncodedPayload,
        kind: FrameKind,
        *,
        rows: int,
        schema_version: int,
        timeout: Duration | None = None,
    ) -> Future[int]:
        """Write or delete rows that another node has encoded (`entry.encode_batch`): the log gets these very bytes.

        The same checks as in `write` are made, and SchemaOutdated if they were encoded under another version.
        """
        region = self._region(region_id)
        schema = region.version.schema
        if schema_version != schema.version:
            raise SchemaOutdated(region_id=region_id, expected=schema_version, current=schema.version)
        batch = open_payload(schema, payload, kind, rows=rows)
        check_operation(region, batch)
        check_batch(schema, batch)
        return self._submit(region, schema, batch, payload, timeout, must_fit=True)

    def _submit(
        self,
        region: Region,
        schema: RegionSchema,
        batch: Batch,
        payload: EncodedPayload | None,
        timeout: Duration | None,
        *,
        must_fit: bool,
    ) -> Future[int]:
        """Pass a validated batch with its log entry to the worker of its region."""
        done: Future[int] = Future()
        # Whether the rows are in the log is not the caller's to decide: a future that runs cannot be cancelled.
        done.set_running_or_notify_cancel()
        if payload is None or not batch.rows:
            done.set_result(0)
            return done
        wait = self._context.options.stall_timeout if timeout is None else timeout
        request = PendingWrite(
            region=region,
            batch=batch,
            schema=schema,
            payload=payload,
            nbytes=payload.raw_bytes,
            deadline_ns=self._context.clock.monotonic_ns() + wait,
            done=done,
            must_fit=must_fit,
        )
        parent = current_span()
        if parent is not None:
            request.span = parent.child("region.write", region=int(region.id), rows=batch.rows, bytes=payload.raw_bytes)
            done.add_done_callback(request.span.end_with)
        region.worker.submit(request)
        return done

    def snapshot(self, region_id: RegionId, *, timeout: Duration | None = None) -> Snapshot:
        """Take a snapshot of the region, for reading."""
        return take_snapshot(self._context, self._region(region_id), timeout=timeout)

    def open_reader(
        self,
        region_id: RegionId,
        *,
        timeout: Duration | None = None,
        view: MetricView | None = None,
        check: Callable[[], None] = no_check,
    ) -> LocalReader:
        """Take what the region holds now, for one query; scans are divided as `scan_parallelism` says."""
        snapshot, parallelism = self.snapshot(region_id, timeout=timeout), self._scan_parallelism
        span = current_span()
        if span is None:
            return LocalReader(region_id, snapshot, self._registers, view=view, parallelism=parallelism, check=check)
        return TracedReader(
            region_id, snapshot, self._registers, opened_for=span, view=view, parallelism=parallelism, check=check
        )

    def alter(self, region_id: RegionId, changes: list[SchemaChange]) -> Future[None]:
        region = self._region(region_id)
        return region.worker.call(lambda: change.alter_schema(self._context, region, changes))

    def set_options(self, region_id: RegionId, options: RegionOptions) -> Future[None]:
        region = self._region(region_id)
        return region.worker.call(lambda: change.set_options(self._context, region, options))

    def flush(self, region_id: RegionId) -> Future[None]:
        """Flush all rows that are in memory now."""
        return start_flush(self._context, self._region(region_id))

    def pin(self, region_id: RegionId) -> Future[PinnedRegion]:
        """Take what is in the data files of a region now, for a copy; they stay until it is released."""
        return start_pin(self._context, self._region(region_id))

    def compact(
        self, region_id: RegionId, strict: StrictWindows | None = None, *, parallelism: int = 1
    ) -> Future[None]:
        """Flush what the region holds now, remove files whose rows have all expired, and merge what can be merged.

        With `strict`, files are cut at windows of time first. Up to `parallelism` sets of files are rewritten at a
        time, never more than there are background threads.
        """
        return start_compaction(self._context, self._region(region_id), strict, parallelism=parallelism)

    def verify(self, region_id: RegionId, *, is_quarantined: bool = False) -> Future[VerifiedFiles]:
        """Read all files of a region, or the quarantined ones; quarantine damaged ones, and release the others."""
        return start_verify(self._context, self._region(region_id), is_quarantined=is_quarantined)

    def give_up_file(self, region_id: RegionId, file_id: str) -> Future[int]:
        """Drop a quarantined data file from a region; return the number of its rows."""
        return start_give_up(self._context, self._region(region_id), file_id)

    def compactions(self) -> list[CompactionRecord]:
        """The newest compactions of all regions, oldest first."""
        return self._context.compactions.all()

    def log_statistics(self) -> LogStatistics:
        """Count what the log has, and what of it the object store does not have yet."""
        return self._context.wal.statistics()

    def wal_segments(self) -> list[tuple[str, SegmentFacts]]:
        """The segments of the log, oldest first, each with its path."""
        return self._context.wal.segments()

    def storage_requests(self) -> list[RequestFacts]:
        """What this process has asked of object stores since it started, and the states they are in."""
        return request_facts()

    def skip_log_object(self, path: str) -> str:
        """Give up an object of the shared log that cannot be read; return what is wrong with it.

        Regions that lost entries in it are opened without them at the next start or failover.
        """
        node_log = self._context.wal.node_log
        if node_log is None:
            raise Unsupported("there is no shared log", hint="wal.shared.enable is false")
        return node_log.skip_object(path)

    def truncate(
        self, region_id: RegionId, ranges: Sequence[TimeRange] | None = None, *, token: str | None = None
    ) -> Future[None]:
        """Delete all rows; with time ranges, only the data files that are completely in one of them.

        All rows are removed once for each token, however often that is asked for.
        """
        region = self._region(region_id)
        if ranges is None:
            return region.worker.call(lambda: change.truncate(self._context, region, token))
        return region.worker.call(lambda: trim.truncate_inside(self._context, region, ranges))

    def drop(self, region_id: RegionId) -> Future[None]:
        """Drop a region, also one that is quarantined; its files are deleted after their last reader."""
        if region_id in self._roster.quarantined:
            return self._worker_of(region_id).call(lambda: self._drop_quarantined(region_id))
        region = self._region(region_id)

        def drop() -> None:
            self.housekeeping.add_drop(drop_region(self._context, region))
            self._roster.remove(region)

        return region.worker.call(drop)

    def _drop_quarantined(self, region_id: RegionId) -> None:
        directory = self._roster.directory_of_quarantined(region_id)
        if directory is None:
            raise RegionNotFound(region_id=region_id)
        self.housekeeping.add_drop(drop_quarantined(self._context, region_id, directory))
        self._roster.end_quarantine(region_id)

    def discard_unflushed(self, region_id: RegionId) -> Future[None]:
        """Discard the rows that are in memory but not in files; flushed rows stay."""
        region = self._region(region_id)
        return region.worker.call(lambda: change.discard_unflushed(self._context, region))

    def stat(self, region_id: RegionId) -> RegionStat:
        return stat_region(self._context, self._region(region_id))

    def time_range(self, region_id: RegionId) -> TimeRange | None:
        """Return a range that holds the times of all rows of a region; None if it has none."""
        return find_time_range(self._region(region_id))

    def files(self, region_id: RegionId) -> list[FileFacts]:
        """Describe the data files of a region, in the order of time."""
        return describe_files(self._context, self._region(region_id))

    def close(self, *, flush: bool = True, grace: Duration = CLOSE_GRACE) -> None:
        """Flush everything, then stop; without `flush`, leave it to the log.

        What is not done when `grace` is over is left to the log, too: the next start replays it.
        """
        if self._is_closed:
            return
        self._is_closed = True
        self._unwatch()
        clock = self._context.clock
        deadline_ns = clock.monotonic_ns() + grace

        def left() -> float:
            return max(0.0, (deadline_ns - clock.monotonic_ns()) / 1e9)

        self.housekeeping.close()
        self._context.background.stop_compactions()
        is_clean = self._flush_all(left) if flush else True
        # Before the workers, which end what background jobs have begun.
        is_clean &= self._context.background.close(left())
        for worker in self._workers:
            is_clean &= worker.close(left() + _LAST_SECONDS)
        self._context.wal.seal(clean=is_clean)

    def _flush_all(self, left: Callable[[], float]) -> bool:
        """Flush every region, also when the log is broken: memory may be the only place where its last rows are."""
        flushes = {region.id: start_flush(self._context, region) for region in self._roster.regions()}
        is_clean = True
        for region_id, done in flushes.items():
            try:
                error: BaseException | None = done.exception(left())
            except TimeoutError as late:
                error = late
            if error is not None:
                is_clean = False
                _log.warning(
                    "a region was not flushed at the end; the log has its rows",
                    region=region_id,
                    table=self._context.names(region_id),
                    error=error,
                )
        return is_clean

    def _check_open(self) -> None:
        if self._is_closed:
            raise StorageUnavailable("the engine is closed")

    def _region(self, region_id: RegionId) -> Region:
        return self._roster.find(region_id)

    def _worker_of(self, region_id: RegionId) -> Worker:
        count = len(self._workers)
        return self._workers[((region_id >> 32) % count + (region_id & 0xFFFFFFFF) % count) % count]

    def _open_all(self, regions: Mapping[RegionId, str] | Sequence[RegionOpening] | None, *, started_ms: int) -> None:
        if isinstance(regions, Sequence):
            self._is_member = True
            self.refused = self._moves.open_at_start(regions, started_ms=started_ms)
        else:
            recover_all(self._context, self._roster, regions, self._worker_of, started_ms=started_ms)

    def _stop_writing(self, error: TsdbError) -> None:
        """The log is broken: nothing more can be acknowledged until a restart."""
        for region in self._roster.regions():
            region.access.stop(str(error), leads_elsewhere=isinstance(error, LogFenced))


def region_directory(catalog: str, schema: str, table_id: int, number: int, storage: str | None = None) -> str:
    """Return where a region lives in the store, or in one of several."""
    return routed_path(storage, f"{DATA}/{catalog}/{schema}/{table_id}/{table_id}_{number:010}")
