"""Datanodes whose shared logs are kept, with moves and failovers of their regions, and what they are restored to."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from tests.backup.cluster_world import ClusterWorld, DataNode
from tests.backup.point_world import FAST, Model, TickingClock, open_quietly
from tests.backup.world import repository_at, target_at
from tests.engine.moves.nodes import ProcessEnds
from tsdb.backup import BackupSummary, choose_backup, plan_point, restore_backup, take_backup
from tsdb.backup.cluster import ClusterSource
from tsdb.catalog import all_places, openings_of
from tsdb.clock import Clock
from tsdb.components import LocalDatabase
from tsdb.engine import Engine, EngineOptions, PastLogs, Wal, WalSettings, open_shared_log
from tsdb.engine.log.shared import SharedLog
from tsdb.errors import TsdbError
from tsdb.kv import Compare, KvStore, MemoryKv, Operation
from tsdb.meta._history import CatalogHistory, read_order
from tsdb.model import Peer, RegionId, RegionOpening
from tsdb.remote import NodeUnavailable
from tsdb.store import DirectoryLock, MemoryStore
from tsdb.units import Size

OPTIONS = EngineOptions(num_workers=1, max_background_jobs=1)


class NotedKv:
    """The metadata, as a leader changes it."""

    def __init__(self) -> None:
        self.inner = MemoryKv()
        self.history: CatalogHistory | None = None

    def get(self, key: str) -> bytes | None:
        return self.inner.get(key)

    def revision(self, key: str) -> int:
        return self.inner.revision(key)

    def scan(self, prefix: str) -> list[tuple[str, bytes]]:
        return self.inner.scan(prefix)

    def transact(self, compares: Sequence[Compare], operations: Sequence[Operation]) -> bool:
        if self.history is None or not operations:
            return self.inner.transact(compares, operations)
        return self.history.record(operations, partial(self.inner.transact, compares))

    def close(self) -> None:
        self.inner.close()


class ShiftedClock:
    """The clock of another machine: it shows another time of day."""

    def __init__(self, clock: TickingClock) -> None:
        self._clock = clock
        self.ahead_ns = 0

    def now_ns(self) -> int:
        return self._clock.now_ns() + self.ahead_ns

    def monotonic_ns(self) -> int:
        return self._clock.monotonic_ns()


class ClusterPointWorld(ClusterWorld):
    """Three datanodes over one store and one store of logs."""

    def __init__(self, root: Path, *, seed: int = 0) -> None:
        self.log = MemoryStore()
        self.random = random.Random(seed)
        self.ticking = TickingClock()
        self.clocks = {number: ShiftedClock(self.ticking) for number in (1, 2, 3)}
        self.settings = FAST
        self.ended: list[Engine] = []
        self.lost_answers = 0.0
        """How often a datanode notes a change, and the leader does not hear of it."""
        self.is_deaf = False
        """No datanode notes anything."""
        self._term = 0
        self._restored = 0
        self._noted = NotedKv()
        super().__init__(root, nodes=3, clock=self.ticking)
        self.change_leader()

    def open_metadata(self) -> KvStore:
        return self._noted

    def open_engine(self, number: int, regions: Sequence[RegionOpening] = ()) -> Engine:
        clock: Clock = self.clocks[number]
        directory = self.root / f"wal-{number}"
        log = open_shared_log(
            self.log,
            directory,
            replace(self.settings, node=number),
            open_local=lambda: Wal.open(directory, WalSettings(ballast_bytes=Size(0)))[0],
            place="the log",
            clock=clock,
        )
        engine = Engine.open(self.store, log, options=OPTIONS, regions=regions, clock=clock, has_housekeeping=False)
        engine.journal(())
        return engine

    # What a leader does

    def change_leader(self) -> None:
        """Another metadata server leads from now on."""
        self._term += 1
        self._noted.history = CatalogHistory(
            self._term,
            scan=self._noted.scan,
            confirm=lambda: None,
            keepers=self._keepers,
            send=self._send,
        )
        self._noted.history.keep_up(partial(self._noted.inner.transact, []))

    def _keepers(self) -> list[Peer]:
        return self.random.sample(self.peers(), len(self.nodes))

    def _send(self, peer: Peer, note: Mapping[str, Any]) -> None:
        if self.is_deaf:
            raise NodeUnavailable("it does not answer", address=peer.address)
        self.backup(peer, "note", note)
        if self.random.random() < self.lost_answers:
            raise NodeUnavailable("the answer was lost", address=peer.address)

    def order(self) -> tuple[int, int] | None:
        return read_order(self.kv)

    # What happens to nodes

    def kill(self, number: int) -> None:
        """End a process; the store is not told. Its threads end with the test."""
        node = self.nodes[number]
        node.backup.close()
        log = node.engine.context.wal
        assert isinstance(log, SharedLog)
        log.shipper.break_off(ProcessEnds("the process ends"))
        self.ended.append(node.engine)

    def start(self, number: int) -> None:
        """Start a process again, with what is placed on it."""
        node = self.nodes[number] = DataNode(self, number, openings_of(self.kv, number))
        assert not node.engine.refused
        assert not node.engine.quarantined

    def restart(self, number: int) -> None:
        self.kill(number)
        self.start(number)

    def regions_at(self, number: int) -> list[RegionId]:
        return [region for region, place in sorted(all_places(self.kv).items()) if place.node_id == number]

    def take_over(self, number: int, regions: Sequence[RegionId]) -> None:
        """Let others have regions of a node that does not answer."""
        others = [each for each in self.nodes if each != number]
        for region in regions:
            self.open_at(region, self.random.choice(others), (number,))

    def hand_over(self, region: RegionId, target: int) -> None:
        self.nodes[self.place_of(region)].engine.close_region(region, flush=True).result(60)
        self.open_at(region, target)

    # As a world of points in time

    def run(self, text: str) -> list[tuple[Any, ...]]:
        found = self.sql(text)
        assert self._noted.history is not None
        if not self.is_deaf:
            self._noted.history.check_noted(partial(self._noted.inner.transact, []))
        return found

    def purge(self) -> None:
        for node in self.nodes.values():
            node.engine.context.wal.purge()

    def back_up(self, where: str = "nightly", **options: Any) -> BackupSummary:
        maker = self.nodes[1]
        source = ClusterSource(self._link, own_log=lambda: maker.engine.context.wal.node_log, times=self.times)
        summary = take_backup(source, maker.places.open(where), version="test", clock=self.clocks[1], **options)
        # Nothing that is done from here on can be in it.
        self.ticking.advance(seconds=0.01)
        return summary

    def now(self) -> int:
        return self.ticking.now_ns()

    @property
    def backups(self) -> Path:
        return self.root / "store" / "backup" / "nightly"

    def past_logs(self, place: str) -> PastLogs:
        assert place == "the log"
        return PastLogs(self.log)

    def restore(self, to_ns: int, name: str = "latest", tables: Sequence[str] = ()) -> LocalDatabase:
        """Restore to a point in time, as a standalone server, and open it."""
        self._restored += 1
        home = self.root / f"restored-{self._restored}"
        repository = repository_at(self.backups)
        summary = choose_backup(repository, to_ns, name)
        now_ns = self.ticking.now_ns()
        point = plan_point(repository, summary, to_ns, self.past_logs, now_ns=now_ns, tables=tables)
        with DirectoryLock(home, key="the path"):
            restore_backup(repository, summary, target_at(home), tables=tables, point=point)
        return open_quietly(home, self.ticking)

    def close(self) -> None:
        super().close()
        for engine in self.ended:
            with suppress(TsdbError):
                engine.close(flush=False)


class ClusterModel(Model):
    """Does things at random to a cluster, and knows what is in it."""

    world: ClusterPointWorld  # type: ignore[assignment]

    def __init__(self, world: ClusterPointWorld, seed: int) -> None:
        super().__init__(world, seed)  # type: ignore[arg-type]

    def step(self) -> None:
        if self.tables and self.random.random() < 0.2:
            move: Callable[[], None] = self.random.choice(
                [self.move, self.move, self.fail_over, self.seal, self.change_leader]
            )
            move()
        else:
            super().step()

    def create(self, _: str = "") -> None:
        self.created += 1
        name = f"t{self.created}"
        self.world.run(
            f"CREATE TABLE {name} (host STRING, ts TIMESTAMP TIME INDEX, v DOUBLE, PRIMARY KEY (host))"
            " PARTITION ON COLUMNS (host) (host < 'b', host >= 'b' AND host < 'c', host >= 'c')"
        )
        self.tables[name] = (("host", "ts", "v"), {})

    def move(self) -> None:
        region = self.random.choice(sorted(all_places(self.world.kv)))
        others = [each for each in self.world.nodes if each != self.world.place_of(region)]
        self.world.hand_over(region, self.random.choice(others))

    def fail_over(self) -> None:
        number = self.random.choice(sorted(self.world.nodes))
        regions = self.world.regions_at(number)
        self.world.kill(number)
        self.world.take_over(number, regions)
        self.world.start(number)

    def seal(self) -> None:
        """Some regions of a node are taken over; it goes on with the others in a new term."""
        number = self.random.choice(sorted(self.world.nodes))
        regions = self.world.regions_at(number)
        self.world.take_over(number, regions[: len(regions) // 2 + 1])
        self.world.kill(number)
        self.world.start(number)

    def change_leader(self) -> None:
        """Another server leads; the one before may have made a change that nobody noted."""
        if self.random.random() < 0.5:
            self.world.is_deaf = True
            self.create()
            self.world.is_deaf = False
        self.world.change_leader()

    def restart(self, _: str) -> None:
        self.world.restart(self.random.choice(sorted(self.world.nodes)))
