"""Clients of others, unmodified: the ingestion SDK, and OpenTelemetry's exporters over gRPC."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import grpc
import pytest
from greptimedb_ingester import Client, Column, ColumnDataType, GreptimeError, SemanticType
from opentelemetry._logs import SeverityNumber
from opentelemetry.exporter.otlp.proto.grpc._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import SimpleLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from tests.servers.grpc.running import RunningServer, basic

COLUMNS = [
    Column("device", ColumnDataType.STRING, SemanticType.TAG),
    Column("ts", ColumnDataType.TIMESTAMP_MILLISECOND, SemanticType.TIMESTAMP),
    Column("temperature", ColumnDataType.FLOAT64, SemanticType.FIELD),
]
RESOURCE = Resource.create({"service.name": "shop"})
METADATA = (("authorization", basic("u1", "p1")),)


@pytest.fixture(params=[None, "gzip"])
def client(guarded: RunningServer, request: pytest.FixtureRequest) -> Client:
    packing = {"send_compression": request.param, "accept_compression": request.param}
    return Client([guarded.address], database="public", username="u1", password="p1", timeout_secs=20, **packing)


def test_the_sdk_writes_and_deletes_rows(guarded: RunningServer, client: Client) -> None:
    client.health_check()
    moment = datetime(2009, 2, 13, 23, 31, 30, tzinfo=UTC)
    rows = [["d1", moment, 23.5], {"device": "d2", "ts": 1_234_567_890_001, "temperature": None}]
    assert client.insert("sdk", columns=COLUMNS, rows=rows) == 2
    found = guarded.sql("SELECT device, CAST(ts AS BIGINT) AS ts, temperature FROM sdk ORDER BY device")
    assert found == [
        {"device": "d1", "ts": 1_234_567_890_000, "temperature": 23.5},
        {"device": "d2", "ts": 1_234_567_890_001, "temperature": None},
    ]
    assert client.delete("sdk", columns=COLUMNS[:2], rows=[["d1", moment]]) == 1
    assert guarded.sql("SELECT device FROM sdk") == [{"device": "d2"}]


def test_the_sdk_writes_every_type_that_a_table_can_hold(guarded: RunningServer, client: Client) -> None:
    kinds = {
        "b": (ColumnDataType.BOOLEAN, True),
        "i8": (ColumnDataType.INT8, -8),
        "u64": (ColumnDataType.UINT64, 1 << 63),
        "f32": (ColumnDataType.FLOAT32, 0.5),
        "bin": (ColumnDataType.BINARY, b"\0\1"),
        "d": (ColumnDataType.DATE, datetime(2020, 1, 2, tzinfo=UTC).date()),
        "j": (ColumnDataType.JSON, {"a": [1]}),
        "t9": (ColumnDataType.TIMESTAMP_NANOSECOND, 9),
    }
    columns = [Column(name, kind, SemanticType.FIELD) for name, (kind, _) in kinds.items()]
    columns.append(Column("n", ColumnDataType.DECIMAL128, SemanticType.FIELD, 10, 2))
    row = [*(value for _, value in kinds.values()), Decimal("-1.25"), 1]
    assert client.insert("sdk_kinds", columns=[*columns, COLUMNS[1]], rows=[row]) == 1
    (found,) = guarded.sql("SELECT b, i8, u64, f32, bin, d, n FROM sdk_kinds")
    assert found == {
        "b": True,
        "i8": -8,
        "u64": 1 << 63,
        "f32": 0.5,
        "bin": b"\0\1",
        "d": kinds["d"][1],
        "n": Decimal("-1.25"),
    }


def test_the_sdk_sends_hints(guarded: RunningServer, client: Client) -> None:
    hints = [("append_mode", "true")]
    assert client.insert("sdk_hints", columns=COLUMNS, rows=[["d", 1, 1.0]], hints=hints) == 1
    assert "append_mode = 'true'" in guarded.sql("SHOW CREATE TABLE sdk_hints")[0]["Create Table"]


def test_the_sdk_is_told_what_is_wrong(guarded: RunningServer) -> None:
    stranger = Client([guarded.address], username="r", password="p", timeout_secs=20)
    with pytest.raises(GreptimeError, match="not authorized"):
        stranger.insert("sdk_no", columns=COLUMNS, rows=[["d", 1, 1.0]])
    friend = Client([guarded.address], database="nowhere", username="u1", password="p1", timeout_secs=20)
    with pytest.raises(GreptimeError, match="nowhere"):
        friend.insert("sdk_no", columns=COLUMNS, rows=[["d", 1, 1.0]])


def test_an_exporter_of_metrics_is_served(guarded: RunningServer) -> None:
    exporter = OTLPMetricExporter(endpoint=guarded.address, insecure=True, headers=METADATA, timeout=20)
    reader = PeriodicExportingMetricReader(exporter, export_interval_millis=1e9)
    provider = MeterProvider([reader], resource=RESOURCE)
    provider.get_meter("m").create_counter("requests", unit="1").add(3, {"path": "/"})
    assert provider.force_flush()
    provider.shutdown()
    assert guarded.sql("SELECT DISTINCT path, tsdb_value FROM requests_total") == [{"path": "/", "tsdb_value": 3.0}]


def test_an_exporter_of_spans_needs_to_name_no_model(guarded: RunningServer) -> None:
    exporter = OTLPSpanExporter(endpoint=guarded.address, insecure=True, headers=METADATA, timeout=20)
    provider = TracerProvider(resource=RESOURCE)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    with provider.get_tracer("t").start_as_current_span("buy"):
        pass
    provider.shutdown()
    found = guarded.sql("SELECT span_name, service_name FROM opentelemetry_traces")
    assert found == [{"span_name": "buy", "service_name": "shop"}]


def test_an_exporter_of_logs_is_served(guarded: RunningServer) -> None:
    exporter = OTLPLogExporter(endpoint=guarded.address, insecure=True, headers=METADATA, timeout=20)
    provider = LoggerProvider(resource=RESOURCE)
    provider.add_log_record_processor(SimpleLogRecordProcessor(exporter))
    provider.get_logger("l").emit(body="hello", severity_number=SeverityNumber.INFO, timestamp=10**18)
    provider.shutdown()
    assert guarded.sql("SELECT body FROM opentelemetry_logs") == [{"body": "hello"}]


def test_data_points_that_do_not_fit_are_counted_in_the_answer(served: RunningServer) -> None:
    served.sql("CREATE TABLE cpu (tsdb_timestamp TIMESTAMP TIME INDEX, v STRING)")
    request = ExportMetricsServiceRequest()
    metrics = request.resource_metrics.add().scope_metrics.add().metrics
    for name in ("cpu", "ram"):
        point = metrics.add(name=name).gauge.data_points.add(as_double=1.0, time_unix_nano=10**18)
        point.attributes.add(key="host").value.string_value = "a"
    method = "opentelemetry.proto.collector.metrics.v1.MetricsService/Export"
    answer = ExportMetricsServiceResponse.FromString(served.call(method, request.SerializeToString()))
    assert answer.partial_success.rejected_data_points == 1
    assert "cpu" in answer.partial_success.error_message
    assert served.sql("SELECT host FROM ram") == [{"host": "a"}]
    with pytest.raises(grpc.RpcError) as caught:
        served.call(method, b"\xff")
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT


def test_the_sdk_writes_in_bulk(guarded: RunningServer, client: Client) -> None:
    client.insert("sdk_bulk", columns=COLUMNS, rows=[["d", 1, 1.0]])
    writer = client.bulk_writer("sdk_bulk", COLUMNS)
    for batch in range(3):
        rows = writer.alloc_rows(100)
        rows.add_rows([[f"d{n}", 1000 + batch * 100 + n, float(n)] for n in range(100)])
        assert writer.write(rows).affected_rows == 100
    writer.finish()
    assert guarded.sql("SELECT count(*) AS n FROM sdk_bulk") == [{"n": 301}]
