"""OpenTelemetry's services: metrics, traces and logs, each with its one method `Export`.

Metadata says what headers say over HTTP. Traces need not say which model they mean: exporters over gRPC rarely can.
"""

from __future__ import annotations

from collections.abc import Callable

from tsdb.clock import Clock, SystemClock
from tsdb.ingest import WriteOutcome
from tsdb.servers._otlp import OtlpRequest, OtlpWriter
from tsdb.servers.grpc._calls import Call, Rpc, RpcService, unary_rpc
from tsdb.servers.grpc._frame import Frame, MakeServices
from tsdb.servers.grpc._hints import read_hints

_PREFIX = "opentelemetry.proto.collector"
METRICS = f"{_PREFIX}.metrics.v1.MetricsService"
TRACES = f"{_PREFIX}.trace.v1.TraceService"
LOGS = f"{_PREFIX}.logs.v1.LogsService"


def otlp_services(*, with_metric_engine: bool = True, clock: Clock | None = None) -> MakeServices:
    """Return what makes the services."""

    def make(frame: Frame) -> list[RpcService]:
        writer = OtlpWriter(with_metric_engine=with_metric_engine, clock=clock or SystemClock())
        return [
            RpcService(METRICS, {"Export": _export(frame, writer.metrics)}),
            RpcService(TRACES, {"Export": _export(frame, writer.traces)}),
            RpcService(LOGS, {"Export": _export(frame, writer.logs)}),
        ]

    return make


def _export(frame: Frame, write: Callable[[OtlpRequest], bytes | WriteOutcome]) -> Rpc:
    async def export(raw: bytes, call: Call) -> bytes:
        session = await frame.sessions.open(call)
        request = OtlpRequest(frame.database, raw, session, call.find, read_hints(call), needs_pipeline=False)
        answer = await frame.workers.run(lambda: write(request), cancel=lambda: frame.database.cancel(session))
        assert isinstance(answer, bytes), "only a dry run answers otherwise"
        return answer

    return unary_rpc(export)
