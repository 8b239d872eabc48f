"""Queries of MySQL and PostgreSQL clients in fast workers: the same answers as on threads, to the byte."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import psycopg
import pymysql
import pytest

from tests.engine.lives import wait_until
from tests.servers.fast_workers.test_fast_workers import QUERIES, opened, run, serving
from tests.storage import local_files_only
from tsdb.auth import Authenticator
from tsdb.components import LocalDatabase
from tsdb.config import TlsMode
from tsdb.database import DatabaseGate, RepeatedQuery
from tsdb.engine.lending import Lender
from tsdb.processes.fork_server import Forker
from tsdb.servers import Tls
from tsdb.servers.fast_workers import FastWorkers, _worker, single_query
from tsdb.servers.mysql import MysqlLimits, MysqlServer
from tsdb.servers.postgres import PostgresServer

pytestmark = [pytest.mark.timeout(120), local_files_only]

__all__ = ["opened"]

SECONDS = 60
PREPARED = (
    "SELECT date_bin(INTERVAL '1 minute', ts) AS minute, max(v), min(n) FROM cpu "
    "WHERE host = {} AND ts >= {} GROUP BY 1 ORDER BY 1"
)


class Servers(NamedTuple):
    """The ports of two servers of each protocol, with fast workers and without."""

    postgres: int
    postgres_alone: int
    mysql: int
    mysql_alone: int


@asynccontextmanager
async def serving_all(opened: LocalDatabase, workers: FastWorkers) -> AsyncIterator[Servers]:
    def postgres(workers: FastWorkers | None) -> PostgresServer:
        gate = DatabaseGate(opened.database)
        return PostgresServer(gate, host="127.0.0.1", port=0, threads_max=2, version="9.9.9", fast_workers=workers)

    def mysql(workers: FastWorkers | None) -> MysqlServer:
        return MysqlServer(
            DatabaseGate(opened.database),
            Authenticator(),
            Tls(TlsMode.DISABLE),
            host="127.0.0.1",
            port=0,
            limits=MysqlLimits(threads_max=2),
            fast_workers=workers,
        )

    servers = [postgres(workers), postgres(None), mysql(workers), mysql(None)]
    for server in servers:
        await server.start()
    try:
        yield Servers(*(int(server.address.rpartition(":")[2]) for server in servers))
    finally:
        for server in servers:
            await server.stop(5)


def answered() -> int:
    return int(_worker._ANSWERED._value.get())


class Wire:
    """A connection to a PostgreSQL server, byte by byte."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def log_in(self) -> None:
        body = struct.pack("!i", 196608) + b"user\0me\0database\0public\0\0"
        self.writer.write(struct.pack("!i", len(body) + 4) + body)
        await self.until_ready()

    async def ask(self, *messages: tuple[str, bytes]) -> bytes:
        self.writer.write(b"".join(tag.encode() + struct.pack("!i", len(body) + 4) + body for tag, body in messages))
        return await self.until_ready()

    async def until_ready(self) -> bytes:
        got = b""
        while True:
            head = await self.reader.readexactly(5)
            got += head + await self.reader.readexactly(struct.unpack("!i", head[1:])[0] - 4)
            if head[:1] == b"Z":
                return got


@asynccontextmanager
async def wire(port: int) -> AsyncIterator[Wire]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    found = Wire(reader, writer)
    try:
        await found.log_in()
        yield found
    finally:
        writer.close()


def simple(text: str) -> tuple[tuple[str, bytes], ...]:
    return (("Q", text.encode() + b"\0"),)


def extended(text: str, *values: bytes, formats: tuple[int, ...] = (), describe: bool = True) -> Any:
    """The messages of a driver that sends everything at once."""
    bind = b"\0\0" + struct.pack("!hh", 0, len(values))
    bind += b"".join(struct.pack("!i", len(value)) + value for value in values)
    bind += struct.pack(f"!h{len(formats)}h", len(formats), *formats)
    return (
        ("P", b"\0" + text.encode() + b"\0" + struct.pack("!h", 0)),
        ("B", bind),
        *([("D", b"P\0")] if describe else []),
        ("E", b"\0" + struct.pack("!i", 0)),
        ("S", b""),
    )


async def test_postgres_answers_are_the_same_to_the_byte(opened: LocalDatabase, forker: Forker) -> None:
    filled = PREPARED.format("$1", "$2")
    asked = [
        *(simple(text) for text in QUERIES),
        simple(QUERIES[1] + " ;\n"),
        simple("SELECT count(*) FROM cpu WHERE ts >= '1970-01-01T00:10:00Z'"),
        extended(QUERIES[0]),
        extended(QUERIES[1], formats=(1,)),
        extended(QUERIES[1], formats=(0, 1, 0, 1, 0), describe=False),
        extended(filled, b"h1", b"1970-01-01 00:20:00"),
        extended(filled, b"h'; DROP", b"1970-01-01 00:20:00", formats=(1, 1, 0)),
    ]
    async with (
        serving(opened, forker) as world,
        serving_all(opened, world.workers) as servers,
        wire(servers.postgres) as fast,
        wire(servers.postgres_alone) as alone,
    ):
        for _ in range(3):  # known shapes are answered elsewhere, and from the second time on
            expected = [await alone.ask(*messages) for messages in asked]
            before = answered()
            assert [await fast.ask(*messages) for messages in asked] == expected
        # A value with a semicolon is left to threads.
        assert answered() - before == len(asked) - 1
        # In other zones and styles, in a transaction, and with rows that came meanwhile.
        run(opened, "INSERT INTO cpu VALUES (3600000, 'h1', 77.5, 7)")
        for change in ("SET TIME ZONE 'Asia/Tokyo'", "SET datestyle = 'German, DMY'", "BEGIN", "SELECT nothing"):
            for each in (alone, fast):
                await each.ask(*simple(change))
            for messages in asked * 2:
                assert await fast.ask(*messages) == await alone.ask(*messages)
        # What was prepared without a name is there afterwards.
        described = (("D", b"S\0"), ("S", b""))
        assert await fast.ask(*described) == await alone.ask(*described)


async def test_psycopg_and_its_prepared_statements(opened: LocalDatabase, forker: Forker) -> None:
    def use(port: int, is_binary: bool) -> tuple[list[Any], list[str]]:
        address = f"host=127.0.0.1 port={port} user=me dbname=public connect_timeout={SECONDS}"
        with psycopg.connect(address, autocommit=True) as connection, connection.cursor(binary=is_binary) as cursor:
            rows: list[Any] = []
            for turn in range(12):  # prepared by name from the sixth time on
                cursor.execute(PREPARED.format("%s", "%s"), (f"h{turn % 4}", "1970-01-01 00:30:00"))
                rows += cursor.fetchall()
            assert cursor.description is not None
            return rows, [column.name for column in cursor.description]

    async with serving(opened, forker) as world, serving_all(opened, world.workers) as servers:
        for is_binary in (False, True):
            before = answered()
            found = await asyncio.to_thread(use, servers.postgres, is_binary)
            assert found == await asyncio.to_thread(use, servers.postgres_alone, is_binary)
            assert answered() - before >= 9
            assert len(found[0]) == 12 * 30


async def test_a_table_that_changes_its_type_is_noticed(opened: LocalDatabase, forker: Forker) -> None:
    text = "SELECT max(n) FROM cpu"
    prepare = (("P", b"s\0" + text.encode() + b"\0" + struct.pack("!h", 0)), ("D", b"Ss\0"), ("S", b""))
    execute = (("B", b"\0s\0" + struct.pack("!hhh", 0, 0, 0)), ("E", b"\0" + struct.pack("!i", 0)), ("S", b""))
    async with (
        serving(opened, forker) as world,
        serving_all(opened, world.workers) as servers,
        wire(servers.postgres) as fast,
    ):
        await fast.ask(*prepare)
        assert [b"SELECT 1" in await fast.ask(*execute) for _ in range(4)] == [True] * 4
        run(opened, "DROP TABLE cpu")
        run(opened, "CREATE TABLE cpu (ts TIMESTAMP TIME INDEX, host STRING PRIMARY KEY, n DOUBLE)")
        run(opened, "INSERT INTO cpu VALUES (1, 'h1', 2.5)")
        for _ in range(4):
            assert b"cached plan must not change result type" in await fast.ask(*execute)
        assert b"2.5" in await fast.ask(*simple(text))


def mysql_client(port: int) -> pymysql.Connection[Any]:
    options: dict[str, Any] = {"connect_timeout": SECONDS, "read_timeout": SECONDS, "autocommit": True}
    return pymysql.connect(host="127.0.0.1", port=port, user="me", database="public", **options)


async def test_mysql_answers_are_the_same(opened: LocalDatabase, forker: Forker) -> None:
    def use(port: int) -> list[Any]:
        found: list[Any] = []
        with mysql_client(port) as connection, connection.cursor() as cursor:
            for setting in (
                "SET time_zone = '+00:00'",
                "SET time_zone = '+08:00'",
                "SET autocommit = 0",
                "SET odd = 1",
            ):
                cursor.execute(setting)
                for text in (*QUERIES, QUERIES[1] + ";", "SELECT count(*), max(v) + 1 FROM cpu") * 3:
                    cursor.execute(text)
                    result = cursor._result
                    assert result is not None
                    found.append((result.description, result.rows, result.warning_count, connection.server_status))
        return found

    async with serving(opened, forker) as world, serving_all(opened, world.workers) as servers:
        before = answered()
        found = await asyncio.to_thread(use, servers.mysql)
        assert answered() - before > 40
        assert found == await asyncio.to_thread(use, servers.mysql_alone)


class Held:
    """Holds the next query back when its turn has come, until a test has done something to it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, do: Callable[[], object]) -> None:
        self.count = 0
        lend = RepeatedQuery.lend

        def held(query: RepeatedQuery, lender: Lender) -> Any:
            found = lend(query, lender)
            self.count += 1
            do()
            return found

        monkeypatch.setattr(RepeatedQuery, "lend", held)


async def test_a_query_that_is_killed_fails_and_its_connection_lives(
    opened: LocalDatabase, forker: Forker, monkeypatch: pytest.MonkeyPatch
) -> None:
    processes = opened.database.services.processes

    def kill() -> None:
        for process in processes.all():
            processes.kill(process.id)

    def by_mysql(port: int) -> list[str]:
        with mysql_client(port) as connection, connection.cursor() as cursor:
            try:
                cursor.execute(QUERIES[1])
            except pymysql.err.Error as error:
                return [str(error), str(cursor.execute("SELECT 1"))]
        return ["answered"]

    async with (
        serving(opened, forker) as world,
        serving_all(opened, world.workers) as servers,
        wire(servers.postgres) as fast,
    ):
        for messages in (simple(QUERIES[1]), extended(QUERIES[1])) * 2:
            await fast.ask(*messages)
        await asyncio.to_thread(by_mysql, servers.mysql)
        await asyncio.to_thread(by_mysql, servers.mysql)
        held = Held(monkeypatch, kill)
        for messages in (simple(QUERIES[1]), extended(QUERIES[1])):
            assert b"57014" in await fast.ask(*messages)
        found = await asyncio.to_thread(by_mysql, servers.mysql)
        assert "cancelled" in found[0]
        assert found[1] == "1"
        assert held.count == 3
        monkeypatch.undo()
        assert b"SELECT 4" in await fast.ask(*simple(QUERIES[1]))
        assert not processes.all()


async def test_a_client_that_leaves_takes_nothing_with_it(
    opened: LocalDatabase, forker: Forker, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(opened, forker) as world, serving_all(opened, world.workers) as servers:
        async with wire(servers.postgres) as fast:
            for _ in range(3):
                await fast.ask(*simple(QUERIES[1]))
        for _ in range(20):
            reader, writer = await asyncio.open_connection("127.0.0.1", servers.postgres)
            leaving = Wire(reader, writer)
            await leaving.log_in()
            text = QUERIES[1].encode() + b"\0"
            writer.write(b"Q" + struct.pack("!i", len(text) + 4) + text)
            await writer.drain()
            writer.transport.abort()
        async with wire(servers.postgres) as fast:
            assert b"SELECT 4" in await fast.ask(*simple(QUERIES[1]))
        await asyncio.to_thread(wait_until, lambda: not opened.database.services.processes.all())
        await asyncio.to_thread(wait_until, lambda: not any(each.at_once for each in world.workers._workers))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (" SELECT 1 ; ", "SELECT 1"),
        ("select 1", "select 1"),
        ("SELECT 1; SELECT 2", None),
        ("SELECT ';'", None),
        ("INSERT INTO t VALUES (1)", None),
        ("SELECT '" + "x" * 5000 + "'", None),
        ("", None),
    ],
)
def test_only_single_queries_are_tried(text: str, found: str | None) -> None:
    assert single_query(text) == found
