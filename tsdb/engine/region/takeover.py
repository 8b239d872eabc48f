"""Takeover: brings rows that are not in data files from the logs that have them into regions with claimed manifests.

    own log, logs of other nodes ─▶ verdict ─▶ replay ─▶ flush the rows of other nodes ─▶ adopt

The manifests are claimed before the terms of another node are listed and sealed. A process of that node takes its term
before it reads manifests. Either its term is sealed here, or it finds the newer epoch, so it cannot acknowledge rows
that the new owner does not read.

The logs are read in one pass for all regions. Damage in a log affects only the regions that may have lost rows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from concurrent.futures import Future, TimeoutError

from tsdb.engine.errors import ManifestNotFound
from tsdb.engine.log import LogReading, NodeLog
from tsdb.engine.manifest import SEQUENCE_GAP, Edit, Takeover
from tsdb.engine.region.context import EngineContext
from tsdb.engine.region.flush import start_flush
from tsdb.engine.region.left import LeftRegions, LeftState, flushed_of
from tsdb.engine.region.noting import note_arrived
from tsdb.engine.region.opening import Arrival, Arrivals
from tsdb.engine.region.replay import replay
from tsdb.errors import DeadlineExceeded, TsdbError, Unsupported
from tsdb.model import RegionId, RegionOpening
from tsdb.store import StoreError, crash_point
from tsdb.telemetry import get_logger
from tsdb.units import Duration

_log = get_logger("tsdb.recovery")

STEP_TIMEOUT = Duration.of_seconds(600)
"""How long the flush of a region may take that comes from another node."""

CRASH_POINTS = (
    "takeover.before_seal",
    "takeover.after_seal",
    "takeover.after_replay",
    "takeover.after_flush",
    "takeover.after_gap",
    "takeover.after_adopt",
)


def bring_rows_at_start(
    context: EngineContext, arrivals: Arrivals, openings: Iterable[RegionOpening], left: LeftRegions
) -> None:
    """Replay the own log, and take over what others have. StoreError if the store does not answer."""
    node_log = context.wal.node_log
    # A region that cannot be opened keeps its entries: it may be repaired.
    floors = dict.fromkeys(arrivals.quarantined, 0) | arrivals.floors
    coming = [region_id for region_id, arrival in arrivals.claimed.items() if arrival.opening.log_nodes]
    if node_log is None:
        own = context.wal.read(floors | dict.fromkeys(_kept(arrivals), 0))
    else:
        elsewhere = _find_elsewhere(node_log, arrivals, openings, left, present=floors)
        own = node_log.read_among(floors, elsewhere=elsewhere, arriving=coming)
    readings = [own, *_read_others(context, arrivals, coming, raises=True)]
    _bring(context, arrivals, readings)
    _settle(context, arrivals, coming)


def bring_rows(context: EngineContext, arrivals: Arrivals, doubtful: Collection[RegionId] = ()) -> None:
    """Bring rows into regions that are opened while the engine runs; all of them are in data files afterwards.

    The own log is asked about `doubtful` ones whatever it is known to have: it may be damaged where their rows were.
    """
    coming = list(arrivals.claimed)
    readings = [*_read_own_again(context, arrivals, doubtful), *_read_others(context, arrivals, coming)]
    _bring(context, arrivals, readings)
    _settle(context, arrivals, coming)
    note_arrived(context, arrivals.regions.values())


def _find_elsewhere(
    node_log: NodeLog,
    arrivals: Arrivals,
    openings: Iterable[RegionOpening],
    left: LeftRegions,
    *,
    present: Collection[int],
) -> dict[int, int | None]:
    """Return what is flushed of regions that the log knows, and that are not here any more."""
    directories = {RegionId(each): directory for each, directory in node_log.strangers(present).items()}
    directories |= {each.region_id: each.directory for each in openings if each.region_id in directories}
    for region_id, directory in directories.items():
        if directory is not None:
            left.add(region_id, directory)
    states = left.find(directories)
    node_log.keep_late({each: _read_up_to(state, node_log.node) for each, state in states.items()})
    floors: dict[int, int | None] = {each: flushed_of(state) for each, state in states.items()}
    floors.update((each, None) for each in _kept(arrivals) if each in directories)
    return floors


def _read_up_to(state: LeftState | None, node: int) -> int | None:
    """The last entry of a node that the new owner of a region has; later entries may be late rows."""
    if state is None:
        return None
    waiting = [each.entry_id for each in state.takeovers if each.node == node and not each.is_complete]
    return min(waiting, default=state.flushed_entry_id)


def _kept(arrivals: Arrivals) -> list[RegionId]:
    """Regions that are placed here and were not opened: their entries stay."""
    kept = (ManifestNotFound, Unsupported, StoreError)
    return [region_id for region_id, error in arrivals.refused.items() if isinstance(error, kept)]


def _read_own_again(context: EngineContext, arrivals: Arrivals, doubtful: Collection[RegionId]) -> list[LogReading]:
    """Read the entries that the own log has of regions that were here before, and were closed without a flush."""
    floors = {
        each: floor
        for each, floor in arrivals.floors.items()
        if each in doubtful or (context.wal.last_entry(each) or 0) > floor
    }
    if not floors:
        return []
    if context.wal.node_log is None:
        error = Unsupported(
            "the local log has rows of the region that are not flushed, and reads them only at a start",
            hint="restart the node",
        )
        arrivals.refuse(context, [RegionId(each) for each in floors], error)
        return []
    return [context.wal.node_log.read_again(floors)]


def _read_others(
    context: EngineContext, arrivals: Arrivals, coming: Collection[RegionId], *, raises: bool = False
) -> list[LogReading]:
    """Seal the logs of other nodes, and read what they have of the regions that come."""
    node_log = context.wal.node_log
    nodes = {node for each in coming if each in arrivals.claimed for node in arrivals.claimed[each].opening.log_nodes}
    readings = []
    for node in sorted(nodes):
        if node_log is None or node == node_log.node:
            continue
        concerned = [each for each in arrivals.claimed if node in arrivals.claimed[each].opening.log_nodes]
        floors = {each: floor for each, floor in arrivals.floors.items() if each in concerned}
        crash_point("takeover.before_seal")
        try:
            readings.append(node_log.take_over(node, floors))
        except StoreError as error:
            if raises:
                raise
            arrivals.refuse(context, concerned, error)
        crash_point("takeover.after_seal")
    return readings


def _bring(context: EngineContext, arrivals: Arrivals, readings: list[LogReading]) -> None:
    """Replay what the logs have, except for regions that may have lost entries."""
    held = [each.regions() for each in readings]
    for region_id in list(arrivals.claimed):
        reason = next(filter(None, (each.quarantine_reason(region_id) for each in readings)), None)
        if reason is None and sum(region_id in each for each in held) > 1:
            reason = "the logs of several nodes have entries of the region that are not flushed"
        if reason is not None:
            arrivals.quarantine(context, region_id, reason)
    for reading in readings:
        replay(context, arrivals.regions, reading)
    crash_point("takeover.after_replay")


def _settle(context: EngineContext, arrivals: Arrivals, coming: Collection[RegionId]) -> None:
    """Flush all rows of regions that come from other nodes, and let the own log continue after them."""
    flushing = {
        each: start_flush(context, arrivals.claimed[each].region) for each in coming if each in arrivals.claimed
    }
    _wait(context, arrivals, flushing)
    crash_point("takeover.after_flush")
    gaps = {
        each: arrivals.claimed[each].region.worker.call(_Gap(context, arrivals.claimed[each]))
        for each in flushing
        if each in arrivals.claimed
    }
    _wait(context, arrivals, gaps)
    crash_point("takeover.after_gap")
    adopted = [each for each in gaps if each in arrivals.claimed]
    context.wal.adopt({each: arrivals.claimed[each].region.written.entry_id for each in adopted})
    crash_point("takeover.after_adopt")
    if context.wal.node_log is not None:
        regions = arrivals.regions.values()
        context.wal.node_log.remember({region.id: region.directory for region in regions})


def _wait(context: EngineContext, arrivals: Arrivals, steps: dict[RegionId, Future[None]]) -> None:
    """Wait for a step of each region; those that fail are not opened."""
    for region_id, done in steps.items():
        try:
            error = done.exception(STEP_TIMEOUT.seconds)
        except TimeoutError:
            error = DeadlineExceeded(f"the region was not flushed within {STEP_TIMEOUT}", region_id=region_id)
        if isinstance(error, TsdbError):
            arrivals.refuse(context, [region_id], error)
        elif error is not None:
            raise error


class _Gap:
    """Leaves out sequences, for a region that comes from another node. On its worker."""

    def __init__(self, context: EngineContext, arrival: Arrival) -> None:
        self._context = context
        self._arrival = arrival

    def __call__(self) -> None:
        region = self._arrival.region
        if self._arrival.opening.log_nodes:
            sequence = region.written.sequence + SEQUENCE_GAP
            region.commit(self._context, Edit(flushed_sequence=sequence, takeovers=self._takeovers()))
            region.written.sequence = sequence

    def _takeovers(self) -> tuple[Takeover, ...]:
        """The late rows that the previous nodes of the region may send.

        An opening that is repeated after its answer was lost has noted that already, before it left out sequences.
        """
        opening, region = self._arrival.opening, self._arrival.region
        known = {(each.epoch, each.node) for each in region.manifest.state.takeovers}
        nodes = [each for each in opening.log_nodes if opening.may_lack_rows and (opening.epoch, each) not in known]
        written, now_ms = region.written, self._context.now_ms()
        return tuple(Takeover(each, opening.epoch, written.entry_id, written.sequence, now_ms) for each in nodes)
