"""TCP servers: take an address, accept connections up to a limit, drain them on shutdown.

    probe ─▶ address, certificate
    start ─▶ accept ─▶ over the limit: refuse
                   └─▶ one task: TcpConnection.serve ─▶ close
    stop ─▶ accept no more ─▶ end_soon: requests under way finish within the grace period ─▶ cancel the others

MySQL, PostgreSQL and OpenTSDB run on `TcpServer`. HTTP shares `accept_one` and has a listener of its own: connections
over its limit wait in the backlog, and it recognises TLS by the first byte of a connection.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from prometheus_client import Gauge

from tsdb.errors import StartError
from tsdb.servers._tls import Tls
from tsdb.telemetry import Logger

BACKLOG_MAX = 1024
"""Connections that may wait to be accepted."""
ACCEPT_PAUSE_SECONDS = 0.1
"""How long nothing is accepted after the system refused another connection."""
CLOSE_SECONDS_MAX = 2.0
"""How long connections may take to close after they were cancelled."""


class ClientGone(ConnectionError):
    """The client has closed the connection, or is too slow."""


class TcpConnection(Protocol):
    """One client of a TCP server."""

    async def serve(self) -> None:
        """Serve the client until it leaves."""

    def end_soon(self) -> None:
        """The server stops: end now if no request is under way, else after it."""

    async def close(self) -> None:
        """Send what is left, and close the socket."""


C = TypeVar("C", bound=TcpConnection)


@dataclass(frozen=True, slots=True)
class KeepAlive:
    """TCP keep-alive."""

    seconds: int = 0
    """0: as the system does by default."""
    probes: int | None = None

    def apply(self, accepted: socket.socket) -> None:
        accepted.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if self.seconds and hasattr(socket, "TCP_KEEPIDLE"):
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, self.seconds)
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, self.seconds)
            if self.probes is not None:
                accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, self.probes)


class TcpServer(Generic[C]):
    """Listens on an address. `accept` makes a connection; `refuse` sends the error to a client over the limit."""

    def __init__(
        self,
        protocol: str,
        *,
        section: str,
        host: str,
        port: int,
        connections_max: int,
        accept: Callable[[socket.socket, str], C],
        refuse: Callable[[socket.socket], None],
        open_connections: Gauge,
        log: Logger,
        tls: Tls | None = None,
        keep_alive: KeepAlive | None = None,
    ) -> None:
        """`section` is the part of the configuration that errors about the address name."""
        self._protocol, self._section = protocol, section
        self._host, self._port = host, port
        self._connections_max = connections_max
        self._make, self._refuse = accept, refuse
        self._gauge, self._log = open_connections, log
        self._tls = tls
        self._keep_alive = keep_alive
        self._socket: socket.socket | None = None
        self._accepting: asyncio.Task[None] | None = None
        self._connections: dict[asyncio.Task[None], C] = {}

    @property
    def address(self) -> str:
        return written_address(self._host, self._port)

    @property
    def connections(self) -> tuple[C, ...]:
        """The open connections."""
        return tuple(self._connections.values())

    def probe(self) -> None:
        """Read the certificate and take the address, or raise a StartError that says in one line what is wrong."""
        if self._socket is not None:
            return
        if self._tls is not None:
            self._tls.load()
        hint = f"change {self._section}.addr, or set {self._section}.enable = false"
        taken = take_address(self._host, self._port, protocol=self._protocol, hint=hint, backlog=BACKLOG_MAX)
        taken.setblocking(False)
        self._port = taken.getsockname()[1]
        self._socket = taken

    def start(self) -> None:
        """Begin to accept connections."""
        self.probe()
        self._accepting = asyncio.get_running_loop().create_task(self._accept())

    async def stop(self, grace_seconds: float) -> None:
        """Accept no more, let requests under way finish within the grace period, close every connection."""
        if self._accepting is not None:
            self._accepting.cancel()
            with suppress(asyncio.CancelledError):
                await self._accepting
        for connection in self.connections:
            connection.end_soon()
        await self._wait_closed(grace_seconds)
        for task in self._connections:
            task.cancel()
        await self._wait_closed(CLOSE_SECONDS_MAX)
        if self._socket is not None:
            self._socket.close()

    async def _wait_closed(self, seconds_max: float) -> None:
        if self._connections:
            await asyncio.wait(list(self._connections), timeout=seconds_max)

    async def _accept(self) -> None:
        assert self._socket is not None
        while True:
            accepted, client = await accept_one(self._socket, self._log)
            if len(self._connections) >= self._connections_max:
                with accepted, suppress(OSError):
                    self._refuse(accepted)
                continue
            with suppress(OSError):
                if self._keep_alive is not None:
                    self._keep_alive.apply(accepted)
            connection = self._make(accepted, client)
            task = asyncio.get_running_loop().create_task(self._serve(connection))
            self._connections[task] = connection
            self._gauge.set(len(self._connections))

    async def _serve(self, connection: C) -> None:
        task = asyncio.current_task()
        assert task is not None
        try:
            await connection.serve()
        except asyncio.CancelledError:
            # The server stops, or the client left during a request: the task has nothing left to do but to end.
            self._log.debug("a connection was closed")
        except Exception:  # noqa: BLE001 - a bug met by one client must not go unseen
            self._log.exception("a connection failed unexpectedly")
        finally:
            del self._connections[task]
            self._gauge.set(len(self._connections))
            await connection.close()


class TcpService:
    """The part of a server that its `TcpServer` determines."""

    name: ClassVar[str]
    _tcp: TcpServer[Any]

    @property
    def address(self) -> str:
        return self._tcp.address

    @property
    def facts(self) -> Mapping[str, str]:
        """For the start-up summary."""
        return {self.name: self.address}

    def probe(self) -> None:
        """Read the certificate and bind the address, or raise a StartError that says why not."""
        self._tcp.probe()


async def accept_one(
    listening: socket.socket, log: Logger, *, pause_seconds: float = ACCEPT_PAUSE_SECONDS
) -> tuple[socket.socket, str]:
    """Return the next connection and the address of its client, without delay for small packets."""
    loop = asyncio.get_running_loop()
    while True:
        try:
            accepted, peer = await loop.sock_accept(listening)
        except OSError as error:
            log.warning("a connection cannot be accepted", error=str(error))
            await asyncio.sleep(pause_seconds)
            continue
        with suppress(OSError):
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return accepted, str(peer[0]) if peer else ""


def written_address(host: str, port: int) -> str:
    """Return an address as it is configured: `127.0.0.1:4002`, `[::1]:4002`."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def take_address(host: str, port: int, *, protocol: str, hint: str, backlog: int) -> socket.socket:
    """Listen on an address; StartError that says in one line why that cannot be."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, _, _, _, where = found[0]
        return socket.create_server(where[:2], family=family, backlog=backlog)
    except OSError as error:
        raise StartError(
            f"cannot listen on {written_address(host, port)} for {protocol}: {error.strerror or error}", hint=hint
        ) from error
