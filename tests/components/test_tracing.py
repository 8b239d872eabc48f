"""A server that traces: what a collector gets of requests of every protocol."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import adbc_driver_flightsql.dbapi as flight_sql
import grpc
import httpx
import psycopg
import pymysql
import pytest

from tests.server_process import ServerProcess, running
from tests.telemetry.collector import Collector, KeptSpans, attributes
from tsdb.components import LocalOptions, open_directory
from tsdb.database import Session, read_all
from tsdb.servers.grpc.proto import greptime_pb2 as v1
from tsdb.telemetry import Tracing

pytestmark = pytest.mark.timeout(300)


class TracedServer:
    """A server and the collector of its traces."""

    def __init__(self, server: ServerProcess, collector: Collector) -> None:
        self.server = server
        self.collector = collector
        self._trace = 0

    def next_trace(self, *, flag: str = "01") -> tuple[str, str]:
        """A trace that a client begins: its id, and its traceparent."""
        self._trace += 1
        trace_id = f"{self._trace:032x}"
        return trace_id, f"00-{trace_id}-00000000000000ff-{flag}"

    def sql(self, text: str, traceparent: str = "", **headers: str) -> httpx.Response:
        headers = {"traceparent": traceparent, **headers} if traceparent else headers
        return httpx.post(f"{self.server.url}/v1/sql", data={"sql": text}, headers=headers, timeout=60)

    def wait_for(self, trace_id: str, *names: str) -> dict[str, Any]:
        """The spans of a trace by their names, once these have come."""
        self.collector.wait_until(lambda: set(names) <= {span.name for span in self.collector.spans(trace_id)})
        return {span.name: span for span in self.collector.spans(trace_id)}


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TracedServer]:
    collector = Collector()
    environment = {
        "TSDB_STANDALONE__LOGGING__ENABLE_OTLP_TRACING": "true",
        "TSDB_STANDALONE__LOGGING__OTLP_ENDPOINT": f"127.0.0.1:{collector.port}",
        # Only what clients trace, but for slow statements: all of them are.
        "TSDB_STANDALONE__LOGGING__TRACING_SAMPLE_RATIO": "0",
        "TSDB_STANDALONE__SLOW_QUERY__THRESHOLD": "1ns",
    }
    with running("standalone", tmp_path_factory.mktemp("traced"), environment=environment) as server:
        found = TracedServer(server, collector)
        created = found.sql(
            "CREATE TABLE cpu (host STRING PRIMARY KEY, ts TIMESTAMP TIME INDEX, usage DOUBLE); "
            "INSERT INTO cpu VALUES ('a', 1000, 1), ('b', 2000, 2)"
        )
        assert created.status_code == 200, created.text
        yield found
    collector.close()


def parent_of(spans: dict[str, Any], name: str) -> str:
    """The name of the span that a span is in."""
    by_id = {span.span_id: span.name for span in spans.values()}
    return by_id[spans[name].parent_span_id]


def test_a_query_over_http_is_traced_to_the_scan_of_its_region(traced: TracedServer) -> None:
    trace_id, traceparent = traced.next_trace()
    assert traced.sql("SELECT host, usage FROM cpu WHERE host = 'b'", traceparent).status_code == 200
    spans = traced.wait_for(trace_id, "POST /v1/sql", "Query", "execute", "region.scan", "plan", "parse")
    root = spans["POST /v1/sql"]
    assert root.parent_span_id.hex() == "00000000000000ff"
    assert attributes(root)["http.response.status_code"] == 200
    assert parent_of(spans, "Query") == "POST /v1/sql"
    assert parent_of(spans, "plan") == "Query"
    assert parent_of(spans, "region.scan") in ("execute", "plan")
    assert parent_of(spans, "scheduler.wait") == "POST /v1/sql"
    assert attributes(spans["Query"])["db.query.text"] == "SELECT host, usage FROM cpu WHERE host = 'b'"
    scan = attributes(spans["region.scan"])
    assert scan["rows"] == 1
    assert int(str(scan["region"])) > 0


def test_aggregates_joins_and_promql_are_traced_to_their_regions(traced: TracedServer) -> None:
    for text, wanted in (
        ("SELECT host, max(usage) FROM cpu GROUP BY host", "region.cells"),
        ("SELECT count(*) FROM cpu a JOIN cpu b ON a.ts = b.ts", "region.scan"),
    ):
        trace_id, traceparent = traced.next_trace()
        assert traced.sql(text, traceparent).status_code == 200
        traced.wait_for(trace_id, "POST /v1/sql", "Query", wanted)
    trace_id, traceparent = traced.next_trace()
    answer = httpx.get(
        f"{traced.server.url}/v1/prometheus/api/v1/query",
        params={"query": "sum(cpu)", "time": "3"},
        headers={"traceparent": traceparent},
        timeout=60,
    )
    assert answer.status_code == 200, answer.text
    spans = traced.wait_for(trace_id, "GET /v1/prometheus/api/v1/query", "Promql", "region.samples")
    assert parent_of(spans, "region.samples") == "Promql"


def test_a_write_is_traced_to_the_log(traced: TracedServer) -> None:
    trace_id, traceparent = traced.next_trace()
    written = httpx.post(
        f"{traced.server.url}/v1/influxdb/write",
        content="mem,host=a used=1 1000000000",
        headers={"traceparent": traceparent},
        timeout=60,
    )
    assert written.status_code == 204, written.text
    spans = traced.wait_for(trace_id, "POST /v1/influxdb/write", "region.write", "log.append")
    assert parent_of(spans, "region.write") == "POST /v1/influxdb/write"
    assert parent_of(spans, "log.append") == "region.write"
    assert attributes(spans["region.write"])["rows"] == 1


def test_an_error_is_a_span_with_its_code(traced: TracedServer) -> None:
    trace_id, traceparent = traced.next_trace()
    assert traced.sql("SELECT * FROM missing", traceparent).status_code == 400
    spans = traced.wait_for(trace_id, "POST /v1/sql", "Query")
    assert spans["Query"].status.code == spans["POST /v1/sql"].status.code == 2
    assert attributes(spans["POST /v1/sql"])["tsdb.status"] == "TableNotFound"


def test_statements_of_mysql_continue_the_trace_in_their_comment(traced: TracedServer) -> None:
    with (
        pymysql.connect(host="127.0.0.1", port=traced.server.port_of("MySQL"), user="me", database="public") as client,
        client.cursor() as cursor,
    ):
        trace_id, traceparent = traced.next_trace()
        cursor.execute(f"SELECT usage FROM cpu ORDER BY ts /*action='list',traceparent='{traceparent}'*/")
        assert cursor.fetchall() == ((1.0,), (2.0,))
    spans = traced.wait_for(trace_id, "mysql.query", "Query", "region.scan", "scheduler.wait")
    assert attributes(spans["mysql.query"])["protocol"] == "mysql"
    assert parent_of(spans, "Query") == "mysql.query"


def test_statements_of_postgresql_continue_the_trace_in_their_comment(traced: TracedServer) -> None:
    address = f"host=127.0.0.1 port={traced.server.port_of('Postgres')} user=me dbname=public"
    with psycopg.connect(address, autocommit=True) as session:
        trace_id, traceparent = traced.next_trace()
        session.execute(f"SELECT usage FROM cpu ORDER BY ts /*traceparent='{traceparent}'*/").fetchall()
        spans = traced.wait_for(trace_id, "postgres.query", "Query", "region.scan", "scheduler.wait")
        assert parent_of(spans, "Query") == "postgres.query"
        trace_id, traceparent = traced.next_trace()
        text = f"SELECT usage FROM cpu WHERE host = %s /*traceparent='{traceparent}'*/"
        assert session.execute(text, ["a"]).fetchall() == [(1.0,)]
        traced.wait_for(trace_id, "postgres.query", "Query", "region.scan")


def test_flight_continues_the_trace_in_the_metadata(traced: TracedServer) -> None:
    trace_id, traceparent = traced.next_trace()
    header = {"adbc.flight.sql.rpc.call_header.traceparent": traceparent}
    with (
        flight_sql.connect(
            f"grpc://127.0.0.1:{traced.server.port_of('gRPC')}", db_kwargs=header, autocommit=True
        ) as client,
        client.cursor() as cursor,
    ):
        cursor.execute("SELECT usage FROM cpu")
        assert cursor.fetch_arrow_table().num_rows == 2
    method = "arrow.flight.protocol.FlightService/DoGet"
    spans = traced.wait_for(trace_id, method, "Query", "region.scan")
    assert parent_of(spans, "Query") == method


def test_requests_over_grpc_continue_the_trace_in_their_header(traced: TracedServer) -> None:
    trace_id, traceparent = traced.next_trace()
    request = v1.GreptimeRequest(
        header=v1.RequestHeader(dbname="public", tracing_context={"traceparent": traceparent}),
        query=v1.QueryRequest(sql="INSERT INTO cpu VALUES ('c', 3000, 3)"),
    )
    with grpc.insecure_channel(f"127.0.0.1:{traced.server.port_of('gRPC')}") as channel:
        handle = channel.unary_unary(
            "/greptime.v1.GreptimeDatabase/Handle", v1.GreptimeRequest.SerializeToString, v1.GreptimeResponse.FromString
        )
        assert handle(request, timeout=60).affected_rows.value == 1
    spans = traced.wait_for(trace_id, "greptime.v1.GreptimeDatabase/Handle", "Insert", "region.write")
    assert spans["greptime.v1.GreptimeDatabase/Handle"].parent_span_id.hex() == "00000000000000ff"
    assert traced.sql("DELETE FROM cpu WHERE host = 'c'").status_code == 200


def test_flushes_and_compactions_are_traces_of_their_own(tmp_path: Path) -> None:
    kept = KeptSpans()
    tracing = Tracing(kept, ratio=1.0)
    tracing.install()
    local = open_directory(tmp_path, options=LocalOptions(has_housekeeping=False))
    try:
        run = partial(local.database.run, session=Session())
        run("CREATE TABLE t (ts TIMESTAMP TIME INDEX, v DOUBLE)")
        for number in range(3):
            run(f"INSERT INTO t VALUES (1000, {number}), (2000, {number})")
            for output in local.database.execute("ADMIN flush_table('t')", Session()):
                read_all(output)  # type: ignore[arg-type]
        for output in local.database.execute("ADMIN compact_table('t', 'swcs', '3600')", Session()):
            read_all(output)  # type: ignore[arg-type]
    finally:
        local.close()
        tracing.shutdown(seconds_max=60)
    assert {each.name for each in kept.spans} == {"flush", "compaction"}
    assert len({each.trace_id for each in kept.spans}) == len(kept.spans)
    flushes = [each.attributes for each in kept.spans if each.name == "flush"]
    assert [(each["table"], each["files"], each["rows"]) for each in flushes] == [("public.t", 1, 2)] * 3


def test_what_nobody_traces_is_not_sent_with_a_ratio_of_zero(traced: TracedServer) -> None:
    for _ in range(20):
        assert traced.sql("SELECT 1").status_code == 200
    unsampled, traceparent = traced.next_trace(flag="00")
    assert traced.sql("SELECT 2", traceparent).status_code == 200
    sampled, traceparent = traced.next_trace()
    assert traced.sql("SELECT 3", traceparent).status_code == 200
    traced.wait_for(sampled, "POST /v1/sql")
    assert traced.collector.spans(unsampled) == []
    known = {f"{number:032x}" for number in range(1, 1000)}
    assert {span.trace_id.hex() for span in traced.collector.spans()} <= known


def test_slow_statements_have_the_id_of_their_trace(traced: TracedServer) -> None:
    trace_id, traceparent = traced.next_trace()
    assert traced.sql("SELECT 'a slow one'", traceparent).status_code == 200
    assert wait_for_slow(traced, trace_id) == [["SELECT 'a slow one'", "public", "http", False]]
    trace_id, traceparent = traced.next_trace()
    httpx.get(
        f"{traced.server.url}/v1/prometheus/api/v1/query_range",
        params={"query": "max(cpu)", "start": "1", "end": "3", "step": "1"},
        headers={"traceparent": traceparent},
        timeout=60,
    ).raise_for_status()
    assert wait_for_slow(traced, trace_id) == [["max(cpu)", "public", "http", True]]


def wait_for_slow(traced: TracedServer, trace_id: str) -> list[list[object]]:
    """What was recorded of the statements of a trace, once there is something."""
    text = f"SELECT query, database, protocol, is_promql FROM tsdb_private.slow_queries WHERE trace_id = '{trace_id}'"
    deadline = time.monotonic() + 60
    found: list[list[object]] = []
    while not found and time.monotonic() < deadline:
        answer = traced.sql(text).json()
        found = answer["output"][0]["records"]["rows"] if "output" in answer else []
    return found
