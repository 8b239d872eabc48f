"""One request and its answer on a connection, between the bytes and the application."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tsdb.errors import InvalidArguments
from tsdb.servers.http.wire._messages import Message, Scope
from tsdb.servers.http.wire._protocol import BodyReader, Head, ResponseEncoder

if TYPE_CHECKING:
    from tsdb.servers.http.wire._connection import HttpConnection

AHEAD_BYTES_MAX = 256 << 10
"""How much is read ahead of the application."""

_JOINED_BYTES_MAX = 64 << 10
"""Up to this size, a body is worth a copy to be written together with its head."""

_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_DISCONNECT: Message = {"type": "http.disconnect"}


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
