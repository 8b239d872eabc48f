"""Listens for HTTP on the event loop of the process, with granian as the engine.

Granian reads and writes sockets and parses HTTP on a thread of its own, outside Python; each request becomes
a task on our loop. It and every other process on the machine may share a port (`SO_REUSEPORT`), so a second
server would start without an error and take half of the connections. Therefore:

- The address is bound first without sharing. That fails if anybody has it, and one line says what to do.
- The bound socket is kept until granian listens beside it, so there is no moment in which another could slip in.

Only HTTP/1.1 is spoken: with HTTP/2 detection on, granian lets a connection that never says a word stay for
ever.
"""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import logging
import socket
import sys
from contextlib import suppress

from granian.constants import HTTPModes, Interfaces
from granian.http import HTTP1Settings
from granian.log import LogLevels
from granian.server.embed import Server

from tsdb.errors import StartError
from tsdb.servers.http._app import HttpApp
from tsdb.telemetry import get_logger

BACKLOG_MAX = 1024
"""Connections that may wait to be accepted."""

CONNECTIONS_MAX = 4096
"""Open connections. Further ones wait in the backlog until one closes."""

IDLE_SECONDS_MAX = 75
"""How long a connection may be silent between requests, and how long the headers of one may take."""

LISTEN_SECONDS_MAX = 5.0
INTERRUPT_SECONDS_MAX = 1.0
"""How long a handler may take to end after it was cancelled."""

_CONNECT_INTERVAL_SECONDS = 0.005

_log = get_logger("tsdb.http")

# Granian would replace the handlers of all loggers. This makes it touch only the level of its own.
_LEAVE_LOGGING_ALONE = {"incremental": True, "handlers": {}, "loggers": {}}


class HttpServer:
    """An address and the application that answers there.

    `probe` takes the address, `start` begins to listen, `stop` ends it. `address_key` is the configuration
    key that an error about the address names.
    """

    def __init__(
        self,
        app: HttpApp,
        *,
        host: str,
        port: int,
        address_key: str = "http.addr",
        connections_max: int = CONNECTIONS_MAX,
    ) -> None:
        self._app = app
        self._host = host.removeprefix("[").removesuffix("]")
        self._port = port
        self._address_key = address_key
        self._connections_max = connections_max
        self._ip = ""
        self._reservation: socket.socket | None = None
        self._server: Server | None = None
        self._serving: asyncio.Task[None] | None = None

    @property
    def address(self) -> str:
        """Where it listens, as `host:port`; with port 0, the real port once `probe` has run."""
        return _format_address(self._host, self._port)

    @property
    def port(self) -> int:
        return self._port

    def probe(self) -> None:
        """Take the address, or raise a StartError that says in one line why it cannot be had."""
        if self._reservation is not None:
            return
        family, self._ip = self._resolve()
        reservation = socket.socket(family, socket.SOCK_STREAM)
        try:
            # Connections of a server that has just ended may linger on the port; they do not count as a user
            # of it.
            reservation.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            reservation.bind((self._ip, self._port))
        except OSError as error:
            reservation.close()
            raise self._start_error(error) from error
        # From here on nobody may bind this port, except with SO_REUSEPORT, as granian will.
        reservation.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)
        reservation.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        self._port = reservation.getsockname()[1]
        self._reservation = reservation

    async def start(self) -> None:
        """Begin to serve; `wait_listening` tells when connections are accepted."""
        self.probe()
        if sys.platform != "linux":
            # Elsewhere a bound socket keeps granian from binding, whatever its options.
            self._release()
        self._server = self._make_server()
        self._serving = asyncio.get_running_loop().create_task(self._server.serve(), name="tsdb-http")

    async def wait_listening(self, *, deadline_seconds: float = LISTEN_SECONDS_MAX) -> None:
        """Return when a connection is accepted; raise StartError when that does not happen in time."""
        assert self._serving is not None, "start() comes first"
        try:
            async with asyncio.timeout(deadline_seconds):
                while not await self._try_connect():
                    self._raise_if_failed(self._serving)
                    await asyncio.sleep(_CONNECT_INTERVAL_SECONDS)
        except TimeoutError as error:
            raise StartError(
                f"{self._address_key}: {self.address} does not accept connections after {deadline_seconds:g} s"
            ) from error
        self._release()
        _log.info("listening for HTTP", address=self.address)

    async def wait_stopped(self) -> None:
        """Return when the server has ended, for whatever reason."""
        if self._serving is not None:
            await asyncio.wait({self._serving})

    async def stop(self, grace_seconds: float) -> None:
        """Accept no more, let requests in progress end, and cancel those that last longer than the grace."""
        self._release()
        server, serving = self._server, self._serving
        if server is None or serving is None:
            return
        self._server = None
        server.stop()  # type: ignore[no-untyped-call]
        if not await _has_ended(serving, grace_seconds):
            _log.warning("cancelling requests that are still running", count=self._app.in_flight)
            self._app.interrupt_requests()
            if not await _has_ended(serving, INTERRUPT_SECONDS_MAX):
                _log.error("requests did not end when cancelled", count=self._app.in_flight)
                serving.cancel()
                await _has_ended(serving, INTERRUPT_SECONDS_MAX)

    def _resolve(self) -> tuple[socket.AddressFamily, str]:
        try:
            found = socket.getaddrinfo(self._host or "0.0.0.0", self._port, type=socket.SOCK_STREAM)
        except (socket.gaierror, UnicodeError, OverflowError) as error:
            raise StartError(
                f"{self._address_key}: cannot resolve the host of {self.address}", hint=self._hint("")
            ) from error
        # A name such as `localhost` may stand for both families; clients that were told an address use IPv4.
        found.sort(key=lambda entry: entry[0] != socket.AF_INET)
        family, _, _, _, socket_address = found[0]
        return family, str(socket_address[0])

    def _start_error(self, error: OSError | OverflowError) -> StartError:
        where = f"{self._address_key}: {self.address}"
        code = error.errno if isinstance(error, OSError) else None
        if code == errno.EADDRINUSE:
            return StartError(f"{where} is already in use", hint=self._hint("stop the other process or "))
        if code == errno.EACCES:
            return StartError(f"{where} needs privileges this process does not have", hint=self._hint(""))
        if code == errno.EADDRNOTAVAIL:
            return StartError(f"{where} is not an address of this machine", hint=self._hint(""))
        return StartError(f"{where} cannot be used: {error}", hint=self._hint(""))

    def _hint(self, first: str) -> str:
        option = "--" + self._address_key.replace(".", "-").replace("_", "-")
        return f"{first}choose another address with {option}"

    def _make_server(self) -> Server:
        engine_logger = logging.getLogger("_granian")
        # Its own account of starting and stopping says nothing that our lines do not.
        engine_logger.setLevel(logging.WARNING)
        level = engine_logger.level
        server = Server(
            self._app,
            address=self._ip,
            port=self._port,
            interface=Interfaces.ASGINL,
            http=HTTPModes.http1,
            websockets=False,
            backlog=BACKLOG_MAX,
            backpressure=self._connections_max,
            http1_settings=HTTP1Settings(header_read_timeout=IDLE_SECONDS_MAX * 1000),
            log_level=LogLevels.notset,
            log_dictconfig=_LEAVE_LOGGING_ALONE,
        )
        engine_logger.setLevel(level)
        return server

    async def _try_connect(self) -> bool:
        ip = ipaddress.ip_address(self._ip)
        loopback = "::1" if ip.version == 6 else "127.0.0.1"
        with suppress(OSError):
            _, writer = await asyncio.open_connection(loopback if ip.is_unspecified else self._ip, self._port)
            writer.close()
            return True
        return False

    def _raise_if_failed(self, serving: asyncio.Task[None]) -> None:
        if serving.done():
            cause = None if serving.cancelled() else serving.exception()
            raise StartError(f"{self._address_key}: cannot listen on {self.address}: {cause}") from cause

    def _release(self) -> None:
        if self._reservation is not None:
            self._reservation.close()
            self._reservation = None


async def _has_ended(serving: asyncio.Task[None], seconds: float) -> bool:
    await asyncio.wait({serving}, timeout=seconds)
    return serving.done()


def _format_address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
