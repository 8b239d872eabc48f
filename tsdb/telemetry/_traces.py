"""Spans for a collector, over OTLP and gRPC.

Tracing is off by default and then costs nothing: `setup_tracing` returns None and OpenTelemetry is not even
imported. Callers hold `Tracing | None` and ask `is None`, because even a span that does nothing takes 6 µs.

A request that brings a `traceparent` header continues that trace, sampled as its sender decided; others are
sampled by the ratio. Spans are sent in batches by a background thread; a collector that is away loses spans,
never requests.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from tsdb.clock import Clock, SystemClock

if TYPE_CHECKING:
    from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace import TracerProvider

EXPORT_SECONDS_MAX = 2.0
"""How long one batch may take, with its retries."""

SHUTDOWN_SECONDS_MAX = 2.0
NOISE_SECONDS_MIN = 60.0
"""How far apart two lines about the same trouble with the collector are."""

# What complains when a collector is away: on every batch, and on every span once the queue is full.
_NOISY_LOGGERS = ("opentelemetry.exporter.otlp.proto.grpc.exporter", "opentelemetry.sdk._shared_internal")

AttributeValue = str | bool | int | float


class TraceSpan(Protocol):
    """What a caller may do to the span it is in."""

    def set_attribute(self, key: str, value: AttributeValue) -> None: ...


class Tracing:
    """Makes spans and sends them; made by `setup_tracing`."""

    def __init__(self, provider: TracerProvider, exporter: OTLPSpanExporter, noise: NoiseFilter) -> None:
        # Imported here for the reason given at the top; by now they are loaded, and each costs a lookup per
        # process.
        from opentelemetry import trace
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self._provider = provider
        self._exporter = exporter
        self._noise = noise
        self._tracer = provider.get_tracer("tsdb")
        self._server_kind = trace.SpanKind.SERVER
        self._propagator = TraceContextTextMapPropagator()

    @contextmanager
    def span(self, name: str, **attributes: AttributeValue) -> Iterator[TraceSpan]:
        """A span inside the current one, for the time of the block."""
        with self._tracer.start_as_current_span(name, attributes=attributes) as span:
            yield span

    @contextmanager
    def request_span(
        self, name: str, *, carrier: Mapping[str, str], attributes: Mapping[str, AttributeValue]
    ) -> Iterator[TraceSpan]:
        """The span of a request; `carrier` holds its `traceparent` and `tracestate`, if it has them."""
        parent = self._propagator.extract(carrier)
        with self._tracer.start_as_current_span(
            name, context=parent, kind=self._server_kind, attributes=attributes
        ) as span:
            yield span

    def flush(self) -> None:
        """Send what is queued; returns when it is sent or given up."""
        self._provider.force_flush()

    def shutdown(self, *, seconds_max: float = SHUTDOWN_SECONDS_MAX) -> None:
        """Send what is queued, for at most `seconds_max` even without an answer, and stop."""
        # The SDK's own shutdown waits for every queued batch in turn, each as long as an export may take.
        thread = threading.Thread(target=self._provider.shutdown, name="tsdb-trace-shutdown", daemon=True)
        thread.start()
        thread.join(seconds_max)
        if thread.is_alive():
            self._exporter.shutdown()
        self._noise.remove()


class NoiseFilter(logging.Filter):
    """Lets a logger say the same thing only once in `NOISE_SECONDS_MIN`."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock
        self._said_ns: dict[tuple[str, str], int] = {}

    def install(self) -> None:
        for name in _NOISY_LOGGERS:
            logging.getLogger(name).addFilter(self)

    def remove(self) -> None:
        for name in _NOISY_LOGGERS:
            logging.getLogger(name).removeFilter(self)

    def filter(self, record: logging.LogRecord) -> bool:
        # By the format string, not the text: the text counts seconds and so differs each time. There are few
        # of them.
        what, now_ns = (record.name, str(record.msg)), self._clock.monotonic_ns()
        said_ns = self._said_ns.get(what)
        if said_ns is not None and now_ns - said_ns < NOISE_SECONDS_MIN * 1e9:
            return False
        self._said_ns[what] = now_ns
        return True


def setup_tracing(
    *, enabled: bool, endpoint: str, ratio: float, service_name: str, instance_id: str, version: str
) -> Tracing | None:
    """Start sending spans to the collector at `endpoint` (`host:port`), or return None when tracing is off.

    `ratio` is the fraction of traces that are sampled, from 0 to 1. A collector that cannot be reached is no
    error.
    """
    if not enabled:
        return None
    from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
    from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased

    resource = Resource.create(
        {
            "service.name": service_name,
            "service.instance.id": instance_id,
            "service.version": version,
            "process.pid": os.getpid(),
        }
    )
    exporter = OTLPSpanExporter(endpoint=endpoint, insecure=True, timeout=EXPORT_SECONDS_MAX)
    provider = TracerProvider(
        resource=resource,
        sampler=ParentBased(TraceIdRatioBased(min(1.0, max(0.0, ratio)))),
        # The component shuts down in an order of its own.
        shutdown_on_exit=False,
    )
    provider.add_span_processor(BatchSpanProcessor(exporter))
    noise = NoiseFilter(SystemClock())
    noise.install()
    return Tracing(provider, exporter, noise)
