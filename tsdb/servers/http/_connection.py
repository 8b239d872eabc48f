"""HTTP/1.1 on one connection: bytes in, requests for the application, answers out.

    socket ─▶ head ─▶ Exchange: scope, receive (the body as it comes), send ─▶ HttpApp ─▶ socket
                └─ the next head when the answer is out

Everything happens on the event loop: between the last byte of a request and its handler nobody has to be woken. What
touches bytes is done by kernels.

- One request at a time. What a client sends ahead waits, and beyond `AHEAD_BYTES_MAX` is left to the system.
- A body is taken in as it is asked for: what nobody asks for, beyond `AHEAD_BYTES_MAX`, is left to the system.
- An answer that was begun and not ended closes the connection, so that its reader notices.
- A client that closes its side has gone, whatever it may still want to read.
"""

from __future__ import annotations

import asyncio
import time
from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus
from typing import TYPE_CHECKING, cast

from tsdb import _kernels
from tsdb.errors import InvalidArguments
from tsdb.servers._tls import common_name
from tsdb.servers.http._messages import CERTIFICATE_NAME, IS_ALONE, Message, Scope
from tsdb.telemetry import get_logger

if TYPE_CHECKING:
    from tsdb.servers.http._listener import Listener

IDLE_SECONDS_MAX = 75
"""How long a connection may be silent between requests, and how long the head of one may take."""

HEAD_BYTES_MAX = 64 << 10
AHEAD_BYTES_MAX = 256 << 10
"""How much is read that nobody has asked for yet."""

_JOINED_BYTES_MAX = 64 << 10
"""Up to this size, a body is worth a copy to be written together with its head."""

_FRAMING_SHARE_MAX = 16
"""Sizes, extensions and trailers of chunks have so many times the bytes of the body at most, or those of a head."""

_BODILESS = frozenset({204, 304})
_STATUS_LINES = {each.value: b"HTTP/1.1 %d %s\r\n" % (each.value, each.phrase.encode()) for each in HTTPStatus}
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_DISCONNECT: Message = {"type": "http.disconnect"}

_log = get_logger("tsdb.http")


class Connection(asyncio.BufferedProtocol):
    """One client. `listener` has what all connections share."""

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
        """What was read of the next request."""
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
        self.deadline = self._listener.loop.time() + IDLE_SECONDS_MAX
        self._listener.add(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        # Shared by all connections: what is read is taken out of it before anybody else reads.
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
        """Let the request know that its client has gone."""
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
            head = _kernels.parse_http_head(data)
        except _kernels.LimitExceeded as error:
            self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, str(error))
            return
        except _kernels.MalformedInput as error:
            self._refuse(HTTPStatus.BAD_REQUEST, str(error))
            return
        if (len(data) if head is None else head[0]) > HEAD_BYTES_MAX:
            self._refuse_head(data)
            return
        if head is None:
            self._ahead = data
            return
        size, method, path, query, headers, length, is_kept, is_modern, expects = head
        scope: Scope = {
            "type": "http",
            "method": method,
            "path": path,
            "query_string": query,
            "headers": headers,
            "client": self._client,
            IS_ALONE: self._listener.note_request(self),
        }
        if self._listener.verifies_user:
            scope[CERTIFICATE_NAME] = self._name
        exchange = Exchange(self, scope, length, is_kept=is_kept, is_modern=is_modern, expects=expects)
        self._exchange = exchange
        if rest := data[size:]:
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
        if not exchange.is_answered or not exchange.is_received or not exchange.is_kept or self._listener.is_stopping:
            if exchange.is_cut_unnoticed:
                self.transport.abort()
            else:
                self.transport.close()
            return
        self.deadline = self._listener.loop.time() + IDLE_SECONDS_MAX
        self.resume_reading()
        if self._ahead:
            self._read_head(self._ahead)

    def _refuse_head(self, data: bytes) -> None:
        """Refuse a head that is too large: 414 if its first line alone is, else 431."""
        if data.find(b"\n", 0, HEAD_BYTES_MAX) < 0:
            self._refuse(HTTPStatus.REQUEST_URI_TOO_LONG, f"the request line is over {HEAD_BYTES_MAX} bytes")
        else:
            self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, f"the head is over {HEAD_BYTES_MAX} bytes")

    def _refuse(self, status: HTTPStatus, reason: str) -> None:
        """Answer what cannot be read, and close."""
        _log.debug("a request cannot be read", client=self._client, reason=reason)
        body = f"the request cannot be read: {reason}\n".encode()
        self.pause_reading()
        lines = (
            b"date: " + _date(),
            b"connection: close",
            b"content-type: text/plain",
            b"content-length: %d" % len(body),
        )
        self.transport.write(_STATUS_LINES[status] + b"\r\n".join(lines) + b"\r\n\r\n" + body)
        self.transport.close()


class Exchange:
    """One request and its answer, as an ASGI application wants them."""

    __slots__ = (
        "_chunked",
        "_chunks",
        "_connection",
        "_error",
        "_expects",
        "_framing",
        "_held",
        "_is_body_told",
        "_is_broken",
        "_is_chunked",
        "_is_modern",
        "_left",
        "_pieces",
        "_start",
        "_waiter",
        "is_answered",
        "is_cut_unnoticed",
        "is_kept",
        "is_received",
        "scope",
    )

    def __init__(
        self,
        connection: Connection,
        scope: Scope,
        length: int | None,
        *,
        is_kept: bool,
        is_modern: bool,
        expects: bool,
    ) -> None:
        self.scope = scope
        self.is_kept = is_kept
        """Whether another request may come on this connection."""
        self.is_received = length == 0
        """Whether the whole body was read."""
        self.is_answered = False
        """Whether the whole answer was written."""
        self.is_cut_unnoticed = False
        """Whether the end of the connection is all that ends an answer: then it must not look like one."""
        self._connection = connection
        self._is_modern = is_modern
        self._expects = expects
        self._error: InvalidArguments | None = None
        """What is wrong with the body, to be told once."""
        self._is_broken = False
        self._left = length
        self._chunks = _kernels.ChunkedBody() if length is None else None
        self._pieces: list[bytes] = []
        """What was read of the body and not asked for yet."""
        self._held = 0
        self._is_body_told = False
        self._framing = 0
        """Bytes of sizes, extensions and trailers of chunks."""
        self._chunked = 0
        """Bytes of the body that came in chunks."""
        self._waiter: asyncio.Future[None] | None = None
        self._start: Message | None = None
        self._is_chunked = False

    def feed(self, data: bytes) -> bytes:
        """Take more of the body; what comes behind its end is returned."""
        rest = b""
        if self._chunks is not None:
            try:
                piece, taken = self._chunks.feed(data)
            except _kernels.MalformedInput as error:
                return self._fail(str(error))
            self._framing += taken - len(piece)
            self._chunked += len(piece)
            if self._framing > max(HEAD_BYTES_MAX, _FRAMING_SHARE_MAX * self._chunked):
                return self._fail("there is too much between its chunks")
            if taken < len(data):
                rest = data[taken:]
            self.is_received = self._chunks.is_done
        else:
            assert self._left is not None
            piece = data
            if len(data) > self._left:
                piece, rest = data[: self._left], data[self._left :]
            self._left -= len(piece)
            self.is_received = self._left == 0
        if piece:
            self._pieces.append(piece)
            self._held += len(piece)
            if self._held > AHEAD_BYTES_MAX and not self.is_received:
                self._connection.pause_reading()
        if piece or self.is_received:
            self.wake()
        return rest

    def _fail(self, reason: str) -> bytes:
        """Let whoever reads the body know that it cannot be read."""
        self._error = InvalidArguments(f"the body cannot be read: {reason}")
        self._connection.pause_reading()
        self.wake()
        return b""

    def wake(self) -> None:
        """Let whoever waits in `receive` look again."""
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
            await self._waiter

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
        tail = b""
        if self._is_chunked:
            if body:
                head += b"%x\r\n" % len(body)
                tail = b"\r\n"
            if not more:
                tail += b"0\r\n\r\n"
        if not more:
            self.is_answered, self.is_cut_unnoticed = True, False
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
        status: int = start["status"]
        lines = [_STATUS_LINES.get(status) or b"HTTP/1.1 %d \r\n" % status]
        has_length = False
        for name, value in start["headers"]:
            has_length = has_length or name == b"content-length"
            lines.append(b"%s: %s\r\n" % (name, value))
        if not is_whole and not has_length and status not in _BODILESS and self.scope["method"] != "HEAD":
            if self._is_modern:
                self._is_chunked = True
                lines.append(b"transfer-encoding: chunked\r\n")
            else:
                self.is_kept, self.is_cut_unnoticed = False, True
        if not self.is_received or self._connection.is_ending:
            self.is_kept = False
        if not self.is_kept:
            lines.append(b"connection: close\r\n")
        elif not self._is_modern:
            lines.append(b"connection: keep-alive\r\n")
        lines.append(b"date: %s\r\n" % _date())
        head = b"".join(lines)
        if head.count(b"\n") != len(lines):
            # Whoever can break a line could write headers, or a whole answer, in our name.
            raise ValueError("a header of an answer has a line break")
        return head + b"\r\n"


def _date() -> bytes:
    """Return the time as HTTP writes it."""
    return _date_of(int(time.time()))


@lru_cache(1)
def _date_of(second: int) -> bytes:
    return formatdate(second, usegmt=True).encode()
