"""The OpenTSDB telnet server.

A connection reads what has arrived, handles its complete lines as one write on a worker thread, sends the replies of
the lines that failed, and reads on. It does not read while it writes, so TCP slows down a client that is faster than
the database (back-pressure). The length and duration of a line, connections, threads and unread replies are bounded.
"""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from tsdb.database import DatabaseGate, DatabasePort
from tsdb.ingest import Rejection
from tsdb.query import Session
from tsdb.servers._steps import StepPool
from tsdb.servers._tcp import TcpServer, TcpService
from tsdb.servers._tracing import trace_texts
from tsdb.servers.opentsdb._lines import LINE_BYTES_MAX, LINE_TOO_LONG, PROTOCOL, Handled, handle_lines
from tsdb.telemetry import gauge, get_logger

CONNECTIONS_MAX = 1024
"""How many clients may be connected; further ones get an error and are closed."""
READ_BYTES = 256 << 10
"""How much is read at once, and so how many bytes of lines can become one write."""
LINE_SECONDS_MAX = 30.0
"""How long a line may take that has begun; between lines a client may be silent."""
REPLY_SECONDS_MAX = 10.0
"""How long a client may leave its replies unread."""

_log = get_logger("tsdb.opentsdb")
_CONNECTIONS = gauge("tsdb_servers_opentsdb_connections", "Open connections of the OpenTSDB telnet server.")


class OpentsdbServer(TcpService):
    """Listens on an address; at most `threads_max` batches of lines are parsed and written at the same time."""

    name = "OpenTSDB"

    def __init__(
        self,
        gate: DatabaseGate,
        *,
        host: str,
        port: int,
        threads_max: int,
        connections_max: int = CONNECTIONS_MAX,
        line_seconds_max: float = LINE_SECONDS_MAX,
    ) -> None:
        self._line_seconds_max = line_seconds_max
        self._gate = gate
        self._threads_max = threads_max
        self._lines: _Lines | None = None
        self._tcp = TcpServer(
            self.name,
            section="opentsdb",
            host=host,
            port=port,
            connections_max=connections_max,
            accept=self._accept,
            refuse=_refuse,
            open_connections=_CONNECTIONS,
            log=_log,
        )

    async def start(self) -> None:
        """Begin to accept connections."""
        self._lines = _Lines(self._gate.database, StepPool("opentsdb", self._threads_max))
        self._tcp.start()

    async def stop(self, grace_seconds: float) -> None:
        """Accept no more, let batches under way finish within the grace period, close every connection."""
        await self._tcp.stop(grace_seconds)
        if self._lines is not None:
            self._lines.pool.close()

    def _accept(self, accepted: socket.socket, client: str) -> _Connection:
        assert self._lines is not None
        return _Connection(accepted, client, self._lines, self._line_seconds_max)


@dataclass(frozen=True, slots=True)
class _Lines:
    """Where lines are handled."""

    database: DatabasePort
    pool: StepPool

    async def handle(self, lines: list[bytes], session: Session) -> Handled:
        with trace_texts("opentsdb.put", "opentsdb", ()):
            work = asyncio.ensure_future(self.pool.run(partial(handle_lines, lines, self.database, session)))
            try:
                return await asyncio.shield(work)
            except asyncio.CancelledError:
                # Lines that were taken are written before the connection ends.
                await work
                raise


class _Connection:
    """One client."""

    def __init__(self, accepted: socket.socket, client: str, lines: _Lines, line_seconds_max: float) -> None:
        self._line_seconds_max = line_seconds_max
        self._socket = accepted
        self._session = Session(client=client)
        self._lines = lines
        self._task: asyncio.Task[None] | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def serve(self) -> None:
        """Handle lines until the client leaves."""
        self._task = asyncio.current_task()
        try:
            await self._serve(*await self._open())
        except (ConnectionError, TimeoutError):
            _log.debug("a client disconnected", client=self._session.client)

    async def _open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=READ_BYTES)
        protocol = asyncio.StreamReaderProtocol(reader)
        transport, _ = await loop.connect_accepted_socket(lambda: protocol, self._socket)
        self._writer = asyncio.StreamWriter(transport, protocol, reader, loop)
        return reader, self._writer

    def end_soon(self) -> None:
        """Stop reading; lines that were taken are written first."""
        if self._task is not None:
            self._task.cancel()

    async def close(self) -> None:
        if self._writer is None:
            self._socket.close()
            return
        self._writer.close()
        with suppress(ConnectionError, TimeoutError, asyncio.CancelledError):
            await asyncio.wait_for(self._writer.wait_closed(), REPLY_SECONDS_MAX)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        rest, deadline = b"", None
        loop = asyncio.get_running_loop()
        # An end inside a line leaves it unwritten: half a line may look like a whole one with a shorter value.
        while piece := await _read(reader, deadline):
            *lines, rest = (rest + piece).split(b"\n")
            if not rest:
                deadline = None
            elif lines or deadline is None:
                deadline = loop.time() + self._line_seconds_max
            if lines:
                handled = await self._lines.handle(lines, self._session)
                await _reply(writer, [handled.replies[number] for number in sorted(handled.replies)])
                if handled.has_quit:
                    return
            if len(rest) > LINE_BYTES_MAX:
                rejection = Rejection("", LINE_TOO_LONG, kind="syntax")
                self._lines.database.reject([rejection], self._session, protocol=PROTOCOL)
                await _reply(writer, [f"Invalid query: {LINE_TOO_LONG}"])
                return


def _refuse(accepted: socket.socket) -> None:
    """Say that there are too many connections."""
    accepted.setblocking(False)
    with suppress(BlockingIOError):
        # Unread bytes would reset the connection, and the reply with it.
        accepted.recv(READ_BYTES)
    accepted.send(b"Internal error: too many connections\r\n")


async def _read(reader: asyncio.StreamReader, deadline: float | None) -> bytes:
    """Return what has come, b"" at the end; TimeoutError if a line that has begun does not go on."""
    async with asyncio.timeout_at(deadline):
        return await reader.read(READ_BYTES)


async def _reply(writer: asyncio.StreamWriter, replies: list[str]) -> None:
    if replies:
        if writer.transport.is_closing():
            raise ConnectionResetError("the client went away")
        writer.write("".join(f"{reply}\r\n" for reply in replies).encode("utf-8", "backslashreplace"))
        await asyncio.wait_for(writer.drain(), REPLY_SECONDS_MAX)
