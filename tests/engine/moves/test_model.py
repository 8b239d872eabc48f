"""Nodes between which regions move, over a store that fails, against a plain list of what was acknowledged.

A Hypothesis state machine has several nodes, real engines with real logs, and a coordinator that does what it likes:
regions are written, flushed, compacted, moved in good order, taken over from nodes that live on and go on writing,
opened again where they were; nodes are cut off from the store, killed and started again while older processes of the
same node still run. Requests fail, lose their reply, arrive late or twice, and others act in the middle of a takeover.
Whatever happens:

- every acknowledged row is found by the owner of its region, the newest of a key, and in a region that keeps duplicates
  each row once;
- nothing that was refused is ever seen;
- nobody acknowledges a write that began when a newer owner had opened the region.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import wait as wait_for
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from tests.engine.harness import SCHEMA
from tests.engine.lives import settle
from tests.engine.moves.history import Change, History, Kind
from tests.engine.moves.nodes import FAST, ONE, OPTIONS, TWO, Node, directory_of
from tests.store.faulty_store import FaultyStore
from tsdb.engine.errors import LogFenced
from tsdb.engine.region import recovery
from tsdb.errors import TsdbError
from tsdb.model import RegionId, RegionOpening, RegionOptions
from tsdb.store import MemoryStore, StoreError
from tsdb.units import Duration, Size

EXAMPLES = int(os.environ.get("TSDB_MOVES_EXAMPLES", "12"))
NUMBERS = (1, 2, 3)
REGIONS = (ONE, TWO)
"""The second one keeps duplicates."""
KEYS = 4
ZOMBIES_MAX = 2
SETTINGS = replace(
    FAST,
    in_flight=2,
    retry_max=Duration.of_seconds(0.004),
    close_timeout=Duration.of_seconds(0.05),
    append_timeout=Duration.of_seconds(5),
    read_parallelism=2,
)
SMALL = replace(
    OPTIONS, global_write_buffer_size=Size(3000), global_write_buffer_reject_size=Size(1 << 20), max_background_jobs=1
)
"""Replays have to flush."""
WRITE_TIMEOUT = Duration.of_seconds(0.2)
"""For memory, when a flush has failed."""
PATIENCE_SECONDS = 30.0


@dataclass(eq=False)
class Process:
    """A process of a node, with its own way to the store."""

    number: int
    store: FaultyStore
    node: Node
    is_cut_off: bool = False


@dataclass
class Place:
    """What the coordinator knows of a region."""

    number: int
    epoch: int = 0
    log_nodes: set[int] = field(default_factory=set)
    """Nodes that may have rows of it, until the owner says that it has opened it."""


class MovesModel(RuleBasedStateMachine):
    """Random lives of nodes and regions."""

    @initialize()
    def begin(self) -> None:
        self.patience = pytest.MonkeyPatch()
        self.patience.setattr(recovery, "OPEN_RETRY_SECONDS", (0.0, 0.0, 0.0))
        self.root = Path(tempfile.mkdtemp(prefix="tsdb-moves-"))
        self.inner = MemoryStore()
        self.started = 0
        self.processes: dict[int, Process] = {}
        self.zombies: list[Process] = []
        self.places = {region: Place(1) for region in REGIONS}
        self.history = History(TWO)
        for number in NUMBERS:
            self.processes[number] = self.start(number)
        first = self.processes[1].node
        for region in REGIONS:
            options = RegionOptions(append_mode=region == TWO)
            first.engine.create_region(region, directory_of(region), SCHEMA, options)

    def teardown(self) -> None:
        if not hasattr(self, "root"):
            return
        try:
            self.check_a_fresh_start()
        finally:
            for process in [*self.processes.values(), *self.zombies]:
                self.end(process)
            shutil.rmtree(self.root)
            self.patience.undo()

    # ── what nodes do ──

    def start(self, number: int, openings: list[RegionOpening] | None = None) -> Process:
        self.started += 1
        store = FaultyStore(self.inner)
        # A disk of its own each time: nothing of it is needed.
        directory = self.root / f"{number}-{self.started}"
        options = SMALL if number == 2 else OPTIONS
        node = Node(directory, store, number, openings or [], settings=SETTINGS, options=options)
        return Process(number, store, node)

    def end(self, process: Process) -> None:
        process.store.up()
        process.store.before_call = None
        process.node.stop()

    def openings_of(self, number: int) -> list[RegionOpening]:
        return [
            RegionOpening(region, directory_of(region), place.epoch, tuple(sorted(place.log_nodes - {number})))
            for region, place in self.places.items()
            if place.number == number
        ]

    def all(self) -> list[Process]:
        return [*self.processes.values(), *self.zombies]

    def opened_by_others(self, process: Process, region: RegionId) -> bool:
        """Whether a newer owner has opened a region."""
        mine = process.node.engine._roster.get(region)
        if mine is None:
            return False
        others = [(other, other.node.engine._roster.get(region)) for other in self.all() if other is not process]
        return any(
            theirs is not None and self.is_newer(other, theirs.manifest.epoch, process, mine.manifest.epoch)
            for other, theirs in others
        )

    def is_newer(self, other: Process, their_epoch: int, process: Process, my_epoch: int) -> bool:
        if their_epoch != my_epoch:
            return their_epoch > my_epoch
        return other.number == process.number and other.node.log.term > process.node.log.term

    def write(self, process: Process, region: RegionId, key: int) -> None:
        engine = process.node.engine
        engine.housekeeping.relieve()
        number, opened = self.history.next_number(), engine._roster.get(region)
        has_successor = self.opened_by_others(process, region)
        try:
            batch = self.history.batch(SCHEMA, Kind.PUT, region, key, number)
            done = engine.write(region, batch, timeout=WRITE_TIMEOUT)
        except TsdbError:
            self.history.refuse(number)
            return
        owner = (0 if opened is None else opened.manifest.epoch, process.node.log.term)
        self.history.add(Change(region, Kind.PUT, number, owner, done, key, has_successor=has_successor))
        if not process.is_cut_off:
            wait_for([done], timeout=PATIENCE_SECONDS)
        self.settle()

    def settle(self) -> None:
        """Take the answers that are there."""
        for change in self.history.take_answers():
            assert not change.has_successor, "two owners acknowledged"

    def flush(self, process: Process, region: RegionId, _key: int = 0) -> None:
        self.change(process, lambda: process.node.engine.flush(region))

    def compact(self, process: Process, region: RegionId, _key: int = 0) -> None:
        self.change(process, lambda: process.node.engine.compact(region))

    def purge(self, process: Process, _region: RegionId = ONE, _key: int = 0) -> None:
        process.node.engine.housekeeping.purge()

    def cycle(self, process: Process, region: RegionId, key: int) -> None:
        """Write, flush everything and purge: numbers of the log become free that others have looked at."""
        self.write(process, region, key)
        for each in REGIONS:
            self.flush(process, each)
        self.purge(process)

    def change(self, process: Process, start: Callable[[], Future[None]]) -> None:
        try:
            done = start()
        except TsdbError:
            return
        if not process.is_cut_off:
            wait_for([done], timeout=PATIENCE_SECONDS)
            assert done.done()

    ACTIONS = ("write", "write", "flush", "compact", "purge", "cycle")

    def act(self, plan: tuple[int, str, RegionId, int]) -> None:
        position, action, region, key = plan
        processes = self.all()
        getattr(self, action)(processes[position % len(processes)], region, key)

    def fail_over(self, process: Process, region: RegionId, key: int) -> None:
        """Take a region away while its node does something, or open it where it was by another process of the node."""
        numbers = [number for number in NUMBERS if self.processes[number] is not process]
        self.take_over_to(region, numbers[key % len(numbers)], [])

    def replace_process(self, process: Process, _region: RegionId, _key: int) -> None:
        """Start the node of a process again while that does something."""
        if self.processes[process.number] is process and len(self.zombies) < ZOMBIES_MAX:
            self.restart_node(process.number, dies=False, others=[])

    plans = st.tuples(st.integers(0, 7), st.sampled_from(ACTIONS), st.sampled_from(REGIONS), st.integers(0, KEYS - 1))
    meanwhile = st.lists(st.tuples(st.integers(1, 30), plans), max_size=4)

    @rule(
        plan=st.tuples(
            st.integers(0, 7), st.sampled_from(["write", "flush", "flush", "compact"]), st.sampled_from(REGIONS)
        ),
        call=st.integers(1, 8),
        other=st.sampled_from(["fail_over", "replace_process"]),
        key=st.integers(0, KEYS - 1),
    )
    def somebody_acts_while_it_is_replaced(
        self, plan: tuple[int, str, RegionId], call: int, other: str, key: int
    ) -> None:
        position, action, region = plan
        processes = self.all()
        process = processes[position % len(processes)]
        if not process.is_cut_off:
            with Interrupted(self, process.store, {}, at=call, act=lambda: getattr(self, other)(process, region, key)):
                getattr(self, action)(process, region, key)
        self.settle()

    @rule(plan=plans)
    def somebody_acts(self, plan: tuple[int, str, RegionId, int]) -> None:
        self.act(plan)

    @rule(region=st.sampled_from(REGIONS), keys=st.lists(st.integers(0, KEYS - 1), min_size=1, max_size=4))
    def the_owner_writes(self, region: RegionId, keys: list[int]) -> None:
        owner = self.processes[self.places[region].number]
        for key in keys:
            self.write(owner, region, key)

    # ── what the coordinator does ──

    @rule(region=st.sampled_from(REGIONS), number=st.sampled_from(NUMBERS))
    def move(self, region: RegionId, number: int) -> None:
        """Move a region in good order."""
        place = self.places[region]
        owner = self.processes[place.number]
        if place.log_nodes or region not in owner.node.engine.region_ids() or owner.is_cut_off:
            return
        done = owner.node.engine.close_region(region, flush=True)
        wait_for([done], timeout=PATIENCE_SECONDS)
        if done.exception() is None:
            self.places[region] = Place(number, place.epoch + 1)
            self.open(region, [])

    @rule(region=st.sampled_from(REGIONS), number=st.sampled_from(NUMBERS), others=meanwhile)
    def take_over(
        self, region: RegionId, number: int, others: list[tuple[int, tuple[int, str, RegionId, int]]]
    ) -> None:
        """Take a region away from its node, which may live on, or open it there again."""
        self.take_over_to(region, number, others)

    def take_over_to(
        self, region: RegionId, number: int, others: list[tuple[int, tuple[int, str, RegionId, int]]]
    ) -> None:
        place = self.places[region]
        self.places[region] = Place(number, place.epoch + 1, place.log_nodes | {place.number})
        self.open(region, others)

    @rule(region=st.sampled_from(REGIONS), number=st.sampled_from(NUMBERS))
    def decide(self, region: RegionId, number: int) -> None:
        """Place a region on another node, which does not know it yet, while the old one may start again without it."""
        place = self.places[region]
        self.places[region] = Place(number, place.epoch + 1, place.log_nodes | {place.number})

    @rule(region=st.sampled_from(REGIONS), others=meanwhile)
    def open_again(self, region: RegionId, others: list[tuple[int, tuple[int, str, RegionId, int]]]) -> None:
        self.open(region, others)

    def open(self, region: RegionId, others: list[tuple[int, tuple[int, str, RegionId, int]]]) -> None:
        """Tell the node of a region to open it; others act meanwhile."""
        place = self.places[region]
        process = self.processes[place.number]
        if process.is_cut_off or process.node.fatal:
            return
        (opening,) = [each for each in self.openings_of(place.number) if each.region_id == region]
        with self.interrupted(process, others):
            error = process.node.engine.open_regions([opening])[region]
        if error is None:
            place.log_nodes.clear()
            self.check(region)
        else:
            self.allow(process, error)

    def allow(self, process: Process, error: BaseException) -> None:
        """Whether a region may be refused for this reason: the store failed, or the node lost its log."""
        assert isinstance(error, StoreError | LogFenced | TsdbError), error
        assert not process.node.engine.quarantined, process.node.engine.quarantined

    def interrupted(self, process: Process, others: list[tuple[int, tuple[int, str, RegionId, int]]]) -> Interrupted:
        return Interrupted(self, process.store, dict(others))

    @rule(number=st.sampled_from(NUMBERS), dies=st.booleans(), others=meanwhile)
    def restart(self, number: int, dies: bool, others: list[tuple[int, tuple[int, str, RegionId, int]]]) -> None:
        """Start a node again; its older process is dead, or thought to be."""
        self.restart_node(number, dies=dies, others=others)

    def restart_node(
        self, number: int, *, dies: bool, others: list[tuple[int, tuple[int, str, RegionId, int]]]
    ) -> None:
        old = self.processes[number]
        if dies or len(self.zombies) >= ZOMBIES_MAX:
            self.end(old)
        else:
            self.zombies.append(old)
        self.processes[number] = self.start_again(number, others)
        for region, place in self.places.items():
            if place.number == number and region in self.processes[number].node.engine.region_ids():
                place.log_nodes.clear()
                self.check(region)

    def start_again(self, number: int, others: list[tuple[int, tuple[int, str, RegionId, int]]]) -> Process:
        with Interrupted(self, None, dict(others)) as hook:
            self.started += 1
            store = FaultyStore(self.inner)
            store.before_call = hook
            directory = self.root / f"{number}-{self.started}"
            options = SMALL if number == 2 else OPTIONS
            node = Node(directory, store, number, self.openings_of(number), settings=SETTINGS, options=options)
            store.before_call = None
        process = Process(number, store, node)
        assert not node.engine.quarantined, node.engine.quarantined
        # What a start sweeps is gone before others go on.
        settle(node.engine)
        return process

    @precondition(lambda self: self.zombies)
    @rule()
    def bury(self) -> None:
        self.end(self.zombies.pop(0))

    @rule()
    def recover_fenced(self) -> None:
        """Nodes whose logs were fenced start again, and regions that were lost are closed."""
        for number, process in list(self.processes.items()):
            if process.node.fatal and not process.is_cut_off:
                self.restart_node(number, dies=True, others=[])
            for region in set(process.node.lost):
                process.node.engine.close_region(region, flush=False)

    # ── what the store does ──

    @rule(
        position=st.integers(0, 7),
        kind=st.sampled_from(["fail", "lose_reply", "arrive_later", "arrive_twice"]),
        operation=st.sampled_from(["put_if_absent", "put_if_absent", "put", "get", "list", "delete", "writer"]),
        nth=st.integers(1, 4),
        times=st.sampled_from([1, 1, 2]),
    )
    def arm(self, position: int, kind: str, operation: str, nth: int, times: int) -> None:
        if kind.startswith("arrive") and operation in ("get", "list", "writer"):
            kind = "fail"
        processes = self.all()
        getattr(processes[position % len(processes)].store, kind)(operation, nth=nth, times=times)

    @rule(position=st.integers(0, 7))
    def cut_off(self, position: int) -> None:
        processes = self.all()
        process = processes[position % len(processes)]
        process.is_cut_off = True
        process.store.down()

    @rule()
    def heal(self) -> None:
        for process in self.all():
            process.is_cut_off = False
            process.store.up()
            while process.store.under_way:
                process.store.arrive()
        wait_for(self.history.pending(), timeout=PATIENCE_SECONDS)
        self.settle()

    # ── what must be so ──

    def check(self, region: RegionId) -> None:
        """The owner, which has just opened a region, has every acknowledged row."""
        self.settle()
        owner = self.processes[self.places[region].number]
        with owner.store.paused():
            rows = owner.node.rows(region)
        self.history.check(region, rows)

    @rule(region=st.sampled_from(REGIONS))
    def check_the_owner(self, region: RegionId) -> None:
        owner = self.processes[self.places[region].number]
        is_open = region in owner.node.engine.region_ids() and not self.opened_by_others(owner, region)
        if is_open and not self.places[region].log_nodes and not owner.node.fatal and not owner.is_cut_off:
            self.check(region)

    def check_a_fresh_start(self) -> None:
        """Nodes that start now, with a store that works, have everything, also after all logs were purged."""
        self.heal()
        for process in self.zombies:
            self.end(process)
        self.zombies.clear()
        for _ in range(2):
            for number in NUMBERS:
                self.restart_node(number, dies=True, others=[])
            for region in REGIONS:
                self.open(region, [])
                assert region in self.processes[self.places[region].number].node.engine.region_ids()
            for process in self.processes.values():
                for region in process.node.engine.region_ids():
                    process.node.flush(region)
                process.node.engine.housekeeping.purge()
        for process in self.processes.values():
            process.node.engine.housekeeping.purge()
            pinned = [facts for _, facts in process.node.engine.wal_segments() if facts.pinning]
            assert not pinned, "regions that are flushed keep objects of a log"


class Interrupted:
    """While inside, others act before some of the calls of a store, as planned before: calls come on any thread."""

    def __init__(
        self,
        model: MovesModel,
        store: FaultyStore | None,
        plans: dict[int, tuple[int, str, RegionId, int]],
        *,
        at: int = 0,
        act: Callable[[], None] | None = None,
    ) -> None:
        """Without plans, `act` is called once, before call number `at`."""
        self._model = model
        self._at = at
        self._once = act
        self._store = store
        self._plans = plans
        self._calls = 0
        self._counting = threading.Lock()
        self._acting = threading.Lock()
        self._faults: list[BaseException] = []

    def __enter__(self) -> Interrupted:
        if self._store is not None:
            self._store.before_call = self
        return self

    def __exit__(self, *_: object) -> None:
        if self._store is not None:
            self._store.before_call = None
        # An action that began on a thread of the engine ends before the test goes on.
        assert self._acting.acquire(timeout=PATIENCE_SECONDS)
        if self._faults:
            raise self._faults[0]

    def __call__(self, _operation: str, _path: str) -> None:
        with self._counting:
            self._calls += 1
            plan, once = self._plans.get(self._calls), self._once if self._calls == self._at else None
        # Calls of other threads, and those that the action leads to, go on meanwhile.
        if (plan is None and once is None) or not self._acting.acquire(blocking=False):
            return
        try:
            if once is not None:
                once()
            elif plan is not None:
                self._act(plan)
        except BaseException as error:  # noqa: BLE001 - raised by the thread of the test
            self._faults.append(error)
        finally:
            self._acting.release()

    def _act(self, plan: tuple[int, str, RegionId, int]) -> None:
        processes = [each for each in self._model.all() if each.store is not self._store]
        if processes:
            position, action, region, key = plan
            getattr(self._model, action)(processes[position % len(processes)], region, key)


MovesModel.TestCase.settings = settings(
    max_examples=EXAMPLES, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)


@pytest.mark.timeout(14400 if EXAMPLES > 100 else 300)
class TestMovesModel(MovesModel.TestCase):  # type: ignore[misc]
    """Runs the state machine."""
