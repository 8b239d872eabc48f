"""The tasks of the leading metadata server.

    elected ─▶ nodes known from the metadata ─▶ catalog recovers (finishes or undoes what was interrupted) ─▶ changes
    deposed ─▶ no more changes, connections to datanodes closed ─▶ the next leader recovers

Heartbeats are answered from the first moment; changes wait for the recovery, in line. What was left because a datanode
could not be reached is tried again every few seconds. Moves of regions are made in a line of their own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, Protocol

from tsdb.catalog import (
    Catalog,
    CatalogChange,
    CatalogOutdated,
    ChangeRecord,
    RunningChange,
    apply_change,
    making,
    openings_of,
    places_of,
)
from tsdb.clock import Clock
from tsdb.engine import Regions
from tsdb.errors import InvalidArguments, TsdbError, Unsupported
from tsdb.ids import SYSTEM_IDS, Ids
from tsdb.kv import Compare, CoordinationStore, Leadership, LeadershipLost, Operation
from tsdb.meta._history import CatalogHistory
from tsdb.meta._holds import TableHolds
from tsdb.meta._keys import FOR_FRONTENDS, MAINTENANCE
from tsdb.meta._leader_kv import LeaderKv
from tsdb.meta._losses import open_losses, record_recovered
from tsdb.meta._move_records import MoveRecord, MoveState
from tsdb.meta._moves import NodeCalls, RegionMoves
from tsdb.meta._nodes import LEASE, LogKind, NodeDescription, NodeRegistry
from tsdb.meta._outcomes import Outcomes
from tsdb.meta._placement import WAIT_SECONDS, NodePlacement
from tsdb.meta._places import PlaceIndex, StoreRoutes, region_number
from tsdb.meta._procedures import ProcedureRecord, Procedures
from tsdb.meta._selectors import NodeSelector
from tsdb.meta._supervisor import FailureSupervisor, Supervision
from tsdb.meta.errors import NodeNotAlive, RegionsNotMoved
from tsdb.model import NodeRole, Peer, RegionId, RegionOpening, RegionSchema, table_id_of
from tsdb.remote import Routes
from tsdb.telemetry import get_logger
from tsdb.units import Duration

STEP_TIMEOUT = Duration.of_seconds(10)
"""How long one step of a change may wait for datanodes."""
_NOTE_TIMEOUT, _BASE_TIMEOUT = Duration.of_seconds(5), Duration.of_seconds(30)
"""How long one datanode may take to note a change, or everything there is."""
_HOUSEKEEPING_SECONDS = 5.0
_AGAIN_SECONDS_MIN = 0.5
"""The shortest time between two looks at interrupted changes; each has a retry interval of its own."""
_SUPERVISE_SECONDS = 1.0
_RETRY_SECONDS = 1.0
_STOP_SECONDS_MAX = 10.0

_log = get_logger("tsdb.meta")


class LeaderRegions(Regions, NodeCalls, Protocol):
    """Regions on datanodes, and what is asked of the datanodes themselves."""

    def read_schema(self, region_id: RegionId) -> RegionSchema:
        """Ask for the schema that a region has now."""
        ...

    def backup(
        self, peer: Peer, step: str, request: Mapping[str, Any], *, timeout: Duration | None = None
    ) -> Mapping[str, Any]:
        """Have a datanode do a step of what backups need."""
        ...

    def close(self) -> None: ...


MakeRegions = Callable[[Routes], LeaderRegions]
"""Make what reaches regions on their datanodes."""


@dataclass(frozen=True, slots=True)
class LeaderSettings:
    """How a leader works."""

    selector: NodeSelector = NodeSelector.LEASE_BASED
    supervision: Supervision = field(default_factory=Supervision)
    lease: Duration = LEASE
    step_timeout: Duration = STEP_TIMEOUT
    wait_seconds: float = WAIT_SECONDS
    """How long a new table waits for a first heartbeat."""
    seed: int | None = None


class MetaLeader:
    """The work of one leadership."""

    def __init__(
        self,
        store: CoordinationStore,
        leadership: Leadership,
        places: PlaceIndex,
        make_regions: MakeRegions,
        clock: Clock,
        settings: LeaderSettings,
        ids: Ids = SYSTEM_IDS,
    ) -> None:
        self.kv = LeaderKv(store, leadership)
        self.term = leadership.term
        self.nodes = NodeRegistry(self.kv, clock, lease=settings.lease)
        self.procedures = Procedures(clock)
        self._places = places
        self._clock = clock
        self._settings = settings
        self._stopped = threading.Event()
        self._balancing = threading.Lock()
        self._recovered = threading.Event()
        random = Random(settings.seed)
        self._placement = NodePlacement(
            self.nodes, settings.selector, places.region_counts, random, wait_seconds=settings.wait_seconds
        )
        self._regions = make_regions(StoreRoutes(self.kv, self._check_alive))
        self.history = self.kv.history = CatalogHistory(
            self.term,
            scan=store.scan,
            confirm=lambda: leadership.transact([], []),
            keepers=self._keepers,
            send=self._send_note,
        )
        self._catalog: Catalog | None = None
        self.holds = TableHolds(self.procedures, self.kv, self._wait_recovered, self._stopped)
        self.move_line = Procedures(clock, name="moves")
        self.outcomes = Outcomes(
            self.kv, clock, changes=self.procedures, moves=self.move_line, catalog=lambda: self._catalog
        )
        self._moves = RegionMoves(
            self.kv,
            self.nodes,
            self._regions,
            settings.selector,
            places.region_counts,
            random,
            clock,
            ids,
            self._stopped,
        )
        self._supervisor = FailureSupervisor(
            self.nodes,
            clock,
            settings.supervision,
            region_counts=places.region_counts,
            is_in_maintenance=lambda: store.get(MAINTENANCE) is not None,
            answers=self._answers,
            fail_over=self.fail_over,
        )
        self._supervising = threading.Thread(target=self._supervise, name="metasrv-supervisor", daemon=True)
        self._housekeeping = threading.Thread(target=self._keep_house, name="metasrv-housekeeping", daemon=True)

    def start(self) -> None:
        self._housekeeping.start()
        self.procedures.start()
        self.move_line.start()
        self._supervising.start()

    def stop(self) -> None:
        """Stop everything that only a leader does; changes in progress are left to the next leader."""
        self._stopped.set()
        self._recovered.set()
        self._regions.close()
        self.procedures.stop()
        self.move_line.stop()
        for thread in (self._housekeeping, self._supervising):
            if thread.is_alive():
                thread.join(_STOP_SECONDS_MAX)
        if self._catalog is not None:
            self._catalog.forget_unfinished()

    @property
    def is_recovered(self) -> bool:
        """Whether the recovery of an earlier leader's changes has run."""
        return self._catalog is not None

    def register(self, node: NodeDescription) -> list[RegionOpening]:
        """Register a node; return the regions that it has to open."""
        self.nodes.register(node)
        return openings_of(self.kv, node.node_id) if node.role is NodeRole.DATANODE else []

    def heartbeat(
        self, node: NodeDescription, report: Mapping[str, Any], regions: Sequence[RegionId]
    ) -> tuple[bool, list[RegionId]]:
        """Record a heartbeat; return whether the node is registered, and the regions that it has to close."""
        if not self.nodes.heartbeat(node, report):
            return False, []
        return True, self._misplaced(node.node_id, regions) if node.role is NodeRole.DATANODE else []

    def change(self, procedure_id: str, change: CatalogChange) -> ProcedureRecord:
        """Queue a catalog change; the record shows its outcome."""
        running = RunningChange(ChangeRecord(procedure_id, change.kind, change.subject, self._now_ms()))
        return self.procedures.submit(procedure_id, change.kind, change.subject, lambda: self._apply(change, running))

    def migrate(self, region_id: RegionId, from_node: int, to_node: int) -> ProcedureRecord:
        """Queue the migration of a region; the record shows its outcome."""
        return self._submit_move(self._moves.plan_migration(region_id, from_node, to_node))

    def balance(self) -> list[ProcedureRecord]:
        """Queue migrations of a few regions, from nodes with many to nodes with few."""
        with self._balancing:
            return [self.migrate(*move) for move in self._moves.choose_balancing()]

    def fail_over(self, node_id: int, reason: str) -> list[ProcedureRecord]:
        """Queue the failover of a node's regions; the node itself is not asked."""
        state = self.nodes.find_datanode(node_id)
        if state is not None and state.description.log == LogKind.NONE:
            raise Unsupported(
                f"the regions of datanode {node_id} cannot be moved: rows are only on its own disk",
                hint="start it again; with storage that all datanodes reach and a shared log regions can be moved",
            )
        if any(each.subject == f"node {node_id}" and not each.ended.is_set() for each in self.move_line.recent()):
            return []
        _log.warning("the regions of a datanode are moved to others", node=node_id, reason=reason)
        return [self._submit_move(record) for record in self._moves.plan_failover(node_id, reason)]

    def missing(self, node_id: int, regions: Collection[RegionId]) -> list[RegionOpening]:
        """Return what a datanode, which has these regions, has to open. The copy may be old: the store decides."""
        if not self._places.missing_on(node_id, regions):
            return []
        missing = [each for each in openings_of(self.kv, node_id) if each.region_id not in regions]
        left = self._moves.regions_left() if missing else set()
        return [each for each in missing if each.region_id not in left]

    def owner_of(self, region_id: RegionId) -> tuple[Peer, bool] | None:
        """Return the node that a region is on, and whether it is moving; None if there is no such region."""
        place = places_of(self.kv, table_id_of(region_id)).get(region_number(region_id))
        if place is None:
            return None
        state = self.nodes.find_datanode(place.node_id)
        return Peer(place.node_id, "" if state is None else state.description.address), place.is_moving

    def recovered(self, node_id: int, region_id: RegionId, rows: Mapping[int, int]) -> bool:
        """Record that a node has sent its late rows of a region."""
        return record_recovered(self.kv, node_id, region_id, rows)

    def open_losses(self, node_id: int) -> list[tuple[RegionId, int]]:
        """The regions, with epochs, that were taken from a node and may lack rows that it has."""
        return open_losses(self.kv, node_id)

    def retry(self) -> int:
        """Try everything that could not be finished once more, at once; return how much that is."""
        catalog = self._catalog
        if catalog is None:
            return 0
        catalog.retry()
        return len(catalog.unfinished())

    def transact(self, compares: Sequence[Compare], operations: Sequence[Operation]) -> bool:
        """Make a change of a frontend that is not one of the catalog."""
        for each in (*compares, *operations):
            if not each.key.startswith(FOR_FRONTENDS):
                raise InvalidArguments("only the leader changes this key of the metadata", key=each.key)
        is_made = self.kv.transact(compares, operations)
        self.history.check_noted(self.kv.transact_plainly)
        return is_made

    def _apply(self, change: CatalogChange, running: RunningChange) -> Any:
        catalog = self._wait_recovered()
        running.record = replace(running.record, began_ms=self._now_ms())
        try:
            with making(running):
                result = apply_change(catalog, change)
            self.outcomes.note_end(running, None)
            self.history.check_noted(self.kv.transact_plainly)
            return result
        except (InvalidArguments, CatalogOutdated) as error:
            self.outcomes.note_end(running, error)
            raise
        except TsdbError as error:
            # A leader of the past fails because of what the next one does: then it cannot say what becomes of a change.
            self._confirm(error)
            self.outcomes.note_end(running, error)
            raise

    def _now_ms(self) -> int:
        return self._clock.now_ns() // 1_000_000

    def _wait_recovered(self) -> Catalog:
        self._recovered.wait()
        if self._catalog is None or self._stopped.is_set():
            raise LeadershipLost("this server is no longer the leader", hint="send the change again")
        return self._catalog

    def _confirm(self, error: TsdbError) -> None:
        """Raise LeadershipLost if this server is no longer the leader."""
        if self._stopped.is_set():
            raise LeadershipLost("this server is no longer the leader") from error
        self.kv.transact([], [])

    def _keepers(self) -> list[Peer] | None:
        """The datanodes that are alive and keep their shared logs; None if it is not expected that one does.

        One that is silent counts as long as it has regions, or may be alive: it is waited for.
        """
        states = [each for each in self.nodes.states(NodeRole.DATANODE) if each.description.keeps_log]
        counts = self._places.region_counts() if states else {}
        if not any(self.nodes.may_live(each) or counts.get(each.description.node_id) for each in states):
            return None
        alive = [each.description for each in states if self.nodes.is_alive(each)]
        return [Peer(each.node_id, each.address) for each in alive]

    def _send_note(self, peer: Peer, note: Mapping[str, Any]) -> None:
        self._regions.backup(peer, "note", note, timeout=_BASE_TIMEOUT if note["is_base"] else _NOTE_TIMEOUT)

    def _misplaced(self, node_id: int, regions: Sequence[RegionId]) -> list[RegionId]:
        """Return a node's regions that are not assigned to it. The copy may be old: the store decides."""
        suspects = []
        for region in regions:
            place = self._places.place_of(region)
            if place is None or place.node_id != node_id or place.is_moving:
                suspects.append(region)
        misplaced = []
        for region in suspects:
            found = places_of(self.kv, table_id_of(region)).get(region_number(region))
            # One that is moving may be open on the node that it moves to already.
            if found is None or (found.node_id != node_id and not found.is_moving):
                misplaced.append(region)
        return misplaced

    def _check_alive(self, node_id: int) -> None:
        state = self.nodes.find_datanode(node_id)
        if state is not None and not self.nodes.is_alive(state) and not self.nodes.may_live(state):
            raise NodeNotAlive(
                "a datanode has not sent a heartbeat",
                node_id=node_id,
                address=state.description.address,
                seconds=round(self.nodes.silent_seconds(state)),
                hint="start it again, or wait until its regions are moved",
            )

    def _submit_move(self, record: MoveRecord) -> ProcedureRecord:
        kind = "failover" if record.is_failover else "migrate_region"
        subject = f"node {record.from_node}" if record.is_failover else f"region {record.regions[0].region_id}"
        return self.move_line.submit(
            record.id, kind, subject, lambda: self._make_move(record), is_urgent=record.is_failover
        )

    def _make_move(self, record: MoveRecord) -> dict[str, Any]:
        ended = self._moves.run(record)
        failed = [each for each in ended["regions"] if each["state"] == MoveState.FAILED]
        if failed:
            raise RegionsNotMoved(
                f"{len(failed)} of {len(ended['regions'])} regions were not moved",
                region_id=failed[0]["region_id"],
                reason=failed[0]["error"],
            )
        return ended

    def _answers(self, peer: Peer) -> bool:
        try:
            self._regions.region_ids(peer)
        except Exception as error:  # noqa: BLE001 - whatever keeps a node from answering, it does not answer
            _log.info("a datanode does not answer", node=peer.node_id, error=str(error))
            return False
        return True

    def _supervise(self) -> None:
        """Continue the moves of an earlier leader, then check the nodes every second."""
        has_resumed = False
        while not self._stopped.wait(_SUPERVISE_SECONDS):
            try:
                if not has_resumed:
                    for record in self._moves.unfinished():
                        self._submit_move(record)
                    has_resumed = True
                self._supervisor.tick()
            except LeadershipLost:
                return
            except TsdbError as error:
                _log.warning("the nodes could not be checked", error=error)
            except Exception:  # noqa: BLE001 - failovers depend on this thread
                _log.exception("the nodes could not be checked")

    def _keep_house(self) -> None:
        while self._catalog is None and not self._stopped.is_set():
            self._recover()
        pause = _AGAIN_SECONDS_MIN
        while not self._stopped.wait(pause):
            try:
                assert self._catalog is not None
                self.history.keep_up(self.kv.transact_plainly)
                self._catalog.resume()
                self.nodes.forget_silent_frontends()
                self.outcomes.forget_old()
            except LeadershipLost:
                return
            except TsdbError as error:
                _log.warning("interrupted changes are not complete yet", error=error)
            except Exception:  # noqa: BLE001 - what is interrupted later depends on this thread
                _log.exception("interrupted changes are not complete yet")
            left = None if self._catalog is None else self._catalog.seconds_to_next()
            pause = min(_HOUSEKEEPING_SECONDS, max(_AGAIN_SECONDS_MIN, _HOUSEKEEPING_SECONDS if left is None else left))

    def _recover(self) -> None:
        try:
            catalog = Catalog(
                self.kv,
                self._regions,
                self._clock,
                placement=self._placement,
                step_timeout=self._settings.step_timeout,
                read_schema=self._regions.read_schema,
            )
            catalog.settle(lambda procedure_id: self.procedures.find(procedure_id) is not None)
            self._catalog = catalog
            self._recovered.set()
            _log.info("the catalog is recovered", term=self.term)
        except LeadershipLost:
            self._stopped.wait(_RETRY_SECONDS)
        except TsdbError as error:
            _log.error("the catalog cannot be recovered yet", error=error)
            self._stopped.wait(_RETRY_SECONDS)
        except Exception:  # noqa: BLE001 - all changes wait for this
            _log.exception("the catalog cannot be recovered yet")
            self._stopped.wait(_RETRY_SECONDS)
