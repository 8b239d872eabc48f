"""Drivers of others, unmodified: values in and out in both formats, cursors, COPY, pools, reflection."""

from __future__ import annotations

import io
import math
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import asyncpg
import pg8000.dbapi
import pg8000.native
import psycopg
import psycopg2
import pytest
import sqlalchemy
from psycopg import errors

from tests.servers.postgres.running import RunningServer

NOW = datetime(2024, 5, 6, 7, 8, 9, 123456)
ROW = ("h'\"\\ü", 5, 1.25, True, date(2024, 5, 6), b"\x00\xff\\", "x", Decimal("12.34"), Decimal(2**63 + 1), -7, 3, 0.5)
COLUMNS = "host, i, f, b, d, y, s, n, u, i4, i2, f4, ts"


@pytest.fixture(scope="module")
def kinds(pg: RunningServer) -> RunningServer:
    """The table with one row of every type."""
    with pg.connect() as connection:
        places = ", ".join(["%s"] * 13)
        written = connection.execute(f"INSERT INTO kinds ({COLUMNS}) VALUES ({places})", (*ROW, NOW))
        assert (written.rowcount, written.statusmessage) == (1, "INSERT 0 1")
        empty = ", ".join(["NULL"] * 11)
        connection.execute(f"INSERT INTO kinds ({COLUMNS}) VALUES ('none', {empty}, '2024-01-01 00:00:00')")
    return pg


@pytest.mark.parametrize("binary", [False, True])
def test_psycopg_reads_every_type_in_both_formats(kinds: RunningServer, binary: bool) -> None:
    with kinds.connect() as connection, connection.cursor(binary=binary) as cursor:
        found = cursor.execute(f"SELECT {COLUMNS} FROM kinds WHERE i IS NOT NULL").fetchall()
        assert found == [(*ROW, NOW)]
        assert cursor.execute(f"SELECT {COLUMNS} FROM kinds WHERE host = 'none'").fetchall() == [
            ("none", *[None] * 11, datetime(2024, 1, 1))
        ]


@pytest.mark.parametrize("binary", [False, True])
def test_psycopg_reads_types_that_only_expressions_have(pg: RunningServer, binary: bool) -> None:
    text = """SELECT [1, 2, NULL] AS a, ['a b', '{', NULL, ''] AS s, interval '1 month 2 days 3 hours' AS iv,
        CAST('12:34:56' AS TIME) AS t, NULL AS n, named_struct('a', 1) AS st, 1e300 AS big,
        CAST('NaN' AS DOUBLE) AS nan, CAST('-inf' AS DOUBLE) AS inf, [1.5] AS fl"""
    with pg.connect() as connection, connection.cursor(binary=binary) as cursor:
        row = cursor.execute(text).fetchone()
    assert row is not None
    assert row[:7] == (
        [1, 2, None],
        ["a b", "{", None, ""],
        timedelta(days=32, hours=3),
        time(12, 34, 56),
        None,
        {"a": 1},
        1e300,
    )
    assert math.isnan(row[7])
    assert row[8:] == (-math.inf, [1.5])


def test_psycopg_compares_columns_with_values_of_their_types(kinds: RunningServer) -> None:
    with kinds.connect() as connection:
        conditions = "host = %s AND i = %s AND f < %s AND b = %s AND ts >= %s AND d = %s AND n = %s"
        values = (ROW[0], 5, 2.0, True, NOW, ROW[4], ROW[7])
        assert connection.execute(f"SELECT i FROM kinds WHERE {conditions}", values).fetchall() == [(5,)]
        assert connection.execute("SELECT i FROM kinds WHERE host = ANY(%s)", (["x", ROW[0]],)).fetchall() == [(5,)]
        assert connection.execute("SELECT i FROM kinds WHERE i IN (%s, %s) LIMIT %s", (4, 5, 1)).fetchall() == [(5,)]
        assert connection.execute("SELECT i FROM kinds WHERE i = %s - %s", (2, -3)).fetchall() == [(5,)]
        assert connection.execute("SELECT %s, %s, %s::int, %s", (1, "x", "5", None)).fetchall() == [(1, "x", 5, None)]


@pytest.mark.parametrize("binary", [False, True])
def test_calendars_are_those_of_the_session(kinds: RunningServer, binary: bool) -> None:
    with kinds.connect() as connection, connection.cursor(binary=binary) as cursor:
        cursor.execute("SET TIME ZONE 'America/New_York'")
        local = NOW - timedelta(hours=4)
        cursor.execute(
            "SELECT ts, date_trunc('day', ts), extract(hour FROM ts), ts::date AS d, to_char(ts, 'HH24:MI TZ') "
            "FROM kinds WHERE ts = %s",
            (local,),
        )
        day = datetime(2024, 5, 6)
        assert cursor.fetchall() == [(local, day, 3, date(2024, 5, 6), "03:08 EDT")]
        cursor.execute("SELECT date_trunc('month', ts) AS m, count(*) FROM kinds GROUP BY m ORDER BY m")
        assert cursor.fetchall() == [(datetime(2023, 12, 1), 1), (datetime(2024, 5, 1), 1)]
        cursor.execute("SELECT count(*) FROM kinds WHERE date_trunc('day', ts) = %s", (day,))
        assert cursor.fetchone() == (1,)
        cursor.execute("SELECT ts AT TIME ZONE 'UTC' FROM kinds WHERE ts = %s", (local,))
        assert cursor.fetchone() == (NOW,)


def test_psycopg_pipelines_and_writes_many(pg: RunningServer) -> None:
    with pg.connect() as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE many (k STRING PRIMARY KEY, i BIGINT, ts TIMESTAMP TIME INDEX)")
        cursor.executemany("INSERT INTO many VALUES (%s, %s, %s)", [(f"k{n}", n, NOW) for n in range(50)])
        assert cursor.rowcount == 50
        with connection.pipeline():
            count = connection.execute("SELECT count(*) FROM many")
            greatest = connection.execute("SELECT max(i) FROM many")
        assert (count.fetchall(), greatest.fetchall()) == ([(50,)], [(49,)])


def test_psycopg_server_cursors_read_in_pieces(pg: RunningServer) -> None:
    with pg.connect() as connection, connection.transaction(), connection.cursor("pieces") as cursor:
        cursor.itersize = 70
        cursor.execute("SELECT i FROM counted WHERE i >= %s ORDER BY i", (10,))
        assert cursor.description is not None
        assert cursor.description[0].name == "i"
        assert [row[0] for row in cursor] == list(range(10, 1000))


def test_errors_have_the_class_that_their_state_names(pg: RunningServer) -> None:
    with pg.connect() as connection:
        with pytest.raises(errors.UndefinedTable):
            connection.execute("SELECT * FROM nope")
        with pytest.raises(errors.UndefinedColumn):
            connection.execute("SELECT nope FROM counted")
        with pytest.raises(errors.UndefinedFunction):
            connection.execute("SELECT nope(i) FROM counted")
        with pytest.raises(errors.GroupingError):
            connection.execute("SELECT k, max(i) FROM counted")
        with pytest.raises(errors.DivisionByZero):
            connection.execute("SELECT i / 0 FROM counted")
        with pytest.raises(errors.DuplicateTable):
            connection.execute("CREATE TABLE counted (ts TIMESTAMP TIME INDEX)")
        with pytest.raises(errors.InvalidTextRepresentation, match=r"\$1"):
            connection.execute("SELECT i FROM counted WHERE i = %s", ("x",))
        with pytest.raises(errors.SyntaxError) as caught:
            connection.execute("CREATE TABLE\n  (")
        assert caught.value.diag.statement_position == "16"
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_transactions_are_accepted_and_keep_nothing_back(pg: RunningServer) -> None:
    with pg.connect() as connection:
        connection.execute("CREATE TABLE kept (i BIGINT, ts TIMESTAMP TIME INDEX)")
        connection.execute("BEGIN")
        connection.execute("INSERT INTO kept VALUES (1, 1)")
        with pytest.raises(errors.UndefinedTable):
            connection.execute("SELECT * FROM nope")
        assert connection.info.transaction_status == psycopg.pq.TransactionStatus.INERROR
        connection.execute("ROLLBACK")
        assert connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
        assert connection.execute("SELECT i FROM kept").fetchall() == [(1,)]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ("", "k0\t0\t1970-01-01 00:00:00.000000\nk1\t1\t1970-01-01 00:00:00.001000\n"),
        ("(FORMAT csv, HEADER)", "k,i,ts\nk0,0,1970-01-01 00:00:00.000000\nk1,1,1970-01-01 00:00:00.001000\n"),
        (
            "WITH CSV DELIMITER ';' QUOTE '''' FORCE QUOTE k",
            "'k0';0;1970-01-01 00:00:00.000000\n'k1';1;1970-01-01 00:00:00.001000\n",
        ),
    ],
)
def test_copy_to_stdout_writes_text_and_csv(pg: RunningServer, options: str, text: str) -> None:
    with psycopg2.connect(host="127.0.0.1", port=pg.port, user="me", dbname="public") as connection:
        target = io.StringIO()
        connection.cursor().copy_expert(
            f"COPY (SELECT * FROM counted WHERE i < 2 ORDER BY i) TO STDOUT {options}", target
        )
        assert target.getvalue() == text
    connection.close()


def test_copy_to_stdout_writes_binary_and_some_columns(pg: RunningServer) -> None:
    with pg.connect() as connection, connection.cursor() as cursor:
        with cursor.copy("COPY (SELECT k, i, ts FROM counted ORDER BY i) TO STDOUT (FORMAT binary)") as copy:
            copy.set_types(["text", "int8", "timestamp"])
            rows = list(copy.rows())
        assert len(rows) == 1000
        assert rows[11] == ("k1", 11, datetime(1970, 1, 1, 0, 0, 0, 11000))
        with cursor.copy("COPY counted (i) TO STDOUT") as copy:
            assert sorted(int(row[0]) for row in copy.rows()) == list(range(1000))
        with cursor.copy("COPY (SELECT i FROM counted WHERE i < 0) TO STDOUT (FORMAT binary)") as copy:
            copy.set_types(["int8"])
            assert list(copy.rows()) == []


def test_copy_escapes_what_would_be_misread(pg: RunningServer) -> None:
    nasty = 'a\tb\nc\\d\r"e,'
    with pg.connect() as connection, connection.cursor() as cursor:
        with cursor.copy("COPY (SELECT %s AS s, NULL AS n, '' AS e) TO STDOUT", (nasty,)) as copy:
            assert list(copy.rows()) == [(nasty, None, "")]
        with cursor.copy("COPY (SELECT %s AS s, NULL AS n, '' AS e) TO STDOUT (FORMAT csv)", (nasty,)) as copy:
            assert b"".join(bytes(piece) for piece in copy) == b'"a\tb\nc\\d\r""e,",,""\n'


def test_copy_refuses_options_that_make_no_sense(pg: RunningServer) -> None:
    with pg.connect() as connection:
        for options in ("(FORMAT xml)", "(DELIMITER 'ab')", "(QUOTE 'x')", "(FORMAT binary, HEADER)", "(NOPE 1)"):
            with (
                pytest.raises(errors.InvalidParameterValue),
                connection.cursor().copy(f"COPY counted TO STDOUT {options}"),
            ):
                pass


def test_psycopg2_reads_and_iterates(kinds: RunningServer) -> None:
    connection = psycopg2.connect(host="127.0.0.1", port=kinds.port, user="me", dbname="public")
    cursor = connection.cursor()
    cursor.execute("SELECT i, ts, y FROM kinds WHERE i = %s AND ts > %s", (5, datetime(2020, 1, 1)))
    (row,) = cursor.fetchall()
    assert (row[0], row[1], bytes(row[2])) == (5, NOW, ROW[5])
    named = connection.cursor("named")
    named.itersize = 100
    named.execute("SELECT i FROM counted ORDER BY i")
    assert [each[0] for each in named] == list(range(1000))
    named.close()
    connection.commit()
    target = io.StringIO()
    connection.cursor().copy_to(target, "counted", columns=("k", "i"))
    assert target.getvalue().count("\n") == 1000
    connection.close()


def test_pg8000_reads_and_writes(kinds: RunningServer) -> None:
    connection = pg8000.dbapi.connect(user="me", host="127.0.0.1", port=kinds.port, database="public")
    cursor = connection.cursor()
    cursor.execute(f"SELECT {COLUMNS} FROM kinds WHERE i = %s", (5,))
    assert list(map(tuple, cursor.fetchall())) == [(*ROW, NOW)]
    cursor.execute("CREATE TABLE eight (k STRING PRIMARY KEY, f DOUBLE, ts TIMESTAMP TIME INDEX)")
    cursor.execute("INSERT INTO eight VALUES (%s, %s, %s)", ("a", 1.5, NOW))
    assert cursor.rowcount == 1
    connection.commit()
    connection.close()
    native = pg8000.native.Connection("me", host="127.0.0.1", port=kinds.port, database="public")
    assert native.run("SELECT k, f FROM eight WHERE k = :k", k="a") == [["a", 1.5]]
    native.close()


async def test_asyncpg_infers_types_of_parameters_and_reads_binary(kinds: RunningServer) -> None:
    connection = await asyncpg.connect(host="127.0.0.1", port=kinds.port, user="me", database="public")
    assert [tuple(row) for row in await connection.fetch("SELECT i, ts FROM kinds WHERE i = $1", 5)] == [(5, NOW)]
    row = await connection.fetchrow(f"SELECT {COLUMNS} FROM kinds WHERE ts = $1 AND host = $2", NOW, ROW[0])
    assert tuple(row) == (*ROW, NOW)
    statement = await connection.prepare("SELECT k FROM counted WHERE i BETWEEN $1 AND $2 AND k LIKE $3 LIMIT $4")
    assert [each.name for each in statement.get_parameters()] == ["int8", "int8", "text", "int8"]
    assert [each.name for each in statement.get_attributes()] == ["k"]
    row = await connection.fetchrow("SELECT [1, 2, NULL] AS a, ['x'] AS s, [now()] AS t, interval '1 day' AS iv")
    assert row["a"] == [1, 2, None]
    assert row["s"] == ["x"]
    assert isinstance(row["t"][0], datetime)
    assert row["iv"] == timedelta(days=1)
    assert await connection.fetchval("SELECT $1::int8 + 1", 4) == 5
    assert [
        each["i"] for each in await connection.fetch("SELECT i FROM counted WHERE i = ANY($1) ORDER BY i", [3, 4])
    ] == [3, 4]
    with pytest.raises(asyncpg.UndefinedTableError):
        await connection.fetch("SELECT * FROM nope")
    await connection.close()


async def test_asyncpg_pool_lends_connections_again(pg: RunningServer) -> None:
    async with asyncpg.create_pool(
        host="127.0.0.1", port=pg.port, user="me", database="public", min_size=1, max_size=2
    ) as pool:
        for _ in range(3):
            async with pool.acquire() as connection:
                await connection.execute("SET TIME ZONE '+08:00'")
                assert await connection.fetchval("SELECT 1") == 1
        async with pool.acquire() as connection:
            assert await connection.fetchval("SHOW TIME ZONE") == "UTC"


async def test_asyncpg_writes_reads_by_cursor_and_copies(pg: RunningServer) -> None:
    connection = await asyncpg.connect(host="127.0.0.1", port=pg.port, user="me", database="public")
    await connection.execute("CREATE TABLE ours (k STRING PRIMARY KEY, i BIGINT, b BOOLEAN, ts TIMESTAMP TIME INDEX)")
    assert await connection.execute("INSERT INTO ours VALUES ($1, $2, $3, $4)", "a", 7, False, NOW) == "INSERT 0 1"
    await connection.executemany(
        "INSERT INTO ours (k, i, ts) VALUES ($1, $2, $3)", [(f"e{n}", n, NOW) for n in range(20)]
    )
    assert await connection.fetchval("SELECT count(*) FROM ours") == 21
    async with connection.transaction():
        found = [row["i"] async for row in connection.cursor("SELECT i FROM counted ORDER BY i", prefetch=70)]
    assert found == list(range(1000))
    target = io.BytesIO()
    await connection.copy_from_query("SELECT k, i FROM ours WHERE i = $1", 7, output=target, format="csv")
    assert sorted(target.getvalue().split()) == [b"a,7", b"e7,7"]
    await connection.close()


async def test_asyncpg_is_told_when_a_prepared_statement_answers_otherwise(pg: RunningServer) -> None:
    connection = await asyncpg.connect(host="127.0.0.1", port=pg.port, user="me", database="public")
    await connection.execute("CREATE TABLE changed (i BIGINT, ts TIMESTAMP TIME INDEX)")
    statement = await connection.prepare("SELECT * FROM changed")
    assert await statement.fetch() == []
    await connection.execute("ALTER TABLE changed ADD COLUMN s STRING")
    with pytest.raises(asyncpg.FeatureNotSupportedError, match="must not change result type"):
        await statement.fetch()
    assert await connection.fetch("SELECT * FROM changed") == []
    await connection.close()


@pytest.mark.parametrize("driver", ["psycopg", "psycopg2", "pg8000"])
def test_sqlalchemy_reflects_and_queries(pg: RunningServer, driver: str) -> None:
    engine = sqlalchemy.create_engine(f"postgresql+{driver}://me@127.0.0.1:{pg.port}/public")
    inspector = sqlalchemy.inspect(engine)
    assert "counted" in inspector.get_table_names()
    assert {"public", "information_schema"} <= set(inspector.get_schema_names())
    assert [(each["name"], str(each["type"])) for each in inspector.get_columns("counted")] == [
        ("k", "VARCHAR"),
        ("i", "BIGINT"),
        ("ts", "TIMESTAMP"),
    ]
    assert inspector.get_pk_constraint("counted")["constrained_columns"] == ["k", "ts"]
    assert inspector.get_foreign_keys("counted") == []
    assert inspector.get_indexes("counted") == []
    table: Any = sqlalchemy.Table("counted", sqlalchemy.MetaData(), autoload_with=engine)
    with engine.connect() as connection:
        chosen = sqlalchemy.select(table.c.k, table.c.i).where(table.c.i > 3).order_by(table.c.i).limit(2)
        assert [tuple(row) for row in connection.execute(chosen)] == [("k4", 4), ("k5", 5)]
        name = f"sa_{driver}"
        connection.execute(
            sqlalchemy.text(f"CREATE TABLE {name} (k STRING PRIMARY KEY, i BIGINT, ts TIMESTAMP TIME INDEX)")
        )
        made: Any = sqlalchemy.Table(name, sqlalchemy.MetaData(), autoload_with=engine)
        connection.execute(made.insert(), [{"k": "a", "i": 1, "ts": NOW}, {"k": "b", "i": 2, "ts": NOW}])
        connection.commit()
        assert (
            connection.execute(sqlalchemy.text(f"SELECT count(*) FROM {name} WHERE k = :k"), {"k": "a"}).scalar() == 1
        )
    engine.dispose()


def test_update_and_execute_are_tagged_with_the_rows_they_changed(pg: RunningServer) -> None:
    with pg.connect() as connection:
        connection.execute("CREATE TABLE tagged (ts TIMESTAMP TIME INDEX, h STRING PRIMARY KEY, v DOUBLE)")
        connection.execute("INSERT INTO tagged VALUES (1, 'a', 1), (2, 'b', 2)")
        updated = connection.execute("UPDATE tagged SET v = %s WHERE h = %s", (7.5, "b"))
        assert (updated.statusmessage, updated.rowcount) == ("UPDATE 1", 1)
        tags = [
            ("PREPARE tagged_i AS INSERT INTO tagged VALUES ($1, $2, $3)", "PREPARE"),
            ("EXECUTE tagged_i (3, 'c', 1.0)", "INSERT 0 1"),
            ("PREPARE tagged_u AS UPDATE tagged SET v = v + 1", "PREPARE"),
            ("EXECUTE tagged_u", "UPDATE 3"),
            ("PREPARE tagged_d AS DELETE FROM tagged WHERE h = $1", "PREPARE"),
            ("EXECUTE tagged_d ('c')", "DELETE 1"),
            ("PREPARE tagged_q AS SELECT h, v, v FROM tagged ORDER BY h", "PREPARE"),
            ("EXECUTE tagged_q", "SELECT 2"),
        ]
        for text, tag in tags:
            assert connection.execute(text).statusmessage == tag, text
        assert connection.execute("EXECUTE tagged_q").fetchall() == [("a", 2.0, 2.0), ("b", 8.5, 8.5)]
