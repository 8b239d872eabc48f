"""Datanodes with real engines, the logic of metasrv, one object store: everything that happens follows from a seed.

    scheduler (seed) ─▶ one event after the other: writes, reads, flushes, time that passes, crashes, cuts, moves
                      └▶ in the middle of an event, before some request to the store: what somebody else does

Real: engines, shared logs, manifests, the registry of nodes, the supervisor and the procedures that move regions.
Simulated: clocks (those of datanodes run at rates of their own), networks, the scheduler of processes. Every event ends
before the next one begins, so threads of an engine have nothing to race about, and faults of the store do not depend on
their order (`store.py`).

What must hold is in `Violation`s: see `_check_…` and `settle`.
"""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import wait as wait_for
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

from tests.catalog.worlds import draft
from tests.engine.harness import SCHEMA, batch_of
from tests.engine.lives import settle as settle_engine
from tests.engine.moves.nodes import FAST, OPTIONS, Node
from tests.meta.clusters import datanode
from tests.simulation.store import SeededStore
from tsdb.catalog import all_places, directories_of_all, openings_of, put_places
from tsdb.catalog._plan import plan_table, put_table
from tsdb.clock import ManualClock
from tsdb.engine.errors import FileCorrupted, LogFenced, RegionBusy, RegionNotFound, RegionReadOnly
from tsdb.errors import TsdbError
from tsdb.ids import SeededIds
from tsdb.kv import LeadershipLost, MemoryKv
from tsdb.meta._move_records import MoveRecord, load_records
from tsdb.meta._moves import RegionMoves
from tsdb.meta._nodes import NodeRegistry
from tsdb.meta._selectors import NodeSelector
from tsdb.meta._supervisor import FailureSupervisor, Supervision
from tsdb.model import Peer, RegionId, RegionOpening, RegionOptions, RegionPlace
from tsdb.store import MemoryStore
from tsdb.units import Duration

NODES = (1, 2, 3)
KEYS = 4
TABLE = 1024
ZOMBIES_MAX = 2
SECONDS_MAX = 30.0
"""How long a step may take on a machine that stands still."""
SETTINGS = replace(
    FAST,
    in_flight=1,
    retry_max=Duration.of_seconds(0.002),
    close_timeout=Duration.of_seconds(0.05),
    append_timeout=Duration.of_seconds(5),
    read_parallelism=1,
)
ENGINE = replace(OPTIONS, max_background_jobs=1)
REFUSALS = (LogFenced, RegionBusy, RegionNotFound, RegionReadOnly)


class Violation(AssertionError):
    """Something happened that must not."""


class Unreachable(TsdbError):
    """A message, or its answer, was lost."""


@dataclass(eq=False)
class Process:
    """A process of a datanode."""

    number: int
    store: SeededStore
    node: Node
    clock_rate: float
    lease_end: float = 0.0
    """By its own clock."""
    is_cut_from_metasrv: bool = False

    def has(self, region: RegionId) -> bool:
        return region in self.node.engine.region_ids()


@dataclass(eq=False)
class Write:
    """A row on its way, and who was asked."""

    region: RegionId
    key: int
    value: int
    done: Future[int]
    owner: tuple[int, int]
    """The epoch of the region where it was sent, and the term of that process."""
    before: tuple[int, int]
    """The newest owner that had acknowledged something when it began."""


class Simulation:
    """One run. `weights` are the events and how often each is chosen."""

    WEIGHTS: Mapping[str, int] = {
        "write": 30,
        "read": 12,
        "flush": 6,
        "compact": 2,
        "purge": 3,
        "time_passes": 14,
        "crash": 2,
        "restart": 4,
        "replace": 2,
        "cut_from_metasrv": 2,
        "cut_from_store": 2,
        "heal": 4,
        "migrate": 4,
        "fail_over": 3,
        "recover_fenced": 5,
    }

    def __init__(self, seed: int, *, weights: Mapping[str, int] | None = None, faults_per_thousand: int = 15) -> None:
        self.seed = seed
        self.random = Random(seed)
        self.weights = weights or self.WEIGHTS
        self.faults_per_thousand = faults_per_thousand
        self.trace: list[str] = []
        self.clock = ManualClock(10**18)
        self.root = Path(tempfile.mkdtemp(prefix="tsdb-simulation-"))
        self.inner = MemoryStore()
        self.kv = LeaderlessKv()
        self.processes: dict[int, Process] = {}
        self.zombies: list[Process] = []
        self.started = 0
        self.value = 0
        self.acknowledged: dict[tuple[RegionId, int], int] = {}
        self.kept: set[int] = set()
        self.refused: set[int] = set()
        self.writes: list[Write] = []
        self.owners: dict[RegionId, tuple[int, int]] = {}
        self.routes: dict[RegionId, RegionPlace] = {}
        self.due: list[int] = []
        self.is_moving = False
        table = plan_table(draft("t", rules=("host < 'm'", "host >= 'm'")), TABLE, created_ms=0)
        self.regions = tuple(table.region_ids)[:2]
        self.appending = self.regions[1]
        places = {number: RegionPlace(1) for number in range(len(table.region_ids))}
        self.kv.transact([], [*put_table(table), put_places(TABLE, places)])
        self.directories = directories_of_all(self.kv, table.region_ids)
        self.new_leader()
        for number in NODES:
            self.start(number, [])
        for region in table.region_ids:
            options = RegionOptions(append_mode=region == self.appending)
            self.processes[1].node.engine.create_region(region, self.directories[region], SCHEMA, options)
        self.routes = dict(all_places(self.kv))

    # ── the scheduler ──

    def run(self, events: int) -> None:
        """Let events happen, then let everything come to rest, and compare; Violation if something is wrong."""
        names, weights = list(self.weights), list(self.weights.values())
        try:
            for _ in range(events):
                (event,) = self.random.choices(names, weights)
                getattr(self, event)()
                self.take_answers()
            self.settle()
        finally:
            self.close()

    def close(self) -> None:
        for process in [*self.processes.values(), *self.zombies]:
            process.store.is_cut_off = False
            process.node.stop()
        shutil.rmtree(self.root, ignore_errors=True)

    def note(self, *words: object) -> None:
        self.trace.append(" ".join(map(str, words)))

    def pick_process(self) -> Process | None:
        alive = [*self.processes.values(), *self.zombies]
        return self.random.choice(alive) if alive else None

    # ── clients ──

    def write(self) -> None:
        """A frontend sends a row where it thinks that the region is."""
        region = self.random.choice(self.regions)
        process = self.processes.get(self.routes[region].node_id)
        if self.zombies and self.random.random() < 0.3:
            process = self.random.choice(self.zombies)
        if process is not None:
            self.write_to(process, region)
        # Sooner or later a frontend hears of new places.
        if process is None or not process.has(region) or self.random.random() < 0.3:
            self.routes = dict(all_places(self.kv))

    def write_to(self, process: Process, region: RegionId) -> None:
        self.value += 1
        key = self.random.randrange(KEYS)
        row = {"host": "a", "ts": key if region != self.appending else self.value, "a": 1.0, "b": self.value}
        opened = process.node.engine._roster.get(region)
        before = self.owners.get(region, (0, 0))
        self.note("write", region & 0xFF, "key", key, "value", self.value, "to node", process.number)
        try:
            done = process.node.engine.write(region, batch_of(SCHEMA, [row]), timeout=Duration.of_seconds(1))
        except TsdbError:
            self.refused.add(self.value)
            return
        assert opened is not None
        owner = (opened.manifest.epoch, process.node.log.term)
        self.writes.append(Write(region, key, self.value, done, owner, before))
        if not process.store.is_cut_off:
            wait_for([done], timeout=SECONDS_MAX)
        self.take_answers()

    def take_answers(self) -> None:
        for write in [each for each in self.writes if each.done.done()]:
            self.writes.remove(write)
            error = write.done.exception()
            if isinstance(error, REFUSALS):
                self.refused.add(write.value)
            if error is None:
                self.acknowledge(write)

    def acknowledge(self, write: Write) -> None:
        if write.owner < write.before:
            raise Violation(f"{write.owner} acknowledged {write.value} after {write.before} had acknowledged rows")
        self.owners[write.region] = max(write.owner, self.owners.get(write.region, (0, 0)))
        if write.region == self.appending:
            self.kept.add(write.value)
        else:
            key = write.region, write.key
            self.acknowledged[key] = max(write.value, self.acknowledged.get(key, 0))

    def read(self) -> None:
        """A frontend reads where it thinks that the region is; a datanode without a lease has to prove ownership."""
        region = self.random.choice(self.regions)
        process = self.processes.get(self.routes[region].node_id)
        if process is None or not process.has(region):
            self.routes = dict(all_places(self.kv))
            return
        rows = self.rows_of(process, region)
        is_permitted = self.has_lease(process)
        if not is_permitted and not process.store.is_cut_off:
            is_permitted = process.node.engine.prove_ownership(Duration.of_seconds(SECONDS_MAX))
        self.note("read", region & 0xFF, "at node", process.number, "permitted" if is_permitted else "refused")
        if is_permitted:
            self.check_rows(region, rows)

    def rows_of(self, process: Process, region: RegionId) -> Sequence[Mapping[str, Any]]:
        try:
            with process.store.paused():
                return process.node.rows(region)
        except FileCorrupted as error:
            raise Violation(f"region {region & 0xFF} cannot be read at node {process.number}: {error}") from error

    def check_rows(self, region: RegionId, rows: Sequence[Mapping[str, Any]]) -> None:
        values = Counter(row["b"] for row in rows)
        if self.refused.intersection(values):
            raise Violation(f"refused rows are visible: {self.refused.intersection(values)}")
        if region == self.appending:
            if any(count > 1 for count in values.values()):
                raise Violation("a row is there twice")
            if self.kept - values.keys():
                raise Violation(f"acknowledged rows are lost: {sorted(self.kept - values.keys())}")
            return
        found = {row["ts"]: row["b"] for row in rows}
        if len(found) != len(rows):
            raise Violation("a key is there twice")
        for (each, key), value in self.acknowledged.items():
            if each == region and found.get(key, 0) < value:
                raise Violation(f"key {key} has {found.get(key)}, and {value} was acknowledged")

    # ── datanodes ──

    def start(self, number: int, openings: Sequence[RegionOpening]) -> None:
        self.started += 1
        tag = f"{self.seed}-{number}-{self.started}"
        rate = self.faults_per_thousand if self.started > len(NODES) else 0
        store = SeededStore(self.inner, tag, faults_per_thousand=rate)
        try:
            node = Node(
                self.root / tag,
                store,
                number,
                openings,
                settings=SETTINGS,
                options=ENGINE,
                ids=SeededIds(self.seed * 1000 + self.started),
            )
        except TsdbError as error:
            self.note("node", number, "could not start:", error)
            return
        if node.engine.quarantined:
            raise Violation(f"regions are quarantined: {node.engine.quarantined}")
        settle_engine(node.engine)
        self.processes[number] = Process(number, store, node, 1 + self.random.uniform(-0.01, 0.01))
        store._faults_per_thousand = self.faults_per_thousand
        self.beat(self.processes[number])

    def restart(self, *, dies: bool = True) -> None:
        """Start a node again, with the regions that are placed on it; an older process is dead, or thought to be."""
        number = self.random.choice(NODES)
        old = self.processes.get(number)
        if old is not None and old.is_cut_from_metasrv and not dies:
            return
        if old is not None and (dies or len(self.zombies) >= ZOMBIES_MAX):
            old.store.is_cut_off = False
            old.node.stop()
        elif old is not None:
            self.zombies.append(old)
        self.processes.pop(number, None)
        self.note("start node", number, "" if dies or old is None else "while an older process lives on")
        self.registry.register(datanode(number))
        self.start(number, openings_of(self.kv, number))

    def replace(self) -> None:
        """Start a node while its older process is at work: something happens between its requests to the store."""
        process = self.random.choice(list(self.processes.values())) if self.processes else None
        if process is None or process.store.is_cut_off or len(self.zombies) >= ZOMBIES_MAX or self.is_moving:
            return
        number, region = process.number, self.random.choice(self.regions)

        def start_another() -> None:
            if self.processes.get(number) is process:
                self.zombies.append(process)
                del self.processes[number]
                self.registry.register(datanode(number))
                self.start(number, openings_of(self.kv, number))

        self.note("node", number, "is started again while it flushes")
        process.store.meanwhile = self.random.randint(1, 8), start_another
        self.change(process, "flush", region)
        process.store.meanwhile = None

    def crash(self) -> None:
        alive = sorted(self.processes)
        if len(alive) > 1:
            number = self.random.choice(alive)
            process = self.processes.pop(number)
            process.store.is_cut_off = False
            self.note("node", number, "crashes")
            process.node.stop()

    def recover_fenced(self) -> None:
        """What a datanode does that finds its log sealed, or a region elsewhere."""
        for number, process in list(self.processes.items()):
            reachable = not (process.store.is_cut_off or process.is_cut_from_metasrv)
            if process.node.fatal and reachable:
                self.note("node", number, "opens its regions again")
                del self.processes[number]
                process.node.stop()
                self.start(number, openings_of(self.kv, number))
            elif reachable:
                for region in set(process.node.lost):
                    process.node.engine.close_region(region, flush=False)

    def flush(self) -> None:
        process = self.pick_process()
        if process is not None:
            self.change(process, "flush", self.random.choice(self.regions))

    def compact(self) -> None:
        process = self.pick_process()
        if process is not None:
            self.change(process, "compact", self.random.choice(self.regions))

    def change(self, process: Process, verb: str, region: RegionId) -> None:
        self.note(verb, region & 0xFF, "at node", process.number)
        try:
            done = getattr(process.node.engine, verb)(region)
        except TsdbError:
            return
        wait_for([done], timeout=SECONDS_MAX)

    def purge(self) -> None:
        process = self.pick_process()
        if process is not None:
            self.note("purge at node", process.number)
            process.node.engine.housekeeping.purge()

    # ── the network ──

    def cut_from_metasrv(self) -> None:
        process = self.pick_process()
        if process is not None:
            self.note("node", process.number, "reaches metasrv no more")
            process.is_cut_from_metasrv = True

    def cut_from_store(self) -> None:
        process = self.pick_process()
        if process is not None:
            self.note("node", process.number, "reaches the store no more")
            process.store.is_cut_off = True

    def heal(self) -> None:
        for process in [*self.processes.values(), *self.zombies]:
            process.is_cut_from_metasrv = process.store.is_cut_off = False
            while process.store.under_way:
                process.store.arrive()
        self.note("the network works")
        wait_for([each.done for each in self.writes], timeout=SECONDS_MAX)
        self.take_answers()

    # ── metasrv ──

    def new_leader(self) -> None:
        self.registry = NodeRegistry(self.kv, self.clock)
        self.moves = RegionMoves(
            self.kv,
            self.registry,
            self,
            NodeSelector.LEASE_BASED,
            dict,
            Random(self.random.random()),
            self.clock,
            SeededIds(self.random.getrandbits(32)),
            Passing(self),  # type: ignore[arg-type]
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
                self.registry.register(datanode(number))
        for process in self.processes.values():
            self.beat(process)

    def count_regions(self) -> Mapping[int, int]:
        return Counter(place.node_id for place in all_places(self.kv).values())

    def beat(self, process: Process) -> None:
        if self.processes.get(process.number) is process and not process.is_cut_from_metasrv:
            sent = self.own_seconds(process)
            self.registry.heartbeat(datanode(process.number), {})
            process.lease_end = sent + self.registry.lease.seconds

    def own_seconds(self, process: Process) -> float:
        return self.clock.monotonic_ns() / 1e9 * process.clock_rate

    def has_lease(self, process: Process) -> bool:
        return self.own_seconds(process) < process.lease_end

    def pass_time(self, seconds: float) -> None:
        left = seconds
        while left > 0:
            self.clock.advance(seconds=min(left, 2.0))
            left -= 2.0
            for process in self.processes.values():
                self.beat(process)

    def time_passes(self) -> None:
        self.pass_time(self.random.uniform(0.5, 8))
        self.supervisor.tick()
        due, self.due = self.due, []
        for number in due:
            self.move(lambda number=number: self.moves.plan_failover(number, "not heard of"))

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
        self.note("region", region & 0xFF, "is to go from node", from_node, "to node", to_node)
        self.move(lambda: [self.moves.plan_migration(region, from_node, to_node)])

    def move(self, plan: Any) -> None:
        """Make moves; the leader may be lost at any of its transactions, then the next one goes on."""
        if self.is_moving or not self.registry.live_datanodes():
            return
        self.is_moving = True
        self.kv.left = self.random.randint(1, 8) if self.random.random() < 0.3 else None
        try:
            for record in plan():
                self.moves.run(record)
        except LeadershipLost:
            self.note("another server leads")
            self.kv.left = None
            self.new_leader()
            self.go_on(self.moves.unfinished())
        except TsdbError as error:
            self.note("not moved:", error)
        finally:
            self.kv.left = None
            self.is_moving = False
        self.note("places:", *(f"{place.node_id}/{place.epoch}" for place in all_places(self.kv).values()))

    def go_on(self, records: Sequence[MoveRecord]) -> None:
        if self.registry.live_datanodes():
            for record in records:
                self.moves.run(record)

    # What metasrv asks of datanodes

    def open_regions(
        self, peer: Peer, openings: Sequence[RegionOpening], *, timeout: Duration | None = None
    ) -> Mapping[RegionId, TsdbError | None]:
        process = self.reach(peer)
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
        self.lose_answer()
        return found

    def act(self, process: Process) -> None:
        region = self.random.choice(self.regions)
        if process.has(region) and not process.store.is_cut_off:
            self.write_to(process, region)
            if self.random.random() < 0.5:
                self.change(process, "flush", region)

    def close_region(self, peer: Peer, region_id: RegionId, *, flush: bool, timeout: Duration | None = None) -> None:
        self.reach(peer).node.engine.close_region(region_id, flush=flush).result(SECONDS_MAX)
        self.lose_answer()

    def region_ids(self, peer: Peer) -> Sequence[RegionId]:
        return self.reach(peer).node.engine.region_ids()

    def takeovers(self, peer: Peer, region_ids: Sequence[RegionId]) -> Mapping[RegionId, Sequence[tuple[int, int]]]:
        return self.reach(peer).node.engine.takeovers(region_ids)

    def reach(self, peer: Peer) -> Process:
        process = self.processes.get(peer.node_id)
        if process is None or process.is_cut_from_metasrv or process.node.fatal:
            raise Unreachable("nobody answers")
        if self.random.random() < 0.05:
            raise Unreachable("the request was lost")
        return process

    def lose_answer(self) -> None:
        if self.random.random() < 0.05:
            raise Unreachable("the answer was lost")

    # ── the end ──

    def settle(self) -> None:
        """Let everything work, and see that every procedure ends, every region is served, and every row is there."""
        self.faults_per_thousand = 0
        for process in [*self.processes.values(), *self.zombies]:
            process.store._faults_per_thousand = 0
        self.heal()
        for process in self.zombies:
            process.node.stop()
        self.zombies.clear()
        for number in NODES:
            if number in self.processes:
                self.processes.pop(number).node.stop()
            self.registry.register(datanode(number))
            self.start(number, openings_of(self.kv, number))
        self.move(self.moves.unfinished)
        if load_records(self.kv).running:
            raise Violation(f"procedures have not ended: {load_records(self.kv).running}")
        for region in self.regions:
            place = all_places(self.kv)[region]
            owner = self.processes[place.node_id]
            if place.is_moving or not owner.has(region):
                refused = owner.node.engine.refused.get(region)
                raise Violation(f"region {region & 0xFF} is not served at {place}: {refused}")
            self.take_answers()
            self.check_rows(region, self.rows_of(owner, region))


class Passing:
    """An event that is never set: who waits for it lets simulated time pass."""

    def __init__(self, world: Simulation) -> None:
        self._world = world

    def wait(self, timeout: float | None = None) -> bool:
        self._world.pass_time(timeout or 0.0)
        return False

    def is_set(self) -> bool:
        return False


class LeaderlessKv(MemoryKv):
    """A store whose leader is lost after some transactions."""

    def __init__(self) -> None:
        super().__init__()
        self.left: int | None = None

    def transact(self, compares: Sequence[Any], operations: Sequence[Any]) -> bool:
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                raise LeadershipLost("another server leads")
        return super().transact(compares, operations)
