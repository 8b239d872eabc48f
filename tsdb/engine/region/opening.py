"""Opening regions of a cluster node: at startup, and whenever regions are assigned to it.

    claim the manifests ─▶ seal and read logs that may have rows (`takeover`) ─▶ flush ─▶ own log ─▶ ready

- The manifest is opened under the epoch of the opening and always claimed with a commit. From then on neither an older
  owner nor an older process of this node can commit. Their uncommitted files are not part of the region.
- A region that comes from another node is served when all its rows are in data files. Unflushed rows are therefore only
  in the log of the owner, and entry ids continue from what is flushed.
- A region may be opened twice, or again after a crash: every step leaves a state in which this node, or another one,
  can start with the first step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial

from tsdb.engine.errors import ManifestFenced, ManifestNotFound, RegionNotFound
from tsdb.engine.listing import DROPPING, find_damaged
from tsdb.engine.manifest import Manifest
from tsdb.engine.parallel import in_parallel
from tsdb.engine.region.context import EngineContext
from tsdb.engine.region.drop import finish_drop
from tsdb.engine.region.noting import definition_of
from tsdb.engine.region.recovery import is_outage, make_region, open_patiently
from tsdb.engine.region.region import Region
from tsdb.engine.region.state import RegionState
from tsdb.engine.region.worker import Worker
from tsdb.errors import TsdbError, Unsupported
from tsdb.model import RegionId, RegionOpening
from tsdb.store import ObjectMeta, Purpose, crash_point, requests_for
from tsdb.telemetry import get_logger

_log = get_logger("tsdb.recovery")
PARALLELISM = 16
"""Regions whose manifests are opened at a time."""

CRASH_POINTS = ("open.before_claim", "open.after_claim")


@dataclass(slots=True)
class Arrival:
    """A region whose manifest is claimed."""

    opening: RegionOpening
    region: Region
    objects: list[ObjectMeta]
    """What is in its directory."""
    was_here: bool
    """Its manifest had this epoch before: it was on this node."""


@dataclass(slots=True)
class Arrivals:
    """What became of openings."""

    claimed: dict[RegionId, Arrival] = field(default_factory=dict)
    quarantined: dict[RegionId, str] = field(default_factory=dict)
    refused: dict[RegionId, TsdbError] = field(default_factory=dict)
    """Not opened, and why."""

    @property
    def regions(self) -> dict[RegionId, Region]:
        return {region_id: arrival.region for region_id, arrival in self.claimed.items()}

    @property
    def floors(self) -> dict[int, int]:
        """What each claimed region has flushed."""
        return {region_id: arrival.region.written.entry_id for region_id, arrival in self.claimed.items()}

    def quarantine(self, context: EngineContext, region_id: RegionId, reason: str) -> None:
        """Do not serve a region that may have lost rows."""
        self._let_go(context, region_id)
        self.quarantined[region_id] = reason
        _log.error("a region is quarantined", region=region_id, table=context.names(region_id), reason=reason)

    def refuse(self, context: EngineContext, region_ids: Iterable[RegionId], error: TsdbError) -> None:
        """Do not open regions now; nothing is wrong with them."""
        for region_id in region_ids:
            self._let_go(context, region_id)
            self.refused[region_id] = error
            _log.warning("a region is not opened", region=region_id, table=context.names(region_id), error=error)

    def give_up(self, context: EngineContext) -> None:
        """Open none of them."""
        for region_id in list(self.claimed):
            self._let_go(context, region_id)

    def _let_go(self, context: EngineContext, region_id: RegionId) -> None:
        arrival = self.claimed.pop(region_id, None)
        if arrival is not None:
            region = arrival.region
            # On the worker: a flush of it may be under way.
            region.worker.call(partial(region.let_go, context, RegionState.CLOSED))


def claim_regions(
    context: EngineContext, openings: Sequence[RegionOpening], worker_of: Callable[[RegionId], Worker]
) -> Arrivals:
    """Claim the manifests of regions, several at a time. An error concerns its own region only."""
    arrivals = Arrivals()
    openings = _without_log_of_others(context, openings, arrivals)
    results = in_parallel(partial(_try_claim, context, worker_of), openings, PARALLELISM)
    for opening, found in zip(openings, results, strict=True):
        region_id = opening.region_id
        if isinstance(found, Arrival):
            arrivals.claimed[region_id] = found
        elif _is_passing(found):
            arrivals.refuse(context, [region_id], found)
        else:
            arrivals.quarantine(context, region_id, str(found))
    return arrivals


def _without_log_of_others(
    context: EngineContext, openings: Sequence[RegionOpening], arrivals: Arrivals
) -> Sequence[RegionOpening]:
    """Refuse what cannot be done without a shared log."""
    if context.wal.node_log is not None:
        return openings
    for opening in openings:
        if opening.log_nodes:
            nodes = ", ".join(map(str, opening.log_nodes))
            error = Unsupported(
                f"rows of the region may be in the log of node {nodes}, and this node has only a local log",
                region_id=opening.region_id,
                hint="set wal.shared.enable = true on all datanodes; until then start the node that had the region",
            )
            arrivals.refuse(context, [opening.region_id], error)
    return [opening for opening in openings if not opening.log_nodes]


def _is_passing(error: TsdbError) -> bool:
    """Whether opening again may succeed without a repair."""
    return isinstance(error, ManifestFenced | ManifestNotFound | RegionNotFound) or is_outage(error)


def _try_claim(
    context: EngineContext, worker_of: Callable[[RegionId], Worker], opening: RegionOpening
) -> Arrival | TsdbError:
    try:
        return open_patiently(partial(_claim, context, opening, worker_of(opening.region_id)))
    except TsdbError as error:
        return error


@requests_for(Purpose.MANIFEST)
def _claim(context: EngineContext, opening: RegionOpening, worker: Worker) -> Arrival:
    region_id, directory = opening.region_id, opening.directory
    objects = list(context.store.list(directory))
    if any(found.path == f"{directory}/{DROPPING}" for found in objects):
        finish_drop(context, region_id, directory)
        raise RegionNotFound(region_id=region_id)
    manifest = Manifest.open(
        context.store,
        directory,
        region_id,
        epoch=opening.epoch,
        checkpoint_distance=context.options.manifest_checkpoint_distance,
        clock=context.clock,
        ids=context.ids,
        objects=objects,
    )
    known = manifest.state
    if known.is_removed:
        raise RegionNotFound(region_id=region_id)
    crash_point("open.before_claim")
    claimed = manifest.claim(always=True)
    crash_point("open.after_claim")
    if claimed.version != known.version + 1:
        # Others committed meanwhile: files may have come.
        objects = list(context.store.list(directory))
    region = make_region(context, manifest, region_id, directory, worker)
    # All regions that are opened together are noted at once when that is done.
    region.noted = definition_of(manifest.state)
    region.quarantine_found(context, find_damaged(objects, directory, manifest.state))
    return Arrival(opening, region, objects, was_here=known.epoch == opening.epoch)
