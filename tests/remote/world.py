"""A datanode and a client of it, in one process, over a real connection."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.engine.harness import SCHEMA, batch_of, open_engine
from tsdb.engine import Engine
from tsdb.engine.errors import RegionNotFound
from tsdb.engine.reading import ScanRequest
from tsdb.model import Peer, RegionId, RegionOptions, RegionSchema, region_id
from tsdb.remote import NodeVerbs, RegionServer, RemoteRegions, RemoteSettings
from tsdb.units import Duration

REGION = region_id(7, 0)
DIRECTORY = "data/tsdb/public/7/7_0000000000"
QUICK = RemoteSettings(connect_timeout=Duration.of_seconds(20), timeout=Duration.of_seconds(30))


class FakeRoutes:
    """Routes that a test changes."""

    def __init__(self, address: str) -> None:
        self.places: dict[RegionId, str] = {}
        self.default: str | None = address
        self.on_refresh: Callable[[RegionId], bool] = lambda region: False
        self.refreshed: list[RegionId] = []
        self.caught_up = 0
        self.has_places = False
        """Whether every region exists, whatever datanodes say."""

    def peer_of(self, region_id: RegionId) -> Peer:
        address = self.places.get(region_id, self.default)
        if address is None:
            raise RegionNotFound(region_id=region_id)
        return Peer(1, address)

    def peers(self) -> Sequence[Peer]:
        return [] if self.default is None else [Peer(1, self.default)]

    def is_placed(self, region_id: RegionId) -> bool:
        return self.has_places

    def refresh(self, region_id: RegionId) -> bool:
        self.refreshed.append(region_id)
        return self.on_refresh(region_id)

    def catch_up(self) -> None:
        self.caught_up += 1


class World:
    """An engine, its server and a client."""

    def __init__(self, root: Path, *, threads_max: int = 4, settings: RemoteSettings = QUICK, **served: Any) -> None:
        self.root = root
        self.engine: Engine = open_engine(root)
        node = NodeVerbs(region_ids=lambda: list(self.engine.region_ids()))
        self.server = RegionServer(self.engine, threads_max=threads_max, node=node, **served)
        self.server.start()
        self.routes = FakeRoutes(self.server.address)
        self.regions = RemoteRegions(self.routes, settings=settings)

    def create(self, schema: RegionSchema = SCHEMA, options: RegionOptions | None = None) -> None:
        self.regions.create_region(REGION, DIRECTORY, schema, options)

    def put(self, rows: Sequence[dict[str, Any]]) -> int:
        return self.regions.write(REGION, batch_of(self.regions.schema(REGION), rows)).result(30)

    def close(self) -> None:
        self.regions.close()
        self.server.stop()
        self.engine.close(flush=False)


@contextmanager
def open_world(root: Path, **options: Any) -> Iterator[World]:
    world = World(root, **options)
    try:
        yield world
    finally:
        world.close()


def rows_of(regions: Any, columns: Sequence[str], region: RegionId = REGION) -> list[dict[str, Any]]:
    """Read all rows."""
    reader = regions.open_reader(region)
    try:
        planned = reader.plan_scan(None)
        return [
            row
            for share in range(planned.shares)
            for batch in reader.scan(ScanRequest(planned.number, share, columns))
            for row in batch.to_pylist()
        ]
    finally:
        reader.release()


def wait_until(is_so: Callable[[], bool], seconds: float = 30) -> None:
    """Wait for something that another thread brings about."""
    done = threading.Event()
    for _ in range(int(seconds / 0.01)):
        if is_so():
            return
        done.wait(0.01)
    raise AssertionError("it has not come about")
