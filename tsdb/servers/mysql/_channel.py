"""The packets of one client, in both directions.

A connection begins as a bare socket from which exactly one packet is read at a time: a client that wants TLS sends its
first bytes right after the packet that says so, and none of them may be lost in a buffer. `open_stream` then moves the
connection to the event loop's streams, with or without TLS.

Everything has a deadline. A packet that has begun must arrive at a minimum speed, and an answer must be read in time;
otherwise the client is disconnected.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tsdb.servers._tcp import ClientGone
from tsdb.servers.mysql._protocol import PIECE_BYTES, WireError, count_pieces, encode_packet

PACE_BYTES = 64 << 10
"""The unit of the pace at which a packet must arrive."""
WRITE_SECONDS_MAX = 600.0
"""How long a client may leave its answer unread."""
TLS_SECONDS_MAX = 10.0
CLOSE_SECONDS_MAX = 2.0
_HEADER_BYTES = 4
_READ_AHEAD_BYTES = 64 << 10


class PacketTooLarge(WireError):
    """A packet that is larger than allowed; it was not read to its end, so that the connection is of no more use."""

    def __init__(self, bytes_max: int) -> None:
        super().__init__(1153, "08S01", f"Got a packet bigger than 'max_allowed_packet' bytes ({bytes_max})")


class OutOfOrder(WireError):
    """A packet with another number than the next one."""

    def __init__(self) -> None:
        super().__init__(1156, "08S01", "Got packets out of order")


class PacketChannel:
    """Reads and writes packets; their numbers go on until `begin_command`."""

    def __init__(self, connection: socket.socket, pace_seconds_max: float) -> None:
        connection.setblocking(False)
        self._socket = connection
        self._pace_seconds_max = pace_seconds_max
        self._loop = asyncio.get_running_loop()
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._on_gone: Callable[[], object] | None = None
        self.sequence = 0
        """The number of the next packet."""

    @property
    def is_encrypted(self) -> bool:
        return self._writer is not None and self._writer.get_extra_info("ssl_object") is not None

    @property
    def certificate(self) -> dict[str, Any] | None:
        """The client certificate, if there is one."""
        return None if self._writer is None else self._writer.get_extra_info("peercert")

    async def open_stream(self, context: ssl.SSLContext | None) -> None:
        """Go on with streams, inside of TLS if there is a context. ClientGone when its handshake fails."""
        reader = asyncio.StreamReader(limit=_READ_AHEAD_BYTES)
        protocol = _Protocol(reader, self._lost)
        timeout = TLS_SECONDS_MAX if context is not None else None
        try:
            transport, _ = await self._loop.connect_accepted_socket(
                lambda: protocol, self._socket, ssl=context, ssl_handshake_timeout=timeout
            )
        except (OSError, ssl.SSLError) as error:
            raise ClientGone(f"the TLS handshake failed: {error}") from error
        self._reader = reader
        self._writer = asyncio.StreamWriter(transport, protocol, reader, self._loop)

    async def read(self, *, bytes_max: int, wait_seconds: float | None) -> bytes:
        """Return what the next packet carries. It must begin within a time; TimeoutError otherwise."""
        whole = b""
        while True:
            async with asyncio.timeout(wait_seconds):
                header = await self._exactly(_HEADER_BYTES)
            wait_seconds = self._pace_seconds_max
            size = int.from_bytes(header[:3], "little")
            if header[3] != self.sequence & 255:
                raise OutOfOrder
            self.sequence += 1
            if len(whole) + size > bytes_max:
                raise PacketTooLarge(bytes_max)
            piece = await self._paced(size)
            whole = whole + piece if whole else piece
            if size < PIECE_BYTES:
                return whole

    def begin_command(self) -> None:
        """The next packet is the first of a command."""
        self.sequence = 0

    async def send(self, payload: bytes) -> None:
        """Send one packet."""
        packet = encode_packet(payload, self.sequence)
        self.sequence += count_pieces(len(payload))
        await self.send_raw(packet)

    async def send_raw(self, packets: bytes) -> None:
        """Send packets that have their headers already, and wait until the client takes them."""
        try:
            async with asyncio.timeout(WRITE_SECONDS_MAX):
                if self._writer is None:
                    await self._loop.sock_sendall(self._socket, packets)
                else:
                    if self._writer.transport.is_closing():
                        raise ConnectionResetError("the connection is closed")
                    self._writer.write(packets)
                    await self._writer.drain()
        except (OSError, TimeoutError) as error:
            raise ClientGone("the client did not read the response") from error

    @contextmanager
    def watched(self, on_gone: Callable[[], object]) -> Iterator[None]:
        """Call `on_gone` as soon as the client disconnects, while nothing reads."""
        self._on_gone = on_gone
        try:
            yield
        finally:
            self._on_gone = None

    async def close(self) -> None:
        """Send what is left and close."""
        if self._writer is None:
            self._socket.close()
            return
        self._writer.close()
        try:
            async with asyncio.timeout(CLOSE_SECONDS_MAX):
                await self._writer.wait_closed()
        except (OSError, TimeoutError):
            self._writer.transport.abort()

    def abort(self) -> None:
        """Close at once, whatever is under way."""
        if self._writer is None:
            self._socket.close()
        else:
            self._writer.transport.abort()

    def _lost(self) -> None:
        if self._on_gone is not None:
            self._on_gone()

    async def _paced(self, size: int) -> bytes:
        pieces: list[bytes] = []
        while size:
            wanted = min(size, PACE_BYTES)
            try:
                async with asyncio.timeout(self._pace_seconds_max):
                    pieces.append(await self._exactly(wanted))
            except TimeoutError as error:
                raise ClientGone("a packet was sent too slowly") from error
            size -= wanted
        return b"".join(pieces)

    async def _exactly(self, size: int) -> bytes:
        try:
            if self._reader is not None:
                return await self._reader.readexactly(size)
            got = b""
            while len(got) < size:
                more = await self._loop.sock_recv(self._socket, size - len(got))
                if not more:
                    raise ClientGone("the client closed the connection")
                got += more
            return got
        except asyncio.IncompleteReadError as error:
            raise ClientGone("the client closed the connection") from error
        except TimeoutError:
            raise
        except OSError as error:
            raise ClientGone(str(error)) from error


class _Protocol(asyncio.StreamReaderProtocol):
    """Reports a disconnect at once; a stream alone reports it to its reader only."""

    def __init__(self, reader: asyncio.StreamReader, on_lost: Callable[[], None]) -> None:
        super().__init__(reader)
        self._on_lost = on_lost

    def eof_received(self) -> bool | None:
        self._on_lost()
        return super().eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self._on_lost()
        super().connection_lost(exc)
