"""Datanodes with real engines, the logic of metasrv, one object store: everything that happens follows from a seed.

    scheduler (seed) ─▶ one event after the other: writes, deletes, reads, changes of the table, flushes, time that
                        passes, crashes, cuts, moves, rows that are handed in
                      └▶ in the middle of an event, before some request to the store: what somebody else does

Real: engines, shared logs, manifests, the election of the leader, the registry of nodes, the supervisor, the procedures
that move regions, what opens missing ones, and what hands in late rows. Simulated: clocks (those of datanodes run at
rates of their own), networks, the store of the metadata, leaders that stand still, the scheduler of processes. Every
event ends before the next one begins, so threads of an engine have nothing to race about, and faults of the store do
not depend on their order (`store.py`).

With `acknowledge = "local"` nodes keep their disks, and rows that were not shipped are missing after a failover until
their node is back. In the end all nodes are: then every acknowledged row is there, once, and every failover that lacked
rows says so, and that they came back.

What must hold is in `Violation`s: see `History.check` and `settle`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from tests.engine.harness import SCHEMA
from tests.engine.moves.history import EXTRA, Change, Kind, Violation, extra_columns
from tests.simulation.datanodes import NODES, SECONDS_MAX, ZOMBIES_MAX, Process
from tests.simulation.leader import Leader
from tsdb.catalog import all_places
from tsdb.engine import Acknowledge
from tsdb.engine.errors import FileCorrupted, RegionNotFound
from tsdb.errors import TsdbError
from tsdb.meta._losses import open_losses
from tsdb.meta._move_records import load_records
from tsdb.model import AddColumn, RegionId, RegionPlace
from tsdb.units import Duration

KEYS = 4
FRONTENDS = 2
COLUMNS_MAX = 4
_HEARTBEATS = 40
_ROUNDS_MAX = 30
"""How often everything is handed in again at the end: messages may be lost even then."""

Weights = Mapping[str, int]

STORE: Weights = {
    "write": 26,
    "delete": 6,
    "read": 12,
    "flush": 6,
    "compact": 2,
    "purge": 3,
    "time_passes": 14,
    "crash": 2,
    "restart": 4,
    "let_live_on": 2,
    "replace": 2,
    "cut_from_metasrv": 2,
    "cut_from_store": 2,
    "heal": 4,
    "migrate": 4,
    "fail_over": 3,
    "recover_fenced": 5,
    "truncate": 1,
    "alter": 2,
}
LOCAL: Weights = {
    "write": 28,
    "delete": 6,
    "read": 8,
    "flush": 5,
    "compact": 3,
    "purge": 3,
    "time_passes": 10,
    "crash": 3,
    "restart": 5,
    "cut_from_metasrv": 2,
    "cut_from_store": 2,
    "hold_log": 8,
    "heal": 3,
    "migrate": 3,
    "fail_over": 5,
    "recover_fenced": 5,
    "hand_in_rows": 5,
    "truncate": 1,
    "alter": 2,
}


class Simulation(Leader):
    """One run. `weights` are the events and how often each is chosen."""

    def __init__(
        self,
        seed: int,
        *,
        acknowledge: Acknowledge = Acknowledge.STORE,
        weights: Weights | None = None,
        faults_per_thousand: int = 15,
    ) -> None:
        self.frontends: list[dict[RegionId, RegionPlace]] = []
        """Where they think that the regions are."""
        self.owners: dict[RegionId, tuple[int, int]] = {}
        self.columns: dict[RegionId, set[str]] = {}
        """Columns that regions certainly have."""
        self.altered = 0
        self.alters: list[tuple[RegionId, str, Future[None]]] = []
        super().__init__(seed, acknowledge=acknowledge, faults_per_thousand=faults_per_thousand)
        self.weights = weights or (LOCAL if self.is_local else STORE)
        self.frontends = [dict(all_places(self.kv)) for _ in range(FRONTENDS)]

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

    def let_live_on(self) -> None:
        """Start a node that is thought to be dead, and is not."""
        number = self.random.choice(NODES)
        old = self.processes.get(number)
        if old is None or old.is_cut_from_metasrv or len(self.zombies) >= ZOMBIES_MAX:
            return
        self.zombies.append(self.processes.pop(number))
        self.note("start node", number, "while an older process lives on")
        self.start(number, self.register(number))

    # ── clients ──

    def write(self) -> None:
        self.send(Kind.PUT, self.random.choice(self.regions))

    def delete(self) -> None:
        self.send(Kind.DELETE, self.regions[0])

    def send(self, kind: Kind, region: RegionId) -> None:
        """A frontend sends a row or a deletion where it thinks that the region is."""
        places = self.random.choice(self.frontends)
        process = self.processes.get(places[region].node_id)
        if self.zombies and self.random.random() < 0.3:
            process = self.random.choice(self.zombies)
        if process is not None:
            self.send_to(process, kind, region)
        # Sooner or later a frontend hears of new places.
        if process is None or not process.has(region) or self.random.random() < 0.3:
            places.update(all_places(self.kv))

    def send_to(self, process: Process, kind: Kind, region: RegionId) -> None:
        number, key = self.history.next_number(), self.random.randrange(KEYS)
        before = self.owners.get(region, (0, 0))
        self.note(kind.value, number, "of key", key, "in", region & 0xFF, "at node", process.number)
        epoch = process.epoch_of(region)
        try:
            schema = process.node.engine.schema(region)
            batch = self.history.batch(schema, kind, region, key, number)
            done = process.node.engine.write(region, batch, timeout=Duration.of_seconds(1))
        except TsdbError:
            self.history.refuse(number)
            return
        owner, columns = (epoch, process.node.log.term), tuple(extra_columns(schema))
        self.history.add(Change(region, kind, number, owner, done, key, columns, before))
        self.wait_answer(done, process)

    def act(self, process: Process) -> None:
        region = self.random.choice(self.regions)
        if process.has(region) and not process.store.is_cut_off:
            self.send_to(process, Kind.PUT, region)
            if self.random.random() < 0.5:
                self.change(process, "flush", region)

    def take_answers(self) -> None:
        for change in self.history.take_answers():
            # A node that acknowledges by its disk need not know that others have its region.
            if not self.is_local and change.owner < change.before:
                raise Violation(f"{change}, after {change.before} had acknowledged others")
            self.owners[change.region] = max(change.owner, self.owners.get(change.region, (0, 0)))
        for region, name, done in self.alters:
            if done.done() and done.exception() is None:
                self.columns.setdefault(region, set()).add(name)

    def read(self) -> None:
        """A frontend reads where it thinks that the region is; a datanode without a lease has to prove ownership."""
        region = self.random.choice(self.regions)
        places = self.random.choice(self.frontends)
        process = self.processes.get(places[region].node_id)
        if process is None or not process.has(region):
            places.update(all_places(self.kv))
            return
        try:
            rows, epoch = self.try_rows(process, region), process.epoch_of(region)
            columns = extra_columns(process.node.engine.schema(region))
        except RegionNotFound:
            # It is closed behind writes that waited for the store.
            places.update(all_places(self.kv))
            return
        is_permitted = self.has_lease(process)
        if not is_permitted and process.store.takes_log:
            is_permitted = process.node.engine.prove_ownership(Duration.of_seconds(SECONDS_MAX))
        self.note("read", region & 0xFF, "at node", process.number, "permitted" if is_permitted else "refused")
        if is_permitted:
            # What lost owners acknowledged by their disks may come later.
            self.check_rows(region, rows, since_epoch=epoch if self.is_local else 0)
            self.check_columns(region, columns)

    def try_rows(self, process: Process, region: RegionId) -> Sequence[Mapping[str, Any]] | FileCorrupted:
        try:
            with process.store.paused():
                return process.node.rows(region)
        except FileCorrupted as error:
            # A newer owner may have deleted it.
            return error

    def check_rows(
        self, region: RegionId, rows: Sequence[Mapping[str, Any]] | FileCorrupted, *, since_epoch: int = 0
    ) -> None:
        if isinstance(rows, FileCorrupted):
            raise Violation(f"region {region & 0xFF} cannot be read: {rows}") from rows
        self.history.check(region, rows, since_epoch=since_epoch)

    def check_columns(self, region: RegionId, columns: Sequence[str]) -> None:
        if missing := self.columns.get(region, set()).difference(columns):
            raise Violation(f"region {region & 0xFF} has lost columns: {missing}")

    # ── changes of the table ──

    def truncate(self) -> None:
        region, number = self.random.choice(self.regions), self.history.next_number()
        try:
            process = self.owner(region)
            epoch = process.epoch_of(region)
            done = process.node.engine.truncate(region, token=str(number))
        except TsdbError:
            return
        self.note("truncate", number, "of", region & 0xFF, "at node", process.number)
        self.history.add(Change(region, Kind.TRUNCATE, number, (epoch, process.node.log.term), done))
        self.wait_answer(done, process)

    def alter(self) -> None:
        region = self.random.choice(self.regions)
        if self.altered >= COLUMNS_MAX:
            return
        self.altered += 1
        name = f"{EXTRA}{self.altered}"
        try:
            process = self.owner(region)
            self.note("column", name, "of", region & 0xFF, "at node", process.number)
            done = process.node.engine.alter(region, [AddColumn(name, SCHEMA.by_name["b"].type)])
        except TsdbError:
            return
        self.alters.append((region, name, done))
        self.wait_answer(done, process)

    # ── the end ──

    def settle(self) -> None:
        """Let everything work, and see that every procedure ends, every region is served, and every row is there."""
        self.is_settling = True
        self.let_fail(0)
        self.heal()
        for process in self.zombies:
            process.end()
        self.zombies.clear()
        self.check_served()
        # The second time, nodes hear of what moves have lost that went on when they were back.
        for _ in range(2 if self.is_local else 1):
            self.start_all()
            self.move(self.moves.unfinished)
        if load_records(self.kv).running:
            raise Violation(f"procedures have not ended: {load_records(self.kv).running}")
        if self.is_local:
            self.check_losses_are_known()
            self.hand_in_everything()
        for region in self.regions:
            place = all_places(self.kv)[region]
            owner = self.processes[place.node_id]
            if place.is_moving or not owner.has(region):
                refused = owner.node.engine.refused.get(region)
                raise Violation(f"region {region & 0xFF} is not served at {place}: {refused}")
            self.take_answers()
            self.check_rows(region, self.try_rows(owner, region))
            self.check_columns(region, extra_columns(owner.node.engine.schema(region)))

    def check_served(self) -> None:
        """Without a restart, nodes open again what is placed on them, whatever closed it."""
        self.recover_fenced()
        self.move(self.moves.unfinished)
        for _ in range(_HEARTBEATS):
            self.pass_time(2)
            self.recover_fenced()
        for region in self.regions:
            place = all_places(self.kv)[region]
            process = self.processes.get(place.node_id)
            if process is None or place.is_moving or region in process.node.engine.quarantined:
                continue
            if not process.has(region):
                raise Violation(f"region {region & 0xFF} is closed at {place}")

    def start_all(self) -> None:
        for number in NODES:
            if number in self.processes:
                self.processes.pop(number).end()
            self.start(number, self.register(number))

    def check_losses_are_known(self) -> None:
        """What a node has to hand in is part of the record of a move."""
        known = {
            (record.from_node, move.region_id)
            for record in load_records(self.kv).ended
            for move in record.regions
            if move.lost_from_entry is not None
        }
        for number, process in self.processes.items():
            late = process.node.engine.late
            for region in map(RegionId, late.regions() if late is not None else ()):
                if (number, region) not in known and region not in self.unknown_losses:
                    raise Violation(f"node {number} has rows of {region & 0xFF} that no failover is known to lack")

    def hand_in_everything(self) -> None:
        for _ in range(_ROUNDS_MAX):
            self.hand_in_rows()
            if not any(process.late is not None and process.late.has_work for process in self.processes.values()):
                break
        else:
            raise Violation("rows are not handed in")
        if unknown := [each for number in NODES for each in open_losses(self.kv, number)]:
            raise Violation(f"it is not known what came back: {unknown}")
