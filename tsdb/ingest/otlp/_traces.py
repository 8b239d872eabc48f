"""Spans of OpenTelemetry: one row per span, one column per attribute.

The tag is the service; everything else is a field, because traces are found by what they say and no two spans are the
same. Spans are divided among regions by the first digits of their trace, so that who asks for a trace reads one
region. Attributes keep their types. One that comes with several types in a request becomes text, whole numbers beside
fractions become Float64. Events and links are JSON.

Two small tables beside that of the spans list what there is to choose from: `…_services`, and `…_operations` with the
names and kinds of spans. Their rows have one fixed time far in the future, so that repetition costs nothing and no TTL
takes them.
Measured: 9,000 to 15,000 spans per CPU second (10,000 spans with 10 attributes, a busy machine of 2 cores).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from itertools import pairwise

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from tsdb.errors import InvalidArguments
from tsdb.ingest._builder import RowsBuilder
from tsdb.ingest.otlp._attributes import Value, attributes, to_json, to_text
from tsdb.ingest.otlp._columns import TypedColumns
from tsdb.ingest.otlp._parsed import Check, OtlpItems, Pace, parse_message, unchecked
from tsdb.ingest.rows import NewTable, Rejection, TableRows
from tsdb.model import DataType, Kind

TRACE_TABLE = "opentelemetry_traces"
PARTITIONS, PARTITIONS_MAX = 16, 256
"""Among how many regions spans are divided, by the first digits of their trace; and among how many they may be."""
CHOICE_TABLES = NewTable(time_column="timestamp", time_unit="ns")
"""How the tables of services and operations look."""

_STRING = DataType(Kind.STRING)
_JSON = DataType(Kind.JSON)
_FIXED = {
    "timestamp_end": DataType(Kind.TIMESTAMP_NANOSECOND),
    "duration_nano": DataType(Kind.UINT64),
    "parent_span_id": _STRING,
    "trace_id": _STRING,
    "span_id": _STRING,
    "span_kind": _STRING,
    "span_name": _STRING,
    "span_status_code": _STRING,
    "span_status_message": _STRING,
    "trace_state": _STRING,
    "scope_name": _STRING,
    "scope_version": _STRING,
}
# Numbers that this version does not know count as not specified.
_KINDS: dict[int, str] = {number: name for name, number in Span.SpanKind.items()}
_CODES: dict[int, str] = {number: name for name, number in Status.StatusCode.items()}
_LAST = {"span_events": _JSON, "span_links": _JSON}
_TIME_MAX = 2**63 - 1
_CHOICE_TIME = 4_102_444_800_000_000_000
"""2100-01-01."""


def parse_traces(body: bytes, table: str = TRACE_TABLE, *, check: Check = unchecked) -> OtlpItems:
    """Make rows of an export request; `check` raises when they are not wanted any more."""
    request, pace = parse_message(ExportTraceServiceRequest, body, "traces"), Pace(check)
    reader = _Reader(table)
    for resource in request.resource_spans:
        own = attributes(resource.resource.attributes)
        service = own.pop("service.name", None)
        common = {f"resource_attributes.{name}": value for name, value in own.items()}
        for scope in resource.scope_spans:
            pace.spend(1 + len(common))
            found = attributes(scope.scope.attributes)
            attached = common | {f"scope_attributes.{name}": value for name, value in found.items()}
            fixed = {"scope_name": scope.scope.name, "scope_version": scope.scope.version}
            for span in scope.spans:
                pace.spend(1 + len(attached))
                reader.read(span, None if service is None else to_text(service), fixed, attached)
    return OtlpItems(reader.build(), reader.spans, reader.rejections)


def trace_tables(partitions: int = PARTITIONS) -> NewTable:
    """How a new table of spans looks: a power of two of regions, each with the traces of a range of ids."""
    if not 1 <= partitions <= PARTITIONS_MAX or partitions & (partitions - 1):
        raise InvalidArguments(
            f"a table of traces cannot have {partitions} partitions",
            hint=f"1, or a power of two up to {PARTITIONS_MAX}",
        )
    return NewTable(
        time_column="timestamp",
        time_unit="ns",
        options={"append_mode": "true"},
        partition_columns=("trace_id",) if partitions > 1 else (),
        partition_rules=_trace_rules(partitions) if partitions > 1 else (),
    )


def _trace_rules(partitions: int) -> tuple[str, ...]:
    digits = 1 if partitions <= 16 else 2
    step = 16**digits // partitions
    bounds = [f"{step * number:0{digits}x}" for number in range(1, partitions)]
    between = (f"trace_id >= '{low}' AND trace_id < '{high}'" for low, high in pairwise(bounds))
    return (f"trace_id < '{bounds[0]}'", *between, f"trace_id >= '{bounds[-1]}'")


def choice_rows(spans: Iterable[TableRows]) -> list[TableRows]:
    """The services and operations that spans tell of."""
    rows = []
    for each in spans:
        services = each.read_tags().column("service_name").to_pylist()
        names, kinds = each.fields["span_name"].to_pylist(), each.fields["span_kind"].to_pylist()
        known = [service or "" for service in services]
        operations = {
            (known[series], name, kind) for series, name, kind in zip(each.series_index, names, kinds, strict=True)
        }
        found = [(("service_name", service),) for service in sorted(set(known))]
        rows.append(_choices(f"{each.table}_services", found))
        named = [
            (("service_name", service), ("span_name", name), ("span_kind", kind))
            for service, name, kind in sorted(operations)
        ]
        rows.append(_choices(f"{each.table}_operations", named))
    return rows


def _choices(table: str, found: Iterable[tuple[tuple[str, str], ...]]) -> TableRows:
    builder = RowsBuilder(table, "ns", {}, columns=())
    for place, tags in enumerate(found):
        builder.add(builder.series(tags), _CHOICE_TIME, {}, place=place)
    return builder.build()


class _Reader:
    """The rows of one request while it is read."""

    def __init__(self, table: str) -> None:
        self._columns = TypedColumns(table, "ns", first=_FIXED, last=_LAST, tags=("service_name",))
        self.spans = 0
        self.rejections: list[Rejection] = []

    def read(self, span: Span, service: str | None, fixed: Mapping[str, str], attached: Mapping[str, Value]) -> None:
        place = self.spans
        self.spans += 1
        try:
            values = {**_span_values(span), **fixed}
            own = {f"span_attributes.{name}": value for name, value in attributes(span.attributes).items()}
        except InvalidArguments as error:
            reason = f"span {place} {span.name!r}: {error}"
            self.rejections.append(Rejection(self._columns.table, reason, place, kind="invalid"))
            return
        tags = () if service is None else (("service_name", service),)
        self._columns.add(tags, span.start_time_unix_nano, values, {**own, **attached}, place=place)

    def build(self) -> list[TableRows]:
        return self._columns.build()


def _span_values(span: Span) -> dict[str, object]:
    start, end = span.start_time_unix_nano, span.end_time_unix_nano
    if not span.trace_id or not span.span_id:
        raise InvalidArguments("the span has no trace_id or no span_id")
    if not 0 < start <= _TIME_MAX or end > _TIME_MAX:
        raise InvalidArguments("the span has no start time, or a time that is out of range")
    return {
        "timestamp_end": end or None,
        "duration_nano": max(end - start, 0),
        "parent_span_id": span.parent_span_id.hex() or None,
        "trace_id": span.trace_id.hex(),
        "span_id": span.span_id.hex(),
        "span_kind": _KINDS.get(span.kind, _KINDS[0]),
        "span_name": span.name,
        "span_status_code": _CODES.get(span.status.code, _CODES[0]),
        "span_status_message": span.status.message,
        "trace_state": span.trace_state,
        "span_events": to_json([_event(each) for each in span.events]),
        "span_links": to_json([_link(each) for each in span.links]),
    }


def _event(event: Span.Event) -> Value:
    return {
        "name": event.name,
        "time": _time_text(event.time_unix_nano),
        "attributes": attributes(event.attributes),
    }


def _link(link: Span.Link) -> Value:
    return {
        "trace_id": link.trace_id.hex(),
        "span_id": link.span_id.hex(),
        "trace_state": link.trace_state,
        "attributes": attributes(link.attributes),
    }


def _time_text(time_ns: int) -> str:
    seconds, rest = divmod(time_ns, 1_000_000_000)
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S}.{rest:09}"
    except (OverflowError, ValueError, OSError):
        return str(time_ns)
