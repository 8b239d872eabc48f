import logging
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kv.etcd_process import free_port
from tests.telemetry.collector import Collector, KeptSpans, attributes, start_tracing
from tsdb.clock import ManualClock
from tsdb.errors import InvalidArguments
from tsdb.telemetry import (
    SpanKind,
    TraceSpan,
    Tracing,
    begin_trace,
    current_span,
    get_logger,
    iterate_within,
    parse_traceparent,
    span,
    traceparent_of_comment,
    using_span,
)
from tsdb.telemetry._spans import RemoteSpan
from tsdb.telemetry._trace_export import BATCH_SPANS_MAX, QUEUED_SPANS_MAX, SpanQueue

TRACE_ID, PARENT_ID = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
TRACEPARENT = f"00-{TRACE_ID}-{PARENT_ID}-01"


@pytest.fixture
def collector() -> Iterator[Collector]:
    collector = Collector()
    yield collector
    collector.close()


class FixedBits(random.Random):
    """Gives trace ids that were chosen; span ids are all 1."""

    def __init__(self, ids: Sequence[int]) -> None:
        super().__init__()
        self._ids = iter(ids)

    def getrandbits(self, bits: int, /) -> int:
        return next(self._ids) if bits == 128 else 1


def test_a_span_arrives_at_the_collector_with_its_attributes(collector: Collector) -> None:
    tracing = start_tracing(collector.port)
    tracing.install()
    outer = begin_trace("outer", attributes={"protocol": "http", "rows": 3})
    assert outer is not None
    with outer, span("inner"):
        pass
    tracing.shutdown(seconds_max=60)
    inner, outer = collector.spans()
    assert (inner.name, outer.name) == ("inner", "outer")
    assert inner.parent_span_id == outer.span_id
    assert inner.trace_id == outer.trace_id
    assert attributes(outer) == {"protocol": "http", "rows": 3}
    assert outer.start_time_unix_nano <= inner.start_time_unix_nano <= inner.end_time_unix_nano
    resource = attributes(collector.requests[0].resource_spans[0].resource)
    assert resource["service.name"] == "tsdb-standalone"
    assert resource["service.instance.id"] == "node-7"
    assert resource["service.version"] == "1.2.3"
    assert resource["process.pid"] == os.getpid()
    assert begin_trace("after the end") is None


def test_errors_have_a_status_and_a_code(collector: Collector) -> None:
    tracing = start_tracing(collector.port)
    failing = tracing.begin("failing")
    assert failing is not None
    with pytest.raises(InvalidArguments), failing:
        raise InvalidArguments("no such thing")
    tracing.shutdown(seconds_max=60)
    (found,) = collector.spans()
    assert (found.status.code, found.status.message) == (2, "no such thing")
    assert attributes(found) == {"error.type": "InvalidArguments", "tsdb.status": "InvalidArguments"}


def test_a_request_continues_the_trace_of_its_sender_whatever_the_ratio(collector: Collector) -> None:
    tracing = start_tracing(collector.port, ratio=0.0)
    continued = tracing.begin("continued", parse_traceparent(TRACEPARENT, "vendor=1"))
    assert continued is not None
    continued.end()
    assert tracing.begin("invalid", parse_traceparent("nonsense")) is None
    assert tracing.begin("not sampled by its sender", parse_traceparent(TRACEPARENT[:-1] + "0")) is None
    tracing.shutdown(seconds_max=60)
    (found,) = collector.spans()
    assert (found.trace_id.hex(), found.parent_span_id.hex(), found.trace_state) == (TRACE_ID, PARENT_ID, "vendor=1")


def test_a_sender_that_does_not_sample_is_obeyed() -> None:
    tracing = Tracing(KeptSpans(), ratio=1.0)
    assert tracing.begin("GET", parse_traceparent(TRACEPARENT[:-1] + "0")) is None
    assert tracing.begin("GET", parse_traceparent(TRACEPARENT)) is not None
    tracing.shutdown(seconds_max=60)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nonsense",
        f"ff-{TRACE_ID}-{PARENT_ID}-01",
        f"00-{'0' * 32}-{PARENT_ID}-01",
        f"00-{TRACE_ID}-{'0' * 16}-01",
        f"00-{TRACE_ID}-{PARENT_ID}-01-more",
        f"00-{TRACE_ID.upper()}-{PARENT_ID}-01",
    ],
)
def test_an_invalid_traceparent_is_as_good_as_none(text: str) -> None:
    assert parse_traceparent(text) is None


def test_a_later_version_of_traceparent_may_have_more() -> None:
    assert parse_traceparent(f"01-{TRACE_ID}-{PARENT_ID}-03-more") == RemoteSpan(
        int(TRACE_ID, 16), int(PARENT_ID, 16), True
    )


@given(st.integers(1, (1 << 128) - 1), st.integers(1, (1 << 64) - 1))
def test_what_a_span_says_of_itself_can_be_continued(trace_id: int, span_id: int) -> None:
    class Sink:
        def now_ns(self) -> int:
            return 1

        def new_span_id(self) -> int:
            return span_id

        def send(self, span: TraceSpan) -> None: ...

    made = TraceSpan(Sink(), "x", trace_id=trace_id, parent_id=None, kind=SpanKind.SERVER, attributes={})
    assert parse_traceparent(made.traceparent) == RemoteSpan(trace_id, span_id, True)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"SELECT 1 /*traceparent='{TRACEPARENT}'*/", TRACEPARENT),
        (f"SELECT 1 /*db_driver='x',route='%2Fa',traceparent='{TRACEPARENT}',tracestate='c=1'*/;", TRACEPARENT),
        (f"/* traceparent = '{TRACEPARENT}' */ SELECT 1", TRACEPARENT),
        (f"SELECT 'traceparent=''{TRACEPARENT}'''", None),
        (f"SELECT 1 -- traceparent='{TRACEPARENT}'", None),
        ("SELECT traceparent FROM t /* '' */", None),
        ("SELECT 1", None),
    ],
)
def test_statements_carry_their_trace_in_a_comment(text: str, expected: str | None) -> None:
    assert traceparent_of_comment(text) == expected


def test_the_ratio_decides_by_the_trace_id_alone() -> None:
    ids = [(7 << 64) + (2 * number + 1) * (1 << 64) // 200 for number in range(100)]
    for ratio, sampled in ((0.0, 0), (0.25, 25), (1.0, 100)):
        tracing = Tracing(KeptSpans(), ratio=ratio, source=FixedBits(ids))
        begun = [tracing.begin("request") for _ in ids]
        tracing.shutdown(seconds_max=60)
        assert [each is not None for each in begun] == [number < sampled for number in range(100)]


def test_nothing_is_sent_when_the_ratio_is_zero(collector: Collector) -> None:
    tracing = start_tracing(collector.port, ratio=0.0)
    assert all(tracing.begin("unseen") is None for _ in range(1000))
    tracing.flush(seconds_max=60)
    tracing.shutdown(seconds_max=60)
    assert collector.requests == []


def test_a_span_is_the_current_one_in_its_block_only() -> None:
    kept = KeptSpans()
    tracing = Tracing(kept, ratio=1.0)
    outer = tracing.begin("outer")
    assert outer is not None
    assert not span("nobody is traced here")
    seen = []

    def items() -> Iterator[int]:
        for number in range(2):
            seen.append(current_span())
            yield number

    for _ in iterate_within(outer, items()):
        assert current_span() is None
    assert seen == [outer, outer]
    with using_span(outer):
        assert current_span() is outer
        with span("inner") as inner:
            assert current_span() is inner
    assert current_span() is None
    assert not outer.end_ns
    tracing.shutdown(seconds_max=60)


def test_lines_of_the_log_name_the_trace(caplog: pytest.LogCaptureFixture) -> None:
    tracing = Tracing(KeptSpans(), ratio=1.0)
    log = get_logger("tsdb.test_traces")
    with caplog.at_level(logging.INFO):
        log.info("untraced", rows=1)
        with tracing.begin("request") as request:  # type: ignore[union-attr]
            log.info("traced", rows=1)
    tracing.shutdown(seconds_max=60)
    untraced, traced = (each.__dict__["tsdb_fields"] for each in caplog.records if each.name == "tsdb.test_traces")
    assert untraced == {"rows": 1}
    assert traced == {"rows": 1, "trace_id": request.trace_id_text}


def test_shutdown_does_not_wait_for_a_dead_collector() -> None:
    tracing = start_tracing(1)
    for _ in range(2_000):  # several batches, each of which would be tried for as long as an export may take
        tracing.begin("lost").end()  # type: ignore[union-attr]
    began = time.monotonic()
    tracing.shutdown(seconds_max=0.3)
    assert time.monotonic() - began < 30


def test_shutdown_does_not_wait_for_a_collector_that_hangs(collector: Collector) -> None:
    collector.go_on.clear()
    tracing = start_tracing(collector.port, export_seconds_max=3600)
    tracing.begin("lost").end()  # type: ignore[union-attr]
    tracing.flush(seconds_max=0.1)
    began = time.monotonic()
    tracing.shutdown(seconds_max=0.3)
    assert time.monotonic() - began < 60
    collector.go_on.set()


def test_a_collector_that_comes_late_gets_what_follows() -> None:
    port = free_port()
    tracing = start_tracing(port, export_seconds_max=1)
    tracing.begin("lost").end()  # type: ignore[union-attr]
    tracing.flush(seconds_max=60)
    collector = Collector(port)
    deadline = time.monotonic() + 60
    while not collector.requests and time.monotonic() < deadline:
        tracing.begin("sent").end()  # type: ignore[union-attr]
        tracing.flush(seconds_max=60)
    tracing.shutdown(seconds_max=60)
    collector.close()
    assert "sent" in {each.name for each in collector.spans()}


def test_trouble_with_the_collector_is_told_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    clock, kept = ManualClock(), KeptSpans("UNAVAILABLE")
    tracing = Tracing(kept, ratio=1.0, clock=clock)
    lines = []
    with caplog.at_level(logging.DEBUG):
        for _ in range(24):  # 4 minutes, an attempt every 10 seconds
            calls = kept.calls
            tracing.begin("lost").end()  # type: ignore[union-attr]
            tracing.flush(seconds_max=60)
            assert kept.calls > calls
            lines = [each for each in caplog.records if each.name == "tsdb.tracing"]
            clock.advance(seconds=10)
    tracing.shutdown(seconds_max=60)
    assert [each.__dict__["tsdb_fields"]["spans"] for each in lines] == [1, 6, 6, 6]
    assert {each.__dict__["tsdb_fields"]["reason"] for each in lines} == {"UNAVAILABLE"}


def test_the_exporter_itself_says_nothing(caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger("opentelemetry.exporter.otlp.proto.grpc.exporter")
    before = list(logger.filters)
    with caplog.at_level(logging.DEBUG):
        tracing = start_tracing(1, export_seconds_max=0.5)
        assert len(logger.filters) == len(before) + 1
        tracing.begin("lost").end()  # type: ignore[union-attr]
        tracing.shutdown(seconds_max=30)
    ours = [each.name for each in caplog.records if each.name.startswith(("tsdb.tracing", "opentelemetry"))]
    assert ours == ["tsdb.tracing"]
    assert logger.filters == before


def test_a_full_queue_drops_spans_and_counts_them(caplog: pytest.LogCaptureFixture) -> None:
    begun, go_on = threading.Event(), threading.Event()

    class Stuck(KeptSpans):
        def send(self, spans: Sequence[TraceSpan]) -> str | None:
            begun.set()
            assert go_on.wait(60)
            return super().send(spans)

    stuck = Stuck()
    tracing = Tracing(stuck, ratio=1.0)
    for _ in range(BATCH_SPANS_MAX):
        tracing.begin("first").end()  # type: ignore[union-attr]
    assert begun.wait(60)
    for _ in range(QUEUED_SPANS_MAX + 100):
        tracing.begin("more").end()  # type: ignore[union-attr]
    with caplog.at_level(logging.WARNING):
        go_on.set()
        tracing.shutdown(seconds_max=60)
    # The first batch may have left the queue in two pieces.
    sent = len(stuck.spans)
    assert QUEUED_SPANS_MAX < sent <= QUEUED_SPANS_MAX + BATCH_SPANS_MAX
    (line,) = [each for each in caplog.records if each.name == "tsdb.tracing"]
    assert line.__dict__["tsdb_fields"]["spans"] == BATCH_SPANS_MAX + QUEUED_SPANS_MAX + 100 - sent


def test_a_span_that_cannot_be_sent_does_not_end_the_thread() -> None:
    class Broken(KeptSpans):
        def send(self, spans: Sequence[TraceSpan]) -> str | None:
            super().send(spans)
            raise ValueError("no such encoding")

    broken = Broken()
    tracing = Tracing(broken, ratio=1.0)
    for number in (1, 2):
        tracing.begin("odd").end()  # type: ignore[union-attr]
        tracing.flush(seconds_max=60)
        assert broken.calls == number
    tracing.shutdown(seconds_max=60)


def test_a_queue_that_stops_sends_what_it_has() -> None:
    kept = KeptSpans()
    queue = SpanQueue(kept, ManualClock(), interval_seconds=3600)
    tracing = Tracing(KeptSpans(), ratio=1.0)
    queue.start()
    for _ in range(3):
        queue.put(tracing.begin("last"))  # type: ignore[arg-type]
    queue.stop(60)
    tracing.shutdown(seconds_max=60)
    assert len(kept.spans) == 3


def test_tracing_that_is_off_imports_nothing() -> None:
    program = (
        "import sys; from tsdb.telemetry import setup_tracing\n"
        "assert setup_tracing(enabled=False, endpoint='', ratio=1, service_name='', instance_id='',"
        " version='') is None\n"
        "sys.exit(any(name.startswith('opentelemetry') for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", program], timeout=20).returncode == 0
