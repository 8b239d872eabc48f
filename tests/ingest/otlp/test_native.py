"""Exponential histograms of OpenTelemetry as native histograms of Prometheus."""

from __future__ import annotations

import math
import struct
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.metrics.v1.metrics_pb2 import AggregationTemporality, ExponentialHistogramDataPoint, Metric

from tests.ingest.prometheus_messages import messages
from tsdb import _kernels
from tsdb.errors import InvalidArguments
from tsdb.ingest.otlp import parse_metrics
from tsdb.ingest.otlp._native import end_of_series, native_histogram
from tsdb.promql.evaluation import STALE_BITS


def read_back(stored: bytes) -> Any:
    """The message that remote read makes of a stored histogram."""
    encoded = _kernels.encode_read_result(
        "h", pa.array([""]), pa.array([0, 1]), pa.array([7]), pa.array([0.0]), pa.array([stored])
    )
    (histogram,) = messages["QueryResult"].FromString(encoded).timeseries[0].histograms
    return histogram


def check(histogram: Any) -> None:
    """Let the rules of remote write look at it."""
    request = messages["WriteRequest"]()
    series = request.timeseries.add(histograms=[histogram])
    series.labels.add(name=b"__name__", value=b"h")
    parser = _kernels.RemoteWriteParser(is_strict=True, series_max=10, bytes_max=1 << 20)
    parser.parse(request.SerializeToString(), version=1)


def buckets(spans: Any, deltas: Any) -> dict[int, int]:
    """The buckets that are not empty, by their index."""
    found, index, count, rest = {}, 0, 0, iter(deltas)
    for span in spans:
        index += span.offset
        for _ in range(span.length):
            count += next(rest)
            found[index] = count
            index += 1
    return {index: count for index, count in found.items() if count}


def test_a_bucket_keeps_its_bounds_and_counts() -> None:
    point = ExponentialHistogramDataPoint(scale=1, zero_count=1, count=11, sum=9.5, zero_threshold=0.25)
    point.positive.offset = -2
    point.positive.bucket_counts.extend([2, 0, 3, 0, 0, 0, 1])
    point.negative.offset = 3
    point.negative.bucket_counts.extend([4])
    made = read_back(native_histogram(point, is_delta=False))
    check(made)
    assert (made.schema, made.count_int, made.zero_count_int) == (1, 11, 1)
    assert (made.sum, made.zero_threshold, made.reset_hint) == (9.5, 0.25, 0)
    # Bucket i of OpenTelemetry ends where bucket i + 1 of Prometheus does.
    assert buckets(made.positive_spans, made.positive_deltas) == {-1: 2, 1: 3, 5: 1}
    assert [(span.offset, span.length) for span in made.positive_spans] == [(-1, 3), (3, 1)]
    assert buckets(made.negative_spans, made.negative_deltas) == {4: 4}


@given(
    values=st.lists(st.floats(1e-6, 1e6), max_size=30),
    scale=st.integers(-4, 12),
)
def test_every_value_is_within_the_bounds_of_its_bucket(values: list[float], scale: int) -> None:
    point = ExponentialHistogramDataPoint(scale=scale, count=len(values))
    base = 2.0 ** (2.0**-scale)
    indexes = [math.ceil(math.log(value, base)) - 1 for value in values]
    if indexes:
        point.negative.offset = min(indexes)
        # Between far values lie millions of buckets of a fine scale: take those near the smallest.
        near = [index for index in indexes if index < min(indexes) + 10_000]
        point.count = len(near)
        point.negative.bucket_counts.extend([0] * (max(near) - min(near) + 1))
        for index in near:
            point.negative.bucket_counts[index - min(near)] += 1
    made = read_back(native_histogram(point, is_delta=False))
    check(made)
    assert made.schema == min(scale, 8)
    coarse = 2.0 ** (2.0**-made.schema)
    for index, count in buckets(made.negative_spans, made.negative_deltas).items():
        low, high = coarse ** (index - 1), coarse**index
        assert sum(low * (1 - 1e-9) <= value <= high * (1 + 1e-9) for value in values) >= count
    assert sum(buckets(made.negative_spans, made.negative_deltas).values()) == point.count


def test_what_is_not_known_is_not_a_number() -> None:
    assert math.isnan(read_back(native_histogram(ExponentialHistogramDataPoint(), is_delta=False)).sum)


def test_a_point_without_a_recorded_value_ends_the_series() -> None:
    mark = struct.unpack("<d", struct.pack("<Q", STALE_BITS))[0]
    made = read_back(end_of_series(mark))
    check(made)
    assert struct.unpack("<Q", struct.pack("<d", made.sum))[0] == STALE_BITS


@pytest.mark.parametrize(
    ("point", "reason"),
    [
        (ExponentialHistogramDataPoint(scale=-5), "the scale -5 of the histogram is below -4"),
        (ExponentialHistogramDataPoint(count=1), "hold 0 values, its count is 1"),
        (ExponentialHistogramDataPoint(count=1 << 63, zero_count=1 << 63), "more than 9223372036854775807"),
    ],
)
def test_a_point_that_no_native_histogram_can_be_is_refused(point: Any, reason: str) -> None:
    with pytest.raises(InvalidArguments, match=reason):
        native_histogram(point, is_delta=False)


def test_a_bucket_out_of_range_is_refused() -> None:
    point = ExponentialHistogramDataPoint(count=1)
    point.positive.offset = (1 << 31) - 1
    point.positive.bucket_counts.append(1)
    with pytest.raises(InvalidArguments, match="out of range"):
        native_histogram(point, is_delta=False)


def test_points_become_rows_of_the_metric_itself_and_differences_are_no_counters() -> None:
    metric = Metric(name="size", unit="By")
    metric.exponential_histogram.aggregation_temporality = AggregationTemporality.AGGREGATION_TEMPORALITY_DELTA
    metric.exponential_histogram.data_points.add(time_unix_nano=5_000_000, count=1, zero_count=1)
    metric.exponential_histogram.data_points.add(time_unix_nano=6_000_000, flags=1)
    metric.exponential_histogram.data_points.add(time_unix_nano=7_000_000, count=1)
    gauge = Metric(name="size", unit="By")
    gauge.gauge.data_points.add(time_unix_nano=4_000_000, as_double=0.5)
    request = ExportMetricsServiceRequest()
    request.resource_metrics.add().scope_metrics.add(metrics=[gauge, metric])
    parsed = parse_metrics(request.SerializeToString())
    (rows,) = parsed.rows
    assert (rows.table, rows.times.tolist()) == ("size_bytes", [4, 5, 6])
    assert rows.fields["tsdb_value"].to_pylist() == [0.5, None, None]
    first, second, third = rows.fields["tsdb_histogram"].to_pylist()
    assert first is None
    assert (read_back(second).reset_hint, read_back(third).reset_hint) == (3, 0)
    assert [each.place for each in parsed.rejections] == [3]
