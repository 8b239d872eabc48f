"""Sweeping: what lies in a region's directory and is no part of it is deleted after a start.

- Files that the manifest took out: the process ended before their last reader released them.
- Files that no manifest knows: an interrupted flush or compaction left them.

A file that is younger than the start may belong to a flush of this process and is left alone.
"""

from __future__ import annotations

from concurrent.futures import Future

from tsdb.engine.manifest import plan_orphan_sweep, run_orphan_sweep
from tsdb.engine.region.background import Priority
from tsdb.engine.region.context import EngineContext
from tsdb.engine.region.region import Region
from tsdb.engine.sst import delete_files
from tsdb.store import ObjectMeta
from tsdb.telemetry import get_logger
from tsdb.units import Duration

_log = get_logger("tsdb.region")

NO_GRACE = Duration(0)
REMOVED_GRACE = Duration.of_seconds(3600)
"""How long queries of another node may read files that were removed from a region before it came here."""


def start_sweep(
    context: EngineContext,
    region: Region,
    objects: list[ObjectMeta],
    *,
    started_ms: int,
    grace: Duration = NO_GRACE,
) -> Future[None]:
    """Sweep a region that was just opened, on a background thread; `objects` are those of its directory.

    Files that were removed before it was opened are deleted when that is longer ago than `grace`.
    """
    newest_ms = min(started_ms, context.now_ms() - grace // 1_000_000)
    # These have no readers: no version of this process ever had them. What is removed later is deleted by its handle.
    removed = [each.file_id for each in region.manifest.state.removed_files if each.removed_at_ms <= newest_ms]
    return context.background.submit(Priority.DELETE, lambda: _sweep(context, region, objects, removed, started_ms))


def _sweep(
    context: EngineContext, region: Region, objects: list[ObjectMeta], removed: list[str], started_ms: int
) -> None:
    if region.access.is_gone:
        return
    for file_id in removed:
        delete_files(context.store, region.directory, file_id)
    if removed:
        region.forget(removed)
    orphans = plan_orphan_sweep(
        objects, region.directory, region.manifest.state, in_flight=removed, newest_ms=started_ms
    )
    deleted = run_orphan_sweep(context.store, orphans)
    if deleted:
        _log.info("orphans deleted", region=region.id, table=region.table, files=len(deleted))
