"""Sending spans to a collector: OTLP over gRPC, in batches, on a thread of its own.

    span ends ─▶ bounded queue ─▶ every second, or when a batch is full ─▶ one call with a deadline

Nobody waits for the collector. Spans that find the queue full, and those of a call that failed, are dropped and
counted. Trouble is told at most once a minute, with the number of spans dropped since.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from tsdb.clock import Clock
from tsdb.telemetry._logger import get_logger
from tsdb.telemetry._metrics import counter, gauge
from tsdb.telemetry._spans import AttributeValue, SpanKind, TraceSpan

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

QUEUED_SPANS_MAX = 8192
BATCH_SPANS_MAX = 512
INTERVAL_SECONDS = 1.0
EXPORT_SECONDS_MAX = 10.0
"""How long one batch may take, with its retries."""
COMPLAINT_SECONDS_MIN = 60.0
"""How far apart two lines about trouble with the collector are."""

# What complains about every batch while a collector is away: `SpanQueue` says it once a minute.
_NOISY_LOGGER = "opentelemetry.exporter.otlp.proto.grpc.exporter"

_SENT = counter("tsdb_tracing_spans_sent_total", "Spans that the collector has accepted.")
_DROPPED = counter(
    "tsdb_tracing_spans_dropped_total",
    "Spans that were not sent.",
    labels=("reason",),
)
_QUEUED = gauge("tsdb_tracing_queue_spans", "Spans waiting to be sent; at most 8192.")
_TOO_MANY = "they come faster than the collector takes them"
_log = get_logger("tsdb.tracing")


class SpanSender(Protocol):
    """Sends one batch."""

    def send(self, spans: Sequence[TraceSpan]) -> str | None:
        """Send spans, within a deadline; return why that failed, None if it did not."""

    def close(self) -> None:
        """Give up a call that is under way."""


class SpanQueue:
    """The queue of spans and its thread. `stop` it in the end."""

    def __init__(self, sender: SpanSender, clock: Clock, *, interval_seconds: float = INTERVAL_SECONDS) -> None:
        self._sender = sender
        self._clock = clock
        self._interval_seconds = interval_seconds
        self._spans: deque[TraceSpan] = deque()
        self._wake = threading.Event()
        self._is_stopping = False
        self._idle = threading.Condition()
        self._wanted = 0
        self._flushed = 0
        self._silent_until_ns = clock.monotonic_ns()
        self._lost = 0
        """Spans that were dropped since the last complaint."""
        self._problem = _TOO_MANY
        self._thread = threading.Thread(target=self._run, name="tsdb-traces", daemon=True)
        _QUEUED.set_function(lambda: len(self._spans))

    def start(self) -> None:
        self._thread.start()

    def put(self, span: TraceSpan) -> None:
        """Queue a span, or drop it; never waits."""
        if len(self._spans) >= QUEUED_SPANS_MAX:
            self._drop(1, "queue")
            return
        self._spans.append(span)
        if len(self._spans) >= BATCH_SPANS_MAX:
            self._wake.set()

    def flush(self, seconds_max: float) -> None:
        """Send what is queued now; returns when it is sent or given up, or after a while."""
        with self._idle:
            self._wanted += 1
            wanted = self._wanted
            self._wake.set()
            self._idle.wait_for(lambda: self._flushed >= wanted or not self._thread.is_alive(), seconds_max)

    def stop(self, seconds_max: float) -> None:
        """Send what is queued, for at most `seconds_max`, and end the thread."""
        self._is_stopping = True
        self._wake.set()
        self._thread.join(seconds_max)
        self._sender.close()
        if left := len(self._spans):
            self._spans.clear()
            self._drop(left, "stop")
            _log.warning("spans were not sent before the process ended", spans=left)

    def _run(self) -> None:
        while True:
            self._wake.wait(self._interval_seconds)
            self._wake.clear()
            is_last, wanted = self._is_stopping, self._wanted
            self._send_queued()
            self._complain()
            with self._idle:
                self._flushed = wanted
                self._idle.notify_all()
            if is_last:
                return

    def _send_queued(self) -> None:
        """Send what is queued, batch by batch."""
        while count := min(len(self._spans), BATCH_SPANS_MAX):
            batch = [self._spans.popleft() for _ in range(count)]
            try:
                problem = self._sender.send(batch)
            except Exception as error:  # noqa: BLE001 - a span that cannot be sent must not end the thread
                problem = f"{type(error).__name__}: {error}"
            if problem is None:
                _SENT.inc(count)
            else:
                self._drop(count, "collector")
                self._problem = problem

    def _drop(self, count: int, reason: str) -> None:
        _DROPPED.labels(reason).inc(count)
        self._lost += count

    def _complain(self) -> None:
        """Say that spans were dropped, unless that was said within the last minute."""
        now_ns = self._clock.monotonic_ns()
        if not self._lost or now_ns < self._silent_until_ns:
            return
        self._silent_until_ns = now_ns + int(COMPLAINT_SECONDS_MIN * 1e9)
        lost, self._lost = self._lost, 0
        _log.warning("spans of traces were dropped", spans=lost, reason=self._problem)
        self._problem = _TOO_MANY


class OtlpSender:
    """Sends batches over OTLP and gRPC, with the exporter of OpenTelemetry."""

    def __init__(self, endpoint: str, resource: Mapping[str, AttributeValue], seconds_max: float) -> None:
        """One batch may take `seconds_max`, with its retries."""
        # Imported when tracing is on: this takes half a second.
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace.export import SpanExportResult
        from opentelemetry.sdk.util.instrumentation import InstrumentationScope

        self._success = SpanExportResult.SUCCESS
        self._resource = Resource.create(dict(resource))
        self._scope = InstrumentationScope("tsdb", str(resource.get("service.version", "")))
        self._endpoint = endpoint
        self._noise = _LastComplaint()
        logging.getLogger(_NOISY_LOGGER).addFilter(self._noise)
        self._exporter = OTLPSpanExporter(endpoint=endpoint, insecure=True, timeout=seconds_max)

    def send(self, spans: Sequence[TraceSpan]) -> str | None:
        self._noise.text = ""
        if self._exporter.export([self._readable(each) for each in spans]) is self._success:
            return None
        return self._noise.text or f"no answer from {self._endpoint}"

    def close(self) -> None:
        self._exporter.shutdown()
        logging.getLogger(_NOISY_LOGGER).removeFilter(self._noise)

    def _readable(self, span: TraceSpan) -> ReadableSpan:
        from opentelemetry import trace
        from opentelemetry.sdk.trace import ReadableSpan

        state = trace.TraceState.from_header([span.state]) if span.state else None
        sampled = trace.TraceFlags(trace.TraceFlags.SAMPLED)

        def context(span_id: int, *, is_remote: bool) -> trace.SpanContext:
            return trace.SpanContext(span.trace_id, span_id, is_remote, sampled, state)

        status = trace.Status() if span.error is None else trace.Status(trace.StatusCode.ERROR, description=span.error)
        kinds = {SpanKind.SERVER: trace.SpanKind.SERVER, SpanKind.CLIENT: trace.SpanKind.CLIENT}
        parent = None
        if span.parent_id is not None:
            parent = context(span.parent_id, is_remote=span.kind is SpanKind.SERVER)
        return ReadableSpan(
            span.name,
            context(span.span_id, is_remote=False),
            parent,
            self._resource,
            span.attributes,
            kind=kinds.get(span.kind, trace.SpanKind.INTERNAL),
            status=status,
            start_time=span.start_ns,
            end_time=span.end_ns,
            instrumentation_scope=self._scope,
        )


class _LastComplaint(logging.Filter):
    """Keeps what a logger said last, and lets nothing pass."""

    def __init__(self) -> None:
        super().__init__()
        self.text = ""

    def filter(self, record: logging.LogRecord) -> bool:
        self.text = record.getMessage()[:300]
        return False
