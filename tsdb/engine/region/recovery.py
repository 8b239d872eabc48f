"""Opening the engine of a server that has all regions: manifests, then one pass over the log for all of them.

    log: find its end ─▶ manifests ─▶ replay what is not flushed, obeying the write buffer ─▶ ready

A region that may have lost acknowledged rows, or whose manifest cannot be read, is quarantined with the reason; the
others serve. A data file that is missing or has another size is quarantined by itself: queries that need it say so, all
others are answered. A remote store that does not answer says nothing about a region: after a few attempts the start
fails, and can be repeated. A node of a cluster opens its regions by `opening`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from tsdb.engine.errors import ManifestCorrupted, ManifestNotFound, ManifestUncertain, is_of_disk
from tsdb.engine.listing import DATA, Listing, find_damaged, region_of
from tsdb.engine.manifest import Manifest
from tsdb.engine.region.compact import first_look_ns
from tsdb.engine.region.context import EngineContext
from tsdb.engine.region.drop import finish_drop
from tsdb.engine.region.quarantine import look_after_start
from tsdb.engine.region.region import Region
from tsdb.engine.region.replay import replay
from tsdb.engine.region.roster import Roster
from tsdb.engine.region.state import CompactionState, FlushState, RegionAccess, Written
from tsdb.engine.region.sweep import start_sweep
from tsdb.engine.region.version import Version
from tsdb.engine.region.worker import Worker
from tsdb.errors import TsdbError
from tsdb.model import RegionId
from tsdb.store import InvalidRange, ObjectMeta, ObjectNotFound, Purpose, StoreError, StoreMisconfigured, requests_for
from tsdb.telemetry import get_logger

_log = get_logger("tsdb.recovery")
T = TypeVar("T")

_EPOCH = 0
OPEN_RETRY_SECONDS = (0.1, 0.3, 1.0)
"""How long a start waits before it asks a store again that did not answer."""


@dataclass(slots=True)
class RecoveredRegions:
    """What opening found."""

    regions: dict[RegionId, Region] = field(default_factory=dict)
    quarantined: dict[RegionId, str] = field(default_factory=dict)


def finish_drops(context: EngineContext, directories: Iterable[str]) -> set[str]:
    """Delete what is left of regions whose drop was interrupted; return the directories where that failed."""
    unfinished = set()
    for directory in directories:
        try:
            finish_drop(context, region_of(directory), directory)
        except TsdbError as error:
            unfinished.add(directory)
            _log.warning("a dropped region is deleted at the next start", directory=directory, error=error)
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
        access=RegionAccess(clock=context.clock),
        names=context.names,
    )
    region.adopt(context)
    return region


def open_patiently(open_it: Callable[[], T]) -> T:
    """Open a region, several times if the store does not answer; what looks damaged is read a second time."""
    for attempt, seconds in enumerate(OPEN_RETRY_SECONDS):
        try:
            return open_it()
        except (ManifestCorrupted, ManifestUncertain, StoreError) as error:
            # An answer that was cut off looks like damage, too.
            if not (is_outage(error) or (isinstance(error, ManifestCorrupted) and attempt == 0)):
                raise
            _log.warning("a region could not be opened; retrying", error=error, seconds=seconds)
            time.sleep(seconds)
    return open_it()


def is_outage(error: TsdbError) -> bool:
    """Whether a remote store failed, rather than a disk, an object in it, or its configuration."""
    if isinstance(error, ManifestUncertain):
        return True
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
            found.regions[region_id] = open_patiently(open_it)
        except (ManifestCorrupted, ManifestNotFound, StoreError) as error:
            if is_outage(error):
                raise
            found.quarantined[region_id] = str(error)
            _log.error("a region cannot be opened", region=region_id, table=context.names(region_id), error=error)
    # A region that cannot be opened keeps its entries: it may be repaired.
    floors: dict[int, int] = dict.fromkeys(found.quarantined, 0)
    floors |= {region_id: region.written.entry_id for region_id, region in found.regions.items()}
    reading = context.wal.read(floors)
    for region_id in list(found.regions):
        reason = reading.quarantine_reason(region_id)
        if reason is not None:
            found.quarantined[region_id] = reason
            del found.regions[region_id]
            _log.error("a region is quarantined", region=region_id, table=context.names(region_id), reason=reason)
    replay(context, found.regions, reading)
    return found


def recover_all(
    context: EngineContext,
    roster: Roster,
    regions: Mapping[RegionId, str] | None,
    worker_of: Callable[[RegionId], Worker],
    *,
    started_ms: int,
) -> None:
    """Finish drops, open all regions, and sweep what interrupted jobs left; without `regions`, find them first."""
    with requests_for(Purpose.START):
        listing = Listing(context.store, DATA)
    unfinished = finish_drops(context, listing.dropped())
    known = listing.regions() if regions is None else regions
    directories = {region_id: directory for region_id, directory in known.items() if directory not in unfinished}
    recovered = recover(context, directories, listing, worker_of)
    for region_id, reason in recovered.quarantined.items():
        roster.quarantine(region_id, directories[region_id], reason)
    for region in recovered.regions.values():
        roster.add(region)
        start_sweep(context, region, listing.below(region.directory), started_ms=started_ms)
        look_after_start(context, region)
