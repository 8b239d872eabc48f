"""Native histograms: messages into their stored form and back, and what is refused."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given

from tests.ingest.native_histograms import CUSTOM, request_of, valid, whole
from tests.ingest.prometheus_messages import messages
from tsdb import _kernels

NAMED = {"__name__": "latency", "job": "api"}


def store(*histograms: Any, version: int = 1) -> _kernels.RemoteWriteBatch:
    parser = _kernels.RemoteWriteParser(is_strict=True, series_max=100, bytes_max=1 << 20)
    return parser.parse(request_of(NAMED, *histograms, version=version).SerializeToString(), version=version)


def read_back(times: list[int], stored: list[bytes | None], values: list[float]) -> Any:
    encoded = _kernels.encode_read_result(
        "latency",
        pa.array(["job\x01api\x00"]),
        pa.array([0, len(times)]),
        pa.array(times, pa.int64()),
        pa.array(values, pa.float64()),
        pa.array(stored, pa.binary()),
    )
    (series,) = messages["QueryResult"].FromString(encoded).timeseries
    return series


@given(valid())
def test_a_histogram_is_read_back_as_it_was_written(histogram: Any) -> None:
    for version in (1, 2):
        batch = store(histogram, version=version)
        times, stored = pa.array(batch.histogram_times).to_pylist(), pa.array(batch.histograms).to_pylist()
        (found,) = read_back(times, stored, [float("nan")]).histograms
        # As bytes, because a sum that is not a number is equal to nothing.
        assert found.SerializeToString(deterministic=True) == histogram.SerializeToString(deterministic=True)


def test_samples_of_both_kinds_of_one_series_are_read_back() -> None:
    (stored,) = pa.array(store(whole(1, 2)).histograms).to_pylist()
    series = read_back([1, 2, 3], [None, stored, None], [1.5, float("nan"), 2.5])
    assert [(sample.timestamp, sample.value) for sample in series.samples] == [(1, 1.5), (3, 2.5)]
    assert [histogram.timestamp for histogram in series.histograms] == [2]


def test_the_series_of_a_histogram_is_told_by_index_and_place() -> None:
    floats = [("__name__", "m")], [(1, 1.0)]
    request = request_of(NAMED, whole(1), whole(2, time=2000), floats=floats)
    parser = _kernels.RemoteWriteParser(is_strict=True, series_max=100, bytes_max=1 << 20)
    batch = parser.parse(request.SerializeToString(), version=1)
    assert pa.array(batch.histogram_index).to_pylist() == [1, 1]
    assert pa.array(batch.histogram_places).to_pylist() == [1, 1]
    assert pa.array(batch.histogram_times).to_pylist() == [1000, 2000]


@pytest.mark.parametrize("cut", range(0, 84, 7))
def test_bytes_that_are_no_histogram_are_not_read_back(cut: int) -> None:
    (stored,) = pa.array(store(whole(1, 2)).histograms).to_pylist()
    assert len(stored) == 84
    with pytest.raises(ValueError, match="cut off"):
        read_back([1], [stored[:cut]], [0.0])


def test_bytes_around_a_histogram_are_not_read_back() -> None:
    (stored,) = pa.array(store(whole(1, 2)).histograms).to_pylist()
    with pytest.raises(ValueError, match="bytes follow the end"):
        read_back([1], [stored + b"\x00"], [0.0])
    with pytest.raises(ValueError, match="begins with 9"):
        read_back([1], [b"\x09" + stored[1:]], [0.0])


def change(**fields: Any) -> Callable[[Any], None]:
    def apply(histogram: Any) -> None:
        for name, value in fields.items():
            setattr(histogram, name, value)

    return apply


def custom(*bounds: float, offset: int = 0) -> Callable[[Any], None]:
    def apply(histogram: Any) -> None:
        histogram.schema, histogram.zero_threshold = CUSTOM, 0
        histogram.custom_values.extend(bounds)
        histogram.positive_spans[0].offset = offset

    return apply


def add_span(histogram: Any) -> None:
    histogram.positive_spans.add(offset=-1, length=1)
    histogram.positive_deltas.append(-1)
    histogram.count_int += 1


def add_float_bucket(histogram: Any) -> None:
    histogram.negative_counts.append(1.0)


def change_bucket(histogram: Any) -> None:
    histogram.positive_deltas[1] = -2


def become_float(histogram: Any) -> None:
    del histogram.positive_deltas[:]
    histogram.positive_counts.extend([1.0, -2.0])
    histogram.count_float = 3.0


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (change(count_int=4), "the buckets of a native histogram hold 3 observations, its count is 4"),
        (change(count_int=2), "the buckets of a native histogram hold 3 observations, its count is 2"),
        (
            change(count_int=2, sum=float("nan")),
            "the buckets of a native histogram hold 3 observations, its count is 2",
        ),
        (change(schema=9), "the schema of a native histogram is 9, and none of -4 to 8 or -53"),
        (change(schema=-5), "the schema of a native histogram is -5, and none of -4 to 8 or -53"),
        (change(zero_count_float=1.0), "the zero count of a native histogram is of another kind than its count"),
        (add_span, "a positive span of a native histogram begins 1 buckets before the end of the one before it"),
        (add_float_bucket, "the negative buckets of a native histogram are of another kind than its count"),
        (become_float, "a bucket of a native histogram holds -2 observations"),
        (change_bucket, "a positive bucket of a native histogram holds -1 observations"),
        (lambda it: it.custom_values.append(1.0), "a native histogram of schema 0 has custom bounds"),
        (custom(2.0, 1.0), "the custom bounds of a native histogram do not ascend: 2 is before 1"),
        (custom(1.0, 1.0), "the custom bounds of a native histogram do not ascend: 1 is before 1"),
        (custom(1.0, float("inf")), "a custom bound of a native histogram is infinite or not a number"),
        (custom(float("nan")), "a custom bound of a native histogram is infinite or not a number"),
        (custom(), "the buckets of a native histogram with 0 custom bounds are not among its 1"),
        (custom(1.0, 2.0, offset=-1), "the buckets of a native histogram with 2 custom bounds are not among its 3"),
        (change(schema=CUSTOM), "a native histogram with custom bounds has a bucket around zero"),
    ],
)
@pytest.mark.parametrize("version", [1, 2])
def test_a_histogram_that_makes_no_sense_is_refused_with_its_series(
    damage: Callable[[Any], None], reason: str, version: int
) -> None:
    histogram = whole(1, 2)
    damage(histogram)
    told = re.escape(f'series 0: latency{{job="api"}}: {reason}')
    with pytest.raises(ValueError, match=f"^{told}$"):
        store(histogram, version=version)


def test_observations_that_are_not_a_number_are_in_no_bucket() -> None:
    histogram = whole(1, 2, total=float("nan"))
    histogram.count_int = 5
    assert len(store(histogram).histograms) == 1
