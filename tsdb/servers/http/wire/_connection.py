"""HTTP/1.1 on one connection: bytes in, requests to the application, responses out.

    socket ─▶ head ─▶ Exchange: scope, receive (the body as it comes), send ─▶ HttpApp ─▶ socket
      │         └─ the next head when the response is out                                   ▲
      └──────▶ Shortcut, for the requests it knows ────────────────────────────────────────┘

Everything runs on the event loop: no thread is woken between the last byte of a request and its handler. `_protocol`
parses and encodes the bytes.

- One request at a time. Pipelined requests wait; beyond `AHEAD_BYTES_MAX` they stay in the socket (back-pressure).
- A body is read on demand, with the same bound.
- A response that has begun and cannot be completed closes the connection, so that its reader notices.
- A client that closes its side is gone, even if it still reads.
"""

from __future__ import annotations

import asyncio
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any, cast

from tsdb.servers._tls import common_name
from tsdb.servers.http.wire._exchange import AHEAD_BYTES_MAX, Exchange
from tsdb.servers.http.wire._messages import BEGUN, CERTIFICATE_NAME, IS_ALONE, Scope
from tsdb.servers.http.wire._protocol import BadHead, encode_refusal, parse_head
from tsdb.servers.http.wire._shortcut import ShortExchange
from tsdb.telemetry import get_logger

if TYPE_CHECKING:
    from tsdb.servers.http.wire._listener import Listener

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
        "kept",
        "transport",
    )

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._client: tuple[str, str] | None = None
        self._name: str | None = None
        self._ahead = b""
        """Bytes of the next request."""
        self._exchange: Exchange | ShortExchange | None = None
        self._task: asyncio.Task[None] | None = None
        self._is_reading = True
        self.transport: asyncio.Transport
        self.is_made = False
        self.is_lost = False
        self.deadline = 0.0
        """When a client that is silent has to go, by the clock of the loop."""
        self.drained: asyncio.Future[None] | None = None
        """Ends when more can be written; None if it can."""
        self.kept: dict[Hashable, Any] = {}
        """What the shortcut knows about the client."""

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
            self._begin(self._ahead + data if self._ahead else data)
            return
        if isinstance(exchange, Exchange) and not exchange.is_received:
            data = exchange.feed(data)
        if data:
            self._ahead += data
            if len(self._ahead) > AHEAD_BYTES_MAX:
                self.pause_reading()

    def _begin(self, data: bytes) -> None:
        shortcut = self._listener.shortcut
        if shortcut is None or not shortcut.take(self, data):
            self._read_head(data)

    def note_request(self) -> bool:
        """Note that a request begins; return whether no other client has begun one recently."""
        return self._listener.note_request(self)

    def begin_short(self, exchange: ShortExchange) -> None:
        """Leave a request to the shortcut; nothing else is read until it is answered."""
        self._ahead = b""
        self._exchange = exchange

    def answer_short(self, response: bytes) -> None:
        """Send the answer of the shortcut."""
        if not self.is_lost:
            self.transport.write(response)
        if self.drained is None:
            self._end_short(None)
        else:
            self.drained.add_done_callback(self._end_short)

    def give_back(self, data: bytes, begun: float) -> None:
        """Have the application answer a request that the shortcut cannot answer after all; `begun` is when it came."""
        self._exchange = None
        if not self.is_lost:
            self._read_head(data + self._ahead, begun)

    def _end_short(self, _: object) -> None:
        self._exchange = None
        if self.is_lost:
            return
        if self._listener.is_stopping:
            self.transport.close()
        else:
            self._go_on()

    def _read_head(self, data: bytes, begun: float | None = None) -> None:
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
        if begun is not None:
            scope[BEGUN] = begun
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
        self._go_on()

    def _go_on(self) -> None:
        """Wait for the next request, or begin with it if it is there."""
        self.deadline = self._listener.loop.time() + self._listener.idle_seconds_max
        self.resume_reading()
        if self._ahead:
            self._begin(self._ahead)

    @property
    def client_host(self) -> str:
        """The address of the client, without its port."""
        return self._client[0] if self._client else ""

    def _refuse(self, error: BadHead) -> None:
        """Answer what cannot be read, and close."""
        _log.debug("a request cannot be read", client=self._client, reason=str(error))
        self.pause_reading()
        self.transport.write(encode_refusal(error.status, str(error)))
        self.transport.close()
