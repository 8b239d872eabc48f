"""Regions that change their node, with datanodes that fail at any call and leaders that end at any transaction."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from random import Random
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.catalog.worlds import draft
from tests.meta.clusters import datanode
from tsdb.catalog import all_places, openings_of, put_places
from tsdb.catalog._plan import plan_table, put_table
from tsdb.clock import ManualClock
from tsdb.engine.errors import RegionQuarantined
from tsdb.errors import InvalidArguments, Status, TsdbError
from tsdb.ids import SeededIds
from tsdb.kv import Compare, LeadershipLost, MemoryKv, Operation
from tsdb.meta import _moves
from tsdb.meta._detector import PhiDetector, is_braked
from tsdb.meta._losses import open_losses
from tsdb.meta._move_records import KEPT_MAX, MoveState, load_records, read_failovers
from tsdb.meta._moves import RegionMoves
from tsdb.meta._nodes import LogKind, NodeRegistry
from tsdb.meta._selectors import NodeSelector
from tsdb.meta._supervisor import FailureSupervisor, Supervision
from tsdb.model import Peer, RegionId, RegionOpening, RegionPlace
from tsdb.units import Duration

REGIONS = 3


class Refused(TsdbError):
    """A datanode did not do what it was asked."""

    status = Status.REGION_NOT_READY


class Datanodes:
    """Datanodes over one store: which regions each has open, and the epoch in each manifest."""

    def __init__(self) -> None:
        self.open: dict[int, dict[RegionId, int]] = {}
        self.manifests: dict[RegionId, int] = {}
        self.logs: dict[RegionId, set[int]] = {}
        """Nodes whose log holds rows of a region that are in no file."""
        self.claims: dict[tuple[RegionId, int], int] = {}
        self.faults: list[str] = []
        """What happens to the next calls: `before` or `after` they have an effect; empty: nothing."""
        self.lost: set[int] = set()
        self.lacking: dict[RegionId, list[int]] = {}
        """Epochs under which regions were opened that may lack rows."""
        self.quarantined: set[RegionId] = set()
        """Regions that no node serves, because rows of them are lost."""
        self.sealed: list[int] = []
        """Nodes whose logs were sealed, because a region was taken over from them."""

    def open_regions(
        self, peer: Peer, openings: Sequence[RegionOpening], *, timeout: Duration | None = None
    ) -> Mapping[RegionId, TsdbError | None]:
        fault = self._fault(peer)
        found = {opening.region_id: self._open(peer.node_id, opening) for opening in openings}
        if fault == "after":
            raise Refused("the answer was lost")
        return found

    def takeovers(self, peer: Peer, region_ids: Sequence[RegionId]) -> Mapping[RegionId, Sequence[tuple[int, int]]]:
        """Of regions that may lack rows, entries up to 10 could be read."""
        return {region: [(epoch, 10) for epoch in self.lacking.get(region, ())] for region in region_ids}

    def close_region(self, peer: Peer, region_id: RegionId, *, flush: bool, timeout: Duration | None = None) -> None:
        fault = self._fault(peer)
        if region_id in self.quarantined:
            raise RegionQuarantined(region_id=region_id, reason="entry 3 is lost")
        if self.open.get(peer.node_id, {}).pop(region_id, None) is not None and flush:
            self.logs[region_id].discard(peer.node_id)
        if fault == "after":
            raise Refused("the answer was lost")

    def region_ids(self, peer: Peer) -> Sequence[RegionId]:
        self._fault(peer)
        return list(self.open.get(peer.node_id, {}))

    def _open(self, node_id: int, opening: RegionOpening) -> TsdbError | None:
        region, epoch = opening.region_id, opening.epoch
        if epoch < self.manifests[region]:
            return Refused("a newer epoch is in the manifest")
        assert self.claims.setdefault((region, epoch), node_id) == node_id, "two nodes have one epoch"
        self.manifests[region] = epoch
        self.sealed += [each for each in opening.log_nodes if each != node_id]
        if region in self.quarantined:
            return RegionQuarantined(region_id=region, reason="entry 3 is lost")
        missing = self.logs[region] - set(opening.log_nodes) - {node_id}
        assert not missing, "rows that are in no file would be lost"
        if opening.may_lack_rows:
            self.lacking.setdefault(region, []).append(epoch)
        # What is taken over is in files before the region is open.
        self.logs[region] = set()
        self.open.setdefault(node_id, {})[region] = epoch
        return None

    def _fault(self, peer: Peer) -> str:
        if peer.node_id in self.lost:
            raise Refused("nobody answers")
        fault = self.faults.pop(0) if self.faults else ""
        if fault == "before":
            raise Refused("the request was lost")
        return fault


class EndingKv(MemoryKv):
    """A store that lets the leader end at some transaction."""

    def __init__(self) -> None:
        super().__init__()
        self.left: int | None = None
        self.changes = 0

    def transact(self, compares: Sequence[Compare], operations: Sequence[Any]) -> bool:
        self.changes += 1
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                raise LeadershipLost("another server leads")
        return super().transact(compares, operations)


class MovingWorld:
    """A table on node 1, and nodes 2 and 3 beside it."""

    def __init__(self, *, nodes: int = 3, log: str = "") -> None:
        self.clock = ManualClock(10**18)
        self.kv = EndingKv()
        self.datanodes = Datanodes()
        self.registry = NodeRegistry(self.kv, self.clock)
        self.table = plan_table(draft("t", rules=tuple(f"host < '{at}'" for at in range(REGIONS))), 1024, created_ms=0)
        operations: list[Operation] = [*put_table(self.table), put_places(1024, dict.fromkeys(range(REGIONS), PLACE))]
        assert self.kv.transact([], operations)
        for region in self.table.region_ids:
            self.datanodes.manifests[region] = 0
            self.datanodes.logs[region] = {1}
            self.datanodes.claims[region, 0] = 1
            self.datanodes.open.setdefault(1, {})[region] = 0
        for node_id in range(1, nodes + 1):
            self.registry.register(datanode(node_id, log=log))

    def moves(self, seed: int = 1) -> RegionMoves:
        return RegionMoves(
            self.kv,
            self.registry,
            self.datanodes,
            NodeSelector.LEASE_BASED,
            dict,
            Random(seed),
            self.clock,
            SeededIds(seed),
            threading.Event(),
        )

    def lose(self, node_id: int) -> None:
        """Let a node be gone, for all others to see."""
        self.datanodes.lost.add(node_id)
        self.clock.advance(seconds=30)
        for state in self.registry.states():
            if state.description.node_id not in self.datanodes.lost:
                self.registry.heartbeat(state.description, {})

    def check(self) -> None:
        """Every region is open where its place says, under the epoch of the place and of the manifest."""
        for region, place in all_places(self.kv).items():
            assert not place.is_moving
            if place.node_id not in self.datanodes.lost:
                assert self.datanodes.open[place.node_id][region] == place.epoch == self.datanodes.manifests[region]

    def write(self) -> None:
        """Frontends write where places say: rows that are in that node's log only."""
        for region, place in all_places(self.kv).items():
            if region in self.datanodes.open.get(place.node_id, {}) and place.node_id not in self.datanodes.lost:
                self.datanodes.logs[region].add(place.node_id)

    def places(self) -> list[int]:
        return [place.node_id for _, place in sorted(all_places(self.kv).items())]


PLACE = RegionPlace(1)


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_moves, "_PAUSE_MIN_SECONDS", 0.0)
    monkeypatch.setattr(_moves, "_AGAIN_SECONDS", 0.0)


def test_the_regions_of_a_lost_node_go_to_others_with_the_rows_of_its_log() -> None:
    world = MovingWorld()
    world.lose(1)
    moves = world.moves()
    (record,) = moves.plan_failover(1, "not heard of")
    ended = moves.run(record)
    assert ended["state"] == "Done"
    assert set(world.places()) == {2, 3}
    world.check()
    (kept,) = load_records(world.kv).ended
    assert [move.state for move in kept.regions] == [MoveState.DONE] * REGIONS
    assert openings_of(world.kv, 1) == []


def test_a_migration_that_is_given_up_says_what_its_node_may_lack() -> None:
    changes = 0
    # The second time, the leader is lost before the last change, and the next one finds that it was given up.
    for ends_early in (False, True):
        world = MovingWorld(log=LogKind.LOCAL)
        world.datanodes.lost.add(3)
        region = world.table.region_ids[1]
        record = world.moves().plan_migration(region, 1, 3)
        before = world.kv.changes
        if ends_early:
            world.kv.left = changes - 1
            with pytest.raises(LeadershipLost):
                world.moves().run(record)
            assert load_records(world.kv).ended == []
            world.kv.left = None
        world.moves().run(record)
        changes = world.kv.changes - before
        assert world.places() == [1, 1, 1]
        (ended,) = load_records(world.kv).ended
        (move,) = ended.regions
        assert (move.state, move.lost_from_entry) == (MoveState.FAILED, 11)
        assert open_losses(world.kv, 1) == [(region, all_places(world.kv)[region].epoch)]
        assert world.datanodes.open[1][region] == move.epoch


def test_a_migration_flushes_before_the_region_leaves() -> None:
    world = MovingWorld()
    region = world.table.region_ids[1]
    record = world.moves().plan_migration(region, 1, 3)
    world.moves().run(record)
    assert world.places() == [1, 3, 1]
    assert region not in world.datanodes.open[1]
    world.check()


def test_a_migration_away_from_a_node_that_does_not_answer_says_what_may_be_missing() -> None:
    world = MovingWorld(log=LogKind.LOCAL)
    world.datanodes.lost.add(1)
    region = world.table.region_ids[1]
    world.moves().run(world.moves().plan_migration(region, 1, 3))
    assert world.places() == [1, 3, 1]
    (record,) = read_failovers(world.kv)
    assert [move.lost_from_entry for move in record.regions] == [11]
    assert open_losses(world.kv, 1) == [(region, record.regions[0].epoch)]
    world = MovingWorld(log=LogKind.LOCAL)
    world.moves().run(world.moves().plan_migration(region, 1, 3))
    assert world.datanodes.lacking == {}, "it was flushed"
    assert read_failovers(world.kv) == []


@pytest.mark.parametrize("left", range(12))
def test_whenever_the_leader_is_lost_it_is_known_what_a_failover_lacks(left: int) -> None:
    world = MovingWorld(log=LogKind.LOCAL)
    world.lose(1)
    world.kv.left = left
    with suppress(LeadershipLost):
        for record in world.moves().plan_failover(1, "not heard of"):
            world.moves().run(record)
    world.kv.left = None
    moves = world.moves(seed=2)
    for record in moves.unfinished() or moves.plan_failover(1, "not heard of"):
        moves.run(record)
    world.check()
    lost = [move.lost_from_entry for record in read_failovers(world.kv) for move in record.regions]
    assert lost == [11] * REGIONS


def test_a_migration_that_makes_no_sense_is_refused_and_changes_nothing() -> None:
    world = MovingWorld()
    region = world.table.region_ids[0]
    before = world.kv.scan("")
    for arguments, problem in (
        ((RegionId(7), 1, 2), "no such region"),
        ((region, 2, 3), "is on node 1"),
        ((region, 1, 1), "already"),
        ((region, 1, 9), "no live datanode"),
    ):
        with pytest.raises(InvalidArguments, match=problem):
            world.moves().plan_migration(*arguments)
    assert world.kv.scan("") == before


def test_a_migration_to_a_node_that_refuses_is_given_up_and_the_old_node_goes_on() -> None:
    world = MovingWorld()
    region = world.table.region_ids[0]
    record = world.moves().plan_migration(region, 1, 3)
    world.datanodes.lost.add(3)
    ended = world.moves().run(record)
    assert ended["state"] == "Failed"
    assert world.places() == [1, 1, 1]
    world.check()
    assert all_places(world.kv)[region].epoch > 1


def test_a_region_that_its_node_does_not_serve_is_not_moved_and_the_log_of_the_node_is_not_sealed() -> None:
    world = MovingWorld()
    region = world.table.region_ids[0]
    world.datanodes.quarantined.add(region)
    ended = world.moves().run(world.moves().plan_migration(region, 1, 3))
    assert ended["state"] == "Failed"
    assert "entry 3 is lost" in ended["regions"][0]["error"]
    assert world.datanodes.sealed == []
    place = all_places(world.kv)[region]
    assert (place.node_id, place.epoch, place.is_moving) == (1, 2, False), "it was tried once"
    assert world.datanodes.manifests[region] == place.epoch, "its node looks whether what was lost is there again"


def test_without_another_node_the_regions_stay_and_the_node_gets_them_when_it_is_back() -> None:
    world = MovingWorld(nodes=1)
    world.lose(1)
    (record,) = world.moves().plan_failover(1, "not heard of")
    assert world.moves().run(record)["state"] == "Failed"
    assert world.places() == [1, 1, 1]
    assert len(openings_of(world.kv, 1)) == REGIONS


def test_a_node_that_is_back_keeps_what_was_not_begun_to_be_taken() -> None:
    world = MovingWorld()
    (record,) = world.moves().plan_failover(1, "not heard of")
    assert world.moves().run(record)["state"] == "Cancelled"
    assert world.places() == [1, 1, 1]
    world.check()


def test_old_records_are_forgotten() -> None:
    world = MovingWorld()
    region = world.table.region_ids[0]
    for number in range(KEPT_MAX + 5):
        record = world.moves(number).plan_migration(region, *((1, 2) if number % 2 == 0 else (2, 1)))
        world.moves().run(record)
    assert len(load_records(world.kv).ended) <= KEPT_MAX + 1


@settings(deadline=None)
@given(
    st.lists(st.sampled_from(["", "before", "after"]), max_size=12),
    st.lists(st.integers(0, 12), max_size=4),
    st.booleans(),
    st.booleans(),
    st.integers(0, 100),
)
@example(["", "before"] * 5 + ["before"], [12], False, False, 0)
def test_whatever_fails_no_epoch_has_two_nodes_and_no_rows_are_left_behind(
    faults: list[str], ends: list[int], is_failover: bool, comes_back: bool, seed: int
) -> None:
    """Leaders end at some transaction, and the next one goes on; calls fail before or after they had an effect."""
    world = MovingWorld()
    world.datanodes.faults = list(faults)
    if is_failover:
        world.lose(1)
        world.moves(seed).plan_failover(1, "not heard of")
    else:
        world.moves(seed).plan_migration(world.table.region_ids[0], 1, 2)
    for number, end in enumerate([*ends, None]):
        world.kv.left = end
        if end is None:
            world.datanodes.faults.clear()
            if comes_back:
                world.datanodes.lost.clear()
                world.registry.heartbeat(datanode(1), {})
                for opening in openings_of(world.kv, 1):
                    assert world.datanodes._open(1, opening) is None
        world.write()
        moves = world.moves(seed + number)
        try:
            for record in moves.unfinished():
                moves.run(record)
        except LeadershipLost:
            continue
    world.kv.left = None
    assert load_records(world.kv).running == []
    world.check()


def test_silence_is_the_more_surprising_the_more_regular_heartbeats_were() -> None:
    regular, unsteady = PhiDetector(3.0), PhiDetector(3.0)
    at = late = 0.0
    for number in range(100):
        at, late = at + 3.0, late + (1.0 if number % 2 else 9.0)
        regular.heard(at)
        unsteady.heard(late)
    assert regular.phi(at + 3.0) < 1
    assert regular.phi(at + 6.0) > 8
    assert unsteady.phi(late + 12.0) < 8
    assert unsteady.phi(late + 60.0) > 8
    assert PhiDetector(3.0).phi(100.0) == 0.0


@pytest.mark.parametrize(
    ("suspects", "nodes", "braked"),
    [(0, 3, False), (1, 1, False), (1, 2, False), (1, 3, False), (2, 3, True), (3, 10, False), (4, 10, True)],
)
def test_nothing_is_moved_when_more_than_a_third_of_the_nodes_is_silent(
    suspects: int, nodes: int, braked: bool
) -> None:
    assert is_braked(suspects, nodes) is braked


class SupervisedWorld:
    """Three datanodes, the first two of which have regions."""

    def __init__(self, **settings: Any) -> None:
        self.clock = ManualClock(10**18)
        self.kv = MemoryKv()
        self.nodes = NodeRegistry(self.kv, self.clock)
        self.begun: list[int] = []
        self.answering: set[int] = set()
        self.refused: set[str] = set()
        """Addresses at which nobody listens."""
        self.is_in_maintenance = False
        self.counts = {1: 5, 2: 5}
        self.step = 0
        for node_id in (1, 2, 3):
            self.nodes.register(datanode(node_id))
        self.supervisor = self.supervise(self.nodes, **settings)

    def live_in_turn(self, steps: int, *alive: int) -> None:
        """Half a second each. Nodes send their heartbeats every six steps, one after the other."""
        for _ in range(steps):
            self.step += 1
            self.clock.advance(seconds=0.5)
            for node_id in alive:
                if self.step % 6 == 2 * node_id % 6:
                    self.nodes.heartbeat(datanode(node_id), {})
            self.supervisor.tick()

    def supervise(self, nodes: NodeRegistry, **settings: Any) -> FailureSupervisor:
        return FailureSupervisor(
            nodes,
            self.clock,
            Supervision(**{"is_enabled": True, **settings}),
            region_counts=lambda: self.counts,
            is_in_maintenance=lambda: self.is_in_maintenance,
            answers=lambda peer: peer.node_id in self.answering,
            is_refused=lambda address: address in self.refused,
            fail_over=lambda node_id, _: self.begun.append(node_id),
        )

    def live(self, seconds: int, *alive: int) -> None:
        for second in range(seconds):
            self.clock.advance(seconds=1)
            if second % 3 == 0:
                for node_id in alive:
                    self.nodes.heartbeat(datanode(node_id), {})
            self.supervisor.tick()


def test_a_node_whose_address_is_free_is_failed_over_before_its_lease_is_over() -> None:
    world = SupervisedWorld()
    world.live(30, 1, 2, 3)
    world.refused = {datanode(1).address, datanode(2).address}
    world.live(3, 2, 3)
    assert world.begun == []
    world.live(2, 2, 3)
    assert world.begun == [1], "node 2 sends heartbeats, whatever its address says"


def test_a_node_that_stops_is_failed_over_at_once() -> None:
    world = SupervisedWorld()
    world.live(30, 1, 2, 3)
    world.nodes.leave(1, "another start of it")
    world.live(2, 2, 3)
    assert world.begun == []
    world.nodes.leave(1, datanode(1).start_id)
    world.live(1, 2, 3)
    assert world.begun == [1]


def test_a_lost_node_is_failed_over_once_its_lease_is_over_and_again_if_that_did_not_help() -> None:
    world = SupervisedWorld()
    world.live(30, 1, 2, 3)
    assert world.begun == []
    world.live(6, 2, 3)
    assert world.begun == []
    world.live(8, 2, 3)
    assert world.begun == [1]
    world.live(70, 2, 3)
    assert world.begun == [1, 1]


def test_a_node_without_regions_is_not_missed() -> None:
    world = SupervisedWorld()
    world.live(30, 1, 2, 3)
    world.live(60, 1, 2)
    assert world.begun == []


def test_maintenance_the_switch_and_the_brake_hold_failovers_back() -> None:
    world = SupervisedWorld()
    world.is_in_maintenance = True
    world.live(60, 2, 3)
    assert world.begun == []
    world.is_in_maintenance = False
    world.live(2, 2, 3)
    assert world.begun == [1]
    off = SupervisedWorld(is_enabled=False)
    off.live(60, 2, 3)
    assert off.begun == []
    assert off.supervisor.tick() == [1]
    braked = SupervisedWorld()
    braked.live(20, 1, 2, 3)
    braked.live(60, 3)
    assert braked.begun == []
    assert braked.supervisor.tick() == [1, 2]


@pytest.mark.parametrize("is_refused", [True, False], ids=["their addresses are free", "they do not answer"])
@pytest.mark.parametrize("vanished", [(1, 2), (1, 3), (1, 2, 3)])
def test_nothing_is_moved_when_nodes_vanish_at_once_whichever_is_missed_first(
    vanished: tuple[int, ...], is_refused: bool
) -> None:
    """Their last heartbeats are up to an interval apart. Node 3 has no regions, and counts nevertheless."""
    for moment in range(6):
        world = SupervisedWorld()
        world.live_in_turn(60 + moment, 1, 2, 3)
        world.refused = {datanode(each).address for each in vanished if is_refused}
        world.live_in_turn(80, *({1, 2, 3} - set(vanished)))
        assert world.begun == [], moment
        # They come back, and one of them is lost alone.
        world.refused = set()
        world.live_in_turn(60, 1, 2, 3)
        world.refused = {datanode(1).address}
        world.live_in_turn(18, 2, 3)
        assert world.begun == [1], moment


def test_the_last_of_many_nodes_that_come_back_has_some_time_for_that() -> None:
    world = SupervisedWorld()
    world.live_in_turn(60, 1, 2, 3)
    world.live_in_turn(80, 3)
    world.live_in_turn(36, 1, 3)
    assert world.begun == []
    world.live_in_turn(18, 1, 3)
    assert world.begun == [2]


def test_nodes_that_are_lost_one_after_the_other_are_failed_over() -> None:
    world = SupervisedWorld()
    world.live_in_turn(60, 1, 2, 3)
    world.refused = {datanode(1).address}
    world.live_in_turn(18, 2, 3)
    assert world.begun == [1]
    world.counts = {2: 10}
    world.refused |= {datanode(2).address}
    world.live_in_turn(30, 3)
    assert world.begun == [1, 2]


def test_a_node_that_answers_is_left_alone_for_a_while() -> None:
    world = SupervisedWorld()
    world.answering.add(1)
    world.live(40, 2, 3)
    assert world.begun == []
    world.live(40, 2, 3)
    assert world.begun == [1]


def test_a_new_leader_waits_for_nodes_that_it_has_never_heard_of() -> None:
    world = SupervisedWorld()
    world.nodes = NodeRegistry(world.kv, world.clock)
    world.supervisor = world.supervise(world.nodes, unheard_alone_seconds=60.0)
    world.live(50, 2, 3)
    assert world.begun == []
    world.live(15, 2, 3)
    assert world.begun == [1]


def test_a_new_leader_waits_less_for_a_node_that_alone_is_not_heard_of() -> None:
    world = SupervisedWorld()
    world.supervisor = world.supervise(NodeRegistry(world.kv, world.clock))
    world.nodes = world.supervisor._nodes
    world.live(15, 2, 3)
    assert world.begun == []
    world.live(10, 2, 3)
    assert world.begun == [1]


def test_a_new_leader_that_hears_of_few_waits_for_all_to_come_back() -> None:
    world = SupervisedWorld()
    world.supervisor = world.supervise(NodeRegistry(world.kv, world.clock))
    world.nodes = world.supervisor._nodes
    world.live(50, 3)
    assert world.begun == []
    # One more comes; the last one is now alone.
    world.live(3, 2, 3)
    assert world.begun == [1]
