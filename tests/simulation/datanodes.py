"""The datanodes of a simulated cluster: processes with real engines, what they do by themselves, and their network."""

from __future__ import annotations

import shutil
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from concurrent.futures import Future
from concurrent.futures import wait as wait_for
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

from tests.engine.lives import settle as settle_engine
from tests.engine.moves.history import History, Violation
from tests.engine.moves.nodes import FAST, OPTIONS, Node, ProcessEnds
from tests.simulation.store import SeededStore
from tsdb.catalog import openings_of
from tsdb.clock import Clock
from tsdb.components._late_rows import LateRowsSender
from tsdb.components._missing_regions import MissingRegions
from tsdb.engine import Acknowledge
from tsdb.errors import TsdbError
from tsdb.ids import SeededIds
from tsdb.kv import KvStore
from tsdb.model import RegionId, RegionOpening
from tsdb.store import MemoryStore
from tsdb.units import Duration

NODES = (1, 2, 3)
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
_LOOK_SECONDS = 0.0005


@dataclass(eq=False)
class Process:
    """A process of a datanode."""

    number: int
    store: SeededStore
    node: Node
    clock: Clock
    clock_rate: float
    lease_end: float = 0.0
    """By its own clock."""
    is_cut_from_metasrv: bool = False
    answer: list[RegionOpening] | None = None
    """An answer to a heartbeat, of regions that are missing, that is on its way."""
    late: LateRowsSender | None = None
    """Hands in rows that others took over regions without."""

    def __post_init__(self) -> None:
        self.missing = MissingRegions(self.node.engine.open_regions, self.clock)

    def has(self, region: RegionId) -> bool:
        return region in self.node.engine.region_ids()

    def epoch_of(self, region: RegionId) -> int:
        opened = self.node.engine._roster.get(region)
        return 0 if opened is None else opened.manifest.epoch

    def wait_shipped(self) -> None:
        """Wait until the store has the log, if it can, so that nothing depends on when it has it."""
        shipper, deadline = self.node.log.shipper, time.monotonic() + SECONDS_MAX
        while self.store.takes_log and shipper.unshipped_entries:
            assert time.monotonic() < deadline, "the log is not shipped"
            time.sleep(_LOOK_SECONDS)
        while shipper.broken is not None and not self.node.fatal:
            assert time.monotonic() < deadline, "the engine does not know that its log is fenced"
            time.sleep(_LOOK_SECONDS)

    def end(self) -> None:
        """End the process as a kill does: nothing is sent any more."""
        self.store.holds_log = True
        self.node.log.shipper.break_off(ProcessEnds("the process ends"))
        self.store.is_cut_off = False
        self.node.stop()


class Datanodes(ABC):
    """Processes, and the events that happen to them. What is random comes from one generator."""

    kv: KvStore
    clock: Clock

    def __init__(self, seed: int, regions: tuple[RegionId, ...], *, acknowledge: Acknowledge) -> None:
        """With LOCAL, a node has the same disk at each start; with STORE an empty one, and older processes may live."""
        self.seed = seed
        self.random = Random(seed)
        self.regions = regions
        self.appending = regions[1]
        self.is_local = acknowledge is Acknowledge.LOCAL
        self.settings = replace(SETTINGS, acknowledge=acknowledge)
        self.faults_per_thousand = 0
        self.trace: list[str] = []
        self.history = History(self.appending)
        self.root = Path(tempfile.mkdtemp(prefix="tsdb-simulation-"))
        self.inner = MemoryStore()
        self.processes: dict[int, Process] = {}
        self.zombies: list[Process] = []
        self.started = 0
        self.pending: list[Future[Any]] = []
        """Changes of regions without an answer."""
        self.is_moving = False
        self.is_settling = False
        """Nothing fails any more."""

    @abstractmethod
    def register(self, number: int) -> list[RegionOpening]:
        """Tell metasrv that a node starts; return the regions that it has to open."""

    @abstractmethod
    def beat(self, process: Process) -> None:
        """Send a heartbeat."""

    @abstractmethod
    def make_sender(self, number: int, node: Node) -> LateRowsSender | None:
        """Make what hands in the rows of a node that others lack."""

    @abstractmethod
    def take_answers(self) -> None:
        """Take the answers to clients that are there."""

    def close(self) -> None:
        for process in self.all():
            process.end()
        shutil.rmtree(self.root, ignore_errors=True)

    def let_fail(self, faults_per_thousand: int) -> None:
        """Let so many requests to the store fail from now on."""
        self.faults_per_thousand = faults_per_thousand
        for process in self.all():
            process.store.faults_per_thousand = faults_per_thousand

    def note(self, *words: object) -> None:
        self.trace.append(" ".join(map(str, words)))

    def all(self) -> list[Process]:
        return [*self.processes.values(), *self.zombies]

    def pick_process(self) -> Process | None:
        alive = self.all()
        return self.random.choice(alive) if alive else None

    # ── starts and ends ──

    def start(self, number: int, openings: Sequence[RegionOpening]) -> None:
        self.started += 1
        tag = f"{self.seed}-{number}-{self.started}"
        store = SeededStore(self.inner, tag, node=number, faults_per_thousand=self.faults_per_thousand)
        try:
            node = Node(
                self.root / (str(number) if self.is_local else tag),
                store,
                number,
                openings,
                settings=self.settings,
                options=ENGINE,
                ids=SeededIds(self.seed * 1000 + self.started),
            )
        except TsdbError as error:
            self.note("node", number, "could not start:", error)
            return
        if node.engine.quarantined:
            raise Violation(f"regions are quarantined: {node.engine.quarantined}")
        settle_engine(node.engine)
        process = Process(number, store, node, self.clock, 1 + self.random.uniform(-0.01, 0.01))
        process.late = self.make_sender(number, node)
        self.processes[number] = process
        process.wait_shipped()
        self.beat(process)

    def restart(self) -> None:
        """Start a node again, with the regions that are placed on it."""
        number = self.random.choice(NODES)
        old = self.processes.pop(number, None)
        if old is not None:
            old.end()
        self.note("start node", number)
        self.start(number, self.register(number))

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
                self.start(number, self.register(number))

        self.note("node", number, "is started again while it flushes")
        process.store.meanwhile = self.random.randint(1, 8), start_another
        self.change(process, "flush", region)
        process.store.meanwhile = None

    def crash(self) -> None:
        alive = sorted(self.processes)
        if len(alive) > 1:
            number = self.random.choice(alive)
            self.note("node", number, "crashes")
            self.processes.pop(number).end()

    def recover_fenced(self) -> None:
        """What a datanode does that finds its log sealed, or a region elsewhere."""
        for number, process in list(self.processes.items()):
            reachable = not (process.store.is_cut_off or process.is_cut_from_metasrv)
            if process.node.fatal and reachable:
                self.note("node", number, "opens its regions again")
                del self.processes[number]
                process.end()
                self.start(number, openings_of(self.kv, number))
            elif reachable:
                for region in set(process.node.lost):
                    process.node.engine.close_region(region, flush=False)

    # ── what they do by themselves ──

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
        self.wait_answer(done, process)

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

    def hold_log(self) -> None:
        """What a node acknowledges by its disk does not come to the store for a while."""
        process = self.pick_process()
        if process is not None:
            self.note("the log of node", process.number, "is not shipped")
            process.store.holds_log = True

    def let_log_go(self, process: Process) -> None:
        process.store.holds_log = False
        process.wait_shipped()

    def heal(self) -> None:
        for process in self.all():
            process.is_cut_from_metasrv = process.store.is_cut_off = False
            while process.store.under_way:
                process.store.arrive()
            self.let_log_go(process)
        self.note("the network works")
        wait_for(self.pending, timeout=SECONDS_MAX)
        self.take_answers()

    def wait_answer(self, done: Future[Any], process: Process) -> None:
        """Wait for the answer to a change, if one can come: what is behind an entry that cannot be shipped waits."""
        self.pending = [each for each in self.pending if not each.done()]
        self.pending.append(done)
        if self.is_local or not process.store.is_cut_off:
            wait_for([done], timeout=SECONDS_MAX)
        if self.is_local:
            process.wait_shipped()
        self.take_answers()
