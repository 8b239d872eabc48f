"""Metadata servers for tests: several on one store, with a real engine in the place of their datanodes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.engine.harness import OPTIONS, WAL_OPTIONS
from tsdb.engine import Engine, Wal
from tsdb.errors import TsdbError
from tsdb.kv import CoordinationStore, MemoryKv
from tsdb.meta import LEASE, LeaderSettings, MetaServer, Metasrv, MetasrvSettings, NodeDescription, Supervision
from tsdb.meta.client import MetaClient, MetaClientSettings
from tsdb.model import NodeRole, Peer, RegionId, RegionOpening, RegionSchema
from tsdb.store import LocalStore
from tsdb.units import Duration

PATIENT = MetaClientSettings(
    timeout=Duration.of_seconds(20), connect_timeout=Duration.of_seconds(5), ddl_timeout=Duration.of_seconds(60)
)
"""The machine may stand still for seconds."""


def wait_until(holds: Callable[[], Any], seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it did not come to this"
        time.sleep(0.01)


def datanode(
    node_id: int = 1, *, start_id: str = "first", address: str | None = None, log: str = ""
) -> NodeDescription:
    return NodeDescription(NodeRole.DATANODE, node_id, address or f"127.0.0.1:{7000 + node_id}", start_id, log=log)


class Reached:
    """Regions of one engine, as a leader reaches them on datanodes; closing the way leaves them open."""

    def __init__(self, engine: Engine, routes: Any) -> None:
        self._engine = engine
        self._routes = routes
        self.is_closed = False
        self.opened: list[tuple[int, list[RegionOpening]]] = []
        self.left: list[tuple[int, RegionId, bool]] = []
        self.refusal: TsdbError | None = None
        """Why no region is handed over."""

    def close(self) -> None:
        self.is_closed = True

    def open_regions(self, peer: Peer, openings: Sequence[RegionOpening], **_: object) -> dict[RegionId, None]:
        self.opened.append((peer.node_id, list(openings)))
        return {each.region_id: None for each in openings}

    def close_region(self, peer: Peer, region_id: RegionId, *, flush: bool, **_: object) -> None:
        if self.refusal is not None:
            raise self.refusal
        self.left.append((peer.node_id, region_id, flush))

    def takeovers(self, peer: Peer, region_ids: Sequence[RegionId]) -> dict[RegionId, list[tuple[int, int]]]:
        """Of each region that was opened with a log, entries up to 10 could be read."""
        opened = [each for node, openings in self.opened if node == peer.node_id for each in openings]
        return {region: [(each.epoch, 10) for each in opened if each.region_id == region] for region in region_ids}

    def region_ids(self, peer: Peer) -> list[RegionId]:
        raise TsdbError("nobody answers")

    def read_schema(self, region_id: RegionId) -> RegionSchema:
        schema: RegionSchema = self.schema(region_id)
        return schema

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._engine, name)
        if name not in ("create_region", "schema", "alter", "set_options", "truncate", "drop", "stat"):
            return found

        def call(region_id: Any, *arguments: Any, **named: Any) -> Any:
            if self.is_closed:
                raise TsdbError("the way to the datanodes is closed")
            self._routes.peer_of(region_id)
            return found(region_id, *arguments, **named)

        return call


class MetaCluster:
    """Metadata servers on one store."""

    def __init__(self, store: CoordinationStore, engine: Engine, leader: LeaderSettings) -> None:
        self.store = store
        self.engine = engine
        self.leader_settings = leader
        self.servers: list[tuple[Metasrv, MetaServer]] = []
        self.regions: list[Reached] = []
        self.clients: list[MetaClient] = []

    def add(self) -> Metasrv:
        """Start a server."""
        made: list[Metasrv] = []
        server = MetaServer(lambda: made[0], host="127.0.0.1", port=0)
        server.listen()
        settings = MetasrvSettings(server.address, leader=self.leader_settings)
        made.append(Metasrv(self.store, self._reach, settings))
        made[0].start()
        server.start()
        self.servers.append((made[0], server))
        return made[0]

    def client(self, settings: MetaClientSettings = PATIENT) -> MetaClient:
        client = MetaClient([server.address for _, server in self.servers], settings)
        self.clients.append(client)
        return client

    def remove(self, metasrv: Metasrv) -> None:
        """Stop a server."""
        for pair in [pair for pair in self.servers if pair[0] is metasrv]:
            pair[1].stop(0.0)
            pair[0].stop()
            self.servers.remove(pair)

    def leader(self) -> Metasrv:
        wait_until(lambda: any(metasrv.is_leader() for metasrv, _ in self.servers))
        return next(metasrv for metasrv, _ in self.servers if metasrv.is_leader())

    def close(self) -> None:
        for client in self.clients:
            client.close()
        for metasrv, _ in list(self.servers):
            self.remove(metasrv)

    def _reach(self, routes: Any) -> Any:
        self.regions.append(Reached(self.engine, routes))
        return self.regions[-1]


@contextmanager
def running_engine(root: Path) -> Iterator[Engine]:
    wal, _ = Wal.open(root / "wal", WAL_OPTIONS)
    engine = Engine.open(LocalStore(root / "store"), wal, options=OPTIONS, regions={}, has_housekeeping=False)
    try:
        yield engine
    finally:
        engine.close(flush=False)


@contextmanager
def running_cluster(
    root: Path,
    *,
    servers: int = 1,
    store: CoordinationStore | None = None,
    lease: Duration = LEASE,
    supervision: Supervision | None = None,
    wait_seconds: float = 30.0,
) -> Iterator[MetaCluster]:
    leader = LeaderSettings(seed=1, lease=lease, supervision=supervision or Supervision(), wait_seconds=wait_seconds)
    with running_engine(root) as engine:
        cluster = MetaCluster(store or MemoryKv(), engine, leader)
        try:
            for _ in range(servers):
                cluster.add()
            yield cluster
        finally:
            cluster.close()
            if store is None:
                cluster.store.close()
