import logging
import os
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from tests.telemetry.collector import Collector, attributes, start_tracing
from tsdb.clock import ManualClock
from tsdb.telemetry._traces import NoiseFilter


@pytest.fixture
def collector() -> Iterator[Collector]:
    collector = Collector()
    yield collector
    collector.close()


def test_a_span_arrives_at_the_collector_with_its_attributes(collector: Collector) -> None:
    tracing = start_tracing(collector.port)
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
    tracing = start_tracing(collector.port, ratio=0.0)
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
    tracing = start_tracing(collector.port, ratio=0.0)
    with tracing.span("unseen"):
        pass
    tracing.flush()
    tracing.shutdown()
    assert collector.requests == []


def test_shutdown_does_not_wait_for_a_dead_collector() -> None:
    tracing = start_tracing(1)
    for _ in range(2_000):  # several batches, each of which would be tried for as long as an export may take
        with tracing.span("lost"):
            pass
    began = time.monotonic()
    tracing.shutdown(seconds_max=0.3)
    assert time.monotonic() - began < 5


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
    tracing = start_tracing(1)
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
