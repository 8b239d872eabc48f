"""The MySQL server.

The event loop serves connections (`_connection`). At most `threads_max` statements run at a time, on the threads of the
scheduler; logins and KILL run on two others (the login pool). Connections over the limit get an error and are closed.
On shutdown, idle connections end at once, and busy ones when their command is answered or the grace period is over.
"""

from __future__ import annotations

import asyncio
import socket
from time import perf_counter

from tsdb.auth import Authenticator
from tsdb.database import DatabaseGate
from tsdb.servers._scheduler import QueryScheduler
from tsdb.servers._steps import StepPool
from tsdb.servers._tcp import KeepAlive, TcpServer, TcpService
from tsdb.servers._tls import Tls
from tsdb.servers.fast_workers import FastStatements, FastWorkers
from tsdb.servers.mysql._answers import error_payload
from tsdb.servers.mysql._channel import PacketChannel
from tsdb.servers.mysql._connection import MysqlConnection
from tsdb.servers.mysql._limits import MysqlLimits
from tsdb.servers.mysql._login import LoginDesk, RsaKey
from tsdb.servers.mysql._protocol import WireError, encode_packet
from tsdb.servers.mysql._shared import Shared
from tsdb.telemetry import counter, gauge, get_logger

LOGIN_THREADS = 2
"""Threads for logins and for what stops statements, beside those that run them."""

_log = get_logger("tsdb.mysql")
_CONNECTIONS = gauge("tsdb_servers_mysql_connections", "Open connections of the MySQL server.")
_REFUSED = counter(
    "tsdb_servers_mysql_connections_refused_total", "Connections refused because of the connection limit."
)


class TooManyConnections(WireError):
    """There are as many clients as are allowed."""

    def __init__(self) -> None:
        super().__init__(1040, "08004", "Too many connections")


_LIMITS = MysqlLimits()


class MysqlServer(TcpService):
    """Listens on an address; at most `threads_max` statements run at the same time."""

    name = "MySQL"

    def __init__(
        self,
        gate: DatabaseGate,
        authenticator: Authenticator,
        tls: Tls,
        *,
        host: str,
        port: int,
        limits: MysqlLimits = _LIMITS,
        requires_database: bool = False,
        time_zone: str = "UTC",
        scheduler: QueryScheduler | None = None,
        fast_workers: FastWorkers | None = None,
    ) -> None:
        self._scheduler = scheduler or QueryScheduler()
        self._fast_workers = fast_workers
        self._gate = gate
        self._authenticator = authenticator
        self._tls = tls
        self._limits = limits
        self._requires_database = requires_database
        self._time_zone = time_zone
        self._shared: Shared | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._started = perf_counter()
        self._tcp = TcpServer(
            self.name,
            section="mysql",
            host=host,
            port=port,
            connections_max=limits.connections_max,
            accept=self._accept,
            refuse=_refuse,
            open_connections=_CONNECTIONS,
            log=_log,
            tls=tls,
            keep_alive=KeepAlive(max(1, int(limits.keep_alive) // 1_000_000_000) if limits.keep_alive else 0),
        )

    @property
    def open_connections(self) -> int:
        return len(self._tcp.connections)

    async def start(self) -> None:
        """Begin to accept connections."""
        self._started = perf_counter()
        self._loop = asyncio.get_running_loop()
        limits = self._limits
        logins = StepPool("mysql-login", LOGIN_THREADS)
        self._shared = Shared(
            database=self._gate.database,
            desk=LoginDesk(self._authenticator, RsaKey(), logins, limits.login_seconds_max),
            tls=self._tls,
            workers=StepPool("mysql", limits.threads_max, scheduler=self._scheduler),
            fast=FastStatements(self._gate.database, self._fast_workers),
            logins=logins,
            limits=limits,
            requires_database=self._requires_database,
            time_zone=self._time_zone,
            close_connection=self._close_connection,
            statistics=self._statistics,
        )
        self._tcp.start()

    async def stop(self, grace_seconds: float) -> None:
        """Accept no more, let commands under way finish within the grace period, close every connection."""
        await self._tcp.stop(grace_seconds)
        if self._shared is not None:
            self._shared.workers.close()
            self._shared.logins.close()

    def _accept(self, accepted: socket.socket, client: str) -> MysqlConnection:
        assert self._shared is not None
        return MysqlConnection(PacketChannel(accepted, self._limits.pace_seconds_max), self._shared, client)

    def _statistics(self) -> str:
        return f"Uptime: {int(perf_counter() - self._started)}  Threads: {self.open_connections}"

    def _close_connection(self, number: int) -> bool:
        found = next((each for each in self._tcp.connections if each.number == number), None)
        if found is None or self._loop is None:
            return False
        self._loop.call_soon_threadsafe(found.close_soon)
        return True


def _refuse(accepted: socket.socket) -> None:
    _REFUSED.inc()
    accepted.setblocking(False)
    accepted.send(encode_packet(error_payload(TooManyConnections(), has_state=False), 0))
