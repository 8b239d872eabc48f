"""HTTP/1.1 on one connection: bytes in, requests to the application, responses out.

    socket ─▶ head ─▶ Exchange: scope, receive (the body as it comes), send ─▶ HttpApp ─▶ socket
                └─ the next head when the response is out

Everything runs on the event loop: no thread is woken between the last byte of a request and its handler. `_protocol`
parses and encodes the bytes.

- One request at a time. Pipelined requests wait; beyond `AHEAD_BYTES_MAX` they stay in the socket (back-pressure).
- A body is read on demand, with the same bound.
- A response that has begun and cannot be completed closes the connection, so that its reader notices.
- A client that closes its side is gone, even if it still reads.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

from tsdb.errors import InvalidArguments
from tsdb.servers._tls import common_name
from tsdb.servers.http.wire._messages import CERTIFICATE_NAME, IS_ALONE, Message, Scope
from tsdb.servers.http.wire._protocol import (
    BadHead,
    BodyReader,
    Head,
    ResponseEncoder,
    encode_refusal,
    parse_head,
)
from tsdb.telemetry import get_logger

if TYPE_CHECKING:
    from tsdb.servers.http.wire._listener import Listener

AHEAD_BYTES_MAX = 256 << 10
"""How much is read ahead of the application."""

_JOINED_BYTES_MAX = 64 << 10
"""Up to this size, a body is worth a copy to be written together with its head."""

_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_DISCONNECT: Message = {"type": "http.disconnect"}

_log = get_logger("tsdb.http")


class HttpConnection(asyncio.BufferedProtocol):
    """One client. `listener` is the context of all connections."""

    __slots__ = (
        "_ahead",
        "_client",
        "_exchange",
        "_is_reading",
        "_listener",
        "_name",
        "_task",
        "deadline",
        "drained",
        "is_lost",
        "is_made",
        "transport",
    )

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._client: tuple[str, str] | None = None
        self._name: str | None = None
        self._ahead = b""
        """Bytes of the next request."""
        self._exchange: Exchange | None = None
        self._task: asyncio.Task[None] | None = None
        self._is_reading = True
        self.transport: asyncio.Transport
        self.is_made = False
        self.is_lost = False
        self.deadline = 0.0
        """When a client that is silent has to go, by the clock of the loop."""
        self.drained: asyncio.Future[None] | None = None
        """Ends when more can be written; None if it can."""

    @property
    def is_idle(self) -> bool:
        """Whether no request is being answered."""
        return self._exchange is None

    @property
    def is_ending(self) -> bool:
        """Whether no further request will be taken."""
        return self._listener.is_stopping

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.is_made = True
        peer = transport.get_extra_info("peername")
        if peer:
            self._client = (str(peer[0]), str(peer[1]))
        if self._listener.verifies_user:
            self._name = common_name(transport.get_extra_info("peercert"))
        self.deadline = self._listener.loop.time() + self._listener.idle_seconds_max
        self._listener.add(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        # Shared by all connections: its content is consumed before the next read.
        return self._listener.buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.take(bytes(self._listener.buffer[:nbytes]))

    def eof_received(self) -> None:
        self.lose()

    def connection_lost(self, error: Exception | None) -> None:
        self.lose()
        self._listener.discard(self)

    def pause_writing(self) -> None:
        if self.drained is None:
            self.drained = self._listener.loop.create_future()

    def resume_writing(self) -> None:
        if self.drained is not None:
            if not self.drained.done():
                self.drained.set_result(None)
            self.drained = None

    def lose(self) -> None:
        """Notify the request of the disconnect."""
        self.is_lost = True
        self.resume_writing()
        if self._exchange is not None:
            self._exchange.wake()

    def close(self) -> None:
        """Send what waits, and close."""
        self.transport.close()

    def cancel(self) -> None:
        """Cancel the work on a request, and close without ceremony."""
        if self._task is not None:
            self._task.cancel()
        self.transport.abort()

    def pause_reading(self) -> None:
        if self._is_reading and not self.is_lost:
            self._is_reading = False
            self.transport.pause_reading()

    def resume_reading(self) -> None:
        if not self._is_reading and not self.is_lost:
            self._is_reading = True
            self.transport.resume_reading()

    def take(self, data: bytes) -> None:
        """Take what the client has sent."""
        exchange = self._exchange
        if exchange is None:
            self._read_head(self._ahead + data if self._ahead else data)
            return
        if not exchange.is_received:
            data = exchange.feed(data)
        if data:
            self._ahead += data
            if len(self._ahead) > AHEAD_BYTES_MAX:
                self.pause_reading()

    def _read_head(self, data: bytes) -> None:
        """Begin with a request, once its head is complete."""
        self._ahead = b""
        try:
            head = parse_head(data)
        except BadHead as error:
            self._refuse(error)
            return
        if head is None:
            self._ahead = data
            return
        scope: Scope = {
            "type": "http",
            "method": head.method,
            "path": head.path,
            "query_string": head.query,
            "headers": head.headers,
            "client": self._client,
            IS_ALONE: self._listener.note_request(self),
        }
        if self._listener.verifies_user:
            scope[CERTIFICATE_NAME] = self._name
        self._exchange = exchange = Exchange(self, scope, head)
        if rest := data[head.size :]:
            self.take(rest)
        self._task = self._listener.loop.create_task(self._run(exchange))

    async def _run(self, exchange: Exchange) -> None:
        try:
            await self._listener.app(exchange.scope, exchange.receive, exchange.send)
        finally:
            self._end(exchange)

    def _end(self, exchange: Exchange) -> None:
        """Go on to the next request, if the connection can be used again."""
        self._exchange = self._task = None
        if self.is_lost:
            return
        response = exchange.response
        if not response.is_over or not exchange.is_received or not response.is_kept or self._listener.is_stopping:
            if response.is_cut_unnoticed:
                self.transport.abort()
            else:
                self.transport.close()
            return
        self.deadline = self._listener.loop.time() + self._listener.idle_seconds_max
        self.resume_reading()
        if self._ahead:
            self._read_head(self._ahead)

    def _refuse(self, error: BadHead) -> None:
        """Answer what cannot be read, and close."""
        _log.debug("a request cannot be read", client=self._client, reason=str(error))
        self.pause_reading()
        self.transport.write(encode_refusal(error.status, str(error)))
        self.transport.close()


class Exchange:
    """One request and its answer, as an ASGI application wants them."""

    __slots__ = (
        "_body",
        "_connection",
        "_error",
        "_expects",
        "_held",
        "_is_body_told",
        "_is_broken",
        "_pieces",
        "_start",
        "_waiter",
        "response",
        "scope",
    )

    def __init__(self, connection: HttpConnection, scope: Scope, head: Head) -> None:
        self.scope = scope
        self.response = ResponseEncoder(is_head=head.method == "HEAD", is_modern=head.is_modern, is_kept=head.is_kept)
        self._connection = connection
        self._body = BodyReader(head.length)
        self._expects = head.expects
        self._error: InvalidArguments | None = None
        """The error of the body, reported once."""
        self._is_broken = False
        self._pieces: list[bytes] = []
        """What was read ahead of the body."""
        self._held = 0
        self._is_body_told = False
        self._waiter: asyncio.Future[None] | None = None
        self._start: Message | None = None

    @property
    def is_received(self) -> bool:
        """Whether the whole body was read."""
        return self._body.is_done

    def feed(self, data: bytes) -> bytes:
        """Take more of the body; what comes behind its end is returned."""
        try:
            piece, rest = self._body.feed(data)
        except ValueError as error:
            return self._fail(str(error))
        if piece:
            self._pieces.append(piece)
            self._held += len(piece)
            if self._held > AHEAD_BYTES_MAX and not self.is_received:
                self._connection.pause_reading()
        if piece or self.is_received:
            self.wake()
        return rest

    def _fail(self, reason: str) -> bytes:
        """Make reading the body fail."""
        self._error = InvalidArguments(f"the body cannot be read: {reason}")
        self._connection.pause_reading()
        self.wake()
        return b""

    def wake(self) -> None:
        """Wake the task that waits in `receive`."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def receive(self) -> Message:
        """Return the next part of the body, and then that the client has gone."""
        connection = self._connection
        while True:
            if self._pieces:
                body = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
                self._pieces.clear()
                self._held = 0
                self._is_body_told = self.is_received
                return {"type": "http.request", "body": body, "more_body": not self.is_received}
            if self.is_received and not self._is_body_told:
                self._is_body_told = True
                return {"type": "http.request", "body": b"", "more_body": False}
            if self._error is not None:
                error, self._error = self._error, None
                self._is_broken = True
                raise error
            if connection.is_lost or self._is_broken:
                return _DISCONNECT
            if not self.is_received:
                if self._expects:
                    self._expects = False
                    connection.transport.write(_CONTINUE)
                connection.resume_reading()
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None

    async def send(self, message: Message) -> None:
        """Write a part of the answer; returns when there is room for more."""
        if message["type"] == "http.response.start":
            self._start = message
            return
        connection = self._connection
        if connection.is_lost:
            return
        body: bytes = message.get("body", b"")
        more: bool = message.get("more_body", False)
        start, self._start = self._start, None
        head = b"" if start is None else self._make_head(start, is_whole=not more)
        before, tail = self.response.frame(len(body), is_last=not more)
        head += before
        if len(body) <= _JOINED_BYTES_MAX:
            if head or body or tail:
                connection.transport.write(b"%s%s%s" % (head, body, tail))
        else:
            if head:
                connection.transport.write(head)
            # What does not fit into the socket is cut off without a copy.
            connection.transport.write(memoryview(body))
            if tail:
                connection.transport.write(tail)
        if connection.drained is not None:
            await connection.drained

    def _make_head(self, start: Message, *, is_whole: bool) -> bytes:
        ends_connection = not self.is_received or self._connection.is_ending
        return self.response.head(start["status"], start["headers"], is_whole=is_whole, ends_connection=ends_connection)
