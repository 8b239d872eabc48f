"""The protocol servers of a cluster: every statement runs here, over a copy of the metadata and regions on datanodes.

    metasrv ─▶ MirrorKv ─┬▶ RemoteCatalog ─┐
                         ├▶ UserStore ─────┼▶ Database ◀─ protocols
                         └▶ MirrorRoutes ─▶ RemoteRegions ─▶ datanodes

Reads and writes go on while no metadata server can be reached; changes of tables do not.
"""

from __future__ import annotations

import asyncio
import socket
import tempfile
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path

from tsdb.backup.cluster import ClusterBackups
from tsdb.catalog import RemoteCatalog
from tsdb.clock import SystemClock
from tsdb.components._assembly import AssemblyOptions, assemble
from tsdb.components._cluster_view import MetaCluster
from tsdb.components._governor import MemoryGovernor
from tsdb.components._local import COPY_DIRECTORY
from tsdb.components._node import LoadReport, await_metasrv, describe_node, open_meta_client
from tsdb.components._process import Service
from tsdb.components._protocols import ProtocolServers
from tsdb.components._settings import query_memory, query_options, series_memory, slow_query_options
from tsdb.config import FrontendConfig
from tsdb.database import Database, DatabaseOptions
from tsdb.kv import MirrorKv
from tsdb.memory import MemoryOwner
from tsdb.meta.client import Heartbeats, MetaClient, MirrorRoutes, NodeDescription
from tsdb.model import NodeRole
from tsdb.processes.fork_server import Forker
from tsdb.remote import RemoteRegions, RemoteSettings
from tsdb.servers.http import HttpApp

_COPY_SECONDS = 60.0
"""How long the first copy of the metadata may take."""


class Frontend:
    """The parts of a frontend."""

    def __init__(self, config: FrontendConfig, forker: Forker | None = None) -> None:
        """`forker` is where query workers are forked from."""
        self._config = config
        self._forker = forker
        self._clock = SystemClock()
        self._protocols = ProtocolServers(config)
        self._governor = MemoryGovernor(int(config.memory.limit), self._memory_owners)
        self._meta: MetaClient | None = None
        self._database: Database | None = None
        self._closing = ExitStack()
        self.trouble: str | None = None

    def add_routes(self, app: HttpApp) -> None:
        self._protocols.add_routes(app)

    def services(self) -> list[Service]:
        return [self._governor, *self._protocols.services(), _Heartbeats(self._describe, self._opened_meta)]

    def open(self) -> None:
        """Follow the metadata, and open the database over it."""
        with ExitStack() as undo:
            meta = open_meta_client(self._config.meta_client)
            undo.callback(meta.close)
            # A first question tells whether somebody is there; the copy then comes from the same server.
            await_metasrv(self._config.meta_client, meta.version)
            mirror = MirrorKv(meta.watch(), meta.transact)
            undo.callback(mirror.close)
            mirror.start(_COPY_SECONDS)
            routes = MirrorRoutes(mirror, meta)
            regions = RemoteRegions(routes, settings=RemoteSettings(), clock=self._clock)
            undo.callback(regions.close)
            catalog = RemoteCatalog(mirror, meta.change)
            home = self._home(undo)
            cluster = MetaCluster(meta, mirror, routes, self._clock)
            options = AssemblyOptions(
                query_options(self._config, home, self._forker),
                self._database_options(),
                self._protocols.authenticator,
                memory_report=self._governor.report,
                caches=lambda: (),
                address=str(self._config.http.addr),
                cluster=cluster,
                backups=ClusterBackups(regions, cluster.live_datanodes),
            )
            database = assemble(catalog, regions, mirror, options, self._clock)
            undo.callback(database.services.queries.close)
            undo.callback(database.slow_queries.close)
            self._closing = undo.pop_all()
        self._meta = meta
        self._database = database
        self._protocols.gate.open(database)

    def close(self) -> None:
        self._protocols.close()
        self._closing.close()

    def examples(self, url: str) -> list[str]:
        return self._protocols.examples(url)

    def _describe(self) -> NodeDescription:
        address, http = self._protocols.grpc_address, str(self._config.http.addr)
        return describe_node(NodeRole.FRONTEND, 0, told_apart(address), http, self._clock)

    def _opened_meta(self) -> MetaClient:
        assert self._meta is not None
        return self._meta

    def _home(self, undo: ExitStack) -> Path:
        """The directory for what queries spill."""
        if self._config.data_home:
            home = Path(self._config.data_home)
            home.mkdir(parents=True, exist_ok=True)
            return home
        return Path(undo.enter_context(tempfile.TemporaryDirectory(prefix="tsdb-frontend-")))

    def _database_options(self) -> DatabaseOptions:
        limit, home = self._config.memory.limit, self._config.data_home
        return DatabaseOptions(
            copy_root=Path(home) / COPY_DIRECTORY if home else None,
            slow_queries=slow_query_options(self._config.slow_query),
            promql_bytes=query_memory(limit),
            series_index_bytes=series_memory(limit),
        )

    def _memory_owners(self) -> list[MemoryOwner]:
        database = self._database
        own: list[MemoryOwner] = [] if database is None else [database.services.queries, database.promql]
        return [*own, *self._protocols.memory]


def told_apart(address: str) -> str:
    """The address by which the cluster knows a frontend: one that listens on all addresses has the name of its host."""
    host, _, port = address.rpartition(":")
    return f"{socket.gethostname()}:{port}" if host in ("0.0.0.0", "::", "[::]") else address


class _Heartbeats:
    """Tells the leader that this frontend is there, from when its addresses are known."""

    facts: Mapping[str, str] = {}

    def __init__(self, describe: Callable[[], NodeDescription], meta: Callable[[], MetaClient]) -> None:
        self._describe = describe
        self._meta = meta
        self._running: Heartbeats | None = None

    def probe(self) -> None:
        """Needs nothing."""

    async def start(self) -> None:
        clock = SystemClock()
        load = LoadReport(clock)
        self._running = Heartbeats(self._meta(), self._describe(), clock, report=lambda: (load.take(), ()))
        self._running.start()

    async def stop(self, grace_seconds: float) -> None:
        if self._running is not None:
            await asyncio.to_thread(self._running.stop)
