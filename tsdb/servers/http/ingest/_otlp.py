"""`/v1/otlp/v1/…`: OTLP metrics, traces and logs, in protobuf.

Items that fit are written. If some do not fit, the response is a success with their number and the reason in
`partial_success`, as exporters expect; they do not retry those. If nothing fits, and for every other error, the
response is a `google.rpc.Status` with the HTTP status of the error.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from google.rpc.code_pb2 import Code  # type: ignore[import-untyped]
from google.rpc.status_pb2 import Status as RpcStatus  # type: ignore[import-untyped]

from tsdb.clock import Clock, SystemClock
from tsdb.database import DatabaseGate
from tsdb.errors import BodyTooLarge, TsdbError, Unsupported, wire_of
from tsdb.ingest import WriteOutcome
from tsdb.servers._failures import log_failure
from tsdb.servers._otlp import OtlpRequest, OtlpWriter
from tsdb.servers.http._app import HttpApp
from tsdb.servers.http._errors import error_response, short_error_body
from tsdb.servers.http.ingest._dry_run import dry_run_response, is_dry_run
from tsdb.servers.http.ingest._request import (
    INGEST,
    IngestPool,
    IngestTuning,
    make_ingest_session,
    read_hints,
    unpack_body,
)
from tsdb.servers.http.wire import Request, Response, find_header
from tsdb.telemetry import get_logger

PROTOBUF = "application/x-protobuf"

_log = get_logger("tsdb.otlp")


class OtlpRoutes:
    """The state of the routes. `close` it when the server has stopped."""

    def __init__(self, gate: DatabaseGate, *, with_metric_engine: bool, clock: Clock, tuning: IngestTuning) -> None:
        self._bytes_max = tuning.unpacked_bytes_max
        self._gate = gate
        self._writer = OtlpWriter(with_metric_engine=with_metric_engine, clock=clock)
        self._pool = IngestPool("http-otlp", tuning)

    def close(self) -> None:
        self._pool.close()

    async def metrics(self, request: Request) -> Response:
        """Take data points."""
        return await self._take(request, self._writer.metrics)

    async def traces(self, request: Request) -> Response:
        """Take spans."""
        return await self._take(request, self._writer.traces)

    async def logs(self, request: Request) -> Response:
        """Take log records."""
        return await self._take(request, self._writer.logs)

    async def _take(self, request: Request, write: Callable[[OtlpRequest], bytes | WriteOutcome]) -> Response:
        body = await request.body()
        try:
            _check_content_type(request)
            return await self._pool.write(request, partial(self._write, request, body, write))
        except BodyTooLarge:
            raise
        except TsdbError as error:
            log_failure(_log, error, path=request.path)
            return _status_response(error)

    def _write(self, request: Request, body: bytes, write: Callable[[OtlpRequest], bytes | WriteOutcome]) -> Response:
        database = self._gate.database
        answer = write(
            OtlpRequest(
                database,
                unpack_body(body, request.headers.get("content-encoding"), self._bytes_max),
                make_ingest_session(request, database),
                partial(find_header, request),
                read_hints(request),
                is_dry_run(request),
            )
        )
        if isinstance(answer, WriteOutcome):
            return dry_run_response(answer)
        return Response(answer, content_type=PROTOBUF)


def otlp_routes(
    app: HttpApp,
    gate: DatabaseGate,
    *,
    with_metric_engine: bool = True,
    clock: Clock | None = None,
    tuning: IngestTuning = INGEST,
) -> OtlpRoutes:
    """Add `/v1/otlp/v1/…`. The result is to be closed after the server has stopped."""
    routes = OtlpRoutes(gate, with_metric_engine=with_metric_engine, clock=clock or SystemClock(), tuning=tuning)
    for name in ("metrics", "traces", "logs"):
        app.add(f"/v1/otlp/v1/{name}", getattr(routes, name), methods=("POST",), error_body=short_error_body)
    return routes


def _check_content_type(request: Request) -> None:
    kind = (request.headers.get("content-type") or PROTOBUF).partition(";")[0].strip().lower()
    if kind.endswith("json"):
        raise Unsupported("OTLP in JSON is not supported", hint=f"send protobuf, Content-Type: {PROTOBUF}")
    if kind not in (PROTOBUF, "application/protobuf", "application/octet-stream"):
        raise Unsupported(f"the Content-Type {kind} is not supported", hint=f"send protobuf, Content-Type: {PROTOBUF}")


def _status_response(error: TsdbError) -> Response:
    """The usual answer to an error, with the body that exporters read."""
    response = error_response(error, 0, short_error_body)
    response.raw_headers = [each for each in response.raw_headers if each[0] != b"content-type"]
    response.raw_headers.append((b"content-type", PROTOBUF.encode("ascii")))
    message = str(error).encode("utf-8", "backslashreplace").decode("utf-8")
    response.body = RpcStatus(code=Code.Value(wire_of(error).grpc), message=message).SerializeToString()
    return response
