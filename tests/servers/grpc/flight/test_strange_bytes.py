"""Bytes that no client would send, in every call: they are answered or refused, and the server goes on."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator

import grpc
import pyarrow as pa
import pytest

from tests.servers.grpc.flight.clients import CREATE, adbc
from tests.servers.grpc.running import RunningServer
from tsdb.servers.grpc.flight import flight_sql_pb2 as sql
from tsdb.servers.grpc.flight._codec import encode_stream
from tsdb.servers.grpc.flight._commands import pack
from tsdb.servers.grpc.flight._tickets import StatementTicket
from tsdb.servers.grpc.flight._wire import encode_flight_data, parse_flight_data
from tsdb.servers.grpc.flight.flight_pb2 import Action, FlightDescriptor, Ticket

SERVICE = "arrow.flight.protocol.FlightService"
ALLOWED = {
    grpc.StatusCode.OK,
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.UNIMPLEMENTED,
    grpc.StatusCode.ALREADY_EXISTS,
}
ROUNDS = 60


def commands() -> list[bytes]:
    ingest = sql.CommandStatementIngest(table="strange")
    ingest.table_definition_options.if_not_exist = 1
    ingest.table_definition_options.if_exists = 2
    return [
        pack(each)
        for each in (
            sql.CommandStatementQuery(query="SELECT 1"),
            sql.CommandStatementUpdate(query="DELETE FROM strange WHERE v > 100"),
            sql.CommandPreparedStatementQuery(prepared_statement_handle=b"x" * 16),
            sql.CommandPreparedStatementUpdate(prepared_statement_handle=b"x" * 16),
            sql.CommandGetTables(table_name_filter_pattern="%", include_schema=False),
            sql.CommandGetSqlInfo(info=[1, 2, 3]),
            sql.CommandGetPrimaryKeys(table="strange"),
            ingest,
        )
    ]


def changed(seed: random.Random, raw: bytes) -> bytes:
    data = bytearray(raw)
    for _ in range(seed.randrange(4)):
        if data:
            data[seed.randrange(len(data))] = seed.randrange(256)
    return bytes(data[: seed.randrange(len(data) + 1)]) if seed.random() < 0.15 else bytes(data)


def requests(seed: random.Random) -> Iterator[tuple[str, list[bytes]]]:
    """Calls with a few bytes changed in the outer message or in the inner one."""
    batch = pa.record_batch({"host": ["a", "b"], "v": [1.0, 2.0], "ts": pa.array([1, 2], pa.timestamp("ms"))})
    stream = [parse_flight_data(each) for each in encode_stream(batch.schema, [batch])]
    ticket = StatementTicket("id", ("SELECT 1",), "public", "UTC").encode()
    for _ in range(ROUNDS):
        inner = changed(seed, seed.choice(commands()))
        descriptor = FlightDescriptor(type=FlightDescriptor.CMD, cmd=inner).SerializeToString()
        if seed.random() < 0.3:
            descriptor = FlightDescriptor(type=FlightDescriptor.PATH, path=["strange"]).SerializeToString()
        yield seed.choice(["GetFlightInfo", "GetSchema", "PollFlightInfo"]), [changed(seed, descriptor)]
        yield "DoGet", [Ticket(ticket=changed(seed, seed.choice([ticket, inner]))).SerializeToString()]
        kind = seed.choice(["CreatePreparedStatement", "ClosePreparedStatement", "CancelQuery", "CancelFlightInfo"])
        yield "DoAction", [changed(seed, Action(type=kind, body=inner).SerializeToString())]
        first = encode_flight_data([stream[0].header], descriptor=changed(seed, descriptor))
        rest = [encode_flight_data([each.header], [each.body], metadata=b'{"request_id":1}') for each in stream[1:]]
        yield "DoPut", [changed(seed, first), *(changed(seed, each) for each in rest)]


def outcome(channel: grpc.Channel, method: str, messages: list[bytes]) -> grpc.StatusCode:
    try:
        list(channel.stream_stream(f"/{SERVICE}/{method}")(iter(messages), timeout=20))
    except grpc.RpcError as error:
        return error.code()
    return grpc.StatusCode.OK


@pytest.mark.parametrize("start", [1, 2])
def test_strange_bytes_are_answered_or_refused(served: RunningServer, start: int) -> None:
    served.sql("DROP TABLE IF EXISTS strange")
    served.sql(CREATE.format("strange"))
    with served.channel() as channel:
        outcomes = Counter(outcome(channel, method, messages) for method, messages in requests(random.Random(start)))
    assert outcomes.keys() <= ALLOWED
    assert outcomes[grpc.StatusCode.OK] > 5
    assert outcomes[grpc.StatusCode.INVALID_ARGUMENT] > 20
    with adbc(served) as cursor:
        cursor.execute("SELECT 1")
        assert cursor.fetchall() == [(1,)]
