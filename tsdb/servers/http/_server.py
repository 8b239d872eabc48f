"""The HTTP server, on the event loop of the process.

`probe` binds the address before anything else starts, and fails with one line that says what to do. `start` listens
there (`_listener.py`); `_connection.py` serves each connection.
"""

from __future__ import annotations

import asyncio
import errno
import socket

from tsdb.config import TlsMode
from tsdb.errors import StartError
from tsdb.servers._tcp import written_address
from tsdb.servers._tls import Tls
from tsdb.servers.http._app import HttpApp
from tsdb.servers.http.wire import TUNING, HttpTuning, Listener
from tsdb.telemetry import get_logger

CONNECTIONS_MAX = 4096
"""Open connections. Further ones wait in the backlog until one closes."""

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
        tuning: HttpTuning = TUNING,
    ) -> None:
        self._app = app
        self._tuning = tuning
        self._host = host.removeprefix("[").removesuffix("]")
        self._port = port
        self._address_key = address_key
        self._connections_max = connections_max
        self._ip = ""
        self._reservation: socket.socket | None = None
        self._tls = tls or Tls(TlsMode.DISABLE)
        self._listener: Listener | None = None

    @property
    def url(self) -> str:
        """How clients reach it: `http://host:port`, or `https://…`."""
        return f"{'https' if self._tls.is_required else 'http'}://{self.address}"

    @property
    def address(self) -> str:
        """Where it listens, as `host:port`; with port 0, the real port once `probe` has run."""
        return written_address(self._host, self._port)

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
        # From here on no other process can bind this port.
        reservation.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)
        self._port = reservation.getsockname()[1]
        self._reservation = reservation

    async def start(self) -> None:
        """Begin to serve: connections are accepted when this returns."""
        self.probe()
        bound, self._reservation = self._reservation, None
        assert bound is not None
        try:
            self._listener = Listener(
                self._app,
                self._tls,
                bound,
                connections_max=self._connections_max,
                tuning=self._tuning,
                shortcut=self._app.shortcut,
            )
        except OSError as error:
            bound.close()
            raise self._start_error(error) from error
        _log.info("listening for HTTP", address=self.address)

    async def wait_stopped(self) -> None:
        """Return when no more connections are accepted, for whatever reason."""
        if self._listener is not None:
            await asyncio.wait({self._listener.accepting})

    async def stop(self, grace_seconds: float) -> None:
        """Accept no more, let requests in progress end, and cancel those that last longer than the grace."""
        self._release()
        listener, self._listener = self._listener, None
        if listener is None:
            return
        await listener.stop()
        if await listener.wait_closed(grace_seconds):
            return
        _log.warning("cancelling requests that are still running", count=self._app.in_flight)
        self._app.interrupt_requests()
        if not await listener.wait_closed(self._tuning.interrupt_seconds_max):
            _log.error("requests did not end when cancelled", count=self._app.in_flight)
            listener.cancel()
            await listener.wait_closed(self._tuning.interrupt_seconds_max)

    def _release(self) -> None:
        if self._reservation is not None:
            self._reservation.close()
            self._reservation = None

    def _resolve(self) -> tuple[socket.AddressFamily, str]:
        try:
            found = socket.getaddrinfo(self._host or "0.0.0.0", self._port, type=socket.SOCK_STREAM)
        except (socket.gaierror, UnicodeError, OverflowError) as error:
            raise StartError(
                f"{self._address_key}: cannot resolve the host of {self.address}", hint=self._hint("")
            ) from error
        # A name such as `localhost` may stand for both families; clients that use addresses use IPv4.
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
