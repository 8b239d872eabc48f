"""Who may call Flight, with passwords and with tokens, and what half the rights allow."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import adbc_driver_manager
import grpc
import pyarrow as pa
import pyarrow.flight as fl
import pytest

from tests.servers.grpc.flight.clients import CREATE, SCHEMA, adbc, ask, command, flight, headers, rows_of
from tests.servers.grpc.running import USERS, RunningServer, basic, running_server, trailer
from tsdb.auth import Identity
from tsdb.clock import ManualClock
from tsdb.errors import Busy, InvalidArguments
from tsdb.query import Channel, Session
from tsdb.servers.grpc.flight import flight_sql_pb2 as sql
from tsdb.servers.grpc.flight._prepared import FlightStatements
from tsdb.servers.grpc.flight._tokens import Tokens
from tsdb.servers.grpc.flight.flight_pb2 import FlightDescriptor, Ticket
from tsdb.servers.grpc.proto import greptime_pb2 as v1
from tsdb.sql.template import parse_template

SERVICE = "arrow.flight.protocol.FlightService"
PATH = FlightDescriptor(type=FlightDescriptor.PATH, path=["t"]).SerializeToString()
METHODS = {
    "Handshake": b"",
    "ListFlights": b"",
    "GetFlightInfo": PATH,
    "PollFlightInfo": PATH,
    "GetSchema": PATH,
    "DoGet": Ticket(
        ticket=v1.GreptimeRequest(query=v1.QueryRequest(sql="SELECT 1")).SerializeToString()
    ).SerializeToString(),
    "DoPut": b"",
    "DoExchange": b"",
    "DoAction": b"",
    "ListActions": b"",
}


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[RunningServer]:
    """A server that has seen no failed logins yet."""
    with running_server(tmp_path / "guarded", users=USERS) as running:
        running.sql(CREATE.format("t"))
        yield running


def call_all(served: RunningServer, method: str, metadata: list[tuple[str, str]]) -> None:
    with served.channel() as channel:
        call = channel.unary_stream(f"/{SERVICE}/{method}")
        list(call(METHODS[method], metadata=metadata, timeout=20))


@pytest.mark.parametrize("method", METHODS)
def test_every_call_is_refused_to_those_who_do_not_prove_who_they_are(guarded: RunningServer, method: str) -> None:
    cases = {
        "none": ([], "7003"),
        "wrong": ([("authorization", basic("u1", "wrong"))], "7002"),
        "unknown": ([("authorization", basic("nobody", "p1"))], "7002"),
        "malformed": ([("authorization", "Basic !!!")], "7004"),
        "no token": ([("authorization", "Bearer nonsense")], "7001"),
        "own header": ([("x-greptime-auth", basic("u1", "wrong"))], "7002"),
    }
    for name, (metadata, code) in cases.items():
        with pytest.raises(grpc.RpcError) as caught:
            call_all(guarded, method, metadata)
        found = (name, caught.value.code(), trailer(caught.value, "x-greptime-err-code"))
        assert found == (name, grpc.StatusCode.UNAUTHENTICATED, code)


@pytest.mark.parametrize("key", ["authorization", "x-greptime-auth", "x-tsdb-auth"])
def test_a_right_password_is_enough_in_any_header(guarded: RunningServer, key: str) -> None:
    for method in ("ListActions", "ListFlights", "GetFlightInfo", "GetSchema", "DoGet"):
        call_all(guarded, method, [(key, basic("u1", "p1"))])


def test_a_ticket_may_carry_the_password_itself(guarded: RunningServer) -> None:
    request = v1.GreptimeRequest(query=v1.QueryRequest(sql="SELECT 1 AS one"))
    request.header.authorization.basic.username, request.header.authorization.basic.password = "u1", "p1"
    with flight(guarded) as client:
        assert client.do_get(fl.Ticket(request.SerializeToString())).read_all().to_pylist() == [{"one": 1}]


def test_a_handshake_gives_a_token_that_is_good_for_other_calls(guarded: RunningServer) -> None:
    with flight(guarded) as client:
        header = client.authenticate_basic_token("u1", "p1")
        options = fl.FlightCallOptions(headers=[header])
        assert ask(client, "SELECT 1", options).num_rows == 1
        other = fl.FlightCallOptions(headers=[(header[0], header[1][:-1] + b"x")])
        with pytest.raises(fl.FlightUnauthenticatedError):
            ask(client, "SELECT 1", other)
        with pytest.raises(fl.FlightUnauthenticatedError):
            client.authenticate_basic_token("u1", "wrong")


def test_adbc_logs_in_with_a_password(guarded: RunningServer) -> None:
    with adbc(guarded, username="u1", password="p1") as cursor:
        cursor.execute("SELECT 1")
        assert cursor.fetchall() == [(1,)]
    with pytest.raises(adbc_driver_manager.Error, match=r"(?i)unauth"), adbc(guarded, username="u1", password="no"):
        pass


def options_of(user: str) -> fl.FlightCallOptions:
    return headers(authorization=basic(user, "p"))


def bulk(client: fl.FlightClient, user: str, descriptor: fl.FlightDescriptor) -> None:
    writer, _ = client.do_put(descriptor, SCHEMA, options_of(user))
    with writer:
        writer.write_table(rows_of(2))
        writer.done_writing()


def ingest(table: str) -> fl.FlightDescriptor:
    message = sql.CommandStatementIngest(table=table)
    message.table_definition_options.if_not_exist = 1
    message.table_definition_options.if_exists = 2
    return command(message)


def test_who_may_only_read_writes_nothing(guarded: RunningServer) -> None:
    with flight(guarded) as client:
        assert ask(client, "SELECT * FROM t", options_of("r")).num_rows == 0
        for descriptor in (fl.FlightDescriptor.for_path("t"), ingest("t"), ingest("new_one")):
            with pytest.raises(fl.FlightUnauthorizedError):
                bulk(client, "r", descriptor)
        with pytest.raises(fl.FlightUnauthorizedError):
            client.get_flight_info(
                command(sql.CommandStatementQuery(query="INSERT INTO t VALUES ('a', 1, 1)")), options_of("r")
            )
    assert guarded.sql("SELECT * FROM t") == []
    assert guarded.sql("SHOW TABLES LIKE 'new_one'") == []


def test_who_may_only_write_reads_nothing(guarded: RunningServer) -> None:
    with flight(guarded) as client:
        bulk(client, "w", fl.FlightDescriptor.for_path("t"))
        bulk(client, "w", ingest("t"))
        bulk(client, "w", ingest("new_one"))
        asked = command(sql.CommandStatementQuery(query="SELECT * FROM t"))
        with pytest.raises(fl.FlightUnauthorizedError):
            client.get_flight_info(asked, options_of("w"))
        ticket = client.get_flight_info(asked, options_of("r")).endpoints[0].ticket
        with pytest.raises(fl.FlightUnauthorizedError):
            client.do_get(ticket, options_of("w")).read_all()
        listed = command(sql.CommandGetTables())
        info = client.get_flight_info(listed, options_of("w"))
        with pytest.raises(fl.FlightUnauthorizedError):
            client.do_get(info.endpoints[0].ticket, options_of("w")).read_all()
    assert len(guarded.sql("SELECT * FROM t")) == 2
    assert len(guarded.sql("SELECT * FROM new_one")) == 2


def test_who_may_only_write_inserts_rows_of_values(guarded: RunningServer) -> None:
    with adbc(guarded, username="w", password="p") as cursor:
        cursor.executemany("INSERT INTO t (host, v, ts) VALUES (?, ?, ?)", [("a", 1.0, 1), ("b", 2.0, 2)])
    assert len(guarded.sql("SELECT * FROM t")) == 2


def test_a_prepared_statement_belongs_to_the_one_who_made_it(guarded: RunningServer) -> None:
    session = lambda user: Session(channel=Channel.GRPC, user=user)  # noqa: E731
    kept = FlightStatements()
    handle = kept.add(parse_template("SELECT ?"), session("a"))
    assert kept.find(handle, session("a")).template.count == 1
    with pytest.raises(InvalidArguments, match="no such prepared statement"):
        kept.find(handle, session("b"))
    kept.close(handle, session("b"))
    assert kept.find(handle, session("a"))
    kept.close(handle, session("a"))
    with pytest.raises(InvalidArguments):
        kept.find(handle, session("a"))


def test_prepared_statements_are_bounded_and_expire() -> None:
    clock, session = ManualClock(), Session()
    kept = FlightStatements(clock, prepared_max=2)
    first = kept.add(parse_template("SELECT 1"), session)
    kept.add(parse_template("SELECT 2"), session)
    with pytest.raises(Busy):
        kept.add(parse_template("SELECT 3"), session)
    clock.advance(seconds=3601)
    with pytest.raises(InvalidArguments, match="not used for an hour"):
        kept.find(first, session)
    kept.add(parse_template("SELECT 3"), session)
    with pytest.raises(InvalidArguments, match="at most"):
        kept.add(parse_template("SELECT '" + "x" * (1 << 20) + "'"), session)


def test_bound_values_are_bounded() -> None:
    kept, session = FlightStatements(bound_bytes_max=10_000), Session()
    first, second = (kept.find(kept.add(parse_template("SELECT ?"), session), session) for _ in range(2))
    values = pa.table({"0": list(range(1000))})
    kept.bind(first, values)
    kept.bind(first, values)
    with pytest.raises(Busy):
        kept.bind(second, values)
    with pytest.raises(InvalidArguments, match="takes 1 values, 2 were given"):
        kept.bind(second, pa.table({"0": [1], "1": [2]}))


def test_tokens_expire_when_they_are_not_used_and_are_bounded() -> None:
    clock, somebody = ManualClock(), Identity("somebody")
    tokens = Tokens(clock, tokens_max=2)
    first, second = tokens.issue(somebody), tokens.issue(somebody)
    clock.advance(seconds=80_000)
    assert tokens.find(first) is somebody
    clock.advance(seconds=80_000)
    assert tokens.find(first) is somebody
    assert tokens.find(second) is None
    assert tokens.find("x" * 10_000) is None
    others: list[Any] = [tokens.issue(somebody) for _ in range(2)]
    assert tokens.find(first) is None
    assert all(tokens.find(each) is somebody for each in others)
