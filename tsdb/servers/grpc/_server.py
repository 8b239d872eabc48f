"""The gRPC server.

Calls are served by the event loop that all servers share. At most `threads_max` queries run at a time, on the threads
of the scheduler, and as many writes, on threads of their own. Connections, calls, messages and waits are bounded.
`probe` binds the address exclusively.

A request whose method name is not text ends the accept loop of the gRPC library, and with it the library's server. The
server detects this and starts another one: running calls are lost, and those that arrive in the fifth of a second
between.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import grpc

from tsdb.auth import Authenticator
from tsdb.config import TlsMode
from tsdb.database import DatabaseGate
from tsdb.errors import StartError
from tsdb.servers._scheduler import QueryScheduler
from tsdb.servers._steps import StepPool
from tsdb.servers._tcp import written_address
from tsdb.servers._tls import Tls
from tsdb.servers.grpc._calls import MESSAGE_SECONDS_MAX, Calls, RpcService
from tsdb.servers.grpc._connections import OPTION, OpenConnections
from tsdb.servers.grpc._context import GrpcContext, MakeServices
from tsdb.servers.grpc._credentials import make_credentials
from tsdb.servers.grpc._health import Health
from tsdb.servers.grpc._reflection import Reflection
from tsdb.servers.grpc._session import Sessions
from tsdb.telemetry import counter, gauge, get_logger
from tsdb.units import Duration, Size

CALLS_MAX = 4096
"""How many calls may be under way; further ones are refused with RESOURCE_EXHAUSTED."""
WAITING_MAX = 4096
"""How many writes may wait for a thread; further ones are refused."""
STREAMS_PER_CONNECTION_MAX = 1024
HANDSHAKE_SECONDS_MAX = 20.0
"""From the first byte of a connection to the end of the handshakes of TLS and HTTP/2."""
PING_SECONDS_MIN = 10
"""Clients may ask whether the server is still there so often, and not more."""

WATCH_SECONDS = 0.2
"""How often it is looked whether the library still accepts calls."""

_log = get_logger("tsdb.grpc")
_WAITING = gauge("tsdb_servers_grpc_waiting", "Writes of calls waiting for a thread or running on one.")
_RESTARTS = counter(
    "tsdb_servers_grpc_restarts_total", "Restarts of the gRPC server after the gRPC library shut it down."
)


@dataclass(frozen=True, slots=True)
class GrpcLimits:
    """How much clients may ask for."""

    threads_max: int = 8
    connections_max: int = 4096
    receive_max: Size = Size.parse("512MB")
    send_max: Size = Size.parse("512MB")
    idle: Duration | None = None
    """A connection without calls is closed after this time."""
    keep_alive: Duration | None = None
    """The keep-alive interval."""
    message_seconds: float = MESSAGE_SECONDS_MAX
    handshake_seconds: float = HANDSHAKE_SECONDS_MAX


class GrpcServer:
    """Listens on an address and serves the services it is given."""

    name = "gRPC"

    def __init__(
        self,
        gate: DatabaseGate,
        services: Sequence[MakeServices],
        *,
        host: str,
        port: int,
        limits: GrpcLimits | None = None,
        authenticator: Authenticator | None = None,
        tls: Tls | None = None,
        version: str = "",
        default_timezone: str = "UTC",
        scheduler: QueryScheduler | None = None,
    ) -> None:
        self._scheduler = scheduler or QueryScheduler()
        self._host, self._port = host, port
        self._limits = limits or GrpcLimits()
        self._tls = tls or Tls(TlsMode.DISABLE)
        self._makers = tuple(services)
        self._gate = gate
        self._authenticator = authenticator
        self._version = version
        self._default_timezone = default_timezone
        self._context: GrpcContext | None = None
        self._calls = Calls(message_seconds=self._limits.message_seconds)
        self._connections = OpenConnections()
        self._health = Health()
        self._server: grpc.aio.Server | None = None
        self._services: list[RpcService] = []
        self._watching: asyncio.Task[None] | None = None

    @property
    def address(self) -> str:
        return written_address(self._host, self._port)

    @property
    def facts(self) -> Mapping[str, str]:
        """For the start-up summary."""
        return {self.name: self.address}

    def probe(self) -> None:
        """Read the certificate and take the address, or raise a StartError that says why that cannot be."""
        if self._server is not None:
            return
        self._tls.load()
        if self._tls.mode is TlsMode.PREFER:
            _log.warning(
                "only plain text is served: gRPC cannot offer both on one port", key="grpc.tls.mode", mode="prefer"
            )
        self._try_address()
        self._port, self._server = self._listen()

    def _listen(self) -> tuple[int, grpc.aio.Server]:
        server: grpc.aio.Server = self._connections.watch(
            lambda: grpc.aio.server(options=self._options(), maximum_concurrent_rpcs=CALLS_MAX)
        )
        try:
            if self._tls.is_required:
                port = server.add_secure_port(self.address, make_credentials(self._tls))
            else:
                port = server.add_insecure_port(self.address)
        except RuntimeError as failure:
            raise self._start_error(str(failure)) from failure
        return port, server

    async def start(self) -> None:
        """Begin to answer calls."""
        self.probe()
        assert self._server is not None
        self._context = context = self._make_context()
        reflection = Reflection(context.sessions)
        self._services = [service for make in self._makers for service in make(context)]
        self._services += [*self._health.services(), *reflection.services()]
        names = [service.name for service in self._services]
        self._health.serve(names)
        reflection.serve(names)
        await self._serve(self._server)
        self._watching = asyncio.create_task(self._watch())

    def _make_context(self) -> GrpcContext:
        database, zone = self._gate.database, self._default_timezone
        sessions = Sessions(database, self._authenticator, tls=self._tls, default_timezone=zone)
        threads_max = self._limits.threads_max
        queries = StepPool("grpc", threads_max, scheduler=self._scheduler)
        writes = StepPool(
            "grpc-write", threads_max, waiting_max=WAITING_MAX, waiting=_WAITING, setting="grpc.runtime_size"
        )
        return GrpcContext(database, sessions, queries, writes, self._version)

    async def _serve(self, server: grpc.aio.Server) -> None:
        server.add_generic_rpc_handlers(tuple(service.handler(self._calls) for service in self._services))
        await server.start()

    async def _watch(self) -> None:
        """Put another server in the place of one that has ended by itself."""
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            assert self._server is not None
            if _is_running(self._server):
                continue
            broken = self._server
            try:
                _, self._server = self._listen()
                await self._serve(self._server)
            except (StartError, RuntimeError) as error:
                self._server = broken
                _log.error("the gRPC server cannot be restarted", error=str(error))
                continue
            _RESTARTS.inc()
            _log.warning("the gRPC server has ended and was restarted", address=self.address)
            with suppress(Exception):
                await asyncio.wait_for(broken.stop(None), WATCH_SECONDS)

    async def stop(self, grace_seconds: float) -> None:
        """Accept no more, let calls under way finish within the grace period, close every connection."""
        if self._watching is not None:
            self._watching.cancel()
            with suppress(asyncio.CancelledError):
                await self._watching
        self._health.stop()
        self._calls.stop()
        if self._server is not None:
            await self._server.stop(grace_seconds)
        if self._context is not None:
            self._context.queries.close()
            self._context.writes.close()
            self._context.sessions.close()

    def _try_address(self) -> None:
        """Find out what is wrong with the address: gRPC itself says only that something is."""
        try:
            found = socket.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
            family, kind, protocol, _, where = found[0]
            with socket.socket(family, kind, protocol) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                with suppress(OSError):
                    if family == socket.AF_INET6:
                        probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                probe.bind(where)
        except OSError as failure:
            raise self._start_error(failure.strerror or str(failure)) from failure

    def _start_error(self, reason: str) -> StartError:
        return StartError(
            f"cannot listen on {self.address} for gRPC: {reason}", hint="change grpc.addr, or free the address"
        )

    def _options(self) -> list[tuple[str, int]]:
        limits = self._limits
        options = {
            # By default a second process would take the same port without a word.
            "grpc.so_reuseport": 0,
            "grpc.max_receive_message_length": int(limits.receive_max),
            "grpc.max_send_message_length": int(limits.send_max),
            "grpc.max_concurrent_streams": STREAMS_PER_CONNECTION_MAX,
            "grpc.max_allowed_incoming_connections": limits.connections_max,
            "grpc.server_handshake_timeout_ms": round(limits.handshake_seconds * 1000),
            "grpc.http2.min_ping_interval_without_data_ms": PING_SECONDS_MIN * 1000,
            "grpc.keepalive_permit_without_calls": 1,
        }
        if limits.idle:
            options["grpc.max_connection_idle_ms"] = max(1, limits.idle // 1_000_000)
        if limits.keep_alive:
            options["grpc.keepalive_time_ms"] = max(1, limits.keep_alive // 1_000_000)
            options["grpc.keepalive_timeout_ms"] = max(1, limits.keep_alive // 1_000_000)
            # Without this, a ping without a reply ends the connection only after a minute.
            options["grpc.http2.ping_timeout_ms"] = max(1, limits.keep_alive // 1_000_000)
        return [*options.items(), OPTION]


def _is_running(server: grpc.aio.Server) -> bool:
    """Whether the library accepts calls; only its internal server object shows it."""
    return bool(server._server.is_running())
