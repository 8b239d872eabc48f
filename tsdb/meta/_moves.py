"""Moves of regions between nodes: failover of a lost node, or migration by an operator.

    record ─▶ place: epoch + 1, moving ─▶ (migration: old node flushes and closes) ─▶ target opens under the epoch
    ─▶ place: target ─▶ record ended

- The place is changed by compare-and-set. Its epoch increases before each attempt, so the manifest refuses everything
  that an earlier attempt or the old node still does under a smaller epoch. No epoch is ever used by two nodes.
- While a region is moving, a node that starts is not told to open it, and no node is told to close it.
- Every step can be repeated, and the place records the progress of a move. A new leader continues the records that are
  not ended.
- A move that does not succeed is abandoned: the place stays with the old node, under one more epoch, and the old node
  is told to open the region again if it is alive. A region that a live node does not serve is not moved away from it.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from random import Random
from types import MappingProxyType
from typing import Any, Protocol

import orjson

from tsdb.catalog import all_places, directories_of_all, place_key, places_of, put_places, read_places
from tsdb.clock import Clock
from tsdb.engine.errors import RegionQuarantined
from tsdb.errors import Busy, InvalidArguments, TsdbError, Unsupported
from tsdb.ids import Ids
from tsdb.kv import Equals, KvConflict, KvStore, KvUnavailable, LeadershipLost
from tsdb.meta._balance import BALANCED_MAX, plan_balance
from tsdb.meta._losses import may_lack_rows, note_losses, reported_entries
from tsdb.meta._move_records import (
    REGIONS_MAX,
    MoveRecord,
    MoveState,
    RegionMove,
    forget_old_records,
    load_records,
)
from tsdb.meta._nodes import NodeRegistry
from tsdb.meta._places import region_number
from tsdb.meta._selectors import NodeSelector, select_nodes
from tsdb.model import Peer, RegionId, RegionOpening, RegionPlace, table_id_of
from tsdb.store import crash_point
from tsdb.telemetry import counter, get_logger
from tsdb.units import Duration

OPEN_TIMEOUT = Duration.of_seconds(120)
"""How long a datanode may take to open some regions, with the rows that it takes over."""
CLOSE_TIMEOUT = Duration.of_seconds(60)
OPENED_MAX = 50
"""How many regions one call opens."""
ATTEMPTS_MAX = 5
_PAUSE_MIN_SECONDS, _PAUSE_MAX_SECONDS = 0.5, 10.0
_AGAIN_SECONDS = 5.0
_CONFLICTS_MAX = 100

CRASH_POINTS = (
    "meta.move.after_record",
    "meta.move.after_begin",
    "meta.move.after_leave",
    "meta.move.after_open",
    "meta.move.after_arrive",
)

_log = get_logger("tsdb.meta")
_LEASE_STEP_SECONDS = 0.1
_MOVED = counter(
    "tsdb_meta_regions_moved_total", "Regions moved to another datanode; failover or migration.", labels=["reason"]
)
_NOT_MOVED = counter("tsdb_meta_regions_not_moved_total", "Regions whose move was abandoned.", labels=["reason"])


class MoveUnfinished(TsdbError):
    """A move has to be tried again."""


class NodeCalls(Protocol):
    """What is asked of one datanode."""

    def open_regions(
        self, peer: Peer, openings: Sequence[RegionOpening], *, timeout: Duration | None = None
    ) -> Mapping[RegionId, TsdbError | None]: ...

    def close_region(
        self, peer: Peer, region_id: RegionId, *, flush: bool, timeout: Duration | None = None
    ) -> None: ...

    def region_ids(self, peer: Peer) -> Sequence[RegionId]: ...

    def takeovers(self, peer: Peer, region_ids: Sequence[RegionId]) -> Mapping[RegionId, Sequence[tuple[int, int]]]: ...


class RegionMoves:
    """Plans and makes moves. One move record at a time, on the thread of the caller of `run`."""

    def __init__(
        self,
        kv: KvStore,
        nodes: NodeRegistry,
        calls: NodeCalls,
        selector: NodeSelector,
        region_counts: Callable[[], Mapping[int, int]],
        random: Random,
        clock: Clock,
        ids: Ids,
        stopped: threading.Event,
    ) -> None:
        self._kv = kv
        self._nodes = nodes
        self._calls = calls
        self._selector = selector
        self._region_counts = region_counts
        self._random = random
        self._clock = clock
        self._ids = ids
        self._stopped = stopped

    def unfinished(self) -> list[MoveRecord]:
        """What an earlier leader left."""
        return load_records(self._kv).running

    def regions_left(self) -> set[RegionId]:
        """The regions of unfinished moves: where their rows are, and who has to open them, is up to these."""
        return {move.region_id for record in self.unfinished() for move in record.left}

    def plan_failover(self, node_id: int, reason: str) -> list[MoveRecord]:
        """Record that the regions of a node go to others; none if it has no regions."""
        regions = sorted(region for region, place in all_places(self._kv).items() if place.node_id == node_id)
        entries = reported_entries(self._nodes, node_id)
        records = [
            self._record(node_id, reason, regions[start : start + REGIONS_MAX], is_failover=True, entries=entries)
            for start in range(0, len(regions), REGIONS_MAX)
        ]
        for record in records:
            self._kv.transact([], [record.put])
        forget_old_records(self._kv)
        return records

    def plan_migration(self, region_id: RegionId, from_node: int, to_node: int) -> MoveRecord:
        """Record that one region goes to a node; InvalidArguments if it is not there or cannot go there."""
        place = self._place(region_id)
        if place is None:
            raise InvalidArguments("there is no such region", region_id=region_id)
        if place.node_id != from_node:
            raise InvalidArguments(
                f"the region is on node {place.node_id}, not on node {from_node}", region_id=region_id
            )
        if place.is_moving:
            raise InvalidArguments("the region is being moved already", region_id=region_id)
        if to_node == from_node:
            raise InvalidArguments(f"the region is on node {to_node} already", region_id=region_id)
        if to_node not in self._nodes.live_datanodes():
            raise InvalidArguments(f"there is no live datanode with the id {to_node}", region_id=region_id)
        self._check_reach(from_node, to_node)
        record = self._record(from_node, "migration", [region_id], is_failover=False, to_node=to_node)
        self._kv.transact([], [record.put])
        crash_point("meta.move.after_record")
        forget_old_records(self._kv)
        return record

    def choose_balancing(self) -> list[tuple[RegionId, int, int]]:
        """Return regions to move from nodes with many to nodes with few; Busy if enough are on their way."""
        places = all_places(self._kv)
        targets: dict[RegionId, int] = {}
        for record in load_records(self._kv).running:
            left = {each.region_id: record.to_node or each.to_node for each in record.left}
            targets |= {region: node if node is not None else record.from_node for region, node in left.items()}
        under_way = targets.keys() | {region for region, place in places.items() if place.is_moving}
        moves = plan_balance(
            {region: targets.get(region, place.node_id) for region, place in places.items()},
            under_way=under_way,
            nodes=self._nodes.live_datanodes(),
            moves_max=BALANCED_MAX,
        )
        room = max(0, BALANCED_MAX - len(under_way))
        if moves and not room:
            raise Busy(f"{len(under_way)} regions are on their way already", hint="try again when they have arrived")
        # Before any of them is begun: one that cannot move says why none does.
        for _, from_node, to_node in moves:
            self._check_reach(from_node, to_node)
        return moves[:room]

    def _check_reach(self, from_node: int, to_node: int) -> None:
        """Raise Unsupported if one of two nodes has its data files on its own disk."""
        for node_id in (from_node, to_node):
            state = self._nodes.find_datanode(node_id)
            if state is not None and state.description.has_local_files:
                raise Unsupported(
                    f"regions cannot be moved from datanode {from_node} to datanode {to_node}: "
                    f"datanode {node_id} has its data files on its own disk",
                    hint="with a storage that all datanodes reach, regions can be moved (storage.type)",
                )

    def run(self, record: MoveRecord) -> dict[str, Any]:
        """Move the regions of a record, in a few attempts; what could not be moved is abandoned.

        While the metadata cannot be changed, or a node that keeps a region does not answer, it is tried again: the
        record is not ended, and the place may be moving.
        """
        while True:
            try:
                return self._run(record)
            except LeadershipLost:
                raise
            except TsdbError as error:
                _log.warning("a move of regions is interrupted", record=record.id, error=error)
            if self._stopped.wait(_AGAIN_SECONDS):
                raise LeadershipLost("this server is no longer the leader")

    def _run(self, record: MoveRecord) -> dict[str, Any]:
        found = self._kv.get(record.key)
        if found is not None:
            record = MoveRecord.from_json(orjson.loads(found))
        self._nodes.wait_live_datanodes(self._nodes.lease.seconds)
        pause = _PAUSE_MIN_SECONDS
        for attempt in range(ATTEMPTS_MAX):
            if attempt and self._stopped.wait(pause):
                raise LeadershipLost("this server is no longer the leader")
            pause = min(_PAUSE_MAX_SECONDS, 2 * pause)
            record = self._cancel_if_back(record)
            if not record.left:
                break
            try:
                record = self._attempt(record)
            except RegionQuarantined as error:
                record = self._save(record.with_moves(replace(each, error=str(error)) for each in record.left))
                break
        return self._end(record).to_json()

    def _record(
        self,
        from_node: int,
        reason: str,
        regions: Sequence[RegionId],
        *,
        is_failover: bool,
        to_node: int | None = None,
        entries: Mapping[RegionId, int] = MappingProxyType({}),
    ) -> MoveRecord:
        moves = tuple(RegionMove(each, reported_entry=entries.get(each)) for each in regions)
        return MoveRecord(self._ids.token(8), from_node, reason, self._now_ms(), moves, is_failover, to_node)

    def _attempt(self, record: MoveRecord) -> MoveRecord:
        """Try to move what is left, each region to one node."""
        groups = self._choose(record)
        if not groups:
            problem = "there is no live datanode to move it to"
            return self._save(record.with_moves(replace(each, error=problem) for each in record.left))
        for target, moves in groups.items():
            for start in range(0, len(moves), OPENED_MAX):
                if self._stopped.is_set():
                    raise LeadershipLost("this server is no longer the leader")
                done = self._move(record, target, moves[start : start + OPENED_MAX])
                record = self._save(record.with_moves(done))
        return record

    def _choose(self, record: MoveRecord) -> dict[int, list[RegionMove]]:
        left, live = record.left, [each for each in self._nodes.live_datanodes() if each != record.from_node]
        if record.to_node is not None:
            return {record.to_node: left} if record.to_node in live else {}
        if not live:
            return {}
        counts = self._region_counts()
        chosen = select_nodes(
            self._selector, {node_id: counts.get(node_id, 0) for node_id in live}, len(left), self._random
        )
        groups: dict[int, list[RegionMove]] = defaultdict(list)
        for move, node_id in zip(left, chosen, strict=True):
            groups[node_id].append(move)
        return groups

    def _move(self, record: MoveRecord, target: int, moves: Sequence[RegionMove]) -> list[RegionMove]:
        """Move some regions to one node; those that could not be moved are still running, with the reason."""
        directories = directories_of_all(self._kv, [move.region_id for move in moves])
        begun: dict[RegionId, int] = {}
        ended: list[RegionMove] = []
        for move in moves:
            epoch = self._begin(record, move.region_id) if move.region_id in directories else None
            if epoch is None:
                ended.append(self._note_gone(record, move))
            else:
                begun[move.region_id] = epoch
        crash_point("meta.move.after_begin")
        # So that a leader who finds a region arrived knows what to ask for.
        before = {
            move.region_id: replace(move, to_node=target, epoch=begun[move.region_id], error=None)
            for move in moves
            if move.region_id in begun
        }
        record = self._save(record.with_moves(before.values())) if before else record
        lacks_rows = may_lack_rows(self._nodes, record.from_node)
        is_flushed = {region: not record.is_failover and self._leave(record, region) for region in begun}
        openings = [
            RegionOpening(region, directories[region], epoch)
            if is_flushed[region]
            else RegionOpening(region, directories[region], epoch, (record.from_node,), lacks_rows)
            for region, epoch in begun.items()
        ]
        crash_point("meta.move.after_leave")
        results = self._open(target, openings)
        crash_point("meta.move.after_open")
        if not all(is_flushed.values()):
            self._wait_for_lease_end(record)
        moved: list[RegionMove] = []
        for region, epoch in begun.items():
            move = before[region]
            error = results.get(region)
            if error is None and not self._arrive(record, region, epoch, target):
                error = TsdbError("its place was changed meanwhile")
            moved.append(
                replace(move, state=MoveState.DONE, ended_ms=self._now_ms())
                if error is None
                else replace(move, error=str(error))
            )
            crash_point("meta.move.after_arrive")
            if error is None:
                _MOVED.labels("failover" if record.is_failover else "migration").inc()
        return [*ended, *self._with_losses(record, target, moved)]

    def _note_gone(self, record: MoveRecord, move: RegionMove) -> RegionMove:
        """A region is not on the node of the record: it has arrived where an earlier leader let it go, or is gone."""
        place = self._place(move.region_id)
        move = replace(move, state=MoveState.DONE, ended_ms=self._now_ms(), error=None)
        if place is None or move.to_node is None or (place.node_id, place.epoch) != (move.to_node, move.epoch):
            return replace(move, to_node=None, epoch=None)
        (noted,) = self._with_losses(record, move.to_node, [move])
        return noted

    def _with_losses(self, record: MoveRecord, target: int, moves: list[RegionMove]) -> list[RegionMove]:
        """Note what may be missing of regions that were moved."""
        peer = self._peer(target) if may_lack_rows(self._nodes, record.from_node) else None
        noted = [] if peer is None else note_losses(self._calls, peer, record.from_node, moves)
        by_id = {each.region_id: each for each in noted}
        return [by_id.get(each.region_id, each) for each in moves]

    def _wait_for_lease_end(self, record: MoveRecord) -> None:
        """Wait until the lost node answers no more reads, if it is there at all: then others may acknowledge writes."""
        while (state := self._nodes.find_datanode(record.from_node)) is not None and self._nodes.may_live(state):
            if self._is_back(record):
                return
            if self._stopped.wait(_LEASE_STEP_SECONDS):
                raise LeadershipLost("this server is no longer the leader")

    def _is_back(self, record: MoveRecord) -> bool:
        """Whether a lost node has sent heartbeats again."""
        state = self._nodes.find_datanode(record.from_node)
        return state is not None and self._nodes.is_alive(state) and state.heard_ms >= record.started_ms

    def _begin(self, record: MoveRecord, region_id: RegionId) -> int | None:
        """Let a region be moving, under a new epoch; None if it is not on the node of the record any more."""
        for _ in range(_CONFLICTS_MAX):
            place = self._place(region_id)
            if place is None or place.node_id != record.from_node:
                return None
            epoch = place.epoch + 1
            if self._change_place(region_id, place, RegionPlace(place.node_id, epoch, is_moving=True)):
                return epoch
        raise KvConflict("the place of a region keeps changing", region_id=region_id)

    def _leave(self, record: MoveRecord, region_id: RegionId) -> bool:
        """Ask the old node to flush and close a region; return whether it did.

        RegionQuarantined if the node lives, but does not serve the region because rows in its log are lost: another
        node would have to seal the log of a node that lives, and would miss the same rows.
        """
        peer = self._peer(record.from_node)
        if peer is None:
            return False
        try:
            self._calls.close_region(peer, region_id, flush=True, timeout=CLOSE_TIMEOUT)
        except RegionQuarantined:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, the region must not stay moving for ever
            _log.warning(
                "a region was not closed by its old node; its log is read instead", region=region_id, error=error
            )
            return False
        return True

    def _open(self, target: int, openings: Sequence[RegionOpening]) -> Mapping[RegionId, TsdbError | None]:
        if not openings:
            return {}
        peer = self._peer(target)
        if peer is None:
            problem = TsdbError("the address of the node is not known", node_id=target)
            return {each.region_id: problem for each in openings}
        try:
            return self._calls.open_regions(peer, openings, timeout=OPEN_TIMEOUT)
        except Exception as error:  # noqa: BLE001 - whatever it is, the regions must not stay moving for ever
            _log.warning("regions could not be opened", node=target, count=len(openings), error=error)
            problem = error if isinstance(error, TsdbError) else TsdbError(f"{type(error).__name__}: {error}")
            return {each.region_id: problem for each in openings}

    def _arrive(self, record: MoveRecord, region_id: RegionId, epoch: int, target: int) -> bool:
        moving = RegionPlace(record.from_node, epoch, is_moving=True)
        return self._change_place(region_id, moving, RegionPlace(target, epoch))

    def _cancel_if_back(self, record: MoveRecord) -> MoveRecord:
        """Leave a lost node what was not begun to be taken from it, if it is back."""
        if not record.is_failover or not self._is_back(record):
            return record
        back = []
        for move in record.left:
            place = self._place(move.region_id)
            if place is not None and place.node_id == record.from_node and not place.is_moving:
                back.append(replace(move, state=MoveState.CANCELLED, error="the node is back", ended_ms=self._now_ms()))
        return self._save(record.with_moves(back)) if back else record

    def _end(self, record: MoveRecord) -> MoveRecord:
        """Give up what is left, and keep the record."""
        given_up = []
        for move in record.left:
            epoch = self._give_up(record, move)
            _NOT_MOVED.labels("failover" if record.is_failover else "migration").inc()
            given_up.append(replace(move, epoch=epoch, state=MoveState.FAILED, ended_ms=self._now_ms()))
        given_up = self._with_losses(record, record.from_node, given_up)
        record = self._save(record.with_moves(given_up).ended(self._now_ms()))
        log = _log.info if record.state in (MoveState.DONE, MoveState.CANCELLED) else _log.error
        log("regions were moved", node=record.from_node, reason=record.reason, state=record.state.value)
        return record

    def _give_up(self, record: MoveRecord, move: RegionMove) -> int | None:
        """Let the region stay with its node, under an epoch that no attempt has used; return that if it is open."""
        region_id = move.region_id
        place = self._place(region_id)
        peer = self._peer(record.from_node) if record.from_node in self._nodes.live_datanodes() else None
        if place is None or place.node_id != record.from_node:
            return None
        if not place.is_moving:
            # If there was an attempt, an earlier leader has given it up.
            return place.epoch if peer is not None and move.epoch is not None and move.epoch < place.epoch else None
        kept = RegionPlace(record.from_node, place.epoch + 1)
        directory = directories_of_all(self._kv, [region_id]).get(region_id)
        if not self._change_place(region_id, place, kept) or peer is None or directory is None:
            return None
        # Rows that only its disk has are with those to be handed in, if it was started meanwhile.
        lacks_rows = may_lack_rows(self._nodes, record.from_node)
        logs = (record.from_node,) if lacks_rows else ()
        self._reopen(peer, RegionOpening(region_id, directory, kept.epoch, logs, lacks_rows))
        return kept.epoch

    def _reopen(self, peer: Peer, opening: RegionOpening) -> None:
        """Have a live node open a region that stays with it; an error if it is not known whether it did."""
        region_id = opening.region_id
        try:
            error = self._calls.open_regions(peer, [opening], timeout=OPEN_TIMEOUT).get(region_id)
        except Exception as failure:
            # The node lives, and nobody else would have it open the region: the move is not over.
            raise MoveUnfinished(
                "a region that stays may be closed", region_id=region_id, node_id=peer.node_id
            ) from failure
        if error is not None:
            _log.error("a region that stays could not be opened again", region=region_id, error=error)

    def _place(self, region_id: RegionId) -> RegionPlace | None:
        return places_of(self._kv, table_id_of(region_id)).get(region_number(region_id))

    def _change_place(self, region_id: RegionId, expected: RegionPlace, new: RegionPlace) -> bool:
        """Change the place of a region if it is as expected; other regions of its table may change meanwhile."""
        table_id, number = table_id_of(region_id), region_number(region_id)
        key = place_key(table_id)
        for _ in range(_CONFLICTS_MAX):
            found = self._kv.get(key)
            places = {} if found is None else read_places(key, found)
            if found is None or places.get(number) != expected:
                return False
            places[number] = new
            if self._kv.transact([Equals(key, found)], [put_places(table_id, places)]):
                return True
        raise KvConflict("the places of a table keep changing", table_id=table_id)

    def _peer(self, node_id: int) -> Peer | None:
        state = self._nodes.find_datanode(node_id)
        return None if state is None else Peer(node_id, state.description.address)

    def _save(self, record: MoveRecord) -> MoveRecord:
        for _ in range(_CONFLICTS_MAX):
            found = self._kv.get(record.key)
            if found is not None:
                record = record.with_recovered(MoveRecord.from_json(orjson.loads(found)))
            if self._kv.transact([] if found is None else [Equals(record.key, found)], [record.put]):
                return record
        raise KvUnavailable("the record of a move could not be written")

    def _now_ms(self) -> int:
        return self._clock.now_ns() // 1_000_000
