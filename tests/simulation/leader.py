"""The metadata servers of a simulated cluster: the real election, registry, supervisor and moves, and what the leader
asks of nodes.

The leader may stand still before any change of the metadata, or before any request to a node, until another server
leads and has continued its work. Then it wakes up, and goes on where it was.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import wait as wait_for
from functools import partial
from random import Random
from typing import Any

from tests.catalog.worlds import draft
from tests.engine.harness import SCHEMA
from tests.engine.moves.history import Violation
from tests.engine.moves.nodes import Node
from tests.meta.clusters import datanode
from tests.simulation.datanodes import NODES, SECONDS_MAX, Datanodes, Process
from tsdb.catalog import all_places, directories_of_all, openings_of, put_places
from tsdb.catalog._plan import plan_table, put_table
from tsdb.clock import ManualClock
from tsdb.components._late_rows import LateRowsSender
from tsdb.engine import Acknowledge
from tsdb.errors import TsdbError
from tsdb.ids import SeededIds
from tsdb.kv import Compare, Election, LeadershipLost, MemoryKv, SharedOperation
from tsdb.meta._leader_kv import LeaderKv
from tsdb.meta._losses import open_losses, record_recovered
from tsdb.meta._move_records import MoveRecord
from tsdb.meta._moves import _AGAIN_SECONDS, RegionMoves
from tsdb.meta._nodes import LogKind, NodeDescription, NodeRegistry
from tsdb.meta._selectors import NodeSelector
from tsdb.meta._supervisor import FailureSupervisor, Supervision
from tsdb.meta.client import RegionOwner
from tsdb.meta.election import LEADER
from tsdb.model import LateEntry, LateRows, Peer, RegionId, RegionOpening, RegionOptions, RegionPlace
from tsdb.units import Duration

TABLE = 1024
LEADER_SECONDS = 5
"""How long a leader that stands still is the leader."""
STEPS_MAX = 24
INTERRUPTIONS_MAX = 10
"""After so many interruptions of moves the network works again."""


class Unreachable(TsdbError):
    """A message, or its answer, was lost."""


class Leader(Datanodes):
    """A cluster with one table, whose regions the leader moves between the datanodes."""

    def __init__(self, seed: int, *, acknowledge: Acknowledge, faults_per_thousand: int) -> None:
        table = plan_table(draft("t", rules=("host < 'm'", "host >= 'm'")), TABLE, created_ms=0)
        super().__init__(seed, tuple(table.region_ids)[:2], acknowledge=acknowledge)
        self.clock: ManualClock = ManualClock(10**18)
        self.kv: MemoryKv = MemoryKv(self.clock, keeps_leases=False)
        self.steps_left: int | None = None
        """How many steps the leader takes before it stands still; None if it does not."""
        self.is_leading = False
        self.due: list[int] = []
        self.unknown_losses: set[RegionId] = set()
        """Regions of which the leader could not ask what a failover lost."""
        places = {number: RegionPlace(1) for number in range(len(table.region_ids))}
        self.kv.transact([], [*put_table(table), put_places(TABLE, places)])
        directories = directories_of_all(self.kv, table.region_ids)
        self.interruptions = 0
        """How often a move was interrupted."""
        self.new_leader()
        for number in NODES:
            self.start(number, [])
        for region in table.region_ids:
            options = RegionOptions(append_mode=region == self.appending)
            self.processes[1].node.engine.create_region(region, directories[region], SCHEMA, options)
        self.let_fail(faults_per_thousand)

    def describe(self, number: int) -> NodeDescription:
        return datanode(number, log=LogKind.LOCAL if self.is_local else "")

    def register(self, number: int) -> list[RegionOpening]:
        self.registry.register(self.describe(number))
        return openings_of(self.kv, number)

    def new_leader(self) -> None:
        store: Any = InterruptedKv(self.kv, self.take_step)
        leadership = Election(store, LEADER, candidate=b"", ttl_seconds=LEADER_SECONDS).attempt()
        if leadership is None:
            raise Violation("nobody can lead")
        self.leadership, self.is_leading = leadership, True
        kv = LeaderKv(store, leadership)
        self.registry = Registry(kv, self.clock)
        self.moves = RegionMoves(
            kv,
            self.registry,
            self,
            NodeSelector.LEASE_BASED,
            dict,
            Random(self.random.random()),
            self.clock,
            SeededIds(self.random.getrandbits(32)),
            Passing(self.wait),  # type: ignore[arg-type]
        )
        self.supervisor = FailureSupervisor(
            self.registry,
            self.clock,
            Supervision(is_enabled=True),
            region_counts=self.count_regions,
            is_in_maintenance=lambda: False,
            answers=lambda peer: False,
            is_refused=lambda address: False,
            fail_over=lambda number, _: self.due.append(number),
        )
        for number in NODES:
            if self.registry.find_datanode(number) is None:
                self.registry.register(self.describe(number))
        for process in self.processes.values():
            self.beat(process)

    def take_step(self) -> None:
        """The leader is about to change the metadata, or to ask something of a node."""
        if self.steps_left is None:
            return
        self.steps_left -= 1
        if self.steps_left <= 0:
            self.steps_left = None
            self.stand_still()

    def stand_still(self) -> None:
        """Another server leads meanwhile, and does what is left to do, if that works."""
        self.note("the leader stands still")
        self.is_leading = False
        self.pass_time(LEADER_SECONDS + self.random.uniform(0, 10))
        self.new_leader()
        self.note("another server leads")
        if self.random.random() < 0.7:
            try:
                self.go_on(self.moves.unfinished())
            except TsdbError as error:
                self.note("it has not finished:", error)
        self.note("the leader of before goes on")

    def count_regions(self) -> Mapping[int, int]:
        return Counter(place.node_id for place in all_places(self.kv).values())

    # ── time ──

    def beat(self, process: Process) -> None:
        if self.is_leading and self.processes.get(process.number) is process and not process.is_cut_from_metasrv:
            sent = self.own_seconds(process)
            entries = {str(each): last for each, last in process.node.engine.last_entries(10).items()}
            self.registry.heartbeat(self.describe(process.number), {"entries": entries} if self.is_local else {})
            for region in process.node.engine.region_ids():
                place = all_places(self.kv)[region]
                if place.node_id != process.number and not place.is_moving:
                    # The answer says that it is elsewhere. The lease counts from when it is closed.
                    self.leave_region(process, region)
            process.lease_end = sent + self.registry.lease.seconds
            self.answer_missing(process)

    def answer_missing(self, process: Process) -> None:
        """Tell a node what is missing; the answer may come late."""
        if process.answer is not None and self.random.random() < 0.3:
            return
        if process.answer is not None:
            answer, process.answer = process.answer, None
            self.open_missing(process, process.missing.choose(answer))
        if process.missing.is_asking():
            openings, here = openings_of(self.kv, process.number), process.node.engine.region_ids()
            left = self.moves.regions_left()
            process.answer = [each for each in openings if each.region_id not in {*here, *left}]
            if self.random.random() < 0.8:
                answer, process.answer = process.answer, None
                self.open_missing(process, process.missing.choose(answer))

    def open_missing(self, process: Process, wanted: Sequence[RegionOpening]) -> None:
        if wanted and not process.node.fatal and not process.store.is_cut_off:
            self.note("node", process.number, "opens what is missing:", *(each.region_id & 0xFF for each in wanted))
            self.let_log_go(process)
            process.missing.open(wanted)
            process.wait_shipped()

    def leave_region(self, process: Process, region: RegionId) -> None:
        """A datanode lets go of a region that is elsewhere; behind writes that wait for the store, later."""
        done = process.node.engine.close_region(region, flush=False)
        if self.is_local or not process.store.is_cut_off:
            wait_for([done], timeout=SECONDS_MAX)

    def own_seconds(self, process: Process) -> float:
        return self.clock.monotonic_ns() / 1e9 * process.clock_rate

    def has_lease(self, process: Process) -> bool:
        return self.own_seconds(process) < process.lease_end

    def pass_time(self, seconds: float) -> None:
        left = seconds
        while left > 0:
            self.clock.advance(seconds=min(left, 2.0))
            left -= 2.0
            if self.is_leading:
                self.leadership._lease.renew_once()
            for process in self.processes.values():
                self.beat(process)

    def wait(self, seconds: float) -> None:
        """The leader waits; after a move that was interrupted, for nodes that are about to open their regions again."""
        self.pass_time(seconds)
        if seconds < _AGAIN_SECONDS:
            return
        self.interruptions += 1
        # The network does not stay broken for ever either.
        if self.interruptions % INTERRUPTIONS_MAX == 0:
            self.heal()
        self.recover_fenced()

    def time_passes(self) -> None:
        self.pass_time(self.random.uniform(0.5, 8))
        self.supervisor.tick()
        due, self.due = self.due, []
        for number in due:
            self.move(partial(self.moves.plan_failover, number, "not heard of"))

    # ── moves ──

    def fail_over(self) -> None:
        """The owner of a region is cut off from metasrv, and replaced while it goes on with its clients."""
        number = all_places(self.kv)[self.random.choice(self.regions)].node_id
        if number in self.processes:
            self.processes[number].is_cut_from_metasrv = True
        self.pass_time(12)
        self.note("failover of node", number)
        self.move(lambda: self.moves.plan_failover(number, "cut off"))

    def migrate(self) -> None:
        region, to_node = self.random.choice(self.regions), self.random.choice(NODES)
        from_node = all_places(self.kv)[region].node_id
        self.pass_time(0.01)
        self.note("region", region & 0xFF, "is to go from node", from_node, "to node", to_node)
        self.move(lambda: [self.moves.plan_migration(region, from_node, to_node)])

    def move(self, plan: Callable[[], Sequence[MoveRecord]]) -> None:
        """Make moves; the leader may be lost at any of its transactions, then the next one goes on."""
        if self.is_moving or not self.registry.live_datanodes():
            return
        self.is_moving = True
        self.steps_left = self.random.randint(1, STEPS_MAX) if self.random.random() < 0.3 else None
        try:
            for record in plan():
                self.moves.run(record)
        except LeadershipLost:
            self.note("the leader of before knows that another one leads")
            self.go_on(self.moves.unfinished())
        except TsdbError as error:
            self.note("not moved:", error)
        finally:
            self.steps_left = None
            self.is_moving = False
        self.note("places:", *(f"{place.node_id}/{place.epoch}" for place in all_places(self.kv).values()))

    def go_on(self, records: Sequence[MoveRecord]) -> None:
        if self.registry.live_datanodes():
            for record in records:
                self.moves.run(record)

    # ── what metasrv asks of datanodes ──

    def open_regions(
        self, peer: Peer, openings: Sequence[RegionOpening], *, timeout: Duration | None = None
    ) -> Mapping[RegionId, TsdbError | None]:
        process = self.reach(peer)
        if process.store.is_cut_off and any(not each.done() for each in self.pending):
            reopened = {each.region_id for each in openings} & set(process.node.engine.region_ids())
            # One that is open is closed first, behind its writes that wait for the store: this call waits with them.
            process.store.is_cut_off = process.store.is_cut_off and not reopened
        self.let_log_go(process)
        sources = [self.processes.get(node) for each in openings for node in each.log_nodes]
        old = next((each for each in (*sources, *self.zombies) if each is not None and each is not process), None)
        if old is not None and self.random.random() < 0.7:
            # The node that is thought to be lost is at work while its log is read.
            process.store.meanwhile = self.random.randint(1, 25), lambda: self.act(old)
        try:
            found = process.node.engine.open_regions(openings)
            if self.random.random() < 0.1:
                found = process.node.engine.open_regions(openings)
        finally:
            process.store.meanwhile = None
        process.wait_shipped()
        self.lose_message()
        return found

    @abstractmethod
    def act(self, process: Process) -> None:
        """A node does something while another one is about to take a region over from it."""

    def close_region(self, peer: Peer, region_id: RegionId, *, flush: bool, timeout: Duration | None = None) -> None:
        process = self.reach(peer)
        self.let_log_go(process)
        process.missing.note_close(region_id, Duration.of_seconds(SECONDS_MAX))
        if process.store.is_cut_off and any(not each.done() for each in self.pending):
            raise Unreachable("the region cannot be closed behind writes that wait for the store")
        process.node.engine.close_region(region_id, flush=flush).result(SECONDS_MAX)
        self.lose_message()

    def region_ids(self, peer: Peer) -> Sequence[RegionId]:
        return self.reach(peer).node.engine.region_ids()

    def takeovers(self, peer: Peer, region_ids: Sequence[RegionId]) -> Mapping[RegionId, Sequence[tuple[int, int]]]:
        try:
            return self.reach(peer).node.engine.takeovers(region_ids)
        except TsdbError:
            self.unknown_losses.update(region_ids)
            raise

    def reach(self, peer: Peer) -> Process:
        self.take_step()
        process = self.processes.get(peer.node_id)
        if process is None or process.is_cut_from_metasrv or process.node.fatal:
            raise Unreachable("nobody answers")
        self.lose_message()
        return process

    def lose_message(self) -> None:
        if self.random.random() < 0.05 and not self.is_settling:
            raise Unreachable("a message was lost")

    def owner(self, region: RegionId) -> Process:
        """The process that metasrv would ask to change a region; an error if it cannot."""
        place = all_places(self.kv)[region]
        if place.is_moving:
            raise Unreachable("the region is being moved")
        return self.reach(Peer(place.node_id, ""))

    # ── rows that come late: what a datanode asks of metasrv, and of the owners of regions ──

    def make_sender(self, number: int, node: Node) -> LateRowsSender | None:
        late = node.engine.late
        if late is None:
            return None
        lost = open_losses(self.kv, number) if node.engine.has_all_late else ()
        meta: Any = self
        return LateRowsSender(meta, number, late, lost, self.clock, is_over=lambda: False)

    def hand_in_rows(self) -> None:
        """Nodes hand in what others lack, as far as they can; the owner may be replaced meanwhile."""
        for process in list(self.processes.values()):
            if process.late is not None and process.late.has_work and not process.is_cut_from_metasrv:
                regions: Any = self
                is_done = process.late._hand_in_all(regions)
                self.note("node", process.number, "hands in its rows:", "all" if is_done else "not all")

    def owner_of(self, region_id: RegionId) -> RegionOwner | None:
        self.lose_message()
        place = all_places(self.kv).get(region_id)
        return None if place is None else RegionOwner(Peer(place.node_id, ""), place.is_moving)

    def hand_in(
        self, region_id: RegionId, node: int, entries: Sequence[LateEntry], *, is_last: bool, epochs: Sequence[int]
    ) -> Future[list[LateRows]]:
        owner = self.owner(region_id)
        if self.random.random() < 0.2 and not self.is_settling:
            self.fail_over()
        done = owner.node.engine.hand_in(region_id, node, entries, is_last=is_last, epochs=epochs)
        done.exception(SECONDS_MAX)
        self.lose_message()
        return done

    def recovered(self, node_id: int, region_id: RegionId, rows: Mapping[int, int]) -> None:
        record_recovered(self.kv, node_id, region_id, rows)
        self.lose_message()


class Passing:
    """An event that is never set: who waits for it lets simulated time pass."""

    def __init__(self, wait: Callable[[float], None]) -> None:
        self._wait = wait

    def wait(self, timeout: float | None = None) -> bool:
        self._wait(timeout or 0.0)
        return False

    def is_set(self) -> bool:
        return False


class Registry(NodeRegistry):
    def wait_live_datanodes(self, timeout_seconds: float) -> list[int]:
        """Nobody sends a heartbeat while somebody waits."""
        return self.live_datanodes()


class InterruptedKv:
    """The store as a server reaches it that may stand still before a change, after it has made sure that it leads."""

    def __init__(self, kv: MemoryKv, before: Callable[[], None]) -> None:
        self._kv = kv
        self._before = before

    def transact(self, compares: Sequence[Compare], operations: Sequence[SharedOperation]) -> bool:
        self._before()
        return self._kv.transact(compares, operations)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._kv, name)
