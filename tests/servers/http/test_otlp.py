"""OTLP over HTTP: requests as the OpenTelemetry SDK encodes them, answers as its exporters read them."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from google.rpc.status_pb2 import Status
from opentelemetry.exporter.otlp.proto.common._log_encoder import encode_logs
from opentelemetry.exporter.otlp.proto.common.metrics_encoder import encode_metrics
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind

from tests.servers.http.asgi_client import Answer, call
from tsdb.components._local import LocalOptions, open_directory
from tsdb.database import Database, DatabaseGate, Session, read_all
from tsdb.servers.http import HttpApp, otlp_routes
from tsdb.servers.http.ingest._request import INGEST, IngestTuning
from tsdb.units import Duration

RESOURCE = Resource({"service.name": "shop", "service.instance.id": "i-1", "host.arch": "arm64"})
V1 = {"x-greptime-pipeline-name": "greptime_trace_v1"}


class World:
    """A database and the endpoints in front of it."""

    def __init__(self, directory: Path, tuning: IngestTuning = INGEST) -> None:
        self._opened = open_directory(directory, options=LocalOptions(has_housekeeping=False))
        self.database: Database = self._opened.database
        self._app = HttpApp(body_limit=1 << 20, timeout=Duration.of_seconds(30))
        self._routes = otlp_routes(self._app, DatabaseGate(self.database), tuning=tuning)

    def post(self, what: str, body: bytes, *, query: str = "", **headers: str) -> Answer:
        said = {"content-type": "application/x-protobuf"} | {k.replace("_", "-"): v for k, v in headers.items()}
        return asyncio.run(call(self._app, "POST", f"/v1/otlp/v1/{what}{query}", headers=said, body=body))

    def ask(self, text: str) -> list[dict[str, Any]]:
        output = self.database.run(text, Session())
        rows: list[dict[str, Any]] = read_all(output).to_pylist()  # type: ignore[arg-type]
        return rows

    def tables(self) -> list[str]:
        names = [next(iter(row.values())) for row in self.ask("SHOW TABLES")]
        return [name for name in names if name != "numbers"]

    def close(self) -> None:
        self._routes.close()
        self._opened.close()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    yield world
    world.close()


def _metrics() -> bytes:
    """What the SDK sends for a counter, a gauge and a histogram."""
    reader = InMemoryMetricReader()
    provider = MeterProvider(resource=RESOURCE, metric_readers=[reader])
    meter = provider.get_meter("shop.lib", "1.2")
    meter.create_counter("claude_code.cost.usage", unit="USD").add(2.5, {"user.id": "u1"})
    meter.create_gauge("cpu.usage", unit="1").set(0.5, {"core": 3})
    histogram = meter.create_histogram("http.duration", unit="ms", explicit_bucket_boundaries_advisory=[1, 2.5])
    for value in (0.5, 2, 9):
        histogram.record(value)
    data = reader.get_metrics_data()
    provider.shutdown()
    body: bytes = encode_metrics(data).SerializeToString()  # type: ignore[arg-type]
    return body


def _spans() -> bytes:
    exporter = InMemorySpanExporter()
    provider = TracerProvider(resource=RESOURCE)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("shop.lib", "1.2")
    with tracer.start_as_current_span("GET /cart", kind=SpanKind.SERVER, attributes={"http.status_code": 200}) as span:
        span.add_event("cache miss", {"key": "cart:7"})
        with tracer.start_as_current_span("query", attributes={"db.ok": True, "db.rows": 1.5}):
            pass
    body: bytes = encode_spans(exporter.get_finished_spans()).SerializeToString()
    return body


def test_metrics_of_the_sdk_become_tables_with_prometheus_names(world: World) -> None:
    answer = world.post("metrics", _metrics())
    assert (answer.status, answer.body) == (200, b"")
    assert answer.headers["content-type"] == "application/x-protobuf"
    assert set(world.tables()) == {
        "claude_code_cost_usage_USD_total",
        "cpu_usage_ratio",
        "http_duration_milliseconds_bucket",
        "http_duration_milliseconds_count",
        "http_duration_milliseconds_sum",
        "tsdb_physical_table",
    }
    (row,) = world.ask('SELECT * FROM "claude_code_cost_usage_USD_total"')
    assert row.pop("tsdb_timestamp") is not None
    assert row == {
        "tsdb_value": 2.5,
        "instance": "i-1",
        "job": "shop",
        "service_instance_id": "i-1",
        "service_name": "shop",
        "user_id": "u1",
    }
    buckets = world.ask("SELECT le, tsdb_value FROM http_duration_milliseconds_bucket ORDER BY tsdb_value")
    assert [(row["le"], row["tsdb_value"]) for row in buckets] == [("1", 1.0), ("2.5", 2.0), ("+Inf", 3.0)]
    assert world.ask("SELECT core FROM cpu_usage_ratio") == [{"core": "3"}]


def test_headers_choose_names_and_tags_of_metrics(world: World) -> None:
    answer = world.post(
        "metrics",
        gzip.compress(_metrics()),
        content_encoding="gzip",
        x_tsdb_otlp_metric_translation_strategy="NoTranslation",
        x_greptime_otlp_metric_promote_all_resource_attrs="true",
        x_tsdb_otlp_metric_ignore_resource_attrs="service.instance.id",
        x_tsdb_otlp_metric_promote_scope_attrs="true",
    )
    assert answer.status == 200
    (row,) = world.ask('SELECT * FROM "cpu.usage"')
    assert row["host.arch"] == "arm64"
    assert row["otel_scope_name"] == "shop.lib"
    assert row["otel_scope_version"] == "1.2"
    assert "service.instance.id" not in row


def test_a_point_that_cannot_be_taken_is_told_in_partial_success_and_the_others_are_written(world: World) -> None:
    request = ExportMetricsServiceRequest()
    metric = request.resource_metrics.add().scope_metrics.add().metrics.add(name="temp")
    metric.gauge.data_points.add(time_unix_nano=1_000_000, as_double=1.0)
    metric.gauge.data_points.add(as_double=2.0)
    answer = world.post("metrics", request.SerializeToString())
    assert answer.status == 200
    partial = ExportMetricsServiceResponse.FromString(answer.body).partial_success
    assert partial.rejected_data_points == 1
    assert "metric 'temp', data point 1: the data point has no time" in partial.error_message
    assert [row["tsdb_value"] for row in world.ask("SELECT tsdb_value FROM temp")] == [1.0]


def test_a_request_of_which_nothing_fits_is_answered_with_a_status(world: World) -> None:
    request = ExportMetricsServiceRequest()
    metric = request.resource_metrics.add().scope_metrics.add().metrics.add(name="temp")
    metric.gauge.data_points.add(as_double=2.0)
    answer = world.post("metrics", request.SerializeToString())
    assert answer.status == 400
    assert answer.headers["content-type"] == "application/x-protobuf"
    status = Status.FromString(answer.body)
    assert status.code == 3
    assert "has no time" in status.message


def test_spans_of_the_sdk_become_rows_with_one_column_for_each_attribute(world: World) -> None:
    assert world.post("traces", _spans(), **V1).status == 200
    described = world.ask("DESC TABLE opentelemetry_traces")
    assert [(row["Column"], row["Type"]) for row in described] == [
        ("timestamp", "TimestampNanosecond"),
        ("timestamp_end", "TimestampNanosecond"),
        ("duration_nano", "UInt64"),
        ("parent_span_id", "String"),
        ("trace_id", "String"),
        ("span_id", "String"),
        ("span_kind", "String"),
        ("span_name", "String"),
        ("span_status_code", "String"),
        ("span_status_message", "String"),
        ("trace_state", "String"),
        ("scope_name", "String"),
        ("scope_version", "String"),
        ("service_name", "String"),
        ("span_attributes.db.ok", "Boolean"),
        ("span_attributes.db.rows", "Float64"),
        ("resource_attributes.service.instance.id", "String"),
        ("resource_attributes.host.arch", "String"),
        ("span_attributes.http.status_code", "Int64"),
        ("span_events", "Json"),
        ("span_links", "Json"),
    ]
    assert [row["Column"] for row in described if row["Semantic Type"] == "TAG"] == ["service_name"]
    server, client = world.ask("SELECT * FROM opentelemetry_traces ORDER BY timestamp")
    assert server["span_kind"] == "SPAN_KIND_SERVER"
    assert server["span_status_code"] == "STATUS_CODE_UNSET"
    assert server["parent_span_id"] is None
    assert server["span_attributes.http.status_code"] == 200
    assert '"name":"cache miss"' in server["span_events"]
    assert client["parent_span_id"] == server["span_id"]
    assert client["trace_id"] == server["trace_id"]
    assert len(server["trace_id"]) == 32
    assert world.ask("SELECT service_name FROM opentelemetry_traces_services") == [{"service_name": "shop"}]
    operations = world.ask("SELECT span_name, span_kind FROM opentelemetry_traces_operations ORDER BY span_name")
    assert [tuple(row.values()) for row in operations] == [
        ("GET /cart", "SPAN_KIND_SERVER"),
        ("query", "SPAN_KIND_INTERNAL"),
    ]


def test_the_same_spans_twice_are_two_rows_and_one_operation(world: World) -> None:
    body = _spans()
    for _ in range(2):
        assert world.post("traces", body, x_tsdb_trace_table_name="spans", **V1).status == 200
    assert world.ask("SELECT count(*) AS n FROM spans") == [{"n": 4}]
    assert world.ask("SELECT count(*) AS n FROM spans_operations") == [{"n": 2}]


def test_traces_without_the_pipeline_header_are_refused(world: World) -> None:
    answer = world.post("traces", _spans())
    assert answer.status == 400
    assert "x-tsdb-pipeline-name: tsdb_trace_v1" in Status.FromString(answer.body).message
    assert world.tables() == []


def test_a_span_whose_attribute_has_another_type_than_its_column_is_refused_alone(world: World) -> None:
    def span(value: object) -> bytes:
        request = ExportTraceServiceRequest()
        spans = request.resource_spans.add().scope_spans.add().spans
        for number, each in enumerate((value, None), 1):
            made = spans.add(trace_id=bytes([number] * 16), span_id=bytes([number] * 8), name="s")
            made.start_time_unix_nano = number
            if each is not None:
                attribute = made.attributes.add(key="size")
                setattr(attribute.value, "int_value" if isinstance(each, int) else "string_value", each)
        return request.SerializeToString()

    assert world.post("traces", span(7), **V1).status == 200
    answer = world.post("traces", span("large"), **V1)
    assert answer.status == 200
    partial = ExportTraceServiceResponse.FromString(answer.body).partial_success
    assert partial.rejected_spans == 1
    assert "span_attributes.size" in partial.error_message
    assert world.ask("SELECT count(*) AS n FROM opentelemetry_traces") == [{"n": 3}]


def test_log_records_of_the_sdk_become_rows_and_named_attributes_tags(world: World) -> None:
    exporter = InMemoryLogRecordExporter()
    provider = LoggerProvider(resource=RESOURCE, shutdown_on_exit=False)
    provider.add_log_record_processor(SimpleLogRecordProcessor(exporter))
    logger = provider.get_logger("shop.lib", "1.2")
    logger.emit(
        timestamp=1_700_000_000_000_000_000, body="disk full", severity_text="ERROR", attributes={"disk": "sda"}
    )
    logger.emit(observed_timestamp=1_700_000_000_000_000_001, body={"code": 7}, attributes={"other": 1})
    body = encode_logs(exporter.get_finished_logs()).SerializeToString()
    assert world.post("logs", body, x_tsdb_log_extract_keys="disk, service.name").status == 200
    described = world.ask("DESC TABLE opentelemetry_logs")
    assert [row["Column"] for row in described] == [
        *("timestamp", "trace_id", "span_id", "severity_text", "severity_number", "body", "log_attributes"),
        *("trace_flags", "scope_name", "scope_version", "scope_attributes", "scope_schema_url"),
        *("resource_attributes", "resource_schema_url", "disk", "service.name"),
    ]
    tags = [row["Column"] for row in described if row["Semantic Type"] == "TAG"]
    assert tags == ["scope_name", "disk", "service.name"]
    first, second = world.ask("SELECT * FROM opentelemetry_logs ORDER BY timestamp")
    assert (first["body"], first["disk"], first["service.name"]) == ("disk full", "sda", "shop")
    assert (second["body"], second["disk"]) == ('{"code":7}', None)
    assert second["log_attributes"] == '{"other":1}'


def test_a_dry_run_tells_what_would_be_created_and_writes_nothing(world: World) -> None:
    answer = world.post("traces", _spans(), query="?dry_run=true", **V1)
    assert answer.status == 200
    assert answer.json()["rows"] == 2
    assert answer.json()["created_tables"] == ["opentelemetry_traces"]
    assert world.tables() == []


@pytest.mark.parametrize(
    ("content_type", "body", "message"),
    [
        ("application/json", b"{}", "OTLP in JSON is not supported"),
        ("text/plain", b"", "the Content-Type text/plain is not supported"),
        ("application/x-protobuf", b"\xff\xff\xff", "not a message ExportMetricsServiceRequest"),
    ],
)
def test_what_is_not_protobuf_is_refused(world: World, content_type: str, body: bytes, message: str) -> None:
    answer = world.post("metrics", body, content_type=content_type)
    assert answer.status == 400
    assert message in Status.FromString(answer.body).message


def test_a_database_that_is_not_there_is_told_by_its_code(world: World) -> None:
    answer = world.post("metrics", _metrics(), x_greptime_db_name="nowhere")
    assert answer.status == 400
    assert answer.headers["x-tsdb-err-code"] == "4004"
    assert Status.FromString(answer.body).code == 5


def test_a_body_that_unpacks_into_too_much_is_refused(tmp_path: Path) -> None:
    world = World(tmp_path, IngestTuning(unpacked_bytes_max=1 << 20))
    answer = world.post("metrics", gzip.compress(bytes((1 << 20) + 1)), content_encoding="gzip")
    assert answer.status == 413
    world.close()
