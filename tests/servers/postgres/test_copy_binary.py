"""COPY … (FORMAT BINARY) FROM STDIN: what drivers send becomes rows, and what is wrong is told and changes nothing."""

from __future__ import annotations

import asyncio
import json
import struct
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from psycopg import errors

from tests.servers.postgres.running import RunningServer, error_field, message, query, running_server
from tsdb.servers.postgres._tuning import PostgresTuning

_HEAD = b"PGCOPY\n\xff\r\n\x00" + bytes(8)
_TABLE = """(k STRING PRIMARY KEY, t TINYINT, s SMALLINT, i INT, l BIGINT, ut TINYINT UNSIGNED, us SMALLINT UNSIGNED,
 ui INT UNSIGNED, ul BIGINT UNSIGNED, f FLOAT, d DOUBLE, b BOOLEAN, x VARBINARY, y DATE, n DECIMAL(38, 4), j JSON,
 t0 TIMESTAMP(0), t6 TIMESTAMP(6), t9 TIMESTAMP(9), ts TIMESTAMP TIME INDEX)"""
_TYPES = [
    "text",
    "int2",
    "int2",
    "int4",
    "int8",
    "int2",
    "int4",
    "int8",
    "numeric",
    "float4",
    "float8",
    "bool",
    "bytea",
    "date",
    "numeric",
    "json",
]
_ROWS: list[tuple[Any, ...]] = [
    (
        "häns",
        -128,
        -32768,
        2**31 - 1,
        -(2**63),
        255,
        65535,
        2**32 - 1,
        2**64 - 1,
        0.5,
        -1e300,
        True,
        b"\x00\xff",
        date(1969, 12, 31),
        Decimal("-1234567890123456789012345678901234.5678"),
        '{"a":1}',
        datetime(1999, 1, 1, 0, 0, 1),
        datetime(2024, 1, 30, 12, 0, 0, 123456),
        datetime(2024, 1, 30, 12, 0, 0, 123456),
        datetime(2024, 1, 30, 12, 0, 0, 5000),
    ),
    (*(None,) * 19, datetime(2024, 1, 30, 12, 0, 1)),
    (
        *("", 0, 0, 0, 0, 0, 0, 0, 0, 0.0, 0.0, False, b"", date(2000, 1, 1), Decimal("0.0000"), "{}"),
        *(None, None, None, datetime(2024, 1, 30, 12, 0, 2)),
    ),
]


def _make(pg: RunningServer, name: str, columns: str = _TABLE) -> None:
    with pg.connect() as connection:
        connection.execute(f"CREATE TABLE {name} {columns}".encode())


def _read(pg: RunningServer, name: str) -> list[tuple[Any, ...]]:
    with pg.connect() as connection:
        rows = connection.execute(f"SELECT * FROM {name} ORDER BY ts".encode()).fetchall()
    return [
        tuple(json.dumps(cell, separators=(",", ":")) if isinstance(cell, dict) else cell for cell in row)
        for row in rows
    ]


def test_every_type_and_nulls_come_back_from_psycopg(pg: RunningServer) -> None:
    _make(pg, "bin_psycopg")
    with pg.connect() as connection, connection.cursor() as cursor:
        with cursor.copy("COPY bin_psycopg FROM STDIN (FORMAT BINARY)") as copy:
            copy.set_types([*_TYPES, *["timestamp"] * 4])
            for row in _ROWS:
                copy.write_row(row)
        assert (cursor.rowcount, cursor.statusmessage) == (3, "COPY 3")
    assert _read(pg, "bin_psycopg") == _ROWS


def test_every_type_and_nulls_come_back_from_asyncpg(pg: RunningServer) -> None:
    _make(pg, "bin_asyncpg")

    async def copy() -> str:
        connection = await asyncpg.connect(host="127.0.0.1", port=pg.port, user="me", database="public")
        try:
            return str(await connection.copy_records_to_table("bin_asyncpg", records=_ROWS))
        finally:
            await connection.close()

    assert asyncio.run(copy()) == "COPY 3"
    assert _read(pg, "bin_asyncpg") == _ROWS


def test_chosen_columns_in_small_pieces_leave_the_others_at_their_defaults(tmp_path: Path) -> None:
    with running_server(tmp_path, tuning=PostgresTuning(copy_piece_bytes=64)) as pg:
        _copy_chosen_columns(pg)


def _copy_chosen_columns(pg: RunningServer) -> None:
    _make(pg, "bin_pieces", "(k STRING PRIMARY KEY, v BIGINT, w BIGINT DEFAULT 7, ts TIMESTAMP TIME INDEX)")
    made = [(datetime(2024, 1, 1, n // 60, n % 60), f"k{n}" * (n % 5), n) for n in range(500)]
    with pg.connect() as connection, connection.cursor() as cursor:
        with cursor.copy("COPY bin_pieces (ts, k, v) FROM STDIN WITH (FORMAT BINARY)") as copy:
            copy.set_types(["timestamp", "varchar", "int8"])
            for row in made:
                copy.write_row(row)
        assert cursor.rowcount == 500
    assert _read(pg, "bin_pieces") == [(k, v, 7, ts) for ts, k, v in made]


def test_times_are_local_times_of_the_session(pg: RunningServer) -> None:
    _make(pg, "bin_zone", "(how STRING, ts TIMESTAMP TIME INDEX) WITH (append_mode = 'true')")
    # In summer, in winter, in the hour that comes twice, in the hour that is left out.
    local = ["2024-07-01 12:00:00", "2024-01-01 12:00:00", "2024-10-27 02:30:00", "2024-03-31 02:30:00"]
    with pg.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SET TIME ZONE 'Europe/Berlin'")
        with cursor.copy("COPY bin_zone FROM STDIN (FORMAT BINARY)") as copy:
            copy.set_types(["text", "timestamp"])
            for text in local:
                copy.write_row(("binary", datetime.fromisoformat(text)))
        with cursor.copy("COPY bin_zone FROM STDIN") as copy:
            for text in local:
                copy.write_row(("text", text))
    with pg.connect() as reader:
        found = reader.execute("SELECT how, ts FROM bin_zone ORDER BY ts").fetchall()
    binary, text_form = ([ts for how, ts in found if how == each] for each in ("binary", "text"))
    assert binary == text_form
    assert binary[-1] == datetime(2024, 10, 27, 0, 30)


def _cells(*cells: bytes | None) -> bytes:
    packed = (b"\xff" * 4 if cell is None else struct.pack("!i", len(cell)) + cell for cell in cells)
    return struct.pack("!h", len(cells)) + b"".join(packed)


_TIME = struct.pack("!q", 0)
_GOOD = _cells(b"a", b"\x00\x01", _TIME)
_END = b"\xff\xff"


@pytest.mark.parametrize(
    ("body", "state", "told"),
    [
        (b"", "22P04", "COPY file signature not recognized"),
        (b"PGCOPY\n\xff\r\n\x01" + bytes(8), "22P04", "COPY file signature not recognized"),
        (_HEAD[:15], "22P04", "invalid COPY file header (missing length)"),
        (_HEAD[:11] + b"\x00\x01\x00\x00" + bytes(4), "22P04", "invalid COPY file header (WITH OIDS)"),
        (_HEAD[:11] + b"\x80\x00\x00\x00" + bytes(4), "22P04", "unrecognized critical flags in COPY file header"),
        (_HEAD[:15] + b"\xff\xff\xff\xff" + _GOOD, "22P04", "invalid COPY file header (wrong length)"),
        (_HEAD + _GOOD + _cells(b"a"), "22P04", "COPY, row 2: row field count is 1, expected 3"),
        (_HEAD + _GOOD + _GOOD[:-1], "22P04", "COPY, row 2: unexpected EOF in COPY data"),
        (_HEAD + _GOOD + struct.pack("!hi", 3, -2), "22P04", "COPY, row 2: invalid field size -2"),
        (_HEAD + _GOOD + _END + b"x", "22P04", "received copy data after EOF marker"),
        (
            _HEAD + _GOOD + _cells(b"a", b"\x01", _TIME) + _END,
            "22P03",
            "COPY, row 2, column v: incorrect binary data format: 1 bytes, not 2",
        ),
        (
            _HEAD + _GOOD + _cells(None, b"\x01\x00", _TIME) + _END,
            "22003",
            "COPY, row 2, column v: a number out of the range of Int8: 256",
        ),
        (_HEAD + _GOOD + _cells(b"\xff", None, _TIME), "22021", "COPY, row 2, column k: text that is not UTF-8"),
        (
            _HEAD + _GOOD + _cells(b"a\0b", None, _TIME),
            "22021",
            "COPY, row 2, column k: text must not have a zero byte",
        ),
        (
            _HEAD + _GOOD + _cells(b"a", None, b"\x7f" + b"\xff" * 7),
            "22008",
            "COPY, row 2, column ts: timestamp out of range: 9223372036854775807",
        ),
    ],
)
def test_what_is_wrong_is_told_and_changes_nothing(pg: RunningServer, body: bytes, state: str, told: str) -> None:
    with pg.connect() as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS bin_bad (k STRING, v TINYINT, ts TIMESTAMP TIME INDEX)")
    with pg.raw() as client:
        client.log_in()
        client.socket.sendall(query("COPY bin_bad FROM STDIN (FORMAT BINARY)"))
        tag, head = client.read()
        assert (tag, head[:3]) == ("G", b"\x01\x00\x03")
        client.socket.sendall(message("d", body) + message("c"))
        found = client.read_until("Z")
        assert (error_field(found[-2][1], "C"), error_field(found[-2][1], "M")) == (state, told)
        client.socket.sendall(query("SELECT count(*) FROM bin_bad"))
        assert next(body for tag, body in client.read_until("Z") if tag == "D")[-1:] == b"0"


@pytest.mark.parametrize(
    ("column", "kind", "value", "told"),
    [
        ("DECIMAL(5, 2)", "numeric", Decimal("1000"), "row 1, column v: a number out of the range of Decimal"),
        ("DECIMAL(5, 2)", "numeric", Decimal("999.996"), "row 1, column v: a number out of the range of Decimal"),
        ("DECIMAL(5, 2)", "numeric", Decimal("NaN"), "row 1, column v: a number out of the range of Decimal"),
        ("BIGINT UNSIGNED", "numeric", Decimal(-1), "row 1, column v: a number out of the range of UInt64"),
        ("BIGINT UNSIGNED", "numeric", Decimal(2**64), "row 1, column v: a number out of the range of UInt64"),
        ("TIMESTAMP(9)", "timestamp", datetime(3000, 1, 1), "row 1, column v: .* range of timestamps in ns"),
        ("DOUBLE", "float4", 1.5, "row 1, column v: incorrect binary data format: 4 bytes, not 8"),
    ],
)
def test_values_that_a_column_does_not_hold_are_refused(
    pg: RunningServer, column: str, kind: str, value: object, told: str
) -> None:
    with pg.connect() as connection, connection.cursor() as cursor:
        connection.execute("DROP TABLE IF EXISTS bin_range")
        connection.execute(f"CREATE TABLE bin_range (v {column}, ts TIMESTAMP TIME INDEX)".encode())
        copying = cursor.copy("COPY bin_range FROM STDIN (FORMAT BINARY)")
        copy = copying.__enter__()
        copy.set_types([kind, "timestamp"])
        copy.write_row((value, datetime(2024, 1, 1)))
        with pytest.raises(errors.DatabaseError, match=told):
            copying.__exit__(None, None, None)
        assert connection.execute("SELECT count(*) FROM bin_range").fetchall() == [(0,)]


def test_decimals_are_rounded_half_up_to_their_scale(pg: RunningServer) -> None:
    _make(pg, "bin_round", "(v DECIMAL(5, 2), ts TIMESTAMP TIME INDEX)")
    with pg.connect() as connection, connection.cursor() as cursor:
        with cursor.copy("COPY bin_round FROM STDIN (FORMAT BINARY)") as copy:
            copy.set_types(["numeric", "timestamp"])
            for minute, text in enumerate(["1.005", "-1.005", "999.994"]):
                copy.write_row((Decimal(text), datetime(2024, 1, 1, 0, minute)))
        found = connection.execute("SELECT v FROM bin_round ORDER BY ts").fetchall()
    assert found == [(Decimal("1.01"),), (Decimal("-1.01"),), (Decimal("999.99"),)]


def test_what_was_copied_out_in_binary_can_be_copied_in(pg: RunningServer) -> None:
    columns = "(k STRING PRIMARY KEY, e VECTOR(3), v DOUBLE, n DECIMAL(10, 2), ts TIMESTAMP TIME INDEX)"
    _make(pg, "bin_from", columns)
    _make(pg, "bin_into", columns)
    with pg.connect() as connection, connection.cursor() as cursor:
        cursor.execute("INSERT INTO bin_from VALUES ('a', '[1.0, 2.0, 3.0]', 0.5, 1.25, 1), ('b', NULL, NULL, NULL, 0)")
        with cursor.copy("COPY bin_from TO STDOUT (FORMAT BINARY)") as source:
            copied = b"".join(bytes(piece) for piece in source)
        with cursor.copy("COPY bin_into FROM STDIN (FORMAT BINARY)") as sink:
            sink.write(copied)
        assert cursor.rowcount == 2
    assert _read(pg, "bin_into") == _read(pg, "bin_from")
