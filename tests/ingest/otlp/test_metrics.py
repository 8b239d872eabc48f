"""Metrics of OpenTelemetry: names, labels, buckets and stale markers."""

from __future__ import annotations

import math
import struct
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.metrics.v1.metrics_pb2 import ExponentialHistogramDataPoint, Metric

from tsdb.errors import InvalidSyntax, TsdbError
from tsdb.ingest.otlp import MetricOptions, OtlpItems, Strategy, parse_metrics
from tsdb.ingest.otlp._buckets import bound_text, exponential_buckets
from tsdb.ingest.otlp._names import label_name, metric_name, unit_words

WITH = Strategy.ESCAPED_WITH_SUFFIXES


@pytest.mark.parametrize(
    ("name", "unit", "flags", "expected"),
    [
        ("claude_code.cost.usage", "USD", {"is_total": True}, "claude_code_cost_usage_USD_total"),
        ("http.server.duration", "ms", {}, "http_server_duration_milliseconds"),
        ("system.memory.bytes", "By", {}, "system_memory_bytes"),
        ("disk.io", "By/s", {}, "disk_io_bytes_per_second"),
        ("requests", "{request}/s", {}, "requests_per_second"),
        ("requests", "{request}", {"is_total": True}, "requests_total"),
        ("requests.total.count", "", {"is_total": True}, "requests_count_total"),
        ("cpu.usage", "1", {"is_gauge": True}, "cpu_usage_ratio"),
        ("cpu.usage", "1", {"is_total": True}, "cpu_usage_total"),
        ("humidity", "%", {}, "humidity_percent"),
        ("5xx.count", "", {}, "_5xx_count"),
        ("a--b..c", "", {}, "a_b_c"),
    ],
)
def test_names_have_their_unit_and_kind(name: str, unit: str, flags: dict[str, bool], expected: str) -> None:
    assert metric_name(name, unit, WITH, **flags) == expected


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        (Strategy.ESCAPED_WITH_SUFFIXES, "http_size_bytes_total"),
        (Strategy.ESCAPED, "http_size"),
        (Strategy.VERBATIM_WITH_SUFFIXES, "http.size_bytes_total"),
        (Strategy.VERBATIM, "http.size"),
    ],
)
def test_a_strategy_decides_over_escaping_and_suffixes(strategy: Strategy, expected: str) -> None:
    assert metric_name("http.size", "By", strategy, is_total=True) == expected


@pytest.mark.parametrize(
    ("name", "label"),
    [("host.name", "host_name"), ("7up", "key_7up"), ("_x", "key_x"), ("__x", "__x"), ("Größe", "Gr__e")],
)
def test_labels_have_the_letters_of_prometheus(name: str, label: str) -> None:
    assert label_name(name, WITH) == label


def _request(*metrics: Metric, **resource: str) -> bytes:
    request = ExportMetricsServiceRequest()
    found = request.resource_metrics.add()
    for name, value in resource.items():
        found.resource.attributes.add(key=name.replace("_", ".")).value.string_value = value
    found.scope_metrics.add().metrics.extend(metrics)
    return request.SerializeToString()


def _values(parsed: OtlpItems) -> dict[str, list[tuple[dict[str, str], float]]]:
    found = {}
    for rows in parsed.rows:
        tags = rows.read_tags().to_pylist()
        values = rows.fields["tsdb_value"].to_pylist()
        found[rows.table] = [
            ({name: text for name, text in tags[series].items() if text is not None}, value)
            for series, value in zip(rows.series_index.tolist(), values, strict=True)
        ]
    return found


def test_a_summary_becomes_quantiles_a_sum_and_a_count() -> None:
    metric = Metric(name="latency")
    point = metric.summary.data_points.add(time_unix_nano=5_999_999, count=4, sum=10.0)
    point.quantile_values.add(quantile=0.5, value=2.0)
    point.quantile_values.add(quantile=0.99, value=4.0)
    parsed = parse_metrics(_request(metric))
    assert _values(parsed) == {
        "latency": [({"quantile": "0.5"}, 2.0), ({"quantile": "0.99"}, 4.0)],
        "latency_sum": [({}, 10.0)],
        "latency_count": [({}, 4.0)],
    }
    assert {rows.times.tolist()[0] for rows in parsed.rows} == {5}
    assert parsed.items == 1


def test_resource_attributes_are_dropped_unless_they_name_the_service() -> None:
    metric = Metric(name="up")
    metric.gauge.data_points.add(time_unix_nano=1_000_000, as_int=1)
    body = _request(metric, service_name="shop", host_arch="arm")
    assert _values(parse_metrics(body))["up"] == [({"service_name": "shop", "job": "shop"}, 1.0)]
    promoted = parse_metrics(body, MetricOptions(promoted=frozenset({"host.arch"})))
    assert _values(promoted)["up"][0][0]["host_arch"] == "arm"


def test_attributes_that_become_the_same_label_share_it() -> None:
    metric = Metric(name="up")
    point = metric.gauge.data_points.add(time_unix_nano=1_000_000, as_int=1)
    point.attributes.add(key="a_b").value.string_value = "2"
    point.attributes.add(key="a.b").value.bool_value = True
    assert _values(parse_metrics(_request(metric)))["up"] == [({"a_b": "true;2"}, 1.0)]


def test_a_point_without_a_recorded_value_is_the_stale_marker_bit_by_bit() -> None:
    metric = Metric(name="up")
    metric.gauge.data_points.add(time_unix_nano=1_000_000, flags=1)
    (rows,) = parse_metrics(_request(metric)).rows
    assert np.asarray(rows.fields["tsdb_value"]).view(np.uint64).tolist() == [0x7FF0000000000002]


def test_a_histogram_that_contradicts_itself_is_refused_whole() -> None:
    metric = Metric(name="h")
    metric.histogram.data_points.add(time_unix_nano=1, count=3, bucket_counts=[1, 2], explicit_bounds=[1.0, 2.0])
    metric.histogram.data_points.add(time_unix_nano=1, count=4, bucket_counts=[1, 2], explicit_bounds=[1.0])
    metric.histogram.data_points.add(time_unix_nano=1, count=3, bucket_counts=[1, 1, 1], explicit_bounds=[2.0, 1.0])
    parsed = parse_metrics(_request(metric))
    assert parsed.rows == []
    assert [each.place for each in parsed.rejections] == [0, 1, 2]
    assert "2 bounds and 2 buckets, expected 3" in parsed.rejections[0].reason
    assert "hold 3 values, its count is 4" in parsed.rejections[1].reason
    assert "are not ascending" in parsed.rejections[2].reason


def test_buckets_of_an_exponential_histogram_end_where_its_scale_says() -> None:
    point = ExponentialHistogramDataPoint(scale=0, zero_count=1, count=10)
    point.positive.offset = 1
    point.positive.bucket_counts.extend([2, 3])
    point.negative.offset = 0
    point.negative.bucket_counts.extend([3, 1])
    assert list(exponential_buckets(point)) == [
        ("-2", 1),
        ("-1", 4),
        ("0", 5),
        ("2", 5),
        ("4", 7),
        ("8", 10),
        ("+Inf", 10),
    ]


def test_a_side_without_values_has_no_bounds() -> None:
    point = ExponentialHistogramDataPoint(scale=0, count=2)
    point.positive.bucket_counts.append(2)
    point.negative.bucket_counts.append(0)
    assert list(exponential_buckets(point)) == [("0", 0), ("1", 0), ("2", 2), ("+Inf", 2)]


@given(
    values=st.lists(st.floats(1e-6, 1e6) | st.floats(-1e6, -1e-6) | st.just(0.0), max_size=30),
    scale=st.integers(-2, 4),
)
def test_exponential_buckets_count_every_value_under_its_bounds(values: list[float], scale: int) -> None:
    point = ExponentialHistogramDataPoint(scale=scale, count=len(values), zero_count=values.count(0.0))
    base = 2.0 ** (2.0**-scale)
    for side, members in (
        (point.positive, [v for v in values if v > 0]),
        (point.negative, [-v for v in values if v < 0]),
    ):
        indexes = [math.ceil(math.log(v, base)) - 1 for v in members]
        if indexes:
            side.offset = min(indexes)
            side.bucket_counts.extend(indexes.count(i) for i in range(min(indexes), max(indexes) + 1))
    buckets = list(exponential_buckets(point))
    bounds = [math.inf if text == "+Inf" else float(text) for text, _ in buckets]
    assert bounds == sorted(set(bounds))
    for bound, (_, count) in zip(bounds, buckets, strict=True):
        # Values at a bound fall on either side of it, as the rounding of their logarithm has it.
        certain = sum(v < bound and not math.isclose(v, bound, rel_tol=1e-9) for v in values)
        possible = sum(v <= bound or math.isclose(v, bound, rel_tol=1e-9) for v in values)
        assert certain <= count <= possible


@given(st.integers(-(2**31), 2**31 - 1), st.integers(-(2**31), 2**31 - 1))
def test_no_scale_or_offset_breaks_the_parser(scale: int, offset: int) -> None:
    metric = Metric(name="h")
    point = metric.exponential_histogram.data_points.add(time_unix_nano=1, scale=scale, count=1)
    point.positive.offset = offset
    point.positive.bucket_counts.append(1)
    for is_native in (True, False):
        parsed = parse_metrics(_request(metric), MetricOptions(has_native_histograms=is_native))
        assert bool(parsed.rows) != bool(parsed.rejections)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_the_text_of_a_bound_is_the_bound(bound: float) -> None:
    text = bound_text(bound)
    assert float(text) == bound
    assert "e" not in text


@given(st.binary(max_size=200))
def test_any_bytes_are_metrics_or_refused(body: bytes) -> None:
    with suppress(InvalidSyntax):
        assert parse_metrics(body).items >= 0


def test_values_that_are_nested_too_deep_are_refused() -> None:
    request = ExportMetricsServiceRequest()
    value = request.resource_metrics.add().resource.attributes.add(key="deep").value
    for _ in range(40):
        value = value.array_value.values.add()
    with pytest.raises(TsdbError, match="nested more than 32 deep"):
        parse_metrics(request.SerializeToString())


def test_the_stale_marker_is_the_one_of_prometheus() -> None:
    from tsdb.ingest.otlp._metrics import STALE

    assert struct.pack(">d", STALE).hex() == "7ff0000000000002"


@pytest.mark.parametrize(
    ("unit", "words"),
    [("", ""), ("1", ""), ("ms", "milliseconds"), ("By/s", "bytes_per_second"), ("{req}", ""), ("USD", "USD")],
)
def test_units_are_described_in_words(unit: str, words: str) -> None:
    assert unit_words(unit) == words
