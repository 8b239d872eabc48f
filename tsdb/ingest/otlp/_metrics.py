"""Metrics of OpenTelemetry as Prometheus would have them: one table per series name, one value per row.

    gauge, sum               name
    histogram                name_bucket{le}, name_sum, name_count
    exponential histogram    name, a native histogram; or as a histogram, with the bounds that its scale gives it
    summary                  name{quantile}, name_sum, name_count

Times are milliseconds. A point that says that there is no value becomes Prometheus' stale marker. Resource attributes
are dropped except those that say which service and where (`PROMOTED`), because every tag that changes with each start
of a process makes new series; headers of the request change that.
Measured: 40,000 to 70,000 points per CPU second (30,000 gauge points with three attributes, a busy machine of 2 cores).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope
from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    AggregationTemporality,
    DataPointFlags,
    ExponentialHistogramDataPoint,
    HistogramDataPoint,
    Metric,
    NumberDataPoint,
    SummaryDataPoint,
)

from tsdb.errors import InvalidArguments
from tsdb.ingest._builder import VALUE_COLUMN, RowsBuilder
from tsdb.ingest.otlp._attributes import Value, attributes, to_text
from tsdb.ingest.otlp._buckets import bound_text, explicit_buckets, exponential_buckets
from tsdb.ingest.otlp._names import Strategy, label_name, metric_name, unit_words
from tsdb.ingest.otlp._native import end_of_series, native_histogram
from tsdb.ingest.otlp._parsed import Check, OtlpItems, Pace, parse_message, unchecked
from tsdb.ingest.rows import NewTable, Rejection
from tsdb.model import HISTOGRAM_COLUMN, DataType, Kind, MetricDescription

PROMOTED = frozenset(
    {"service.instance.id", "service.name", "service.namespace", "service.version"}
    | {"cloud.availability_zone", "cloud.region", "container.name"}
    | {"deployment.environment", "deployment.environment.name"}
    | {"k8s.cluster.name", "k8s.container.name", "k8s.cronjob.name", "k8s.daemonset.name", "k8s.deployment.name"}
    | {"k8s.job.name", "k8s.namespace.name", "k8s.pod.name", "k8s.replicaset.name", "k8s.statefulset.name"}
)
"""Resource attributes that become tags of every metric."""
STALE = struct.unpack("<d", (0x7FF0000000000002).to_bytes(8, "little"))[0]
"""The NaN that says that a series has ended."""

_FLOAT = DataType(Kind.FLOAT64)
_BINARY = DataType(Kind.BINARY)
_DELTA = AggregationTemporality.AGGREGATION_TEMPORALITY_DELTA
_MILLISECOND_NS = 1_000_000
_NO_VALUE = DataPointFlags.DATA_POINT_FLAGS_NO_RECORDED_VALUE_MASK

AnyPoint: TypeAlias = NumberDataPoint | HistogramDataPoint | ExponentialHistogramDataPoint | SummaryDataPoint
Labels: TypeAlias = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class MetricOptions:
    """What a request may say about the names and tags of its metrics."""

    strategy: Strategy = Strategy.ESCAPED_WITH_SUFFIXES
    promoted: frozenset[str] = frozenset()
    """Resource attributes that become tags beside the usual ones."""
    has_all_resource_attributes: bool = False
    ignored: frozenset[str] = frozenset()
    """Resource attributes that do not become tags although all others do."""
    has_scope: bool = False
    """The scope's name, version, schema and attributes become tags."""
    has_native_histograms: bool = True
    """Exponential histograms become native ones, and not buckets with bounds."""

    def keeps(self, name: str) -> bool:
        if self.has_all_resource_attributes:
            return name not in self.ignored
        return name in PROMOTED or name in self.promoted


def metric_tables(*, with_metric_engine: bool) -> NewTable:
    """How tables of new metrics look. The physical table is that of every protocol and says nothing of this one."""
    options = {} if with_metric_engine else {"otlp_metric_compat": "prom"}
    return NewTable(
        time_unit="ms",
        value_column=VALUE_COLUMN,
        options=options,
        single_value=True,
        is_metric=with_metric_engine,
    )


def parse_metrics(body: bytes, options: MetricOptions | None = None, *, check: Check = unchecked) -> OtlpItems:
    """Make rows of an export request; `check` raises when they are not wanted any more."""
    request = parse_message(ExportMetricsServiceRequest, body, "metrics")
    reader = _Reader(options or MetricOptions(), check)
    for resource in request.resource_metrics:
        common = reader.resource_labels(attributes(resource.resource.attributes))
        for scope in resource.scope_metrics:
            reader.pace.spend(1 + len(common))
            labels = common | reader.scope_labels(scope.scope, scope.schema_url)
            for metric in scope.metrics:
                reader.read(metric, labels)
    rows = [builder.build() for builder in reader.builders.values()]
    return OtlpItems(rows, reader.points, reader.rejections, list(reader.descriptions.items()))


class _Reader:
    """The rows of one request while it is read."""

    def __init__(self, options: MetricOptions, check: Check) -> None:
        self._options = options
        self.pace = Pace(check)
        self.builders: dict[str, RowsBuilder] = {}
        self.points = 0
        self.rejections: list[Rejection] = []
        self.descriptions: dict[str, MetricDescription] = {}

    def resource_labels(self, found: Mapping[str, Value]) -> dict[str, str]:
        labels = self._labels({name: value for name, value in found.items() if self._options.keeps(name)})
        for name, label in (("service.name", "job"), ("service.instance.id", "instance")):
            if name in found:
                labels[label] = to_text(found[name])
        return labels

    def scope_labels(self, scope: InstrumentationScope, schema_url: str) -> dict[str, str]:
        if not self._options.has_scope:
            return {}
        found = {f"otel_scope_{name}": value for name, value in attributes(scope.attributes).items()}
        own = {"name": scope.name, "version": scope.version, "schema_url": schema_url}
        return self._labels(found) | {f"otel_scope_{name}": value for name, value in own.items() if value}

    def _labels(self, found: Mapping[str, Value]) -> dict[str, str]:
        labels: dict[str, str] = {}
        for name in sorted(found):
            label, text = label_name(name, self._options.strategy), to_text(found[name])
            # Two attributes whose names differ only in what a label cannot say share it, as Prometheus has it.
            labels[label] = f"{labels[label]};{text}" if label in labels else text
        return labels

    def read(self, metric: Metric, common: Mapping[str, str]) -> None:
        kind = metric.WhichOneof("data")
        if kind is None:
            return
        name = metric_name(
            metric.name,
            metric.unit,
            self._options.strategy,
            is_total=kind == "sum" and metric.sum.is_monotonic,
            is_gauge=kind == "gauge",
        )
        if name:
            self.descriptions[name] = MetricDescription(
                _type_of(metric, kind), unit_words(metric.unit), metric.description
            )
        points: Iterable[AnyPoint] = getattr(metric, kind).data_points
        is_delta = getattr(getattr(metric, kind), "aggregation_temporality", None) == _DELTA
        for point in points:
            place = self.points
            self.points += 1
            self.pace.spend(1 + len(common))
            try:
                self._read_point(name, point, common, place, is_delta=is_delta)
            except InvalidArguments as error:
                reason = f"metric {metric.name!r}, data point {place}: {error}"
                self.rejections.append(Rejection(name, reason, place, kind="invalid"))

    def _read_point(self, name: str, point: AnyPoint, common: Mapping[str, str], place: int, *, is_delta: bool) -> None:
        if not name:
            raise InvalidArguments("the metric has no name")
        if not point.time_unix_nano:
            raise InvalidArguments("the data point has no time")
        time_ms = point.time_unix_nano // _MILLISECOND_NS
        labels = tuple({**common, **self._labels(attributes(point.attributes))}.items())
        if self._options.has_native_histograms and isinstance(point, ExponentialHistogramDataPoint):
            histogram = _native(point, is_delta=is_delta)
            builder = self._builder(name)
            builder.declare(HISTOGRAM_COLUMN, _BINARY)
            builder.add(builder.series(labels), time_ms, {HISTOGRAM_COLUMN: histogram}, place=place)
            return
        # All rows of a point are made before the first is added: a point is taken whole or not at all.
        rows = list(_point_rows(name, point))
        for table, extra, value in rows:
            builder = self._builder(table)
            series = builder.series(_with(labels, extra) if extra else labels)
            builder.add(series, time_ms, {VALUE_COLUMN: value}, place=place)

    def _builder(self, table: str) -> RowsBuilder:
        builder = self.builders.get(table)
        if builder is None:
            builder = self.builders[table] = RowsBuilder(table, "ms", {VALUE_COLUMN: _FLOAT})
        return builder


def _native(point: ExponentialHistogramDataPoint, *, is_delta: bool) -> bytes:
    return end_of_series(STALE) if point.flags & _NO_VALUE else native_histogram(point, is_delta=is_delta)


def _type_of(metric: Metric, kind: str) -> str:
    """The type of Prometheus that a metric is stored as; a sum that may fall is a gauge there."""
    if kind == "sum":
        return "counter" if metric.sum.is_monotonic else "gauge"
    return "histogram" if kind == "exponential_histogram" else kind


def _with(labels: Labels, extra: Labels) -> Labels:
    """The labels of the model itself win over attributes of the same name."""
    return tuple(dict([*labels, *extra]).items())


def _point_rows(name: str, point: AnyPoint) -> Iterator[tuple[str, Labels, float]]:
    is_stale = bool(point.flags & _NO_VALUE)
    if isinstance(point, NumberDataPoint):
        yield name, (), STALE if is_stale else _number(point)
        return
    if isinstance(point, SummaryDataPoint):
        for each in point.quantile_values:
            yield name, (("quantile", bound_text(each.quantile)),), STALE if is_stale else each.value
        has_sum = True
    else:
        if isinstance(point, ExponentialHistogramDataPoint):
            buckets = exponential_buckets(point)
        else:
            buckets = explicit_buckets(point)
        for bound, count in buckets:
            yield f"{name}_bucket", (("le", bound),), STALE if is_stale else float(count)
        has_sum = point.HasField("sum")
    if has_sum:
        yield f"{name}_sum", (), STALE if is_stale else point.sum
    yield f"{name}_count", (), STALE if is_stale else float(point.count)


def _number(point: NumberDataPoint) -> float:
    kind = point.WhichOneof("value")
    if kind is None:
        raise InvalidArguments("the data point has no value")
    return float(point.as_int) if kind == "as_int" else point.as_double
