"""The OpenTelemetry collector receives from the SDK of Python and sends on, by HTTP and by gRPC."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import SimpleLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from tests.clients.programs import find_driver, free_port, program, snippet, wait_port, wait_rows
from tests.server_process import ServerProcess

HTTP = "OpenTelemetry collector"
GRPC = "OpenTelemetry collector over gRPC"


@pytest.fixture(scope="module", params=[HTTP, GRPC])
def collector(
    server: ServerProcess, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, str, Path]]:
    """A running collector: where it receives, the name of the service that sends to it, what it says."""
    directory, port = tmp_path_factory.mktemp("otelcol"), free_port()
    config = directory / "otelcol.yaml"
    config.write_text(
        f"receivers:\n  otlp: {{protocols: {{http: {{endpoint: '127.0.0.1:{port}'}}}}}}\n"
        + snippet(request.param, server)
        + "  telemetry: {metrics: {level: none}}\n"
    )
    with program(directory, str(find_driver("otelcol")), f"--config={config}") as output:
        wait_port(port, output)
        yield f"http://127.0.0.1:{port}", "by_http" if request.param == HTTP else "by_grpc", output


def test_metrics_traces_and_logs_arrive(server: ServerProcess, collector: tuple[str, str, Path]) -> None:
    url, name, output = collector
    resource = Resource({"service.name": name})
    meters = MeterProvider([PeriodicExportingMetricReader(OTLPMetricExporter(f"{url}/v1/metrics"))], resource=resource)
    meters.get_meter("lib").create_counter(f"collected_{name}").add(3, {"host": "a"})
    assert meters.force_flush()
    meters.shutdown()
    text = f"SELECT host, job, max(tsdb_value) FROM collected_{name}_total GROUP BY host, job"
    assert wait_rows(server, text, output=output) == [["a", name, 3.0]]

    tracers = TracerProvider(resource=resource)
    tracers.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter(f"{url}/v1/traces")))
    with tracers.get_tracer("lib").start_as_current_span(f"span {name}", attributes={"k": 7}):
        pass
    tracers.shutdown()
    text = f"SELECT span_name, \"span_attributes.k\" FROM opentelemetry_traces WHERE service_name = '{name}'"
    assert wait_rows(server, text, output=output) == [[f"span {name}", 7]]

    loggers = LoggerProvider(resource=resource, shutdown_on_exit=False)
    loggers.add_log_record_processor(SimpleLogRecordProcessor(OTLPLogExporter(f"{url}/v1/logs")))
    loggers.get_logger("lib").emit(body=f"hello {name}", timestamp=time.time_ns())
    loggers.shutdown()
    text = f"SELECT body, scope_name FROM opentelemetry_logs WHERE body = 'hello {name}'"
    assert wait_rows(server, text, output=output) == [[f"hello {name}", "lib"]]
