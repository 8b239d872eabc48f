"""`greptime.v1.PrometheusGateway`: PromQL in, JSON of Prometheus' HTTP API out.

Errors of a query are in the JSON, as there; missing permission is a status.
"""

from __future__ import annotations

import threading

from tsdb.auth import PermissionDenied
from tsdb.errors import Busy, Cancelled, InvalidArguments, TsdbError, wire_of
from tsdb.promql.evaluation import LOOKBACK_MS
from tsdb.query import Session
from tsdb.query.promql import QueryTimes
from tsdb.servers._prometheus_errors import prometheus_error_body
from tsdb.servers._prometheus_json import encode_answer
from tsdb.servers._prometheus_parameters import check_span, parse_step_ms, parse_time_ms
from tsdb.servers.grpc._calls import GrpcCall, RpcService, parse_message, unary_rpc
from tsdb.servers.grpc._context import GrpcContext
from tsdb.servers.grpc.proto import greptime_pb2 as v1

SERVICE = "greptime.v1.PrometheusGateway"
_NS_PER_MS = 1_000_000


class PromqlService:
    """Answers the calls of the service."""

    def __init__(self, context: GrpcContext) -> None:
        self._context = context
        self._database = context.database

    async def handle(self, raw: bytes, call: GrpcCall) -> bytes:
        """Answer a query."""
        request = parse_message(v1.PromqlRequest, raw)
        session = await self._context.sessions.open(call, request.header)
        stopped = threading.Event()

        def cancel() -> None:
            stopped.set()
            self._database.cancel(session)

        body = await self._context.queries.run(
            lambda: self._evaluate(request, session, stopped), cancel=cancel, seconds_max=call.seconds_left
        )
        answer = v1.PromqlResponse(body=body)
        answer.header.status.status_code = 0
        return answer.SerializeToString()

    def _evaluate(self, request: v1.PromqlRequest, session: Session, stopped: threading.Event) -> bytes:
        try:
            text, span, is_range = self._read(request)
            with self._database.running_promql(text, session, span) as check_killed:

                def check() -> None:
                    if stopped.is_set():
                        raise Cancelled("the query was cancelled")
                    check_killed()

                answer = self._database.promql.run(text, session, span, check)
                return encode_answer(answer, is_range=is_range, series_max=None, timings=None)
        except (PermissionDenied, Cancelled, Busy):
            raise
        except TsdbError as error:
            if wire_of(error).is_fault:
                raise
            return prometheus_error_body(error.status, str(error), 0)

    def _read(self, request: v1.PromqlRequest) -> tuple[str, QueryTimes, bool]:
        """Return the query, its times, and whether it has a range."""
        kind = request.WhichOneof("promql")
        if kind == "instant_query":
            instant = request.instant_query
            now_ms = self._database.promql.clock.now_ns() // _NS_PER_MS
            time = parse_time_ms("time", instant.time) if instant.time else now_ms
            return instant.query, QueryTimes.instant(time, _lookback(instant.lookback)), False
        if kind == "range_query":
            return request.range_query.query, read_range(request.range_query), True
        raise InvalidArguments("the request has no query")


def read_range(query: v1.PromRangeQuery) -> QueryTimes:
    """Return the times of a query with a range."""
    for name in ("start", "end", "step"):
        if not getattr(query, name):
            raise InvalidArguments(f"the parameter {name} is required")
    start, end = parse_time_ms("start", query.start), parse_time_ms("end", query.end)
    return check_span(QueryTimes(start, end, parse_step_ms("step", query.step), _lookback(query.lookback)))


def _lookback(text: str) -> int:
    return parse_step_ms("lookback", text) if text else LOOKBACK_MS


def promql_services(context: GrpcContext) -> list[RpcService]:
    return [RpcService(SERVICE, {"Handle": unary_rpc(PromqlService(context).handle)})]
