"""Opening the engine: regions from their manifests, then one pass over the log for all of them.

    log: find its end ─▶ manifests ─▶ replay what is not flushed, obeying the write buffer ─▶ ready

A region that may have lost acknowledged rows, or whose manifest cannot be read, is quarantined with the reason; the
others serve. A data file that is missing or has another size is quarantined by itself: queries that need it say so, all
others are answered. A remote store that does not answer says nothing about a region: after a few attempts the start
fails, and can be repeated. Replay gives rows the sequences they had.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial

from tsdb.engine.entry import decode_batch
from tsdb.engine.errors import ManifestCorrupted, ManifestNotFound, is_of_disk
from tsdb.engine.listing import Listing, find_damaged, region_of
from tsdb.engine.log import ReplayedFrame
from tsdb.engine.manifest import Manifest
from tsdb.engine.metrics import REPLAYED_ROWS
from tsdb.engine.region.compact import first_look_ns
from tsdb.engine.region.context import EngineContext
from tsdb.engine.region.drop import finish_drop
from tsdb.engine.region.flush import start_flush
from tsdb.engine.region.region import Region
from tsdb.engine.region.state import CompactionState, FlushState, Written
from tsdb.engine.region.version import Version
from tsdb.engine.region.worker import Worker
from tsdb.engine.rows.read_ahead import one_ahead
from tsdb.errors import TsdbError
from tsdb.model import RegionId, RegionOptions, RegionSchema
from tsdb.store import InvalidRange, ObjectMeta, ObjectNotFound, Purpose, StoreError, StoreMisconfigured, requests_for
from tsdb.telemetry import get_logger

_log = get_logger("tsdb.recovery")

_PROGRESS_NS = 1_000_000_000
_EPOCH = 0
OPEN_RETRY_SECONDS = (0.1, 0.3, 1.0)
"""How long a start waits before it asks a store again that did not answer."""


@dataclass(slots=True)
class RecoveredRegions:
    """What opening found."""

    regions: dict[RegionId, Region] = field(default_factory=dict)
    quarantined: dict[RegionId, str] = field(default_factory=dict)
    replayed_rows: int = 0


def finish_drops(context: EngineContext, directories: Iterable[str]) -> set[str]:
    """Delete what is left of regions whose drop was interrupted; return the directories where that failed."""
    unfinished = set()
    for directory in directories:
        try:
            finish_drop(context, region_of(directory), directory)
        except TsdbError as error:
            unfinished.add(directory)
            _log.warning("a dropped region is left to the next start", directory=directory, error=error)
    return unfinished


@requests_for(Purpose.MANIFEST)
def open_region(
    context: EngineContext, region_id: RegionId, directory: str, worker: Worker, objects: list[ObjectMeta]
) -> Region:
    """Open a region as its manifest has it, without what only the log knows; `objects` are those of its directory."""
    manifest = Manifest.open(
        context.store,
        directory,
        region_id,
        epoch=_EPOCH,
        checkpoint_distance=context.options.manifest_checkpoint_distance,
        clock=context.clock,
        ids=context.ids,
        objects=objects,
    )
    region = make_region(context, manifest, region_id, directory, worker)
    region.quarantine_found(context, find_damaged(objects, directory, manifest.state))
    return region


def make_region(
    context: EngineContext, manifest: Manifest, region_id: RegionId, directory: str, worker: Worker
) -> Region:
    """Make the object of a region whose manifest is open."""
    state = manifest.state
    now = context.clock.monotonic_ns()
    mutable = context.new_memtable(state.schema, state.options)
    region = Region(
        id=region_id,
        directory=directory,
        manifest=manifest,
        worker=worker,
        version=Version(state.schema, state.options, mutable, frozen=(), files=()),
        written=Written(state.flushed_entry_id, state.flushed_sequence),
        flush=FlushState(last_ns=now),
        compaction=CompactionState(due_ns=now + first_look_ns(region_id), settled_version=state.version),
        names=context.names,
    )
    region.adopt(context)
    return region


def _open_patiently(open_it: Callable[[], Region]) -> Region:
    """Open a region, several times if the store does not answer; what looks damaged is read a second time."""
    for attempt, seconds in enumerate(OPEN_RETRY_SECONDS):
        try:
            return open_it()
        except (ManifestCorrupted, StoreError) as error:
            # An answer that was cut off looks like damage, too.
            if not (_is_outage(error) or (isinstance(error, ManifestCorrupted) and attempt == 0)):
                raise
            _log.warning("a region could not be opened, that is tried again", error=error, seconds=seconds)
            time.sleep(seconds)
    return open_it()


def _is_outage(error: TsdbError) -> bool:
    """Whether a remote store failed, rather than a disk, an object in it, or its configuration."""
    is_other = isinstance(error, ObjectNotFound | InvalidRange | StoreMisconfigured)
    return isinstance(error, StoreError) and not (is_other or is_of_disk(error))


def recover(
    context: EngineContext,
    directories: Mapping[RegionId, str],
    listing: Listing,
    worker_of: Callable[[RegionId], Worker],
) -> RecoveredRegions:
    """Open regions and replay the log into them."""
    found = RecoveredRegions()
    for region_id, directory in directories.items():
        try:
            objects, worker = listing.below(directory), worker_of(region_id)
            open_it = partial(open_region, context, region_id, directory, worker, objects)
            found.regions[region_id] = _open_patiently(open_it)
        except (ManifestCorrupted, ManifestNotFound, StoreError) as error:
            if _is_outage(error):
                raise
            found.quarantined[region_id] = str(error)
            _log.error("a region cannot be opened", region=region_id, table=context.names(region_id), error=error)
    _replay(context, found)
    return found


def _replay(context: EngineContext, found: RecoveredRegions) -> None:
    # A region that cannot be opened keeps its entries: it may be repaired.
    floors: dict[int, int] = dict.fromkeys(found.quarantined, 0)
    floors |= {region_id: region.written.entry_id for region_id, region in found.regions.items()}
    replay = context.wal.read(floors)
    for region_id in list(found.regions):
        reason = replay.quarantine_reason(region_id)
        if reason is not None:
            found.quarantined[region_id] = reason
            del found.regions[region_id]
            _log.error("a region is quarantined", region=region_id, table=context.names(region_id), reason=reason)
    with ThreadPoolExecutor(1, thread_name_prefix="tsdb-replay") as executor:
        _apply_all(context, found, one_ahead(iter(replay), executor))
    for region in found.regions.values():
        _settle(context, region)
    if found.replayed_rows:
        _log.info("replayed the log", rows=found.replayed_rows, regions=len(found.regions))


def _apply_all(context: EngineContext, found: RecoveredRegions, batches: Iterator[list[ReplayedFrame]]) -> None:
    """Put all entries into memtables; the next batch is read and decompressed meanwhile."""
    reported_ns = context.clock.monotonic_ns()
    for frames in batches:
        for frame in frames:
            region = found.regions.get(RegionId(frame.region_id))
            if region is not None:
                _apply(context, region, frame)
                found.replayed_rows += frame.rows
                _relieve(context, found)
        REPLAYED_ROWS.set(found.replayed_rows)
        if context.clock.monotonic_ns() - reported_ns > _PROGRESS_NS:
            reported_ns = context.clock.monotonic_ns()
            _log.info("replaying the log", rows=found.replayed_rows)


def _apply(context: EngineContext, region: Region, frame: ReplayedFrame) -> None:
    """Put the rows of an entry into a memtable of the schema they were written under, and of their kind of options."""
    schema = region.version.schema.as_of(frame.schema_version)
    options = region.version.options.at(frame.base_seq)
    _use_memtable(context, region, schema, options)
    batch = decode_batch(schema, frame.payload, frame.kind, version=frame.schema_version)
    region.version.mutable.append(batch, frame.base_seq, nbytes=frame.payload.size)
    region.written.entry_id = frame.entry_id
    region.written.sequence = max(region.written.sequence, frame.base_seq + frame.rows - 1)


def _settle(context: EngineContext, region: Region) -> None:
    """End the replay of a region with a memtable of the current schema."""
    _use_memtable(context, region, region.version.schema, region.version.options)


def _use_memtable(context: EngineContext, region: Region, schema: RegionSchema, options: RegionOptions) -> None:
    """Let the next rows come into a memtable of a schema and options."""
    mutable = region.version.mutable
    if (mutable.schema is not schema and mutable.schema != schema) or mutable.options != options:
        region.use_memtable(context, schema, options)


def _relieve(context: EngineContext, found: RecoveredRegions) -> None:
    """Flush the largest regions while the replayed rows take more memory than writing would be allowed.

    If that fails, the replay goes on as far as writing could have come without a flush.
    """
    while context.buffer.should_flush:
        now, must_flush = context.clock.monotonic_ns(), context.buffer.should_reject(0)
        able = [region for region in found.regions.values() if must_flush or now >= region.flush.not_before_ns]
        region = max(able, key=lambda each: each.version.memtable_bytes, default=None)
        if region is None or not region.version.memtable_bytes:
            return
        try:
            start_flush(context, region).result()
        except TsdbError:
            if must_flush:
                raise
