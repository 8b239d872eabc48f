import logging
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent import futures

import grpc
import pytest
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc

from tsdb.clock import ManualClock
from tsdb.telemetry import Tracing, setup_tracing
from tsdb.telemetry._traces import NoiseFilter


class Collector(trace_service_pb2_grpc.TraceServiceServicer):
    """A collector that keeps what it receives."""

    def __init__(self) -> None:
        self.requests: list[trace_service_pb2.ExportTraceServiceRequest] = []
        self._server = grpc.server(futures.ThreadPoolExecutor(1))
        trace_service_pb2_grpc.add_TraceServiceServicer_to_server(self, self._server)
        self.port = self._server.add_insecure_port("127.0.0.1:0")
        self._server.start()

    def Export(self, request, context):  # type: ignore[no-untyped-def]
        self.requests.append(request)
        return trace_service_pb2.ExportTraceServiceResponse()

    def spans(self):  # type: ignore[no-untyped-def]
        return [
            span
            for request in self.requests
            for of_resource in request.resource_spans
            for of_scope in of_resource.scope_spans
            for span in of_scope.spans
        ]

    def close(self) -> None:
        self._server.stop(None).wait()


@pytest.fixture
def collector() -> Iterator[Collector]:
    collector = Collector()
    yield collector
    collector.close()


def start(port: int, *, ratio: float = 1.0) -> Tracing:
    tracing = setup_tracing(
        enabled=True,
        endpoint=f"127.0.0.1:{port}",
        ratio=ratio,
        service_name="tsdb-standalone",
        instance_id="node-7",
        version="1.2.3",
    )
    assert tracing is not None
    return tracing


def attributes(of) -> dict[str, object]:  # type: ignore[no-untyped-def]
    return {pair.key: pair.value.string_value or pair.value.int_value for pair in of.attributes}


def test_a_span_arrives_at_the_collector_with_its_attributes(collector: Collector) -> None:
    import os

    tracing = start(collector.port)
    with tracing.span("outer", protocol="http", rows=3), tracing.span("inner"):
        pass
    tracing.shutdown()
    inner, outer = collector.spans()
    assert (inner.name, outer.name) == ("inner", "outer")
    assert inner.parent_span_id == outer.span_id
    assert attributes(outer) == {"protocol": "http", "rows": 3}
    resource = attributes(collector.requests[0].resource_spans[0].resource)
    assert resource["service.name"] == "tsdb-standalone"
    assert resource["service.instance.id"] == "node-7"
    assert resource["service.version"] == "1.2.3"
    assert resource["process.pid"] == os.getpid()


def test_a_request_continues_the_trace_of_its_sender_whatever_the_ratio(collector: Collector) -> None:
    tracing = start(collector.port, ratio=0.0)
    trace_id, parent_id = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
    carrier = {"traceparent": f"00-{trace_id}-{parent_id}-01"}
    with tracing.request_span("GET /x", carrier=carrier, attributes={}):
        pass
    with tracing.request_span("GET /x", carrier={"traceparent": "nonsense"}, attributes={}):
        pass
    tracing.shutdown()
    (span,) = collector.spans()
    assert (span.trace_id.hex(), span.parent_span_id.hex()) == (trace_id, parent_id)


def test_nothing_is_sent_when_the_ratio_is_zero(collector: Collector) -> None:
    tracing = start(collector.port, ratio=0.0)
    with tracing.span("unseen"):
        pass
    tracing.flush()
    tracing.shutdown()
    assert collector.requests == []


def test_shutdown_does_not_wait_for_a_dead_collector() -> None:
    tracing = start(1)
    for _ in range(2_000):  # several batches, each of which would be tried for as long as an export may take
        with tracing.span("lost"):
            pass
    began = time.monotonic()
    tracing.shutdown()
    assert time.monotonic() - began < 3.0


def test_trouble_with_the_collector_is_told_once_a_minute() -> None:
    clock = ManualClock()
    noise = NoiseFilter(clock)

    def passes(message: str, *args: object) -> bool:
        return noise.filter(logging.LogRecord("exporter", logging.ERROR, "", 0, message, args, None))

    assert passes("retrying in %ds", 1)
    assert not passes("retrying in %ds", 2)
    assert passes("given up")
    clock.advance(seconds=59)
    assert not passes("retrying in %ds", 4)
    clock.advance(seconds=1)
    assert passes("retrying in %ds", 1)


def test_the_filter_against_noise_is_gone_after_shutdown() -> None:
    logger = logging.getLogger("opentelemetry.exporter.otlp.proto.grpc.exporter")
    before = list(logger.filters)
    tracing = start(1)
    assert len(logger.filters) == len(before) + 1
    tracing.shutdown()
    assert logger.filters == before


def test_tracing_that_is_off_imports_nothing() -> None:
    program = (
        "import sys; from tsdb.telemetry import setup_tracing\n"
        "assert setup_tracing(enabled=False, endpoint='', ratio=1, service_name='', instance_id='',"
        " version='') is None\n"
        "sys.exit(any(name.startswith('opentelemetry') for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", program], timeout=20).returncode == 0
