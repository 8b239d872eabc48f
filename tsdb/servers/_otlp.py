"""Writes OTLP requests, the same way for HTTP and gRPC.

Items that fit are written. If some do not fit, the answer is a success with their number and the reason in
`partial_success`, as exporters expect; they do not retry those. If nothing fits, it is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from tsdb.clock import Clock
from tsdb.database import DatabasePort
from tsdb.errors import InvalidArguments, TsdbError, Unsupported
from tsdb.ingest import IngestRejected, NewTable, Rejection, TableRows, WriteOutcome, drop_rejected
from tsdb.ingest.otlp import (
    CHOICE_TABLES,
    LOG_TABLE,
    LOG_TABLES,
    PARTITIONS,
    TRACE_TABLE,
    MetricOptions,
    OtlpItems,
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
from tsdb.telemetry import get_logger

TRACE_PIPELINES = ("tsdb_trace_v1", "greptime_trace_v1")
"""The names of the one model of traces; requests say which they mean, so that there can be others one day."""
PARTITIONS_HINT = "trace_table_partitions"
"""The hint that says among how many regions a new table of spans is divided."""
REASONS_MAX = 3
"""How many reasons an answer has; the log of rejected rows has them all."""

_TRUE = ("true", "1")
_log = get_logger("tsdb.otlp")


@dataclass(frozen=True, slots=True)
class OtlpRequest:
    """A request, however it came."""

    database: DatabasePort
    body: bytes
    """The encoded message."""
    session: Session
    find: Callable[[str], str | None]
    """Returns what is said under the name of a header, without its prefix; None if nothing is."""
    hints: Mapping[str, str] = field(default_factory=dict)
    is_dry: bool = False
    needs_pipeline: bool = True
    """Whether traces must say which model they mean."""

    def check(self) -> None:
        """Raise Cancelled if the answer is no longer needed."""
        if self.session.token is not None:
            self.session.token.check()


class OtlpWriter:
    """Writes requests; each answers with an encoded message, a dry run with what would be done."""

    def __init__(self, *, with_metric_engine: bool, clock: Clock) -> None:
        self._clock = clock
        self._metric_tables = metric_tables(with_metric_engine=with_metric_engine)

    def metrics(self, request: OtlpRequest) -> bytes | WriteOutcome:
        """Write data points."""
        parsed = parse_metrics(request.body, _read_options(request), check=request.check)
        work = _Work(request, "otlp_metrics")
        refused = work.write(parsed, self._metric_tables)
        if isinstance(refused, WriteOutcome):
            return refused
        work.describe(parsed.descriptions)
        answer = ExportMetricsServiceResponse()
        if refused:
            answer.partial_success.rejected_data_points = len(refused)
            answer.partial_success.error_message = _summary(refused)
        return answer.SerializeToString()

    def traces(self, request: OtlpRequest) -> bytes | WriteOutcome:
        """Write spans."""
        pipeline = request.find("pipeline-name")
        if pipeline not in TRACE_PIPELINES and (pipeline or request.needs_pipeline):
            raise InvalidArguments(
                "traces need the header x-tsdb-pipeline-name"
                if not pipeline
                else f"no pipeline {pipeline!r} for traces",
                hint=f"send x-tsdb-pipeline-name: {TRACE_PIPELINES[0]}",
            )
        table = request.find("trace-table-name") or TRACE_TABLE
        parsed = parse_traces(request.body, table, check=request.check)
        work = _Work(request, "otlp_traces")
        refused = work.write(parsed, trace_tables(_read_partitions(request)))
        if isinstance(refused, WriteOutcome):
            return refused
        written, _ = drop_rejected(parsed.rows, [Rejection(table, "", place) for place in refused])
        work.write_beside(choice_rows(written), CHOICE_TABLES)
        answer = ExportTraceServiceResponse()
        if refused:
            answer.partial_success.rejected_spans = len(refused)
            answer.partial_success.error_message = _summary(refused)
        return answer.SerializeToString()

    def logs(self, request: OtlpRequest) -> bytes | WriteOutcome:
        """Write log records."""
        if pipeline := request.find("pipeline-name"):
            raise Unsupported(f"no pipeline {pipeline!r} for logs", hint="leave out the header x-tsdb-pipeline-name")
        parsed = parse_logs(
            request.body,
            now_ns=self._clock.now_ns(),
            table=request.find("log-table-name") or LOG_TABLE,
            extracted=_read_names(request, "log-extract-keys", ","),
            check=request.check,
        )
        refused = _Work(request, "otlp_logs").write(parsed, LOG_TABLES)
        if isinstance(refused, WriteOutcome):
            return refused
        answer = ExportLogsServiceResponse()
        if refused:
            answer.partial_success.rejected_log_records = len(refused)
            answer.partial_success.error_message = _summary(refused)
        return answer.SerializeToString()


class _Work:
    """One request and where it goes."""

    def __init__(self, request: OtlpRequest, protocol: str) -> None:
        self._database = request.database
        self._request = request
        self._session = request.session
        self._protocol = protocol

    def write(self, parsed: OtlpItems, new_table: NewTable) -> dict[int, str] | WriteOutcome:
        """Write what fits; return the reasons of items that do not, or what a dry run would do."""
        outcome, rejections, reasons = write_what_fits(parsed.rows, partial(self._ingest, new_table))
        if self._request.is_dry:
            return replace(outcome, rejections=(*parsed.rejections, *rejections))
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
        """Write rows that only help to find others; a rejection does not fail the request."""
        try:
            self._ingest(new_table, rows)
        except TsdbError as error:
            _log.warning("the tables of services and operations were not written", error=error)

    def _ingest(self, new_table: NewTable, rows: Sequence[TableRows]) -> WriteOutcome:
        request = self._request
        return self._database.ingest(
            rows, self._session, new_table, dry_run=request.is_dry, hints=request.hints, protocol=self._protocol
        )


def _read_options(request: OtlpRequest) -> MetricOptions:
    said = request.find("otlp-metric-translation-strategy")
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


def _read_histograms(request: OtlpRequest) -> bool:
    """Whether exponential histograms become native ones."""
    said = (request.find("otlp-metric-exponential-histograms") or "native").strip().lower()
    if said not in ("native", "classic"):
        raise InvalidArguments(f"exponential histograms cannot become {said!r}", hint="expected native or classic")
    return said == "native"


def _read_names(request: OtlpRequest, header: str, separator: str) -> tuple[str, ...]:
    names = (name.strip() for name in (request.find(header) or "").split(separator))
    return tuple(dict.fromkeys(name for name in names if name))


def _read_flag(request: OtlpRequest, header: str) -> bool:
    return (request.find(header) or "").strip().lower() in _TRUE


def _read_partitions(request: OtlpRequest) -> int:
    said = request.hints.get(PARTITIONS_HINT)
    if said is None:
        return PARTITIONS
    if not (said.isascii() and said.isdigit() and len(said) <= 6):
        raise InvalidArguments(f"the hint {PARTITIONS_HINT} must be a number, received {said!r}")
    return int(said)


def _summary(refused: dict[int, str]) -> str:
    reasons = list(dict.fromkeys(refused[place] for place in sorted(refused)))
    more = f" (and {len(reasons) - REASONS_MAX} more reasons)" if len(reasons) > REASONS_MAX else ""
    return "; ".join(reasons[:REASONS_MAX]) + more
