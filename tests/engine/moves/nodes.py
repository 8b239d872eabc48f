"""Nodes of a cluster: engines with a shared log each, over one store, and what a coordinator would tell them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tests.engine.harness import SCHEMA, WAL_OPTIONS, Row, batch_of, put, read
from tests.store.faulty_store import FaultyStore
from tsdb.clock import Clock
from tsdb.engine import Engine, EngineOptions, Wal, region_directory
from tsdb.engine.log.shared import SharedSettings, open_shared_log
from tsdb.errors import TsdbError
from tsdb.ids import SYSTEM_IDS, Ids
from tsdb.model import OpType, RegionId, RegionOpening, RegionOptions, region_id
from tsdb.store import MemoryStore, ObjectStore
from tsdb.units import Duration

FAST = SharedSettings(interval=Duration.of_seconds(0.001), retry_min=Duration.of_seconds(0.001))
OPTIONS = EngineOptions(num_workers=1, max_background_jobs=2, manifest_checkpoint_distance=3)
ONE, TWO = region_id(1, 0), region_id(2, 0)


def directory_of(region: RegionId) -> str:
    return region_directory("tsdb", "public", region >> 32, region & 0xFFFFFFFF)


def opening(region: RegionId, epoch: int, *log_nodes: int) -> RegionOpening:
    return RegionOpening(region, directory_of(region), epoch, log_nodes)


class Node:
    """A process of a node: an engine, and what it was told."""

    def __init__(
        self,
        root: Path,
        store: ObjectStore,
        number: int,
        openings: Sequence[RegionOpening] = (),
        *,
        settings: SharedSettings = FAST,
        options: EngineOptions = OPTIONS,
        clock: Clock | None = None,
        ids: Ids = SYSTEM_IDS,
    ) -> None:
        self.number = number
        self.lost: list[RegionId] = []
        self.fatal: list[TsdbError] = []
        directory = root / f"wal-{number}"
        settings = replace(settings, node=number)
        self.log = open_shared_log(
            store,
            directory,
            settings,
            open_local=lambda: Wal.open(directory, WAL_OPTIONS)[0],
            place="bucket",
            clock=clock,
            ids=ids,
        )
        self.engine = Engine.open(
            store,
            self.log,
            options=options,
            regions=openings,
            clock=clock,
            ids=ids,
            on_fatal=self.fatal.append,
            on_region_lost=self.lost.append,
            has_housekeeping=False,
        )

    def create(self, region: RegionId = ONE, options: RegionOptions | None = None) -> None:
        self.engine.create_region(region, directory_of(region), SCHEMA, options)

    def open(self, *openings: RegionOpening) -> None:
        """Open regions, none of which may be refused."""
        for error in self.engine.open_regions(openings).values():
            if error is not None:
                raise error

    def close(self, region: RegionId = ONE, *, flush: bool = True) -> None:
        self.engine.close_region(region, flush=flush).result(30)

    def write(self, *times: int, region: RegionId = ONE, value: float = 1.0) -> None:
        for at in times:
            put(self.engine, [{"host": "a", "ts": at, "a": value}], region)

    def delete(self, at: int, region: RegionId = ONE) -> None:
        batch = batch_of(SCHEMA, [{"host": "a", "ts": at}], OpType.DELETE)
        self.engine.write(region, batch).result(30)

    def rows(self, region: RegionId = ONE) -> list[Row]:
        return read(self.engine, region)

    def times(self, region: RegionId = ONE) -> list[int]:
        """The times of all rows, each as often as it is there."""
        return sorted(row["ts"] for row in self.rows(region))

    def flush(self, region: RegionId = ONE) -> None:
        self.engine.flush(region).result(30)

    def stop(self) -> None:
        """End the engine as a kill would, except for its threads; the store is not told."""
        self.log.shipper.break_off(ProcessEnds("the process ends"))
        self.engine.close(flush=False)


class ProcessEnds(TsdbError):
    """What the threads of a process that is killed are told."""


class Cluster:
    """A store that all nodes reach."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.inner = MemoryStore()
        self.store = FaultyStore(self.inner)
        self.nodes: list[Node] = []

    def start(
        self,
        number: int,
        *openings: RegionOpening,
        settings: SharedSettings = FAST,
        options: EngineOptions = OPTIONS,
    ) -> Node:
        node = Node(self.root, self.store, number, openings, settings=settings, options=options)
        self.nodes.append(node)
        return node

    def objects(self, number: int) -> list[str]:
        """The objects of a node's log that hold entries or fences."""
        return [each.path for each in self.inner.list(f"wal/{number}") if each.path.endswith(".log")]

    def end(self) -> None:
        self.store.up()
        for node in self.nodes:
            node.stop()
