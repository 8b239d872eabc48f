"""A real collector of traces, in this process, and tracing that sends to it."""

from concurrent import futures

import grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc

from tsdb.telemetry import Tracing, setup_tracing


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


def start_tracing(port: int, *, ratio: float = 1.0) -> Tracing:
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
