"""Places for values: found where they are, filled with one literal each."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tsdb.errors import InvalidArguments
from tsdb.servers.grpc.flight._tickets import StatementTicket
from tsdb.sql import Dialect, TokenKind, tokenize
from tsdb.sql.template import literal, parse_template


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("SELECT 1", 0),
        ("SELECT ?, '?', \"?\", ? -- ?\n /* ? */", 2),
        ("SELECT $2, $1, $2", 2),
        ("SELECT '$1', $$1", 1),
    ],
)
def test_places_are_found_outside_of_texts_names_and_comments(text: str, count: int) -> None:
    assert parse_template(text).count == count


@pytest.mark.parametrize("text", ["SELECT $0", "SELECT $99999999", "SELECT ?, $1"])
def test_places_that_cannot_be_numbered_are_refused(text: str) -> None:
    with pytest.raises(InvalidArguments):
        parse_template(text)


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("INSERT INTO t VALUES (?, ?)", 'INSERT INTO t SELECT "p0", "p1" FROM __tsdb_parameters'),
        ("INSERT INTO t (a, b) VALUES (f(?), 1);", 'INSERT INTO t (a, b) SELECT f("p0"), 1 FROM __tsdb_parameters'),
        ("INSERT INTO t VALUES (?, DEFAULT)", None),
        ("INSERT INTO t VALUES (?), (?)", None),
        ("INSERT INTO t SELECT ?", None),
        ("DELETE FROM t WHERE a = ?", None),
    ],
)
def test_an_insert_of_one_row_reads_its_values_as_columns(text: str, written: str | None) -> None:
    assert parse_template(text).as_insert_select() == written


@given(st.none() | st.text() | st.binary() | st.integers(-(2**63), 2**63 - 1) | st.floats() | st.booleans())
def test_a_value_is_one_value_whatever_is_in_it(value: Any) -> None:
    text = "SELECT 1 -" + literal(pa.scalar(value)) + " AS x"
    tokens = tokenize(text, Dialect.GENERIC)
    assert [token.text for token in tokens[:3]] == ["SELECT", "1", "-"]
    assert [token.text for token in tokens[-3:-1]] == ["AS", "x"]
    depth, ends = 0, 0
    for token in tokens[3:-3]:
        assert token.text not in (";", ",") or depth
        if token.kind == TokenKind.OPERATOR:
            depth += (token.text == "(") - (token.text == ")")
        ends += depth == 0
    assert depth == 0
    assert ends in (1, 2)  # a literal, or the name and the end of a cast


@given(st.lists(st.text()), st.text(), st.text())
def test_a_ticket_comes_back_as_it_was(texts: list[str], database: str, zone: str) -> None:
    from tsdb.servers.grpc.flight import flight_sql_pb2 as sql
    from tsdb.servers.grpc.flight._commands import parse_command

    ticket = StatementTicket("id", tuple(texts), database, zone)
    command = parse_command(ticket.encode())
    assert isinstance(command, sql.TicketStatementQuery)
    assert StatementTicket.parse(command.statement_handle) == ticket


@pytest.mark.parametrize(
    "handle", [b"", b"{", b"[]", b'{"texts": 1}', b'{"texts":[1],"id":"","db":"","zone":"","rows":""}']
)
def test_a_ticket_of_somebody_else_is_refused(handle: bytes) -> None:
    with pytest.raises(InvalidArguments, match="not one of this server"):
        StatementTicket.parse(handle)
