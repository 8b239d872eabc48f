"""What the writers of the soak send: for each protocol, the request with a given number.

A writer owns the rows 0, 1, 2, … of its name; request n holds the rows from n * ROWS on. Time and value of a row follow
from its number alone, so a reader of a row knows whose it is, and a request that is sent twice writes the same rows.
A protocol that can hold several tables writes each row to all of them.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

from tests.ingest.prometheus_messages import write_request, write_request_v2

ROWS = 40
"""Rows of one request."""
SERIES = 10
"""Series of one writer."""
START_MS = 1_767_225_600_000
STEP_MS = 700
"""Between two rows of a writer; one day of rows has about 3,000 requests, so that memtables have several windows."""

_GENERATION = 150
"""After so many requests line protocol comes with another field and another tag, at most 8 of each."""
_PROTOBUF = "application/x-protobuf"


def numbers_of(request: int) -> range:
    return range(request * ROWS, (request + 1) * ROWS)


def time_of(number: int) -> int:
    return START_MS + number * STEP_MS


def value_of(number: int) -> int:
    return number * 7919 % 100_003


def values_of(numbers: np.ndarray) -> np.ndarray:
    return numbers * 7919 % 100_003


def series_of(number: int) -> str:
    return f"s{number % SERIES}"


@dataclass(frozen=True)
class Table:
    """Where rows of a protocol are found, in expressions of SQL."""

    name: str
    time: str = "CAST(tsdb_timestamp AS BIGINT)"
    """In milliseconds."""
    value: str = "CAST(tsdb_value AS BIGINT)"
    writer: str = "w"
    is_append: bool = False
    """Rows that are sent twice may be there twice."""
    is_atomic: bool = True
    """Of a request all rows of this table are there, or none."""


@dataclass(frozen=True)
class Request:
    """One POST."""

    path: str
    body: bytes
    headers: dict[str, str] = field(default_factory=dict)
    is_good: bool = True
    """Whether it must be accepted; otherwise it must be refused."""


@dataclass(frozen=True)
class Protocol:
    """A way to write: how a request is made, and where its rows are read."""

    name: str
    make: Callable[[str, int], Request]
    tables: tuple[Table, ...]
    is_one_region: bool = False
    """All tables share one region, so a request is there in all of them or in none."""


def _nanoseconds(column: str) -> str:
    return f"(CAST({column} AS BIGINT) / 1000000)"


def _lines(writer: str, request: int) -> bytes:
    generation = request // _GENERATION % 8
    return "".join(
        f"{table},w={writer},s={series_of(number)},g{generation}=y v={value_of(number)}i,x{generation}=0.5 "
        f"{time_of(number)}\n"
        for table in ("soak_line_a", "soak_line_b")
        for number in numbers_of(request)
    ).encode()


def influx_v1(writer: str, request: int) -> Request:
    body = gzip.compress(_lines(writer, request), 1)
    return Request("/v1/influxdb/write?db=public&precision=ms", body, {"Content-Encoding": "gzip"})


def influx_v2(writer: str, request: int) -> Request:
    return Request("/v1/influxdb/api/v2/write?bucket=public&precision=ms", _lines(writer, request))


def short_lived(writer: str, request: int) -> Request:
    """Rows of long ago for a table that keeps ten seconds: nothing of them may be seen."""
    lines = "".join(f"soak_ttl,w={writer} v={value_of(number)}i {time_of(number)}\n" for number in numbers_of(request))
    return Request("/v1/influxdb/write?precision=ms", lines.encode(), {"x-tsdb-hints": "ttl=10s"})


def refused(writer: str, request: int) -> Request:
    """A request with one fault in the middle, for tables that others write to: nothing of it may be seen."""
    if request % 3 == 2:
        good = _samples(writer, request, ("soak_rw_a", "soak_rw_b"))
        labels, samples = good[5]
        good[5] = [*labels, ("not-a-name", "x")], samples
        body = pa.compress(write_request(good).SerializeToString(), codec="snappy", asbytes=True)
        return Request("/v1/prometheus/write", body, {"Content-Encoding": "snappy"}, is_good=False)
    lines = _lines(writer, request).splitlines(keepends=True)
    faulty = (b"soak_line_a,w=x v= 1\n", b'soak_line_a,w=x v="text" 1\n')[request % 3]
    lines.insert(len(lines) // 2, faulty)
    return Request("/v1/influxdb/write?precision=ms", b"".join(lines), is_good=False)


def opentsdb(writer: str, request: int) -> Request:
    points = [
        {
            "metric": "soak.put",
            "timestamp": time_of(number),
            "value": value_of(number),
            "tags": {"w": writer, "s": series_of(number)},
        }
        for number in numbers_of(request)
    ]
    return Request("/v1/opentsdb/api/put", json.dumps(points).encode())


def telnet_lines(writer: str, request: int) -> bytes:
    return "".join(
        f"put soak.telnet {time_of(number)} {value_of(number)} w={writer} s={series_of(number)}\n"
        for number in numbers_of(request)
    ).encode()


def _samples(
    writer: str, request: int, metrics: Iterable[str]
) -> list[tuple[list[tuple[str, str]], list[tuple[int, float]]]]:
    return [
        (
            [("__name__", metric), ("s", f"s{series}"), ("w", writer)],
            [(time_of(each), float(value_of(each))) for each in numbers_of(request) if each % SERIES == series],
        )
        for metric in metrics
        for series in range(SERIES)
    ]


def remote_write(writer: str, request: int) -> Request:
    message = write_request(_samples(writer, request, ("soak_rw_a", "soak_rw_b"))).SerializeToString()
    body = pa.compress(message, codec="snappy", asbytes=True)
    return Request("/v1/prometheus/write", body, {"Content-Encoding": "snappy", "Content-Type": _PROTOBUF})


def remote_write_v2(writer: str, request: int) -> Request:
    message = write_request_v2(_samples(writer, request, ("soak_rw_a", "soak_rw_b"))).SerializeToString()
    body = pa.compress(message, codec="snappy", asbytes=True)
    kind = f"{_PROTOBUF};proto=io.prometheus.write.v2.Request"
    return Request("/v1/prometheus/write", body, {"Content-Encoding": "snappy", "Content-Type": kind})


def _attribute(key: str, value: str) -> KeyValue:
    return KeyValue(key=key, value=AnyValue(string_value=value))


def otlp_metrics(writer: str, request: int) -> Request:
    message = ExportMetricsServiceRequest()
    metric = message.resource_metrics.add().scope_metrics.add().metrics.add(name="soak_otlp")
    for number in numbers_of(request):
        point = metric.gauge.data_points.add(time_unix_nano=time_of(number) * 1_000_000, as_int=value_of(number))
        point.attributes.extend([_attribute("w", writer), _attribute("s", series_of(number))])
    return Request("/v1/otlp/v1/metrics", message.SerializeToString(), {"Content-Type": _PROTOBUF})


def otlp_logs(writer: str, request: int) -> Request:
    message = ExportLogsServiceRequest()
    scope = message.resource_logs.add().scope_logs.add()
    scope.scope.name = "soak"
    for number in numbers_of(request):
        record = scope.log_records.add(time_unix_nano=time_of(number) * 1_000_000)
        record.body.string_value = str(value_of(number))
        record.attributes.append(_attribute("w", writer))
    headers = {"Content-Type": _PROTOBUF, "x-tsdb-log-table-name": "soak_logs", "x-tsdb-log-extract-keys": "w"}
    headers["Content-Encoding"] = "gzip"
    return Request("/v1/otlp/v1/logs", gzip.compress(message.SerializeToString(), 1), headers)


def otlp_traces(writer: str, request: int) -> Request:
    message = ExportTraceServiceRequest()
    resource = message.resource_spans.add()
    resource.resource.attributes.append(_attribute("service.name", "soak"))
    spans = resource.scope_spans.add()
    for number in numbers_of(request):
        start = time_of(number) * 1_000_000
        spans.spans.add(
            trace_id=number.to_bytes(16, "big"),
            span_id=(number + 1).to_bytes(8, "big"),
            name=series_of(number),
            start_time_unix_nano=start,
            end_time_unix_nano=start + value_of(number),
            attributes=[_attribute("w", writer)],
        )
    headers = {
        "Content-Type": _PROTOBUF,
        "x-tsdb-pipeline-name": "tsdb_trace_v1",
        "x-tsdb-trace-table-name": "soak_traces",
    }
    return Request("/v1/otlp/v1/traces", message.SerializeToString(), headers)


def _insert(table: str, writer: str, request: int) -> Request:
    rows = ", ".join(
        f"('{writer}', '{series_of(number)}', {time_of(number)}, {value_of(number)})" for number in numbers_of(request)
    )
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    return Request("/v1/sql", f"sql=INSERT INTO {table} VALUES {rows}".encode(), form)


def insert(writer: str, request: int) -> Request:
    return _insert("soak_sql", writer, request)


def insert_split(writer: str, request: int) -> Request:
    return _insert("soak_split", writer, request)


CREATE = (
    "CREATE TABLE IF NOT EXISTS soak_sql (w STRING, s STRING, tsdb_timestamp TIMESTAMP(3) TIME INDEX, v BIGINT, "
    "PRIMARY KEY (w, s))",
    "CREATE TABLE IF NOT EXISTS soak_split (w STRING, s STRING, tsdb_timestamp TIMESTAMP(3) TIME INDEX, v BIGINT, "
    "PRIMARY KEY (w, s)) PARTITION ON COLUMNS (s) (s < 's3', s >= 's3' AND s < 's7', s >= 's7')",
)
"""What SQL has to make itself."""

_LINE = (
    Table("soak_line_a", time=_nanoseconds("tsdb_timestamp"), value="v"),
    Table("soak_line_b", time=_nanoseconds("tsdb_timestamp"), value="v"),
)
_REMOTE = (Table("soak_rw_a"), Table("soak_rw_b"))

NEVER_SEEN = (*_LINE, *_REMOTE)
"""Where nothing of `refused` may be."""

TELNET_TABLE = Table("soak.telnet", is_atomic=False)

PROTOCOLS = (
    Protocol("influx_v1", influx_v1, _LINE),
    Protocol("influx_v2", influx_v2, _LINE),
    Protocol("opentsdb", opentsdb, (Table("soak.put"),)),
    Protocol("remote_write", remote_write, _REMOTE, is_one_region=True),
    Protocol("remote_write_v2", remote_write_v2, _REMOTE, is_one_region=True),
    Protocol("otlp_metrics", otlp_metrics, (Table("soak_otlp"),)),
    Protocol(
        "otlp_logs",
        otlp_logs,
        (Table("soak_logs", time=_nanoseconds("timestamp"), value="CAST(body AS BIGINT)", is_append=True),),
    ),
    Protocol(
        "otlp_traces",
        otlp_traces,
        (
            Table(
                "soak_traces",
                time=_nanoseconds("timestamp"),
                value="CAST(duration_nano AS BIGINT)",
                writer="span_attributes.w",
                is_append=True,
            ),
        ),
    ),
    Protocol("sql", insert, (Table("soak_sql", value="v"),)),
    Protocol("sql_split", insert_split, (Table("soak_split", value="v", is_atomic=False),)),
)
