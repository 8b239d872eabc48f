"""Listens for HTTP on the event loop of the process, with granian as the engine.

Granian reads and writes sockets and parses HTTP on a thread of its own, outside Python; each request becomes
a task on our loop. It and every other process on the machine may share a port (`SO_REUSEPORT`), so a second
server would start without an error and take half of the connections. Therefore:

- The address is bound first without sharing. That fails if anybody has it, and one line says what to do.
- The bound socket is kept until granian listens beside it, so there is no moment in which another could slip in.

With TLS the files of the certificate are looked at every second. New ones are for new connections: an engine that has
them takes the place of the one before, which ends when its requests have ended (`_engine.py`). Where the name in a
client's certificate counts, or TLS and plain text are spoken at one port, a front of our own does TLS (`_front.py`).

Only HTTP/1.1 is spoken: with HTTP/2 detection on, granian lets a connection that never says a word stay for
ever.
"""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import socket
import ssl
import sys
from contextlib import suppress

from tsdb.config import TlsMode
from tsdb.errors import StartError
from tsdb.servers._tls import Pem, Tls
from tsdb.servers.http._app import HttpApp
from tsdb.servers.http._engine import Engine
from tsdb.servers.http._front import Front, reserve_loopback
from tsdb.telemetry import get_logger

CONNECTIONS_MAX = 4096
"""Open connections. Further ones wait in the backlog until one closes."""

LISTEN_SECONDS_MAX = 5.0
INTERRUPT_SECONDS_MAX = 1.0
"""How long a handler may take to end after it was cancelled."""

WATCH_SECONDS = 1.0
"""How often the files of the certificate are looked at."""

HANDSHAKE_SECONDS_MAX = 10.0
"""How long the handshake of TLS may take: granian's own limit."""

_CONNECT_INTERVAL_SECONDS = 0.005

_log = get_logger("tsdb.http")


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
        tls: Tls | None = None,
    ) -> None:
        self._app = app
        self._host = host.removeprefix("[").removesuffix("]")
        self._port = port
        self._address_key = address_key
        self._connections_max = connections_max
        self._ip = ""
        self._reservation: socket.socket | None = None
        self._tls = tls or Tls(TlsMode.DISABLE)
        self._engine: Engine | None = None
        self._retired: set[asyncio.Task[None]] = set()
        self._watching: asyncio.Task[None] | None = None
        self._front: Front | None = None

    @property
    def url(self) -> str:
        """How clients reach it: `http://host:port`, or `https://…`."""
        return f"{'https' if self._tls.is_required else 'http'}://{self.address}"

    @property
    def address(self) -> str:
        """Where it listens, as `host:port`; with port 0, the real port once `probe` has run."""
        return _format_address(self._host, self._port)

    @property
    def port(self) -> int:
        return self._port

    def probe(self) -> None:
        """Read the certificate and take the address, or raise a StartError that says why that cannot be."""
        if self._reservation is not None:
            return
        self._tls.load()
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
        if self._tls.verifies_user or self._tls.mode is TlsMode.PREFER:
            self._start_front()
            return
        self._engine = self._start_engine()
        if self._tls.is_required:
            self._watching = asyncio.create_task(self._follow_files(self._tls.read_pem()))

    async def wait_listening(self, *, deadline_seconds: float = LISTEN_SECONDS_MAX) -> None:
        """Return when a connection is accepted; raise StartError when that does not happen in time."""
        engine = self._engine
        assert engine is not None, "start() comes first"
        try:
            async with asyncio.timeout(deadline_seconds):
                while not await self._try_connect():
                    self._raise_if_failed(engine)
                    await asyncio.sleep(_CONNECT_INTERVAL_SECONDS)
        except TimeoutError as error:
            raise StartError(
                f"{self._address_key}: {self.address} does not accept connections after {deadline_seconds:g} s"
            ) from error
        self._release()
        _log.info("listening for HTTP", address=self.address)

    async def wait_stopped(self) -> None:
        """Return when the server has ended, for whatever reason."""
        while (engine := self._engine) is not None:
            await asyncio.wait({engine.serving})
            if engine is self._engine:
                return

    async def stop(self, grace_seconds: float) -> None:
        """Accept no more, let requests in progress end, and cancel those that last longer than the grace."""
        self._release()
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait({self._watching})
            self._watching = None
        front, self._front = self._front, None
        engine, self._engine = self._engine, None
        if engine is None:
            return
        if front is not None:
            await front.stop()
        self._retire(engine)
        await self._wait_retired(grace_seconds)
        if front is not None:
            await front.close()

    async def _wait_retired(self, grace_seconds: float) -> None:
        if not await _have_ended(self._retired, grace_seconds):
            _log.warning("cancelling requests that are still running", count=self._app.in_flight)
            self._app.interrupt_requests()
            if not await _have_ended(self._retired, INTERRUPT_SECONDS_MAX):
                _log.error("requests did not end when cancelled", count=self._app.in_flight)
                for serving in self._retired:
                    serving.cancel()
                await _have_ended(self._retired, INTERRUPT_SECONDS_MAX)

    def _start_front(self) -> None:
        """Let a front take the connections, with an engine behind it that nobody else reaches."""
        assert self._reservation is not None
        listener = self._reservation.dup()
        self._front = Front(self._app, self._tls, listener, connections_max=self._connections_max)
        with reserve_loopback() as reserved:
            ip, port = reserved.getsockname()
            if sys.platform != "linux":
                reserved.close()
            self._engine = Engine(self._front.admit, ip=ip, port=port, connections_max=self._connections_max)
        self._front.start(port)

    async def _follow_files(self, pem: Pem) -> None:
        """Let another engine take over whenever there is a new certificate that can be used."""
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            found = await asyncio.to_thread(self._tls.read_changed_pem, pem)
            if found is None:
                continue
            pem = found
            try:
                await self._exchange_engine()
            except (OSError, ssl.SSLError) as error:
                _log.error("the certificate was not reloaded", section="http.tls", error=str(error))

    async def _exchange_engine(self) -> None:
        before, after = self._engine, self._start_engine()
        assert before is not None
        try:
            if not await after.wait_listening():
                _log.error("the certificate was not reloaded", section="http.tls", error=str(after.failure))
                return
            self._engine = after
            after.take_over()
            await asyncio.sleep(HANDSHAKE_SECONDS_MAX)
        finally:
            self._retire(before if self._engine is after else after)

    def _retire(self, engine: Engine) -> None:
        """Let an engine end when its requests have ended."""
        engine.stop()
        self._retired.add(engine.serving)
        engine.serving.add_done_callback(self._retired.discard)

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

    def _start_engine(self) -> Engine:
        return Engine(
            self._app,
            ip=self._ip,
            port=self._port,
            connections_max=self._connections_max,
            files=self._tls.files if self._tls.is_required else None,
        )

    async def _try_connect(self) -> bool:
        ip = ipaddress.ip_address(self._ip)
        loopback = "::1" if ip.version == 6 else "127.0.0.1"
        with suppress(OSError):
            _, writer = await asyncio.open_connection(loopback if ip.is_unspecified else self._ip, self._port)
            writer.close()
            return True
        return False

    def _raise_if_failed(self, engine: Engine) -> None:
        if engine.serving.done():
            raise StartError(
                f"{self._address_key}: cannot listen on {self.address}: {engine.failure}"
            ) from engine.failure

    def _release(self) -> None:
        if self._reservation is not None:
            self._reservation.close()
            self._reservation = None


async def _have_ended(serving: set[asyncio.Task[None]], seconds: float) -> bool:
    running = {each for each in serving if not each.done()}
    if running:
        _, running = await asyncio.wait(running, timeout=seconds)
    return not running


def _format_address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
