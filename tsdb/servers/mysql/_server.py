"""The server that listens for MySQL's clients.

It accepts, counts and closes connections; what happens on one is in `_connection`. Connections over the limit are told
so and closed. When the server stops, idle connections end at once, and busy ones when their command is answered, or
when the grace period is over.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from time import perf_counter
from typing import TypeVar

from tsdb.auth import Authenticator
from tsdb.database import DatabaseGate
from tsdb.servers._listening import set_keep_alive, take_address, written_address
from tsdb.servers._tls import Tls
from tsdb.servers.mysql._answers import error_payload
from tsdb.servers.mysql._channel import Channel
from tsdb.servers.mysql._connection import Connection, House
from tsdb.servers.mysql._login import LoginDesk, RsaKey
from tsdb.servers.mysql._protocol import WireError, encode_packet
from tsdb.telemetry import counter, gauge, get_logger
from tsdb.units import Duration

USHERS = 2
"""Threads for logins and for what stops statements, beside those that run them."""
ACCEPT_PAUSE_SECONDS = 0.1
"""How long nothing is accepted after the system could not give another connection."""
_BACKLOG = 1024
_CLOSE_SECONDS_MAX = 2.0
_IDLE = Duration.parse("8h")
_NO_TIME = Duration(0)

_log = get_logger("tsdb.mysql")
_CONNECTIONS = gauge("tsdb_servers_mysql_connections", "Open connections of the MySQL server.")
_REFUSED = counter(
    "tsdb_servers_mysql_connections_refused_total", "Connections that were closed because there were too many."
)

T = TypeVar("T")


class TooManyConnections(WireError):
    """There are as many clients as are allowed."""

    def __init__(self) -> None:
        super().__init__(1040, "08004", "Too many connections")


@dataclass(frozen=True, slots=True)
class MysqlLimits:
    """What connections may take."""

    threads_max: int = 2
    connections_max: int = 4096
    idle: Duration = _IDLE
    keep_alive: Duration = _NO_TIME
    prepared_max: int = 10_000


_LIMITS = MysqlLimits()


class MysqlServer:
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
    ) -> None:
        self._gate = gate
        self._authenticator = authenticator
        self._tls = tls
        self._host = host
        self._port = port
        self._limits = limits
        self._requires_database = requires_database
        self._time_zone = time_zone
        self._socket: socket.socket | None = None
        self._house: House | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._accepting: asyncio.Task[None] | None = None
        self._connections: dict[asyncio.Task[None], Connection] = {}
        self._started = perf_counter()

    @property
    def address(self) -> str:
        return written_address(self._host, self._port)

    @property
    def facts(self) -> Mapping[str, str]:
        """For the start-up summary."""
        return {self.name: self.address}

    @property
    def open_connections(self) -> int:
        return len(self._connections)

    def probe(self) -> None:
        """Take the address and read the certificate, or raise a StartError that says in one line what is wrong."""
        if self._socket is not None:
            return
        self._tls.load()
        hint = "change mysql.addr, or set mysql.enable = false"
        taken = take_address(self._host, self._port, protocol="MySQL", hint=hint, backlog=_BACKLOG)
        taken.setblocking(False)
        self._port = taken.getsockname()[1]
        self._socket = taken

    async def start(self) -> None:
        """Begin to accept connections."""
        self.probe()
        self._started = perf_counter()
        self._loop = asyncio.get_running_loop()
        limits = self._limits
        ushers = ThreadPoolExecutor(USHERS, thread_name_prefix="tsdb-mysql-usher")

        async def on_usher(work: Callable[[], T], /) -> T:
            return await asyncio.get_running_loop().run_in_executor(ushers, work)

        self._house = House(
            database=self._gate.database,
            desk=LoginDesk(self._authenticator, RsaKey(), on_usher),
            tls=self._tls,
            workers=ThreadPoolExecutor(limits.threads_max, thread_name_prefix="tsdb-mysql"),
            ushers=ushers,
            idle_seconds=int(limits.idle) / 1e9 or None,
            prepared_max=limits.prepared_max,
            requires_database=self._requires_database,
            time_zone=self._time_zone,
            close_connection=self._close_connection,
            statistics=self._statistics,
        )
        self._accepting = asyncio.create_task(self._accept())

    async def stop(self, grace_seconds: float) -> None:
        """Accept no more, let commands under way finish within the grace period, close every connection."""
        if self._accepting is not None:
            self._accepting.cancel()
            with suppress(asyncio.CancelledError):
                await self._accepting
        for task, connection in list(self._connections.items()):
            connection.is_stopping = True
            if connection.is_idle:
                task.cancel()
        await self._wait_for_connections(grace_seconds)
        for task in self._connections:
            task.cancel()
        await self._wait_for_connections(_CLOSE_SECONDS_MAX)
        if self._house is not None:
            self._house.workers.shutdown(wait=False, cancel_futures=True)
            self._house.ushers.shutdown(wait=False, cancel_futures=True)
        if self._socket is not None:
            self._socket.close()

    async def _wait_for_connections(self, seconds_max: float) -> None:
        if self._connections:
            await asyncio.wait(list(self._connections), timeout=seconds_max)

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        assert self._socket is not None
        while True:
            try:
                accepted, peer = await loop.sock_accept(self._socket)
            except OSError as error:
                _log.warning("no connection could be accepted", error=str(error))
                await asyncio.sleep(ACCEPT_PAUSE_SECONDS)
                continue
            if len(self._connections) >= self._limits.connections_max:
                _refuse(accepted)
                continue
            self._begin(accepted, str(peer[0]))

    def _begin(self, accepted: socket.socket, client: str) -> None:
        assert self._house is not None
        with suppress(OSError):
            _set_options(accepted, self._limits.keep_alive)
        channel = Channel(accepted)
        connection = Connection(channel, self._house, client)
        task = asyncio.create_task(self._serve(connection, channel))
        self._connections[task] = connection
        _CONNECTIONS.set(len(self._connections))

    async def _serve(self, connection: Connection, channel: Channel) -> None:
        task = asyncio.current_task()
        assert task is not None
        try:
            await connection.serve()
        except asyncio.CancelledError:
            # The server stops, or the client went away in the middle of a statement.
            _log.debug("a connection was given up", connection=connection.number)
        except Exception:  # noqa: BLE001
            _log.exception("a connection met a mistake of the server", connection=connection.number)
        finally:
            self._connections.pop(task, None)
            _CONNECTIONS.set(len(self._connections))
            await channel.close()

    def _statistics(self) -> str:
        return f"Uptime: {int(perf_counter() - self._started)}  Threads: {len(self._connections)}"

    def _close_connection(self, number: int) -> bool:
        found = next((each for each in list(self._connections.values()) if each.number == number), None)
        if found is None or self._loop is None:
            return False
        self._loop.call_soon_threadsafe(found.close_soon)
        return True


def _set_options(accepted: socket.socket, keep_alive: Duration) -> None:
    accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    set_keep_alive(accepted, max(1, int(keep_alive) // 1_000_000_000) if keep_alive else 0)


def _refuse(accepted: socket.socket) -> None:
    _REFUSED.inc()
    with accepted, suppress(OSError):
        accepted.setblocking(False)
        accepted.send(encode_packet(error_payload(TooManyConnections(), has_state=False), 0))
