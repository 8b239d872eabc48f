"""A real collector of traces, in this process, and tracing that sends to it."""

import threading
import time
from collections.abc import Callable, Sequence
from concurrent import futures
from typing import Any

import grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc

from tsdb.telemetry import TraceSpan, Tracing, setup_tracing

WAIT_SECONDS_MAX = 60.0


class Collector(trace_service_pb2_grpc.TraceServiceServicer):
    """A collector that keeps what it receives."""

    def __init__(self, port: int = 0) -> None:
        self.requests: list[trace_service_pb2.ExportTraceServiceRequest] = []
        self._arrived = threading.Condition()
        self.go_on = threading.Event()
        """Without it, no call is answered."""
        self.go_on.set()
        self._server = grpc.server(futures.ThreadPoolExecutor(4))
        trace_service_pb2_grpc.add_TraceServiceServicer_to_server(self, self._server)
        self.port = self._server.add_insecure_port(f"127.0.0.1:{port}")
        self._server.start()

    def Export(self, request, context):  # type: ignore[no-untyped-def]
        self.go_on.wait(WAIT_SECONDS_MAX)
        with self._arrived:
            self.requests.append(request)
            self._arrived.notify_all()
        return trace_service_pb2.ExportTraceServiceResponse()

    def spans(self, trace_id: str | None = None) -> list[Any]:
        """All spans, or those of a trace."""
        return [span for _, span in self.spans_by_service(trace_id)]

    def spans_by_service(self, trace_id: str | None = None) -> list[tuple[str, Any]]:
        """Spans with the name of the service that sent them."""
        return [
            (str(attributes(of_resource.resource)["service.name"]), span)
            for request in list(self.requests)
            for of_resource in request.resource_spans
            for of_scope in of_resource.scope_spans
            for span in of_scope.spans
            if trace_id is None or span.trace_id.hex() == trace_id
        ]

    def wait_until(self, holds: Callable[[], bool]) -> None:
        """Wait until what has arrived is as expected."""
        deadline = time.monotonic() + WAIT_SECONDS_MAX
        with self._arrived:
            while not holds():
                left = deadline - time.monotonic()
                assert left > 0, sorted({(service, span.name) for service, span in self.spans_by_service()})
                self._arrived.wait(left)

    def close(self) -> None:
        self._server.stop(None).wait()


class KeptSpans:
    """A collector that needs no network, and is away as long as it has a problem."""

    def __init__(self, problem: str | None = None) -> None:
        self.problem = problem
        self.spans: list[TraceSpan] = []
        self.calls = 0

    def send(self, spans: Sequence[TraceSpan]) -> str | None:
        self.calls += 1
        if self.problem is None:
            self.spans.extend(spans)
        return self.problem

    def close(self) -> None:
        """Nothing is open."""


def start_tracing(port: int, *, ratio: float = 1.0, export_seconds_max: float = 60.0) -> Tracing:
    tracing = setup_tracing(
        enabled=True,
        endpoint=f"127.0.0.1:{port}",
        ratio=ratio,
        service_name="tsdb-standalone",
        instance_id="node-7",
        version="1.2.3",
        export_seconds_max=export_seconds_max,
    )
    assert tracing is not None
    return tracing


def attributes(of) -> dict[str, object]:  # type: ignore[no-untyped-def]
    return {pair.key: pair.value.string_value or pair.value.int_value for pair in of.attributes}
