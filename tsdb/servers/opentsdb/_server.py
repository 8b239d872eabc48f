"""The server that listens for OpenTSDB's lines.

A connection reads what has arrived, handles its complete lines as one write on one of the worker threads, sends the
replies of the lines that failed, and reads on. While it writes it does not read, so a client that is faster than the
database is slowed down by TCP. Lines, the time a line may take, connections, threads and the time a client may take to
read are bounded.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from tsdb.database import DatabaseGate, DatabasePort
from tsdb.ingest import Rejection
from tsdb.query import Session
from tsdb.servers._listening import take_address, written_address
from tsdb.servers.opentsdb._lines import LINE_BYTES_MAX, LINE_TOO_LONG, PROTOCOL, Handled, handle_lines
from tsdb.telemetry import gauge, get_logger

CONNECTIONS_MAX = 1024
"""How many clients may be connected; further ones are told so and closed."""
READ_BYTES = 256 << 10
"""How much is read at once, and so how many bytes of lines can become one write."""
LINE_SECONDS_MAX = 30.0
"""How long a line may take that has begun; between lines a client may be silent."""
REPLY_SECONDS_MAX = 10.0
"""How long a client may leave its replies unread."""
_BACKLOG = 128

_log = get_logger("tsdb.opentsdb")
_CONNECTIONS = gauge("tsdb_servers_opentsdb_connections", "Open connections of the OpenTSDB telnet server.")


class OpentsdbServer:
    """Listens on an address; at most `threads_max` batches of lines are parsed and written at the same time."""

    name = "OpenTSDB"

    def __init__(self, gate: DatabaseGate, *, host: str, port: int, threads_max: int) -> None:
        self._gate = gate
        self._database: DatabasePort
        self._host = host
        self._port = port
        self._threads_max = threads_max
        self._socket: socket.socket | None = None
        self._server: asyncio.Server | None = None
        self._pool: ThreadPoolExecutor | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def address(self) -> str:
        return written_address(self._host, self._port)

    @property
    def facts(self) -> Mapping[str, str]:
        """For the start-up summary."""
        return {self.name: self.address}

    def probe(self) -> None:
        """Take the address, or raise a StartError that says in one line why it cannot be had."""
        if self._socket is not None:
            return
        hint = "change opentsdb.addr, or set opentsdb.enable = false"
        taken = take_address(self._host, self._port, protocol="OpenTSDB", hint=hint, backlog=_BACKLOG)
        self._port = taken.getsockname()[1]
        self._socket = taken

    async def start(self) -> None:
        """Begin to accept connections."""
        self.probe()
        self._database = self._gate.database
        self._pool = ThreadPoolExecutor(self._threads_max, thread_name_prefix="tsdb-opentsdb")
        self._server = await asyncio.start_server(self._accept, sock=self._socket, limit=READ_BYTES)

    async def stop(self, grace_seconds: float) -> None:
        """Accept no more, let batches under way finish within the grace period, close every connection."""
        if self._server is not None:
            self._server.close()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=grace_seconds)
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
        if self._socket is not None:
            self._socket.close()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        _CONNECTIONS.set(len(self._tasks))
        try:
            if len(self._tasks) > CONNECTIONS_MAX:
                await _reply(writer, ["Internal error: too many connections"])
            else:
                await self._serve(reader, writer)
        except (ConnectionError, TimeoutError):
            _log.debug("a client went away", server=self.name)
        except asyncio.CancelledError:
            # The server stops; that a connection ends is all that was wanted of its task.
            _log.debug("a connection was closed because the server stops", server=self.name)
        finally:
            self._tasks.discard(task)
            _CONNECTIONS.set(len(self._tasks))
            writer.close()
            with suppress(ConnectionError, TimeoutError, asyncio.CancelledError):
                await asyncio.wait_for(writer.wait_closed(), REPLY_SECONDS_MAX)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = writer.get_extra_info("peername")
        session = Session(client=str(peer[0]) if peer else "")
        rest, deadline = b"", None
        loop = asyncio.get_running_loop()
        # An end inside a line leaves it unwritten: half a line may look like a whole one with a shorter value.
        while piece := await _read(reader, deadline):
            *lines, rest = (rest + piece).split(b"\n")
            if not rest:
                deadline = None
            elif lines or deadline is None:
                deadline = loop.time() + LINE_SECONDS_MAX
            if lines:
                handled = await self._handle(lines, session)
                await _reply(writer, [handled.replies[number] for number in sorted(handled.replies)])
                if handled.has_quit:
                    return
            if len(rest) > LINE_BYTES_MAX:
                self._database.reject([Rejection("", LINE_TOO_LONG, kind="syntax")], session, protocol=PROTOCOL)
                await _reply(writer, [f"Invalid query: {LINE_TOO_LONG}"])
                return

    async def _handle(self, lines: list[bytes], session: Session) -> Handled:
        assert self._pool is not None
        work = asyncio.get_running_loop().run_in_executor(self._pool, handle_lines, lines, self._database, session)
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            # Lines that were taken are written before the connection ends.
            await work
            raise


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
