"""Which work is traced, and the tracing of a process.

Tracing is off by default and then costs nothing: `begin_trace` finds nothing that is installed, there is never a
current span, and OpenTelemetry is not even imported.

A trace begins with a request, or with a job such as a flush. Whether it is sampled is decided then, and only then: as
its sender decided, if the request continues a trace (`traceparent`), else by the ratio, from the trace id alone, as all
SDKs of OpenTelemetry do. Other components of the cluster never decide: what frontends send them without a `traceparent`
is not traced.
"""

from __future__ import annotations

import os
import random
from collections.abc import Mapping

from tsdb.clock import Clock, SystemClock
from tsdb.telemetry._spans import AttributeValue, RemoteSpan, SpanKind, TraceSpan, parse_traceparent
from tsdb.telemetry._trace_export import EXPORT_SECONDS_MAX, OtlpSender, SpanQueue, SpanSender

SHUTDOWN_SECONDS_MAX = 2.0

_ID_LIMIT = 1 << 64


class Tracing:
    """Begins traces and sends their spans; made by `setup_tracing`, and closed by `shutdown`."""

    def __init__(
        self, sender: SpanSender, *, ratio: float, clock: Clock | None = None, source: random.Random | None = None
    ) -> None:
        self._clock = clock or SystemClock()
        self._bits = (source or random.Random()).getrandbits
        self._bound = round(min(1.0, max(0.0, ratio)) * _ID_LIMIT)
        self._queue = SpanQueue(sender, self._clock)
        self._queue.start()

    def begin(
        self,
        name: str,
        sender: RemoteSpan | None = None,
        *,
        kind: SpanKind = SpanKind.SERVER,
        attributes: Mapping[str, AttributeValue] | None = None,
    ) -> TraceSpan | None:
        """Begin a trace, or continue that of a sender; None if it is not sampled."""
        if sender is None:
            trace_id = self._bits(128) or 1
            if trace_id % _ID_LIMIT >= self._bound:
                return None
        elif sender.is_sampled:
            trace_id = sender.trace_id
        else:
            return None
        return TraceSpan(
            self,
            name,
            trace_id=trace_id,
            parent_id=None if sender is None else sender.span_id,
            kind=kind,
            attributes=attributes or {},
            state="" if sender is None else sender.state,
        )

    def now_ns(self) -> int:
        return self._clock.now_ns()

    def new_span_id(self) -> int:
        return self._bits(64) or 1

    def send(self, span: TraceSpan) -> None:
        self._queue.put(span)

    def flush(self, *, seconds_max: float = EXPORT_SECONDS_MAX) -> None:
        """Send what is queued; returns when it is sent or given up, or after `seconds_max`."""
        self._queue.flush(seconds_max)

    def install(self) -> None:
        """Let `begin_trace` begin the traces of this process here, until `shutdown`."""
        global _installed
        _installed = self

    def shutdown(self, *, seconds_max: float = SHUTDOWN_SECONDS_MAX) -> None:
        """Send what is queued, for at most `seconds_max` even without an answer, and stop."""
        global _installed
        if _installed is self:
            _installed = None
        self._queue.stop(seconds_max)


_installed: Tracing | None = None
"""The tracing of this process: like its log, there is one."""


def is_tracing() -> bool:
    """Whether requests may be traced at all."""
    return _installed is not None


def begin_trace(
    name: str,
    sender: RemoteSpan | None = None,
    *,
    kind: SpanKind = SpanKind.SERVER,
    attributes: Mapping[str, AttributeValue] | None = None,
) -> TraceSpan | None:
    """Begin the trace of a request, or continue that of its sender; None if it is not traced."""
    tracing = _installed
    return None if tracing is None else tracing.begin(name, sender, kind=kind, attributes=attributes)


def begin_job(name: str, **attributes: AttributeValue) -> TraceSpan | None:
    """Begin the trace of work that no request waits for; None if it is not traced."""
    tracing = _installed
    return None if tracing is None else tracing.begin(name, kind=SpanKind.INTERNAL, attributes=attributes)


def continue_trace(name: str, traceparent: str | None, **attributes: AttributeValue) -> TraceSpan | None:
    """Continue the trace of another component; None if it sent none, because its work is not traced."""
    tracing = _installed
    if tracing is None or traceparent is None:
        return None
    sender = parse_traceparent(traceparent)
    return None if sender is None else tracing.begin(name, sender, attributes=attributes)


def setup_tracing(
    *,
    enabled: bool,
    endpoint: str,
    ratio: float,
    service_name: str,
    instance_id: str,
    version: str,
    export_seconds_max: float = EXPORT_SECONDS_MAX,
) -> Tracing | None:
    """Start sending spans to the collector at `endpoint` (`host:port`), or return None when tracing is off.

    `ratio` is the fraction of traces that are sampled, from 0 to 1. A collector that cannot be reached is no
    error.
    """
    if not enabled:
        return None
    resource: dict[str, AttributeValue] = {
        "service.name": service_name,
        "service.instance.id": instance_id,
        "service.version": version,
        "process.pid": os.getpid(),
    }
    return Tracing(OtlpSender(endpoint, resource, export_seconds_max), ratio=ratio)
