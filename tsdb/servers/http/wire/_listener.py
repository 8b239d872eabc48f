"""Accepts connections, with TLS where configured.

    socket ─ places left? ─▶ accept ─ first byte ─▶ TLS or plain text ─▶ HttpConnection

The certificate is checked for each connection: a new one applies to new connections at once, open ones keep theirs.
Where both TLS and plain text are accepted, the first byte tells them apart.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias, cast

from tsdb.servers._tcp import BACKLOG_MAX, accept_one
from tsdb.servers._tls import Tls
from tsdb.servers.http.wire._connection import HttpConnection
from tsdb.servers.http.wire._messages import Receive, Scope, Send
from tsdb.servers.http.wire._meters import count_connections
from tsdb.servers.http.wire._secured import Secured
from tsdb.servers.http.wire._shortcut import Shortcut
from tsdb.servers.http.wire._tuning import TUNING, HttpTuning
from tsdb.telemetry import get_logger

Application: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

_TLS_HANDSHAKE = b"\x16"
"""The first byte of every connection with TLS; no method of HTTP begins like this."""
_ONLY_TLS = (
    b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-type: text/plain\r\ncontent-length: 27\r\n\r\n"
    b"this port speaks TLS only.\n"
)
_BUFFER_BYTES = 256 << 10

_log = get_logger("tsdb.http")


class Listener:
    """Takes connections from a socket that is bound, and serves `app` on them."""

    def __init__(
        self,
        app: Application,
        tls: Tls,
        bound: socket.socket,
        *,
        connections_max: int,
        tuning: HttpTuning = TUNING,
        shortcut: Shortcut | None = None,
    ) -> None:
        self.app = app
        # Who a client is may depend on its certificate, which the shortcut does not see.
        self.shortcut = None if tls.verifies_user else shortcut
        self.idle_seconds_max = tuning.idle_seconds_max
        self._tuning = tuning
        self.loop = asyncio.get_running_loop()
        self.buffer = memoryview(bytearray(_BUFFER_BYTES))
        """The read buffer of all connections."""
        self.is_stopping = False
        self._tls = tls
        self._socket = bound
        self._places = asyncio.Semaphore(connections_max)
        self._connections: set[HttpConnection] = set()
        self._recent: OrderedDict[HttpConnection, float] = OrderedDict()
        """When connections began their last request, the oldest first; those of `recent_seconds`."""
        self._arriving: set[asyncio.Task[None]] = set()
        self._shaking: set[Secured] = set()
        """Those with TLS that are not connections yet."""
        self._gone = asyncio.Event()
        """Set while there is no connection."""
        self._gone.set()
        bound.setblocking(False)
        # Connections that linger after the end of a server do not keep the next one from its address.
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.listen(BACKLOG_MAX)
        self.accepting = self.loop.create_task(self._accept(), name="tsdb-http")
        """Ends when no more connections are accepted."""
        self._sweeper = self.loop.call_later(self._tuning.sweep_seconds, self._sweep)
        count_connections(self)

    @property
    def connection_count(self) -> int:
        """How many connections are open."""
        return len(self._connections)

    @property
    def verifies_user(self) -> bool:
        """Whether the name that a client's certificate is in counts."""
        return self._tls.verifies_user

    def add(self, connection: HttpConnection) -> None:
        self._shaking.discard(cast(Any, connection.transport))
        self._connections.add(connection)
        self._gone.clear()
        if self.is_stopping:
            connection.close()

    def note_request(self, connection: HttpConnection) -> bool:
        """Note that a connection begins a request; return whether no other open one has done so recently."""
        now, recent = self.loop.time(), self._recent
        recent[connection] = now
        recent.move_to_end(connection)
        while now - recent[first := next(iter(recent))] > self._tuning.recent_seconds:
            del recent[first]
        return len(recent) == 1

    def discard(self, connection: HttpConnection) -> None:
        """Forget a connection that is closed, and let another one take its place."""
        if connection in self._connections:
            self._connections.discard(connection)
            self._recent.pop(connection, None)
            self._places.release()
        if not self._connections:
            self._gone.set()

    async def stop(self) -> None:
        """Stop accepting, and close idle connections. Requests in progress continue."""
        self.is_stopping = True
        self._sweeper.cancel()
        self.accepting.cancel()
        for task in tuple(self._arriving):
            task.cancel()
        await asyncio.wait({self.accepting, *self._arriving})
        self._socket.close()
        for secured in tuple(self._shaking):
            secured.abort()
        for connection in tuple(self._connections):
            if connection.is_idle:
                connection.close()

    async def wait_closed(self, seconds: float) -> bool:
        """Wait until all connections are closed; False if that takes longer."""
        try:
            async with asyncio.timeout(seconds):
                await self._gone.wait()
        except TimeoutError:
            return False
        return True

    def cancel(self) -> None:
        """Cancel all requests in progress."""
        for connection in tuple(self._connections):
            connection.cancel()

    async def _accept(self) -> None:
        while True:
            # Connections over the limit wait in the backlog.
            await self._places.acquire()
            accepted, _ = await accept_one(self._socket, _log)
            task = self.loop.create_task(self._admit(accepted))
            self._arriving.add(task)
            task.add_done_callback(self._arriving.discard)

    async def _admit(self, accepted: socket.socket) -> None:
        """Find out what is spoken; from then on the connection works by itself."""
        connection = HttpConnection(self)
        protocol: HttpConnection | Secured = connection
        try:
            if self._tls.is_offered:
                if await _first_byte(accepted, self.idle_seconds_max) == _TLS_HANDSHAKE:
                    context = await asyncio.to_thread(self._tls.context)
                    protocol = Secured(context, connection, self.buffer, self._fail, self._tuning.handshake_seconds_max)
                    self._shaking.add(protocol)
                elif self._tls.is_required:
                    # What was not read would reset the connection, and the answer with it.
                    accepted.recv(_BUFFER_BYTES)
                    accepted.send(_ONLY_TLS)
                    raise ConnectionAbortedError("the client does not speak TLS")
            await self.loop.connect_accepted_socket(lambda: protocol, accepted)
        except (OSError, ssl.SSLError, TimeoutError, asyncio.CancelledError) as error:
            if not protocol.is_made:
                accepted.close()
                self._places.release()
                self._shaking.discard(cast(Any, protocol))
            if isinstance(error, asyncio.CancelledError):
                raise
            _log.debug("a connection was not made", error=str(error))

    def _fail(self, secured: Secured) -> None:
        """Forget a connection without a handshake."""
        self._shaking.discard(secured)
        self._places.release()

    def _sweep(self) -> None:
        """Close connections that are silent for too long."""
        now = self.loop.time()
        for connection in tuple(self._connections):
            if connection.is_idle and now >= connection.deadline:
                connection.close()
        self._sweeper = self.loop.call_later(self._tuning.sweep_seconds, self._sweep)


async def _first_byte(opened: socket.socket, seconds_max: float) -> bytes:
    """Wait for what a client says first, and leave it there; TimeoutError if it says nothing."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(opened, ready.set)
    try:
        async with asyncio.timeout(seconds_max):
            await ready.wait()
    finally:
        loop.remove_reader(opened)
    return opened.recv(1, socket.MSG_PEEK)
