"""Third-party clients against a running server: OpenTelemetry's HTTP exporters, potsdb and opentsdb-py."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import opentsdb
import potsdb
import pytest
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.metrics.view import ExponentialBucketHistogramAggregation, View
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from tests.server_process import ServerProcess, running

RESOURCE = Resource({"service.name": "shop"})


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    directory: Path = tmp_path_factory.mktemp("clients")
    with running("standalone", directory) as started:
        yield started


def _rows(server: ServerProcess, text: str) -> list[list[Any]]:
    """Ask until there are rows: clients that send in the background do not say when they are done."""
    deadline = time.monotonic() + 10
    while True:
        answer = httpx.post(server.url + "/v1/sql", data={"sql": text}, timeout=10).json()
        if "output" in answer and (rows := answer["output"][0]["records"]["rows"]):
            found: list[list[Any]] = rows
            return found
        assert time.monotonic() < deadline, answer
        time.sleep(0.05)


def _telnet(server: ServerProcess) -> tuple[str, int]:
    found = re.search(r"^  OpenTSDB +(\S+):(\d+)$", server.output, flags=re.MULTILINE)
    assert found is not None
    return found[1], int(found[2])


@pytest.mark.parametrize("is_classic", [False, True])
def test_the_metric_exporter_writes_counters_and_exponential_histograms(
    server: ServerProcess, is_classic: bool
) -> None:
    headers = {"x-tsdb-otlp-metric-exponential-histograms": "classic"} if is_classic else {}
    exporter = OTLPMetricExporter(f"{server.url}/v1/otlp/v1/metrics", compression=Compression.Gzip, headers=headers)
    view = View(instrument_name="exp.*", aggregation=ExponentialBucketHistogramAggregation())
    provider = MeterProvider([PeriodicExportingMetricReader(exporter)], resource=RESOURCE, views=[view])
    meter = provider.get_meter("lib")
    meter.create_counter("orders").add(3, {"a": 1})
    histogram = meter.create_histogram("exp.size", unit="By")
    for value in (0, 1, 2, 300):
        histogram.record(value)
    assert provider.force_flush()
    provider.shutdown()
    assert _rows(server, "SELECT DISTINCT a, job, tsdb_value FROM orders_total") == [["1", "shop", 3.0]]
    if is_classic:
        assert _rows(server, "SELECT max(tsdb_value) FROM exp_size_bytes_bucket WHERE le = '+Inf'") == [[4.0]]
    else:
        text = "SELECT tsdb_value, tsdb_histogram IS NOT NULL FROM exp_size_bytes LIMIT 1"
        assert _rows(server, text) == [[None, True]]


def test_the_span_exporter_writes_traces(server: ServerProcess) -> None:
    headers = {"x-greptime-pipeline-name": "greptime_trace_v1"}
    exporter = OTLPSpanExporter(f"{server.url}/v1/otlp/v1/traces", headers=headers)
    provider = TracerProvider(resource=RESOURCE)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    with provider.get_tracer("lib").start_as_current_span("s", attributes={"k": [1, 2]}):
        pass
    assert provider.force_flush()
    provider.shutdown()
    text = 'SELECT span_name, "span_attributes.k", service_name FROM opentelemetry_traces'
    assert _rows(server, text) == [["s", [1, 2], "shop"]]


def test_the_log_exporter_writes_records(server: ServerProcess) -> None:
    exporter = OTLPLogExporter(f"{server.url}/v1/otlp/v1/logs", compression=Compression.Deflate)
    provider = LoggerProvider(resource=RESOURCE, shutdown_on_exit=False)
    provider.add_log_record_processor(BatchLogRecordProcessor(exporter))
    provider.get_logger("lib").emit(body="hello", timestamp=time.time_ns())
    assert provider.force_flush()
    provider.shutdown()
    assert _rows(server, "SELECT body, scope_name FROM opentelemetry_logs") == [["hello", "lib"]]


def test_potsdb_writes_by_telnet(server: ServerProcess) -> None:
    host, port = _telnet(server)
    client = potsdb.Client(host, port=port, qsize=100, host_tag=False, mps=100)
    client.send("pots.x", 5, tag="v")
    client.wait()
    assert _rows(server, 'SELECT tag, tsdb_value FROM "pots.x"') == [["v", 5.0]]


@pytest.mark.parametrize("compression", [None, "gzip"])
def test_opentsdb_py_writes_over_http(server: ServerProcess, compression: str | None) -> None:
    host, port = server.url.removeprefix("http://").split(":")
    client = opentsdb.TSDBClient(
        host,
        port=int(port),
        uri=f"{server.url}/v1/opentsdb",
        http_compression=compression,
        host_tag=False,
    )
    assert client.is_alive()
    client.send(f"http.{compression}", 7, unit="h")
    client.send(f"http.{compression}", "7", unit="m")
    client.close()
    client.wait()
    assert client.statuses["success"] == 2
    text = f'SELECT unit, tsdb_value FROM "http.{compression}" ORDER BY unit'
    assert _rows(server, text) == [["h", 7.0], ["m", 7.0]]


def test_opentsdb_py_writes_by_telnet(server: ServerProcess) -> None:
    host, port = _telnet(server)
    client = opentsdb.TSDBClient(host, port=port, protocol=opentsdb.TSDBConnectProtocols.TELNET, host_tag=False)
    client.send("telnet.y", 8, unit="h")
    client.close()
    client.wait()
    assert _rows(server, 'SELECT unit, tsdb_value FROM "telnet.y"') == [["h", 8.0]]
