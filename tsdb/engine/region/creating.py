"""Creating a region: its manifest, or the one that is there already if that has the same schema."""

from __future__ import annotations

from tsdb.engine.errors import ManifestFenced, ManifestMismatch, ManifestNotDurable
from tsdb.engine.manifest import Manifest
from tsdb.engine.region.context import EngineContext
from tsdb.engine.region.recovery import make_region
from tsdb.engine.region.region import Region
from tsdb.engine.region.roster import Roster
from tsdb.engine.region.worker import Worker
from tsdb.model import RegionId, RegionOptions, RegionSchema
from tsdb.store import Purpose, requests_for
from tsdb.telemetry import get_logger

_log = get_logger("tsdb.engine")
_EPOCH = 0


def create_region(
    context: EngineContext,
    roster: Roster,
    worker: Worker,
    region_id: RegionId,
    directory: str,
    schema: RegionSchema,
    options: RegionOptions,
) -> Region:
    """Create a region, or open it if it exists, has this schema, and was never on another node."""
    try:
        with requests_for(Purpose.MANIFEST):
            manifest = Manifest.create(
                context.store,
                directory,
                region_id,
                schema,
                options,
                epoch=_EPOCH,
                checkpoint_distance=context.options.manifest_checkpoint_distance,
                clock=context.clock,
                ids=context.ids,
            )
    except ManifestNotDurable as error:
        # It must not be created again and found to be there: rows would rest on what a power loss takes away.
        roster.quarantine(region_id, directory, str(error))
        _log.error(
            "a region is not served until a restart", region=region_id, table=context.names(region_id), error=error
        )
        raise
    _check_new(context, manifest)
    return make_region(context, manifest, region_id, directory, worker)


def _check_new(context: EngineContext, manifest: Manifest) -> None:
    """Refuse to open what has to be opened as a region that exists: it moved, or its log has rows."""
    state = manifest.state
    if state.epoch > manifest.epoch:
        raise ManifestFenced(
            region_id=state.region_id,
            version=state.version,
            epoch=manifest.epoch,
            found_version=state.version,
            found_epoch=state.epoch,
            may_have_landed=False,
        )
    last = context.wal.last_entry(state.region_id)
    if last is not None and last > state.flushed_entry_id:
        raise ManifestMismatch("the region exists and has rows in the log: open it", region_id=state.region_id)
