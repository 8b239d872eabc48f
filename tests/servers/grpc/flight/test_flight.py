"""Arrow Flight with `pyarrow.flight`: reading by tickets, writing by paths, what there is."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import grpc
import orjson
import pyarrow as pa
import pyarrow.flight as fl
import pytest

from tests.servers.grpc.flight.clients import CREATE, SCHEMA, adbc, ask, command, flight, headers, rows_of
from tests.servers.grpc.running import RunningServer, running_server
from tsdb.servers.grpc.flight import flight_sql_pb2 as sql
from tsdb.servers.grpc.flight._get import encode_affected
from tsdb.servers.grpc.flight._ipc import Header, header_kind
from tsdb.servers.grpc.flight._wire import parse_flight_data
from tsdb.servers.grpc.flight.flight_pb2 import (
    CANCEL_STATUS_CANCELLING,
    CANCEL_STATUS_NOT_CANCELLABLE,
    CancelFlightInfoRequest,
    CancelFlightInfoResult,
    FlightDescriptor,
    FlightInfo,
    PollInfo,
)
from tsdb.servers.grpc.proto import greptime_pb2 as v1

ENDLESS = "SELECT a.value, b.value FROM generate_series(1, 100000) AS a(value), generate_series(1, 100000) AS b(value)"


def put(client: fl.FlightClient, path: tuple[str, ...], table: pa.Table, *numbers: int) -> list[dict[str, Any]]:
    """Write a table as batches that have numbers, or one without; what the server answers."""
    writer, reader = client.do_put(fl.FlightDescriptor.for_path(*path), table.schema)
    answers = []
    with writer:
        for number in numbers:
            writer.write_with_metadata(table.to_batches()[0], orjson.dumps({"request_id": number}))
            answers.append(orjson.loads(reader.read().to_pybytes()))
        if not numbers:
            writer.write_table(table)
        writer.done_writing()
        while (answer := reader.read()) is not None:
            answers.append(orjson.loads(answer.to_pybytes()))
    return answers


def ticket(**query: Any) -> fl.Ticket:
    return fl.Ticket(v1.GreptimeRequest(query=v1.QueryRequest(**query)).SerializeToString())


def test_batches_are_written_by_a_path_and_read_by_a_ticket(served: RunningServer) -> None:
    served.sql(CREATE.format("by_path"))
    with flight(served) as client:
        assert put(client, ("by_path",), rows_of(1000)) == []
        info = client.get_flight_info(fl.FlightDescriptor.for_path("public", "by_path"))
        assert info.total_records == -1
        table = client.do_get(info.endpoints[0].ticket).read_all()
    assert table.schema.names == SCHEMA.names == info.schema.names
    assert table.sort_by("ts").equals(rows_of(1000).cast(table.schema))


def test_batches_with_numbers_are_answered_one_by_one(served: RunningServer) -> None:
    served.sql(CREATE.format("numbered"))
    with flight(served) as client:
        answers = put(client, ("numbered",), rows_of(10), 7, 8)
    assert [(each["request_id"], each["affected_rows"]) for each in answers] == [(7, 10), (8, 10)]
    assert all(0 < each["elapsed_secs"] < 20 for each in answers)


def test_columns_may_be_left_out_and_come_encoded_or_in_other_units(served: RunningServer) -> None:
    served.sql(CREATE.format("encoded"))
    table = pa.table({"ts": pa.array([1_500_000], pa.timestamp("ns")), "host": pa.array(["a"]).dictionary_encode()})
    with flight(served) as client:
        put(client, ("encoded",), table)
    (row,) = served.sql("SELECT host, v, CAST(ts AS BIGINT) AS ms FROM encoded")
    assert row == {"host": "a", "v": None, "ms": 1}


@pytest.mark.parametrize(
    ("table", "error", "words"),
    [
        (pa.table({"host": ["a"], "nope": [1], "ts": pa.array([1], pa.timestamp("ms"))}), KeyError, "nope"),
        (pa.table({"host": ["a"], "v": ["x"], "ts": pa.array([1], pa.timestamp("ms"))}), pa.ArrowInvalid, "Float64"),
        (pa.table({"host": ["a"], "v": [1.0]}), pa.ArrowInvalid, "ts"),
        (pa.table({"v": [[1.0]], "ts": pa.array([1], pa.timestamp("ms"))}), pa.ArrowInvalid, "list"),
    ],
)
def test_rows_that_do_not_fit_are_refused_and_none_is_written(
    served: RunningServer, table: pa.Table, error: type[Exception], words: str
) -> None:
    served.sql("CREATE TABLE IF NOT EXISTS strict (host STRING PRIMARY KEY, v DOUBLE, ts TIMESTAMP(3) TIME INDEX)")
    with flight(served) as client, pytest.raises(error, match=words):
        put(client, ("strict",), table)
    assert served.sql("SELECT * FROM strict") == []


def test_a_table_that_is_not_there_is_not_created_by_a_path(served: RunningServer) -> None:
    with flight(served) as client, pytest.raises(KeyError, match="Table not found"):
        put(client, ("not_there",), rows_of(1))


def test_flights_are_the_tables_of_the_database_and_schemas_say_what_columns_are(served: RunningServer) -> None:
    served.sql("CREATE DATABASE IF NOT EXISTS listed")
    served.sql(CREATE.format("listed.one"))
    served.sql(CREATE.format("listed.other"))
    with flight(served) as client:
        found = list(client.list_flights(options=headers(x_greptime_db_name="listed")))
        assert [each.descriptor.path for each in found] == [[b"listed", b"one"], [b"listed", b"other"]]
        assert found[0].schema.names == ["host", "v", "ts"]
        (matching,) = client.list_flights(b"oth%", options=headers(x_tsdb_db_name="listed"))
        assert client.do_get(matching.endpoints[0].ticket).read_all().num_rows == 0
        schema = client.get_schema(fl.FlightDescriptor.for_path("listed", "one")).schema
    semantics = [field.metadata[b"greptime:semantic_type"] for field in schema]
    assert semantics == [b"tag", b"field", b"timestamp"]


def test_a_greptime_ticket_is_answered_with_rows_of_sql_and_of_promql(served: RunningServer) -> None:
    served.sql(CREATE.format("by_ticket"))
    served.sql("INSERT INTO by_ticket VALUES ('a', 1.5, 1000)")
    with flight(served) as client:
        assert client.do_get(ticket(sql="SELECT host, v FROM by_ticket")).read_all().to_pylist() == [
            {"host": "a", "v": 1.5}
        ]
        asked = v1.PromRangeQuery(query='by_ticket{host="a"}', start="0", end="10", step="5s")
        rows = client.do_get(ticket(prom_range_query=asked)).read_all()
    assert rows.column("v").to_pylist() == [1.5, 1.5]


def test_a_greptime_ticket_without_rows_is_answered_with_their_number(served: RunningServer) -> None:
    served.sql(CREATE.format("counted"))
    request = v1.GreptimeRequest(query=v1.QueryRequest(sql="INSERT INTO counted VALUES ('a', 1, 1), ('b', 2, 2)"))
    wrapped = b"\x0a" + bytes([len(request.SerializeToString())]) + request.SerializeToString()
    with served.channel() as channel:
        call = channel.unary_stream("/arrow.flight.protocol.FlightService/DoGet")
        (message,) = call(wrapped, timeout=20)
    found = parse_flight_data(message)
    assert header_kind(found.header) is Header.NONE
    assert v1.FlightMetadata.FromString(bytes(found.metadata)).affected_rows.value == 2
    assert message == encode_affected(2)


@pytest.mark.parametrize(("asked", "packed"), [("lz4", True), ("zstd", True), ("none", False), (None, True)])
def test_a_stream_is_compressed_as_the_call_asks(served: RunningServer, asked: str | None, packed: bool) -> None:
    query = ticket(sql="SELECT 1 AS one, n FROM generate_series(1, 5000) AS t(n)")
    options = headers(x_tsdb_flight_compression=asked) if asked else None
    with flight(served) as client:
        assert client.do_get(query, options).read_all().num_rows == 5000
    metadata = [("x-tsdb-flight-compression", asked)] if asked else []
    with served.channel() as channel:
        raw = b"\x0a" + bytes([len(query.ticket)]) + query.ticket
        call = channel.unary_stream("/arrow.flight.protocol.FlightService/DoGet")
        size = sum(map(len, call(raw, metadata=metadata, timeout=20)))
    assert (size < 5000 * 16) is packed


def test_a_compression_that_is_not_known_is_refused(served: RunningServer) -> None:
    with flight(served) as client, pytest.raises(pa.ArrowInvalid, match="lz4, zstd or none"):
        client.do_get(ticket(sql="SELECT 1"), headers(x_tsdb_flight_compression="brotli")).read_all()


def test_what_is_not_there_is_refused_with_what_to_do(served: RunningServer) -> None:
    with flight(served) as client:
        with pytest.raises(pa.ArrowNotImplementedError, match="read with DoGet, write with DoPut"):
            client.do_exchange(fl.FlightDescriptor.for_path("x"))[1].read_chunk()
        with pytest.raises(pa.ArrowNotImplementedError, match="there are no transactions"):
            list(client.do_action("BeginTransaction"))
        with pytest.raises(pa.ArrowNotImplementedError, match="x-tsdb-db-name"):
            list(client.do_action("SetSessionOptions"))
        with pytest.raises(pa.ArrowNotImplementedError, match="there is no action 'Nonsense'"):
            list(client.do_action("Nonsense"))
        with pytest.raises(KeyError, match="Table not found"):
            client.get_flight_info(fl.FlightDescriptor.for_path("not_there"))
        with pytest.raises(pa.ArrowInvalid, match="neither one of this server nor a GreptimeRequest"):
            client.do_get(fl.Ticket(b"\xff\xff")).read_all()
        with pytest.raises(pa.ArrowInvalid, match="not one of Flight SQL"):
            client.get_flight_info(fl.FlightDescriptor.for_command(b"SELECT 1"))
        with pytest.raises(pa.ArrowNotImplementedError, match="logical_plan is not supported"):
            client.do_get(ticket(logical_plan=b"x")).read_all()
        assert {each.type for each in client.list_actions()} >= {"CreatePreparedStatement", "CancelFlightInfo"}


def test_a_statement_is_cancelled_when_its_client_leaves(served: RunningServer) -> None:
    with flight(served) as client:
        reader = client.do_get(ticket(sql=ENDLESS))
        reader.read_chunk()
        assert processes(served)
        reader.cancel()
        wait_until(lambda: not processes(served))


def test_a_statement_is_cancelled_by_its_info(served: RunningServer) -> None:
    # By hand: pyarrow takes a statement that somebody else cancelled for a Ctrl-C of its own user.
    with flight(served) as client, served.channel() as channel:
        info = client.get_flight_info(command(sql.CommandStatementQuery(query=ENDLESS)))
        parsed = FlightInfo.FromString(info.serialize())
        message = CancelFlightInfoRequest(info=parsed).SerializeToString()
        (idle,) = client.do_action(fl.Action("CancelFlightInfo", message))
        assert CancelFlightInfoResult.FromString(idle.body.to_pybytes()).status == CANCEL_STATUS_NOT_CANCELLABLE
        stream = channel.unary_stream("/arrow.flight.protocol.FlightService/DoGet")(
            parsed.endpoint[0].ticket.SerializeToString(), timeout=20
        )
        next(stream)
        (answer,) = client.do_action(fl.Action("CancelFlightInfo", message))
        assert CancelFlightInfoResult.FromString(answer.body.to_pybytes()).status == CANCEL_STATUS_CANCELLING
        with pytest.raises(grpc.RpcError) as caught:
            list(stream)
    assert caught.value.code() is grpc.StatusCode.CANCELLED


def test_a_client_that_reads_slowly_holds_no_thread(tmp_path: Path) -> None:
    text = "SELECT value, value + 1 FROM generate_series(1, 9000000) AS t(value)"
    with running_server(tmp_path / "slow") as served, flight(served) as client:
        readers = [client.do_get(ticket(sql=text), headers(x_tsdb_flight_compression="none")) for _ in range(12)]
        for reader in readers:
            reader.read_chunk()
        assert ask(client, "SELECT 1").num_rows == 1
        for reader in readers:
            reader.cancel()


def test_many_clients_at_once_get_their_own_rows(served: RunningServer) -> None:
    wrong = []

    def run(number: int) -> None:
        with flight(served) as client:
            for _ in range(5):
                table = ask(client, f"SELECT {number} AS n, value FROM generate_series(1, 20000) AS t(value)")
                if table.num_rows != 20_000 or set(table.column("n").unique().to_pylist()) != {number}:
                    wrong.append(number)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not wrong


def test_an_answer_begins_before_the_query_ends_and_fails_where_it_fails(served: RunningServer) -> None:
    with flight(served) as client:
        reader = client.do_get(
            ticket(sql="SELECT 1000 / (900000 - value) AS q FROM generate_series(1, 1000000) AS t(value)")
        )
        with pytest.raises(pa.ArrowException, match=r"(?i)divide"):
            reader.read_all()


def processes(served: RunningServer) -> list[dict[str, Any]]:
    found = served.sql("SELECT query FROM information_schema.process_list WHERE query LIKE '%a.value, b.value%'")
    return [row for row in found if "process_list" not in row["query"]]


def wait_until(holds: Any) -> None:
    waiting = threading.Event()
    for _ in range(200):
        if holds():
            return
        waiting.wait(0.05)
    raise AssertionError("it did not come to hold")


def test_a_poll_is_answered_with_everything_at_once(served: RunningServer) -> None:
    served.sql(CREATE.format("polled"))
    asked = FlightDescriptor(type=FlightDescriptor.PATH, path=["polled"])
    raw = served.call("arrow.flight.protocol.FlightService/PollFlightInfo", asked.SerializeToString())
    poll = PollInfo.FromString(raw)
    assert poll.progress == 1.0
    assert not poll.HasField("flight_descriptor")
    assert len(poll.info.endpoint) == 1


def test_adbc_and_pyarrow_see_the_same_rows(served: RunningServer) -> None:
    served.sql(CREATE.format("twice_seen"))
    with flight(served) as client, adbc(served) as cursor:
        put(client, ("twice_seen",), rows_of(5000))
        cursor.execute("SELECT * FROM twice_seen ORDER BY ts")
        assert cursor.fetch_arrow_table().equals(ask(client, "SELECT * FROM twice_seen ORDER BY ts"))
