"""COPY … FROM STDIN: what clients send becomes rows, and what cannot be read changes nothing."""

from __future__ import annotations

import asyncio
import io
import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import asyncpg
import psycopg
import psycopg2
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg import errors

from tests.servers.postgres.running import RunningServer, error_field, message, query, running_server
from tsdb.auth import open_authenticator
from tsdb.servers.postgres import _copy_in
from tsdb.servers.postgres._tuning import PostgresTuning

_TABLE = "(k STRING PRIMARY KEY, f DOUBLE, i BIGINT, b BOOLEAN, x VARBINARY, d DATE, ts TIMESTAMP TIME INDEX)"


def _make(pg: RunningServer, name: str) -> None:
    with pg.connect() as connection:
        connection.execute(f"CREATE TABLE {name} {_TABLE}".encode())


def test_text_rows_have_escapes_and_nulls(pg: RunningServer) -> None:
    _make(pg, "copy_text")
    with pg.connect() as connection, connection.cursor() as cursor:
        with cursor.copy("COPY copy_text FROM STDIN") as copy:
            copy.write("a\\tb\\\\\t1.5\t-7\tt\t\\\\x00ff\t2024-01-30\t2024-01-30 12:00:00.5\n")
            copy.write("\\N\t\\N\t\\N\t\\N\t\\N\t\\N\t2024-01-30 12:00:01\n\\.\n")
        assert (cursor.rowcount, cursor.statusmessage) == (2, "COPY 2")
        rows = connection.execute("SELECT * FROM copy_text ORDER BY ts").fetchall()
    assert rows[0][:5] == ("a\tb\\", 1.5, -7, True, b"\x00\xff")
    assert rows[0][6] == datetime(2024, 1, 30, 12, 0, 0, 500000)
    assert rows[1][:6] == (None,) * 6


def test_rows_written_by_the_client_library_come_back(pg: RunningServer) -> None:
    _make(pg, "copy_rows")
    made = [(f"k{n}\n", n / 4, n, n % 2 == 0, bytes([n]), None, datetime(2024, 1, 1, 0, n)) for n in range(50)]
    with pg.connect() as connection, connection.cursor() as cursor:
        with cursor.copy("COPY copy_rows FROM STDIN") as copy:
            for row in made:
                copy.write_row(row)
        assert connection.execute("SELECT * FROM copy_rows ORDER BY ts").fetchall() == made


def test_csv_has_quotes_a_header_and_chosen_columns(pg: RunningServer) -> None:
    _make(pg, "copy_csv")
    text = 'ts;k;f\n2024-01-01 00:00:00;"a;""b""\nc";1\n2024-01-01 00:00:01;"";\n'
    with pg.connect() as connection, connection.cursor() as cursor:
        with cursor.copy("COPY copy_csv (ts, k, f) FROM STDIN WITH (FORMAT csv, HEADER, DELIMITER ';')") as copy:
            copy.write(text)
        rows = connection.execute("SELECT k, f, i FROM copy_csv ORDER BY ts").fetchall()
    assert rows == [('a;"b"\nc', 1.0, None), ("", None, None)]


def test_other_libraries_copy_too(pg: RunningServer) -> None:
    _make(pg, "copy_other")
    connection = psycopg2.connect(host="127.0.0.1", port=pg.port, user="me", dbname="public")
    connection.autocommit = True
    with connection.cursor() as cursor:
        cursor.copy_expert("COPY copy_other (k, ts) FROM STDIN", io.StringIO("a\t2024-01-01 00:00:00\n"))
        assert cursor.rowcount == 1
    connection.close()

    async def copy_csv() -> str:
        opened = await asyncpg.connect(host="127.0.0.1", port=pg.port, user="me", database="public")
        source = io.BytesIO(b"b,2024-01-01 00:00:01\n")
        try:
            return str(await opened.copy_to_table("copy_other", source=source, columns=["k", "ts"], format="csv"))
        finally:
            await opened.close()

    assert asyncio.run(copy_csv()) == "COPY 1"
    with pg.connect() as reader:
        assert reader.execute("SELECT k FROM copy_other ORDER BY ts").fetchall() == [("a",), ("b",)]


@pytest.mark.parametrize(
    ("lines", "state"),
    [
        ("a\t1\n", "22P04"),
        ("a\tno number\t2024-01-01 00:00:00\n", "22P02"),
        ("a\t1\tyesterday\n", "22P02"),
        ("a\t1\t2024-01-01 00:00:00\textra\n", "22P04"),
    ],
)
def test_a_line_that_cannot_be_read_changes_nothing(pg: RunningServer, lines: str, state: str) -> None:
    with pg.connect() as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS copy_bad (k STRING, f DOUBLE, ts TIMESTAMP TIME INDEX)")
    with pg.raw() as client:
        client.log_in()
        client.socket.sendall(query("COPY copy_bad FROM STDIN"))
        assert client.read()[0] == "G"
        client.socket.sendall(message("d", b"a\t1\t2024-01-01 00:00:00\n" + lines.encode()) + message("c"))
        found = client.read_until("Z")
        assert error_field(found[-2][1], "C") == state
        client.socket.sendall(query("SELECT count(*) FROM copy_bad"))
        assert next(body for tag, body in client.read_until("Z") if tag == "D")[-1:] == b"0"


def test_a_client_can_give_up(pg: RunningServer) -> None:
    _make(pg, "copy_given_up")
    with pg.raw() as client:
        client.log_in()
        client.socket.sendall(query("COPY copy_given_up FROM STDIN"))
        assert client.read()[0] == "G"
        client.socket.sendall(message("d", b"a\t") + message("f", b"not today\0"))
        found = client.read_until("Z")
        assert error_field(found[-2][1], "C") == "57014"
        assert "not today" in error_field(found[-2][1], "M")
        client.socket.sendall(query("SELECT count(*) FROM copy_given_up"))
        assert next(body for tag, body in client.read_until("Z") if tag == "D")[-1:] == b"0"


@pytest.mark.parametrize(
    ("statement", "state"),
    [
        ("COPY nowhere FROM STDIN", "42P01"),
        ("COPY counted (nope) FROM STDIN", "42703"),
        ("COPY counted FROM STDIN WITH (FORMAT binary, HEADER)", "22023"),
        ("COPY counted FROM STDIN; SELECT 1", "0A000"),
    ],
)
def test_what_cannot_begin_is_refused_before_anything_is_sent(pg: RunningServer, statement: str, state: str) -> None:
    with pg.raw() as client:
        client.log_in()
        client.socket.sendall(query(statement))
        found = client.read_until("Z")
        assert error_field(next(body for tag, body in found if tag == "E"), "C") == state


def test_who_may_not_write_may_not_copy(tmp_path: Path) -> None:
    known = open_authenticator("static_user_provider:cmd:boss=b,reader:ro=r")
    with running_server(tmp_path, authenticator=known) as server:
        with server.connect(user="boss", password="b") as connection:
            connection.execute("CREATE TABLE kept (ts TIMESTAMP TIME INDEX)")
        with server.connect(user="reader", password="r") as reader, pytest.raises(errors.InsufficientPrivilege):
            reader.cursor().copy("COPY kept FROM STDIN").__enter__()


_DENIED = "42501"
_RIGHTS = [
    # What is run, and which of reader, writer and stranger (rights in another database alone) may.
    ("COPY kept FROM STDIN", (False, True, False)),
    ("COPY kept (ts, v) FROM STDIN WITH (FORMAT csv)", (False, True, False)),
    ("COPY kept FROM STDIN WITH (FORMAT binary)", (False, True, False)),
    ("COPY kept TO STDOUT", (True, False, False)),
    ("COPY (SELECT * FROM kept) TO STDOUT", (True, False, False)),
    ("COPY kept TO 'kept.parquet'", (False, False, False)),
    ("SELECT * FROM kept", (True, False, False)),
    ("SELECT * FROM shown", (True, False, False)),
    ("EXPLAIN SELECT * FROM kept", (True, False, False)),
    ("EXPLAIN ANALYZE SELECT * FROM kept", (True, False, False)),
    ("SHOW CREATE TABLE kept", (True, False, False)),
    ("SHOW COLUMNS FROM kept", (True, False, False)),
    ("DESCRIBE kept", (True, False, False)),
    ("TQL EVAL (0, 1, '1s') kept", (True, False, False)),
    ("DECLARE c CURSOR FOR SELECT * FROM kept", (True, False, False)),
    ("INSERT INTO kept VALUES ('a', 1, 1)", (False, True, False)),
    ("INSERT INTO kept SELECT * FROM kept", (False, False, False)),
    ("DELETE FROM kept WHERE h = 'zz'", (False, True, False)),
    ("TRUNCATE TABLE other", (False, True, False)),
    ("CREATE TABLE other2 (ts TIMESTAMP TIME INDEX)", (False, True, False)),
]


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    known = open_authenticator("catalog_user_provider:cmd:boss=b")
    with running_server(tmp_path_factory.mktemp("guarded"), authenticator=known) as server:
        with server.connect(user="boss", password="b") as boss:
            for statement in (
                "CREATE TABLE kept (h STRING PRIMARY KEY, ts TIMESTAMP NOT NULL TIME INDEX, v DOUBLE NOT NULL)",
                "CREATE TABLE other (ts TIMESTAMP TIME INDEX)",
                "CREATE VIEW shown AS SELECT * FROM kept",
                "CREATE DATABASE elsewhere",
                "CREATE USER reader IDENTIFIED BY 'p'",
                "CREATE USER writer IDENTIFIED BY 'p'",
                "CREATE USER stranger IDENTIFIED BY 'p'",
                "GRANT READ ON public.* TO reader",
                "GRANT WRITE ON public.* TO writer",
                "GRANT ALL ON elsewhere.* TO stranger",
            ):
                boss.execute(statement)
        yield server


@pytest.mark.parametrize(("statement", "allowed"), _RIGHTS)
def test_who_may_not_is_told_so_at_the_start(
    guarded: RunningServer, statement: str, allowed: tuple[bool, bool, bool]
) -> None:
    found = []
    for user, database in (("reader", "public"), ("writer", "public"), ("stranger", "elsewhere")):
        text = re.sub(r"\b(kept|shown|other2?)\b(?!\.parquet)", r"public.\1", statement)
        text = statement if user != "stranger" or "TQL" in text else text
        with guarded.connect(user=user, password="p", dbname=database) as connection:
            found.append(_outcome(connection, text))
    refused = ["ok" if each else _DENIED for each in allowed]
    if "TQL" in statement:
        refused[2] = "ok"  # a metric of one's own database that does not exist is empty
    assert found == refused


def _outcome(connection: psycopg.Connection[Any], statement: str) -> str:
    try:
        with connection.cursor() as cursor:
            if "STDIN" in statement or "STDOUT" in statement:
                with cursor.copy(statement) as copying:
                    if "STDOUT" in statement:
                        list(copying)
                    elif "binary" in statement:
                        copying.write(b"PGCOPY\n\xff\r\n\x00" + bytes(8) + b"\xff\xff")
            else:
                cursor.execute(statement)
    except psycopg.Error as error:
        return error.sqlstate or str(error)
    return "ok"


def test_long_copies_are_written_piece_by_piece(tmp_path: Path) -> None:
    with (
        running_server(tmp_path, tuning=PostgresTuning(copy_piece_bytes=1000)) as pg,
        pg.connect() as connection,
        connection.cursor() as cursor,
    ):
        connection.execute("CREATE TABLE copy_long (k STRING PRIMARY KEY, i BIGINT, ts TIMESTAMP TIME INDEX)")
        with cursor.copy("COPY copy_long FROM STDIN CSV") as copy:
            for n in range(2000):
                copy.write(f'"k\n{n}",{n},2024-01-01 00:00:00\n')
        assert cursor.rowcount == 2000
        assert connection.execute("SELECT count(*), sum(i) FROM copy_long").fetchone() == (2000, 1999000)


def test_a_line_that_never_ends_is_refused(tmp_path: Path) -> None:
    tuning = PostgresTuning(copy_piece_bytes=1000, copy_record_bytes_max=20_000)
    with running_server(tmp_path, tuning=tuning) as pg, pg.raw() as client:
        with pg.connect() as connection:
            connection.execute("CREATE TABLE counted (k STRING PRIMARY KEY, i BIGINT, ts TIMESTAMP TIME INDEX)")
        client.log_in()
        client.socket.sendall(query("COPY counted FROM STDIN CSV"))
        assert client.read()[0] == "G"
        client.socket.sendall(message("d", b'"') + message("d", b"x\n" * 400) * 40 + message("c"))
        found = client.read_until("Z")
        assert error_field(found[-2][1], "C") == "54000"
        client.socket.sendall(query("SELECT 1"))
        assert client.read_until("Z")[-1][0] == "Z"


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0\r")) | st.none(), max_size=8))
def test_escapes_are_read_as_they_are_written(texts: list[str | None]) -> None:
    signs = {"\\": "\\\\", "\n": "\\n", "\t": "\\t", "\b": "\\b", "\f": "\\f", "\v": "\\v"}
    written = [None if text is None else "".join(signs.get(sign, sign) for sign in text) for text in texts]
    found = _copy_in._unescaped(pa.chunked_array([pa.array(written, pa.string())]))
    assert found.to_pylist() == texts


def test_a_copy_that_is_cancelled_writes_nothing_more(pg: RunningServer) -> None:
    _make(pg, "copy_cancelled")
    with pg.raw() as client, pg.raw() as stopper:
        key = next(body for tag, body in client.log_in() if tag == "K")
        client.socket.sendall(query("COPY copy_cancelled (k, ts) FROM STDIN"))
        client.read_until("G")
        client.socket.sendall(message("d", b"a\t2024-01-01 00:00:00\n"))
        stopper.send_startup(80877102, key)
        assert stopper.read() == ("", b""), "the request was carried out"
        client.socket.sendall(message("d", b"b\t2024-01-01 00:00:00\n") + message("c", b""))
        found = client.read_until("Z")
        assert [tag for tag, _ in found] == ["E", "Z"]
        assert error_field(found[0][1], "C") == "57014"
        # The next statements are not affected.
        client.socket.sendall(query("INSERT INTO copy_cancelled (k, ts) VALUES ('d', 0)"))
        assert [tag for tag, _ in client.read_until("Z")] == ["C", "Z"]
    with pg.connect() as connection:
        assert connection.execute("SELECT k FROM copy_cancelled").fetchall() == [("d",)]
