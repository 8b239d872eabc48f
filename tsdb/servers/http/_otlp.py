"""`/v1/otlp/v1/…`: metrics, traces and logs as OpenTelemetry's exporters send them, in protobuf.

What fits is written. If some items do not fit, the answer is still a success and says in `partial_success` how many and
why, as exporters expect; they do not send those again. If nothing fits, and for every other error, the answer is a
`google.rpc.Status` with the HTTP status of the error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from google.rpc.code_pb2 import Code  # type: ignore[import-untyped]
from google.rpc.status_pb2 import Status as RpcStatus  # type: ignore[import-untyped]
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from tsdb.clock import Clock, SystemClock
from tsdb.errors import BodyTooLarge, InvalidArguments, TsdbError, Unsupported, wire
from tsdb.ingest import IngestRejected, NewTable, Rejection, TableRows, WriteOutcome, drop_rejected
from tsdb.ingest.otlp import (
    CHOICE_TABLES,
    LOG_TABLE,
    LOG_TABLES,
    PARTITIONS,
    TRACE_TABLE,
    MetricOptions,
    Parsed,
    Strategy,
    choice_rows,
    metric_tables,
    parse_logs,
    parse_metrics,
    parse_traces,
    trace_tables,
)
from tsdb.model import MetricDescription
from tsdb.query import Session
from tsdb.servers._partial_write import write_what_fits
from tsdb.servers.http._app import HttpApp
from tsdb.servers.http._errors import error_response, short_error_body
from tsdb.servers.http._ingest import (
    IngestDatabase,
    IngestPool,
    dry_run_response,
    find_header,
    is_dry_run,
    make_ingest_session,
    read_hints,
    unpack_body,
)
from tsdb.servers.http._messages import Request, Response
from tsdb.telemetry import get_logger

PROTOBUF = "application/x-protobuf"
TRACE_PIPELINES = ("tsdb_trace_v1", "greptime_trace_v1")
"""The names of the one model of traces; requests say which they mean, so that there can be others one day."""
PARTITIONS_HINT = "trace_table_partitions"
"""The hint that says among how many regions a new table of spans is divided."""
REASONS_MAX = 3
"""How many reasons an answer tells; the log of refused rows has them all."""

_TRUE = ("true", "1")
_log = get_logger("tsdb.otlp")


class OtlpRoutes:
    """What the routes share. `close` it when the server has stopped."""

    def __init__(self, database: IngestDatabase, *, with_metric_engine: bool, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._metric_tables = metric_tables(with_metric_engine=with_metric_engine)
        self._pool = IngestPool("http-otlp")

    def close(self) -> None:
        self._pool.close()

    async def metrics(self, request: Request) -> Response:
        """Take data points."""
        return await self._take(request, self._write_metrics)

    async def traces(self, request: Request) -> Response:
        """Take spans."""
        return await self._take(request, self._write_traces)

    async def logs(self, request: Request) -> Response:
        """Take log records."""
        return await self._take(request, self._write_logs)

    async def _take(self, request: Request, write: Callable[[Request, bytes], Response]) -> Response:
        body = await request.body()
        try:
            _check_content_type(request)
            return await self._pool.run(partial(write, request, body))
        except BodyTooLarge:
            raise
        except TsdbError as error:
            if wire(error.status).is_fault:
                _log.exception("a request failed", path=request.path, status=error.status.title)
            return _status_response(error)

    def _write_metrics(self, request: Request, body: bytes) -> Response:
        parsed = parse_metrics(_unpacked(request, body), _read_options(request))
        work = _Work(self._database, request, "otlp_metrics")
        refused = work.write(parsed, self._metric_tables)
        if isinstance(refused, Response):
            return refused
        work.describe(parsed.descriptions)
        answer = ExportMetricsServiceResponse()
        if refused:
            answer.partial_success.rejected_data_points = len(refused)
            answer.partial_success.error_message = _summary(refused)
        return Response(answer.SerializeToString(), content_type=PROTOBUF)

    def _write_traces(self, request: Request, body: bytes) -> Response:
        pipeline = find_header(request, "pipeline-name")
        if pipeline not in TRACE_PIPELINES:
            raise InvalidArguments(
                "traces need the header x-tsdb-pipeline-name"
                if not pipeline
                else f"no pipeline {pipeline!r} for traces",
                hint=f"send x-tsdb-pipeline-name: {TRACE_PIPELINES[0]}",
            )
        table = find_header(request, "trace-table-name") or TRACE_TABLE
        parsed = parse_traces(_unpacked(request, body), table)
        work = _Work(self._database, request, "otlp_traces")
        refused = work.write(parsed, trace_tables(_read_partitions(request)))
        if isinstance(refused, Response):
            return refused
        written, _ = drop_rejected(parsed.rows, [Rejection(table, "", place) for place in refused])
        work.write_beside(choice_rows(written), CHOICE_TABLES)
        answer = ExportTraceServiceResponse()
        if refused:
            answer.partial_success.rejected_spans = len(refused)
            answer.partial_success.error_message = _summary(refused)
        return Response(answer.SerializeToString(), content_type=PROTOBUF)

    def _write_logs(self, request: Request, body: bytes) -> Response:
        if pipeline := find_header(request, "pipeline-name"):
            raise Unsupported(f"no pipeline {pipeline!r} for logs", hint="leave out the header x-tsdb-pipeline-name")
        parsed = parse_logs(
            _unpacked(request, body),
            now_ns=self._clock.now_ns(),
            table=find_header(request, "log-table-name") or LOG_TABLE,
            extracted=_read_names(request, "log-extract-keys", ","),
        )
        refused = _Work(self._database, request, "otlp_logs").write(parsed, LOG_TABLES)
        if isinstance(refused, Response):
            return refused
        answer = ExportLogsServiceResponse()
        if refused:
            answer.partial_success.rejected_log_records = len(refused)
            answer.partial_success.error_message = _summary(refused)
        return Response(answer.SerializeToString(), content_type=PROTOBUF)


class _Work:
    """One request and where it goes."""

    def __init__(self, database: IngestDatabase, request: Request, protocol: str) -> None:
        self._database = database
        self._session: Session = make_ingest_session(request, database)
        self._hints = read_hints(request)
        self._is_dry = is_dry_run(request)
        self._protocol = protocol

    def write(self, parsed: Parsed, new_table: NewTable) -> dict[int, str] | Response:
        """Write what fits; return the reasons of items that do not, or the answer of a dry run."""
        outcome, rejections, reasons = write_what_fits(parsed.rows, partial(self._ingest, new_table))
        if self._is_dry:
            return dry_run_response(replace(outcome, rejections=(*parsed.rejections, *rejections)))
        if parsed.rejections:
            self._database.reject(parsed.rejections, self._session, protocol=self._protocol)
        refused = {each.place or 0: each.reason for each in parsed.rejections} | reasons
        if refused and len(refused) == parsed.items:
            raise IngestRejected([*parsed.rejections, *rejections])
        return refused

    def describe(self, described: Sequence[tuple[str, MetricDescription]]) -> None:
        """Keep what metrics say about themselves."""
        self._database.describe_metrics(described, self._session)

    def write_beside(self, rows: Sequence[TableRows], new_table: NewTable) -> None:
        """Write rows that only help to find others: what was asked for is done, whether or not they fit."""
        try:
            self._ingest(new_table, rows)
        except TsdbError as error:
            _log.warning("the tables of services and operations were not written", error=error)

    def _ingest(self, new_table: NewTable, rows: Sequence[TableRows]) -> WriteOutcome:
        return self._database.ingest(
            rows, self._session, new_table, dry_run=self._is_dry, hints=self._hints, protocol=self._protocol
        )


def otlp_routes(
    app: HttpApp, database: IngestDatabase, *, with_metric_engine: bool = True, clock: Clock | None = None
) -> OtlpRoutes:
    """Add `/v1/otlp/v1/…`. The result is to be closed after the server has stopped."""
    routes = OtlpRoutes(database, with_metric_engine=with_metric_engine, clock=clock or SystemClock())
    for name in ("metrics", "traces", "logs"):
        app.add(f"/v1/otlp/v1/{name}", getattr(routes, name), methods=("POST",), error_body=short_error_body)
    return routes


def _check_content_type(request: Request) -> None:
    kind = (request.headers.get("content-type") or PROTOBUF).partition(";")[0].strip().lower()
    if kind.endswith("json"):
        raise Unsupported("OTLP in JSON is not supported", hint=f"send protobuf, Content-Type: {PROTOBUF}")
    if kind not in (PROTOBUF, "application/protobuf", "application/octet-stream"):
        raise Unsupported(f"the Content-Type {kind} is not supported", hint=f"send protobuf, Content-Type: {PROTOBUF}")


def _unpacked(request: Request, body: bytes) -> bytes:
    return unpack_body(body, request.headers.get("content-encoding"))


def _read_options(request: Request) -> MetricOptions:
    said = find_header(request, "otlp-metric-translation-strategy")
    try:
        strategy = Strategy(said) if said else Strategy.ESCAPED_WITH_SUFFIXES
    except ValueError:
        known = ", ".join(Strategy)
        raise InvalidArguments(f"no translation strategy {said!r}", hint=f"expected one of {known}") from None
    return MetricOptions(
        strategy=strategy,
        promoted=frozenset(_read_names(request, "otlp-metric-promote-resource-attrs", ";")),
        has_all_resource_attributes=_read_flag(request, "otlp-metric-promote-all-resource-attrs"),
        ignored=frozenset(_read_names(request, "otlp-metric-ignore-resource-attrs", ";")),
        has_scope=_read_flag(request, "otlp-metric-promote-scope-attrs"),
        has_native_histograms=_read_histograms(request),
    )


def _read_histograms(request: Request) -> bool:
    """Whether exponential histograms become native ones."""
    said = (find_header(request, "otlp-metric-exponential-histograms") or "native").strip().lower()
    if said not in ("native", "classic"):
        raise InvalidArguments(f"exponential histograms cannot become {said!r}", hint="expected native or classic")
    return said == "native"


def _read_names(request: Request, header: str, separator: str) -> tuple[str, ...]:
    names = (name.strip() for name in (find_header(request, header) or "").split(separator))
    return tuple(dict.fromkeys(name for name in names if name))


def _read_flag(request: Request, header: str) -> bool:
    return (find_header(request, header) or "").strip().lower() in _TRUE


def _read_partitions(request: Request) -> int:
    said = read_hints(request).get(PARTITIONS_HINT)
    if said is None:
        return PARTITIONS
    if not (said.isascii() and said.isdigit() and len(said) <= 6):
        raise InvalidArguments(f"the hint {PARTITIONS_HINT} must be a number, received {said!r}")
    return int(said)


def _summary(refused: dict[int, str]) -> str:
    reasons = list(dict.fromkeys(refused[place] for place in sorted(refused)))
    more = f" (and {len(reasons) - REASONS_MAX} more reasons)" if len(reasons) > REASONS_MAX else ""
    return "; ".join(reasons[:REASONS_MAX]) + more


def _status_response(error: TsdbError) -> Response:
    """The usual answer to an error, with the body that exporters read."""
    response = error_response(error, 0, short_error_body)
    response.raw_headers = [each for each in response.raw_headers if each[0] != b"content-type"]
    response.raw_headers.append((b"content-type", PROTOBUF.encode("ascii")))
    message = str(error).encode("utf-8", "backslashreplace").decode("utf-8")
    response.body = RpcStatus(code=Code.Value(wire(error.status).grpc), message=message).SerializeToString()
    return response
