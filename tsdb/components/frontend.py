"""The protocol servers of a cluster: every statement runs here, over a copy of the metadata and regions on datanodes.

    metasrv, datanodes ◀─ ClusteredDatabase ◀─ protocols

Reads and writes go on while no metadata server can be reached; changes of tables do not.
"""

from __future__ import annotations

import asyncio
import socket
import tempfile
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path

from tsdb.clock import SystemClock
from tsdb.components._assembly import AssemblyOptions
from tsdb.components._clustered import open_clustered
from tsdb.components._governor import MemoryGovernor
from tsdb.components._local import COPY_DIRECTORY
from tsdb.components._node import LoadReport, describe_node
from tsdb.components._process import Service
from tsdb.components._protocols import ProtocolServers
from tsdb.components._settings import process_caches, query_memory, query_options, series_memory, slow_query_options
from tsdb.config import FrontendConfig
from tsdb.database import Database, DatabaseOptions
from tsdb.memory import MemoryOwner
from tsdb.meta.client import Heartbeats, MetaClient, NodeDescription, NodeReport
from tsdb.model import NodeRole
from tsdb.processes.fork_server import Forker
from tsdb.servers.http import HttpApp


class Frontend:
    """The parts of a frontend."""

    def __init__(self, config: FrontendConfig, forker: Forker | None = None) -> None:
        """`forker` is where query workers are forked from."""
        self._config = config
        self._forker = forker
        self._clock = SystemClock()
        self._protocols = ProtocolServers(config)
        self._caches = process_caches(config.memory.limit)
        self._governor = MemoryGovernor(int(config.memory.limit), self._memory_owners)
        self._meta: MetaClient | None = None
        self._database: Database | None = None
        self._closing = ExitStack()
        self.trouble: str | None = None

    def add_routes(self, app: HttpApp) -> None:
        self._protocols.add_routes(app)

    def watchers(self) -> list[Service]:
        return [self._governor]

    def services(self) -> list[Service]:
        return [*self._protocols.services(), _Heartbeats(self._describe, self._opened_meta)]

    def open(self) -> None:
        """Follow the metadata, and open the database over it."""
        with ExitStack() as undo:
            home = self._home(undo)
            options = AssemblyOptions(
                query_options(self._config, home, self._forker, reads_remotely=True),
                self._database_options(),
                self._protocols.authenticator,
                memory_report=self._governor.report,
                caches=lambda: (),
                address=str(self._config.http.addr),
            )
            opened = open_clustered(self._config.meta_client, options, self._clock)
            undo.callback(opened.close)
            self._closing = undo.pop_all()
        self._meta = opened.meta
        self._database = opened.database
        self._protocols.gate.open(opened.database)

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
        return [*own, *self._caches, *self._protocols.memory]


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
        self._running = Heartbeats(self._meta(), self._describe(), clock, report=lambda: NodeReport(load.take()))
        self._running.start()

    async def stop(self, grace_seconds: float) -> None:
        if self._running is not None:
            await asyncio.to_thread(self._running.stop)
