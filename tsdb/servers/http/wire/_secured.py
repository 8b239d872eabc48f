"""TLS between a socket and a connection.

    socket ◀─▶ Secured: handshake, then encryption ◀─▶ HttpConnection

The TLS of the event loop closes a connection whose handshake fails without a reason. This one sends the alert first, so
that a client without the required certificate gets the reason.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import Any, cast

from tsdb.servers.http.wire._connection import HttpConnection
from tsdb.telemetry import get_logger

_READ_BYTES = 256 << 10

_log = get_logger("tsdb.http")


class Secured(asyncio.BufferedProtocol):
    """A protocol for the socket, and a transport for `connection`, which is made when the handshake is done.

    `on_failure` is called when there is no handshake.
    """

    def __init__(
        self,
        context: ssl.SSLContext,
        connection: HttpConnection,
        buffer: memoryview,
        on_failure: Callable[[Secured], None],
        handshake_seconds_max: float,
    ) -> None:
        self._handshake_seconds_max = handshake_seconds_max
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._connection = connection
        self._buffer = buffer
        self._on_failure = on_failure
        self.is_made = False
        self._is_shaken = False
        self._is_closing = False
        self._socket: asyncio.Transport
        self._timer: asyncio.TimerHandle | None = None

    # What the event loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._socket = cast(asyncio.Transport, transport)
        self.is_made = True
        self._timer = asyncio.get_running_loop().call_later(self._handshake_seconds_max, self._socket.abort)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self._incoming.write(self._buffer[:nbytes])
        if self._is_shaken or self._shake():
            self._read()
        self._flush()

    def eof_received(self) -> None:
        if self._is_shaken:
            self._connection.eof_received()

    def connection_lost(self, error: Exception | None) -> None:
        self._is_closing = True
        if self._timer is not None:
            self._timer.cancel()
        if self._is_shaken:
            self._connection.connection_lost(error)
        else:
            self._on_failure(self)

    def pause_writing(self) -> None:
        if self._is_shaken:
            self._connection.pause_writing()

    def resume_writing(self) -> None:
        if self._is_shaken:
            self._connection.resume_writing()

    # What the connection calls.

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return information about the client; `peercert` is its certificate."""
        return self._tls.getpeercert() if name == "peercert" else self._socket.get_extra_info(name, default)

    def write(self, data: bytes) -> None:
        if self._is_closing:
            return
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[self._tls.write(rest) :]
        except ssl.SSLError as error:
            _log.debug("a connection cannot be written to", error=str(error))
            self.abort()
            return
        self._flush()

    def pause_reading(self) -> None:
        self._socket.pause_reading()

    def resume_reading(self) -> None:
        self._socket.resume_reading()

    def close(self) -> None:
        """Say goodbye, send what waits, and close."""
        if self._is_closing:
            return
        self._is_closing = True
        if self._is_shaken:
            # It is not waited for that the client says goodbye as well.
            with suppress(ssl.SSLError):
                self._tls.unwrap()
        self._flush()
        self._socket.close()

    def abort(self) -> None:
        self._is_closing = True
        self._socket.abort()

    def _shake(self) -> bool:
        """Go on with the handshake; True when it is done."""
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        except ssl.SSLError as error:
            _log.debug("no handshake", error=str(error))
            # With it goes the alert that says why.
            self.close()
            return False
        self._is_shaken = True
        if self._timer is not None:
            self._timer.cancel()
        self._connection.connection_made(self)  # type: ignore[arg-type]
        return True

    def _read(self) -> None:
        """Hand what has come to the connection."""
        while not self._is_closing:
            try:
                data = self._tls.read(_READ_BYTES)
            except ssl.SSLWantReadError:
                return
            except ssl.SSLError:
                data = b""
            if not data:
                self._connection.eof_received()
                self.close()
                return
            self._connection.take(data)

    def _flush(self) -> None:
        if self._outgoing.pending:
            self._socket.write(self._outgoing.read())
