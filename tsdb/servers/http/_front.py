"""TLS where granian's own will not do: a front that shakes hands by itself.

Granian verifies certificates but does not tell in whose name they are (`verify_full`), and at one port it speaks either
TLS or plain text (`prefer`). So here the front accepts the connections, tells by the first byte what a client wants,
and hands what it says on to an engine that speaks plain text at an address of this machine:

    client ══ (TLS) ══▶ front ── plain text ──▶ engine on 127.0.0.1, port p ──▶ `admit` ──▶ application

The front knows from which ports its own connections come, and so who is behind each of them: `admit` replaces the
address by that of the client and adds the name where it counts. Who reaches the engine in another way is turned away.
Bytes that one side does not take are not read from the other.

The certificate is looked at for each connection: a new one is for new connections at once.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from contextlib import suppress
from typing import Any, NamedTuple, cast

from tsdb.servers._tls import Tls, common_name
from tsdb.servers.http._app import HttpApp
from tsdb.servers.http._engine import IDLE_SECONDS_MAX
from tsdb.servers.http._messages import CERTIFICATE_NAME, Receive, Response, Scope, Send
from tsdb.servers.http._reply import Reply
from tsdb.telemetry import get_logger

HANDSHAKE_SECONDS_MAX = 10.0
"""How long the handshake of TLS may take."""

BACKLOG_MAX = 1024
"""Connections that may wait to be accepted."""

_TLS_HANDSHAKE = b"\x16"
"""The first byte of every connection with TLS; no method of HTTP begins like this."""
_ACCEPT_REST_SECONDS = 0.1
_LOOPBACK = "127.0.0.1"

_log = get_logger("tsdb.http")


class Peer(NamedTuple):
    """Who is at the other end of a connection."""

    host: str
    port: int
    name: str | None
    """The common name of the certificate."""


class Front:
    """Takes connections from a socket that listens, and serves `app` behind it."""

    def __init__(self, app: HttpApp, tls: Tls, listener: socket.socket, *, connections_max: int) -> None:
        self._app, self._tls, self._listener = app, tls, listener
        self._peers: dict[int, Peer] = {}
        self._places = asyncio.Semaphore(connections_max)
        self._connections: set[asyncio.Task[None]] = set()
        self._accepting: asyncio.Task[None] | None = None

    def start(self, engine_port: int) -> None:
        """Accept connections, and hand them on to the engine at a port of this machine."""
        self._listener.setblocking(False)
        self._listener.listen(BACKLOG_MAX)
        self._accepting = asyncio.create_task(self._accept(engine_port), name="tsdb-http-front")

    async def stop(self) -> None:
        """Accept no more. What is connected ends when the engine ends it."""
        if self._accepting is not None:
            self._accepting.cancel()
            await asyncio.wait({self._accepting})
        self._listener.close()

    async def close(self) -> None:
        """End what the engine has not ended: handshakes that nobody answers."""
        connections = set(self._connections)
        for task in connections:
            task.cancel()
        if connections:
            await asyncio.wait(connections)

    async def admit(self, scope: Scope, receive: Receive, send: Send) -> None:
        """What the engine calls for each request."""
        peer = self._peers.get(int(scope["client"][1]))
        if peer is None:
            await Reply(send, is_head=False).send(Response.text("only through TLS\n", status=403))
            return
        scope["client"] = (peer.host, str(peer.port))
        if self._tls.verifies_user:
            scope[CERTIFICATE_NAME] = peer.name
        await self._app(scope, receive, send)

    async def _accept(self, engine_port: int) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._places.acquire()
            try:
                accepted, address = await loop.sock_accept(self._listener)
            except OSError as error:
                self._places.release()
                _log.warning("a connection cannot be accepted", error=str(error))
                await asyncio.sleep(_ACCEPT_REST_SECONDS)
                continue
            except asyncio.CancelledError:
                self._places.release()
                raise
            task = loop.create_task(self._serve(accepted, address, engine_port))
            self._connections.add(task)
            task.add_done_callback(self._forget)

    def _forget(self, task: asyncio.Task[None]) -> None:
        self._connections.discard(task)
        self._places.release()

    async def _serve(self, accepted: socket.socket, address: tuple[Any, ...], engine_port: int) -> None:
        """Shake hands, then pass bytes on until one side ends."""
        loop, client, engine = asyncio.get_running_loop(), _End(), _End()
        try:
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._tls.is_required or await _first_byte(accepted) == _TLS_HANDSHAKE:
                context = await asyncio.to_thread(self._tls.context)
                await loop.connect_accepted_socket(
                    lambda: client, accepted, ssl=context, ssl_handshake_timeout=HANDSHAKE_SECONDS_MAX
                )
            else:
                await loop.connect_accepted_socket(lambda: client, accepted)
            await loop.create_connection(lambda: engine, _LOOPBACK, engine_port)
        except (OSError, ssl.SSLError, TimeoutError, asyncio.CancelledError) as error:
            client.close()
            accepted.close()
            if isinstance(error, asyncio.CancelledError):
                raise
            _log.debug("a connection was not made", client=address[0], error=str(error))
            return
        own_port: int = engine.get("sockname")[1]
        self._peers[own_port] = Peer(address[0], address[1], common_name(client.get("peercert")))
        client.join(engine)
        engine.join(client)
        try:
            await asyncio.wait({client.lost, engine.lost})
        finally:
            client.close()
            engine.close()
            self._peers.pop(own_port, None)


class _End(asyncio.Protocol):
    """One end of what is passed on: what comes in here goes out at the other, which it is joined to."""

    def __init__(self) -> None:
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._transport: asyncio.Transport | None = None
        self._other: _End | None = None
        self._early = b""
        """What came before there was somebody to hand it to."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.pause_reading()

    def join(self, other: _End) -> None:
        """Begin to read, and hand it to `other`."""
        self._other = other
        assert self._transport is not None
        if self._early:
            self.data_received(self._early)
            self._early = b""
        if self.lost.done():
            other.close()
        else:
            self._transport.resume_reading()

    def get(self, name: str) -> Any:
        """What the transport knows of its connection."""
        return None if self._transport is None else self._transport.get_extra_info(name)

    def close(self) -> None:
        """Send what waits, and close."""
        if self._transport is not None:
            self._transport.close()

    def data_received(self, data: bytes) -> None:
        if self._other is None:
            # The event loop may begin to read after it was told not to.
            assert self._transport is not None
            self._early += data
            self._transport.pause_reading()
            return
        if self._other._transport is not None and not self._other._transport.is_closing():
            self._other._transport.write(data)

    def pause_writing(self) -> None:
        self._flow(is_open=False)

    def resume_writing(self) -> None:
        self._flow(is_open=True)

    def _flow(self, *, is_open: bool) -> None:
        source = None if self._other is None else self._other._transport
        if source is None or source.is_closing():
            return
        with suppress(RuntimeError):
            source.resume_reading() if is_open else source.pause_reading()

    def connection_lost(self, error: Exception | None) -> None:
        if not self.lost.done():
            self.lost.set_result(None)
        if self._other is not None:
            self._other.close()


async def _first_byte(opened: socket.socket) -> bytes:
    """Wait for what a client says first, and leave it there; TimeoutError if it says nothing."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(opened, ready.set)
    try:
        await asyncio.wait_for(ready.wait(), IDLE_SECONDS_MAX)
    finally:
        loop.remove_reader(opened)
    return opened.recv(1, socket.MSG_PEEK)


def reserve_loopback() -> socket.socket:
    """Take a free port of this machine, which granian can bind beside it."""
    reserved = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    reserved.bind((_LOOPBACK, 0))
    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    return reserved
