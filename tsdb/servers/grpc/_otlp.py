"""OpenTelemetry's services: metrics, traces and logs, each with its one method `Export`.

Metadata takes the place of the HTTP headers. Traces need not name their pipeline, because exporters over gRPC rarely
can.
"""

from __future__ import annotations

from collections.abc import Callable

from tsdb.clock import Clock, SystemClock
from tsdb.ingest import WriteOutcome
from tsdb.servers._otlp import OtlpRequest, OtlpWriter
from tsdb.servers.grpc._calls import GrpcCall, Rpc, RpcService, unary_rpc
from tsdb.servers.grpc._context import GrpcContext, MakeServices
from tsdb.servers.grpc._hints import read_hints

_PREFIX = "opentelemetry.proto.collector"
METRICS = f"{_PREFIX}.metrics.v1.MetricsService"
TRACES = f"{_PREFIX}.trace.v1.TraceService"
LOGS = f"{_PREFIX}.logs.v1.LogsService"


def otlp_services(*, with_metric_engine: bool = True, clock: Clock | None = None) -> MakeServices:
    """Return what makes the services."""

    def make(context: GrpcContext) -> list[RpcService]:
        writer = OtlpWriter(with_metric_engine=with_metric_engine, clock=clock or SystemClock())
        return [
            RpcService(METRICS, {"Export": _export(context, writer.metrics)}),
            RpcService(TRACES, {"Export": _export(context, writer.traces)}),
            RpcService(LOGS, {"Export": _export(context, writer.logs)}),
        ]

    return make


def _export(context: GrpcContext, write: Callable[[OtlpRequest], bytes | WriteOutcome]) -> Rpc:
    async def export(raw: bytes, call: GrpcCall) -> bytes:
        session = await context.sessions.open(call)
        request = OtlpRequest(context.database, raw, session, call.find, read_hints(call), needs_pipeline=False)
        answer = await context.writes.run(lambda: write(request), cancel=lambda: context.database.cancel(session))
        assert isinstance(answer, bytes), "only a dry run answers otherwise"
        return answer

    return unary_rpc(export)
