"""Values come back as they were bound, whatever they are: through a real client, and through the parser alone."""

from __future__ import annotations

import datetime as dt
import math
import struct
from collections.abc import Iterator
from typing import Any

import mysql.connector
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.servers.mysql.served import SECONDS_MAX, Served, serving
from tsdb.servers.mysql._parameters import as_count, parse_literals, quote_text
from tsdb.servers.mysql._prepared import MysqlStatements
from tsdb.servers.mysql._protocol import BadPacket, ColumnType, Reader, encode_bytes
from tsdb.sql import Dialect, TokenKind, tokenize
from tsdb.sql.lexer import unquote

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
TRICKY = st.text(st.sampled_from("'\"\\?%_;-#/*` \n\x00\x1aaZ0nt"), max_size=12)


@pytest.fixture(scope="module")
def cursor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with serving(tmp_path_factory.mktemp("mysql")) as server:
        server.fetch("CREATE TABLE t (ts TIMESTAMP(6) TIME INDEX, s STRING, b VARBINARY, i BIGINT, f DOUBLE)")
        connection = _connect(server)
        yield connection.cursor(prepared=True)
        connection.close()


def _connect(server: Served) -> Any:
    return mysql.connector.connect(
        host="127.0.0.1",
        port=server.port,
        user="me",
        password="secret",
        database="public",
        use_pure=True,
        connection_timeout=SECONDS_MAX,
    )


@given(text=TEXT | TRICKY)
def test_text_is_one_literal_that_says_the_text(text: str) -> None:
    tokens = tokenize(f"SELECT {quote_text(text)} FROM t", Dialect.MYSQL)
    assert [token.kind for token in tokens] == [
        TokenKind.WORD,
        TokenKind.STRING,
        TokenKind.WORD,
        TokenKind.WORD,
        TokenKind.END,
    ]
    said = unquote(tokens[1], Dialect.MYSQL)
    assert said == text


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    text=TEXT | TRICKY,
    data=st.binary(max_size=40),
    integer=st.integers(-(2**63), 2**63 - 1),
    number=st.floats(allow_nan=False, allow_infinity=False),
    when=st.datetimes(dt.datetime(1970, 1, 1), dt.datetime(2200, 1, 1)),
)
def test_bound_values_are_selected_and_stored_as_they_are(
    cursor: Any, text: str, data: bytes, integer: int, number: float, when: dt.datetime
) -> None:
    cursor.execute("SELECT ?, ?, ?, ?", (text, integer, number, text))
    assert cursor.fetchall() == [(text, integer, number, text)]
    cursor.execute("INSERT INTO t VALUES (?, ?, ?, ?, ?)", (when, text, data, integer, number))
    cursor.execute("SELECT ts, s, b, i, f FROM t WHERE ts = ?", (when,))
    assert cursor.fetchall() == [(when, text, data, integer, number)]


def _literals(kind: ColumnType, value: bytes, *, is_unsigned: bool = False, is_count: bool = False) -> str:
    (literal,) = parse_literals(Reader(value), [(kind, is_unsigned)], b"\x00", {}, [is_count])
    return literal


@pytest.mark.parametrize(
    ("kind", "value", "literal"),
    [
        (ColumnType.TINY, b"\xff", " -1"),
        (ColumnType.SHORT, b"\x01\x80", " -32767"),
        (ColumnType.LONG, b"\x2a\x00\x00\x00", "42"),
        (ColumnType.LONGLONG, b"\x00" * 7 + b"\x80", " -9223372036854775808"),
        (ColumnType.FLOAT, struct.pack("<f", 0.1), "0.1"),
        (ColumnType.DOUBLE, struct.pack("<d", -2.5), " -2.5"),
        (ColumnType.DOUBLE, struct.pack("<d", math.inf), "CAST('Infinity' AS DOUBLE)"),
        (ColumnType.DOUBLE, struct.pack("<d", math.nan), "CAST('NaN' AS DOUBLE)"),
        (ColumnType.DATE, b"\x04\xe8\x07\x02\x1d", "'2024-02-29'"),
        (ColumnType.DATETIME, b"\x00", "'0000-00-00 00:00:00'"),
        (ColumnType.DATETIME, b"\x04\xe8\x07\x02\x1d", "'2024-02-29 00:00:00'"),
        (ColumnType.TIMESTAMP, b"\x0b\xe8\x07\x02\x1d\x01\x02\x03\x04\x00\x00\x00", "'2024-02-29 01:02:03.000004'"),
        (ColumnType.TIME, b"\x08\x01\x01\x00\x00\x00\x02\x03\x04", "'-26:03:04'"),
        (ColumnType.TIME, b"\x00", "'00:00:00'"),
        (ColumnType.NEWDECIMAL, encode_bytes(b"-1.50"), " -1.50"),
        (ColumnType.NEWDECIMAL, encode_bytes(b"1; DROP"), "'1; DROP'"),
        (ColumnType.VAR_STRING, encode_bytes(b"it's"), "'it''s'"),
        (ColumnType.VAR_STRING, encode_bytes(b"\xff"), "X'ff'"),
        (ColumnType.BLOB, encode_bytes(b"ab"), "X'6162'"),
        (ColumnType.NULL, b"", "NULL"),
    ],
)
def test_a_value_becomes_a_literal_of_its_type(kind: ColumnType, value: bytes, literal: str) -> None:
    assert _literals(kind, value) == literal


def test_unsigned_numbers_have_no_sign() -> None:
    assert _literals(ColumnType.TINY, b"\xff", is_unsigned=True) == "255"
    assert _literals(ColumnType.LONGLONG, b"\xff" * 8, is_unsigned=True) == str(2**64 - 1)


def test_whole_doubles_are_integers_where_only_counts_and_cells_stand() -> None:
    assert _literals(ColumnType.DOUBLE, struct.pack("<d", 10.0), is_count=True) == "10"
    assert _literals(ColumnType.DOUBLE, struct.pack("<d", 10.5), is_count=True) == "10.5"
    assert _literals(ColumnType.DOUBLE, struct.pack("<d", 10.0)) == "10.0"
    assert as_count("'10'") == "10"
    assert as_count("'10 OR 1'") == "'10 OR 1'"


@pytest.mark.parametrize("value", [b"", b"\x05\x00", b"\xfe" + b"\xff" * 8])
def test_values_that_are_cut_off_are_refused(value: bytes) -> None:
    for kind in (ColumnType.LONG, ColumnType.DATETIME, ColumnType.TIME, ColumnType.VAR_STRING):
        with pytest.raises(BadPacket):
            _literals(kind, value[:3] if kind is ColumnType.LONG else value)


def test_places_are_those_the_lexer_sees() -> None:
    prepared = MysqlStatements(10).cut("SELECT '?', `?`, ? /* ? */ FROM t -- ?\nLIMIT ?, ?")
    assert prepared.places == 3
    assert prepared.are_limits == (False, True, True)
    assert prepared.with_literals(["1", "2", "3"]) == "SELECT '?', `?`, 1 AS `?1` /* ? */ FROM t -- ?\nLIMIT 2, 3"


def test_a_value_that_is_a_column_is_named_by_its_place() -> None:
    prepared = MysqlStatements(10).cut("SELECT ?, a + ?, f(?, ?), (SELECT ?) FROM t WHERE b IN (?, ?, ?) GROUP BY ?, ?")
    assert prepared.are_items == (True, *[False] * 3, True, *[False] * 5)
