"""The telnet server, asked over real sockets in front of a real database."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from tsdb.components._local import LocalDatabase, LocalOptions, open_directory
from tsdb.database import Database, DatabaseGate, Session, read_all
from tsdb.errors import StartError
from tsdb.ingest import NewTable, Rejection, TableRows, WriteOutcome
from tsdb.servers.opentsdb import LINE_BYTES_MAX, OpentsdbServer


class CountedDatabase:
    """The database, and how many writes it was asked for, on which threads, how many at once."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.writes: list[int] = []
        self.threads: set[str] = set()
        self.refused: list[Rejection] = []
        self.most_at_once = 0
        self.gate: threading.Event | None = None
        self._running = 0
        self._changed = threading.Condition()

    def ingest(
        self,
        rows: Sequence[TableRows],
        session: Session,
        new_table: NewTable,
        *,
        dry_run: bool = False,
        hints: Mapping[str, str] | None = None,
        protocol: str = "other",
    ) -> WriteOutcome:
        with self._changed:
            self._running += 1
            self.most_at_once = max(self.most_at_once, self._running)
            self.threads.add(threading.current_thread().name)
            self._changed.notify_all()
        try:
            if self.gate is not None:
                self.gate.wait(10)
            self.writes.append(sum(each.rows for each in rows))
            return self.database.ingest(rows, session, new_table, protocol=protocol)
        finally:
            with self._changed:
                self._running -= 1

    def wait_running(self, writes: int) -> None:
        """Return when so many writes are under way."""
        with self._changed:
            assert self._changed.wait_for(lambda: self._running >= writes, timeout=20)

    def reject(self, rejections: Sequence[Rejection], session: Session, *, protocol: str) -> None:
        self.refused += rejections
        self.database.reject(rejections, session, protocol=protocol)

    def ask(self, text: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = read_all(self.database.run(text, Session())).to_pylist()  # type: ignore[arg-type]
        return rows


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[LocalDatabase]:
    opened = open_directory(tmp_path, options=LocalOptions(has_housekeeping=False))
    yield opened
    opened.close()


@pytest.fixture
def database(opened: LocalDatabase) -> CountedDatabase:
    return CountedDatabase(opened.database)


@pytest.fixture
async def server(database: CountedDatabase) -> AsyncIterator[OpentsdbServer]:
    server = OpentsdbServer(DatabaseGate(database), host="127.0.0.1", port=0, threads_max=2)
    await server.start()
    yield server
    await server.stop(5)


class Client:
    """A connection to the server."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def send(self, text: bytes) -> None:
        self._writer.write(text)
        await self._writer.drain()

    async def reply(self) -> str:
        """Return the next line; "" when the server has closed."""
        async with asyncio.timeout(20):
            return (await self._reader.readline()).decode()

    async def settle(self) -> str:
        """Ask something that is answered, so that all before it is done; return all replies up to then."""
        await self.send(b"version\n")
        replies = ""
        while not (line := await self.reply()).startswith("tsdb "):
            assert line, f"the server closed the connection after {replies!r}"
            replies += line
        return replies

    async def close(self) -> None:
        self._writer.close()
        await self._writer.wait_closed()


Connect: TypeAlias = Callable[[OpentsdbServer], Awaitable[Client]]


@pytest.fixture
async def connect() -> AsyncIterator[Connect]:
    clients: list[Client] = []

    async def open_client(server: OpentsdbServer) -> Client:
        host, port = server.address.rsplit(":", 1)
        clients.append(Client(*await asyncio.open_connection(host, int(port))))
        return clients[-1]

    yield open_client
    for client in clients:
        await client.close()


async def test_put_is_silent_and_writes_the_point(
    connect: Connect, server: OpentsdbServer, database: CountedDatabase
) -> None:
    client = await connect(server)
    await client.send(b"put x 1667898896 1 h=a\n")
    assert await client.settle() == ""
    (row,) = database.ask("SELECT h, tsdb_value, CAST(tsdb_timestamp AS BIGINT) AS t FROM x")
    assert row == {"h": "a", "tsdb_value": 1.0, "t": 1_667_898_896_000}


@pytest.mark.parametrize(
    ("line", "reply"),
    [
        ("put x", "put: illegal argument: not enough arguments (need least 4, got 2)"),
        ("put x 1 ", "put: illegal argument: not enough arguments (need least 4, got 3)"),
        ("get x 1 2", "unknown command get."),
        ("PUT x 1 2", "unknown command PUT."),
        ("put x 1.5 2", "put: invalid timestamp: 1.5"),
        ("put x 99999999999999999999 2", "put: invalid timestamp: 99999999999999999999"),
        ("put x 1 two", "put: invalid value: two"),
        ("put x 1 1_0", "put: invalid value: 1_0"),
        ("put x 1 2 host", "put: invalid tag: host"),
        ("put x 1 2 =a", "put: invalid tag: =a"),
        ("put x 1 2 h=", "put: invalid tag: h="),
        ("put x 1 2 h=a=b", "put: invalid tag: h=a=b"),
        ("put x 1 2 h=a h=b", "put: illegal argument: duplicate tag: h"),
    ],
)
async def test_a_bad_line_is_answered_and_the_connection_goes_on(
    connect: Connect, server: OpentsdbServer, database: CountedDatabase, line: str, reply: str
) -> None:
    client = await connect(server)
    await client.send(f"{line}\r\n".encode())
    assert await client.reply() == f"Invalid query: {reply}\r\n"
    await client.send(b"put good 1 2\r\n")
    assert await client.settle() == ""
    assert database.ask("SELECT count(*) AS n FROM good") == [{"n": 1}]
    assert [each.reason for each in database.refused] == [reply]


async def test_lines_that_arrive_together_are_one_write_and_errors_come_in_their_order(
    connect: Connect, server: OpentsdbServer, database: CountedDatabase
) -> None:
    client = await connect(server)
    await client.send(b"put a 1 1\nbad\nput b 1 1 h=x\n\nput a 2 oops\nput a 3 1\n")
    assert await client.settle() == "Invalid query: unknown command bad.\r\nInvalid query: put: invalid value: oops\r\n"
    assert database.writes == [3]


async def test_only_the_lines_of_a_table_that_cannot_hold_them_are_refused(
    connect: Connect, server: OpentsdbServer, database: CountedDatabase
) -> None:
    database.database.run("CREATE TABLE words (h STRING PRIMARY KEY, v STRING, ts TIMESTAMP TIME INDEX)", Session())
    client = await connect(server)
    await client.send(b"put words 1 1 h=a\nput fine 1 1 h=a\nput words 2 1 h=b\n")
    replies = (await client.settle()).splitlines()
    assert len(replies) == 2
    assert all(reply.startswith("Invalid query: ") and "words" in reply for reply in replies)
    assert database.ask("SELECT count(*) AS n FROM fine") == [{"n": 1}]


@pytest.mark.parametrize("word", [b"quit", b"QUIT", b"exit"])
async def test_quit_closes_after_what_came_before_it(
    connect: Connect, server: OpentsdbServer, database: CountedDatabase, word: bytes
) -> None:
    client = await connect(server)
    await client.send(b"put x 1 1\n" + word + b"\r\nput y 1 1\n")
    assert await client.reply() == ""
    assert database.writes == [1]
    assert database.ask("SELECT count(*) AS n FROM x") == [{"n": 1}]


async def test_half_a_line_at_the_end_of_a_connection_is_not_written(
    connect: Connect, server: OpentsdbServer, database: CountedDatabase
) -> None:
    client = await connect(server)
    await client.send(b"put x 1 1\nput x 2 12")
    await client.close()
    other = await connect(server)
    while not database.writes:
        await other.settle()
    assert database.writes == [1]


async def test_a_line_without_end_closes_the_connection(
    connect: Connect, server: OpentsdbServer, database: CountedDatabase
) -> None:
    client = await connect(server)
    await client.send(b"put x 1 1 " + b"h" * (LINE_BYTES_MAX + 1))
    assert await client.reply() == f"Invalid query: the line is longer than {LINE_BYTES_MAX} bytes\r\n"
    assert await client.reply() == ""
    assert database.writes == []


async def test_a_line_that_does_not_go_on_closes_the_connection_and_silence_does_not(
    connect: Connect, database: CountedDatabase
) -> None:
    server = OpentsdbServer(DatabaseGate(database), host="127.0.0.1", port=0, threads_max=2, line_seconds_max=0.2)
    await server.start()
    silent, slow = await connect(server), await connect(server)
    await silent.send(b"put x 1 1\n")
    await slow.send(b"put x 2 1\nput x 3")
    assert await slow.reply() == ""
    await silent.send(b"put x 4 1\n")
    await silent.settle()
    assert sum(database.writes) == 3
    await server.stop(5)


async def test_bytes_that_are_no_utf8_are_refused(connect: Connect, server: OpentsdbServer) -> None:
    client = await connect(server)
    await client.send(b"put \xff\xfe 1 1\n")
    assert await client.settle() == "Invalid query: the line is not valid UTF-8\r\n"


async def test_at_most_as_many_batches_as_threads_are_written_at_once(
    connect: Connect, server: OpentsdbServer, database: CountedDatabase
) -> None:
    database.gate = threading.Event()
    clients = [await connect(server) for _ in range(5)]
    for number, client in enumerate(clients):
        await client.send(f"put x {number} 1 h=a\n".encode())
    await asyncio.to_thread(database.wait_running, 2)
    database.gate.set()
    for client in clients:
        assert await client.settle() == ""
        assert database.most_at_once == 2
    assert len(database.threads) == 2
    assert len(database.writes) == 5


async def test_connections_over_the_limit_are_told_and_closed(connect: Connect, database: CountedDatabase) -> None:
    server = OpentsdbServer(DatabaseGate(database), host="127.0.0.1", port=0, threads_max=1, connections_max=1)
    await server.start()
    first = await connect(server)
    await first.settle()
    second = await connect(server)
    assert await second.reply() == "Internal error: too many connections\r\n"
    assert await second.reply() == ""
    await first.close()
    await server.stop(1)


async def test_lines_that_were_taken_are_written_before_the_server_stops(
    connect: Connect, database: CountedDatabase
) -> None:
    server = OpentsdbServer(DatabaseGate(database), host="127.0.0.1", port=0, threads_max=1)
    await server.start()
    database.gate = threading.Event()
    client = await connect(server)
    await client.send(b"put x 1 1\n")
    await asyncio.to_thread(database.wait_running, 1)
    stopping = asyncio.create_task(server.stop(10))
    await asyncio.sleep(0)
    database.gate.set()
    await stopping
    assert database.ask("SELECT count(*) AS n FROM x") == [{"n": 1}]
    assert await client.reply() == ""


def test_an_address_that_is_taken_is_told_in_one_line(database: CountedDatabase) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        server = OpentsdbServer(DatabaseGate(database), host="127.0.0.1", port=port, threads_max=1)
        with pytest.raises(StartError, match=rf"cannot listen on 127.0.0.1:{port} for OpenTSDB.*change opentsdb.addr"):
            server.probe()
