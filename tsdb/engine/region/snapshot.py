"""Reading: what a region holds at one moment, as sources that stay as they are."""

from __future__ import annotations

from tsdb.engine.errors import RegionNotFound
from tsdb.engine.region.context import EngineContext
from tsdb.engine.region.region import Region
from tsdb.engine.region.version import Version
from tsdb.engine.rows.source import Source
from tsdb.engine.scan import Snapshot
from tsdb.units import Duration

_NS_PER_SECOND = 1_000_000_000


def take_snapshot(context: EngineContext, region: Region, *, timeout: Duration | None = None) -> Snapshot:
    """Take a snapshot; its files are not deleted before it is released. RegionNotFound if the region is gone."""
    version = region.version
    # Asked after the version was taken: a drop or a close says so before it takes the rows away.
    if region.access.is_gone:
        raise RegionNotFound(region_id=region.id)
    pinned = list(version.files)
    return Snapshot(
        schema=version.schema,
        options=version.options,
        sources=sources_of(version),
        deadline_ns=None if timeout is None else context.clock.monotonic_ns() + timeout,
        ttl_cutoff=ttl_cutoff(context, version),
        on_release=pinned.clear,
        clock=context.clock,
        tuning=context.options.tuning.scan,
    )


def sources_of(version: Version) -> tuple[Source, ...]:
    """Return the data files and the sorted runs of all memtables of a version."""
    runs = [run for memtable in version.memtables for window in memtable.runs().values() for run in window]
    return (*(handle.source for handle in version.files), *runs)


def ttl_cutoff(context: EngineContext, version: Version) -> int | None:
    """Return the time before which rows are past their time to live, in the unit of the time column."""
    ttl = version.options.ttl
    if not ttl:
        return None
    return (context.clock.now_ns() - ttl) * version.schema.ticks_per_second // _NS_PER_SECOND
