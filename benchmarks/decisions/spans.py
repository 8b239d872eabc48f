"""Spans of a request: our own, and those of OpenTelemetry's SDK, sampled and not. Nothing is sent in either case."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased

from benchmarks import Measurement, measure
from tsdb.telemetry import TraceSpan, entered, span
from tsdb.telemetry._traces import Tracing

REQUESTS, SPANS = 1000, 6


class _Nowhere:
    """Takes spans of both kinds."""

    def send(self, spans: Sequence[TraceSpan]) -> str | None:
        return None

    def close(self) -> None:
        """There is no call."""


class _NowhereOfSdk(SpanExporter):
    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        return SpanExportResult.SUCCESS


def main() -> Iterator[Measurement]:
    for ratio in (0.0, 1.0):
        own = Tracing(_Nowhere(), ratio=ratio)
        provider = TracerProvider(sampler=ParentBased(TraceIdRatioBased(ratio)))
        provider.add_span_processor(BatchSpanProcessor(_NowhereOfSdk()))
        for name, work in (("own", own_requests(own)), ("SDK", sdk_requests(provider))):
            yield measure(f"{name}, {ratio:.0%} sampled", work, amount=REQUESTS * SPANS, unit="spans")
        provider.shutdown()


def own_requests(tracing: Tracing) -> Callable[[], None]:
    def work() -> None:
        for _ in range(REQUESTS):
            with entered(tracing.begin("request", attributes={"method": "POST"})):
                for _ in range(SPANS - 1):
                    with span("part", attributes={"rows": 1}):
                        pass

    return work


def sdk_requests(provider: TracerProvider) -> Callable[[], None]:
    tracer = provider.get_tracer("benchmark")

    def work() -> None:
        for _ in range(REQUESTS):
            with tracer.start_as_current_span("request", attributes={"method": "POST"}):
                for _ in range(SPANS - 1):
                    with tracer.start_as_current_span("part", attributes={"rows": 1}):
                        pass

    return work
