"""Exponential histograms of OpenTelemetry as native histograms of Prometheus, in the stored form of these.

Both have the same buckets: scale and schema are one, and bucket i of OpenTelemetry is bucket i + 1 of Prometheus. A
scale that is finer than the finest schema is made coarser, which is exact: each step makes one bucket of two.
`kernels/src/ingest/remote_write/histogram.rs` describes the stored form.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import groupby
from math import nan

from opentelemetry.proto.metrics.v1.metrics_pb2 import ExponentialHistogramDataPoint

from tsdb.errors import InvalidArguments

SCHEMA_MIN, SCHEMA_MAX = -4, 8

_HEAD = struct.Struct("<4Bi2d2Q")
_SPAN = struct.Struct("<iI")
_LENGTH = struct.Struct("<I")
_FORM = 1
_HINT_UNKNOWN, _HINT_GAUGE = 0, 3
_GAP_MAX = 2
"""Up to so many empty buckets between others cost less than another span."""
_INDEX_MAX = (1 << 31) - 2
_COUNT_MAX = (1 << 63) - 1


def native_histogram(point: ExponentialHistogramDataPoint, *, is_delta: bool) -> bytes:
    """Return a data point as a stored native histogram; one of differences says so by not being a counter."""
    if not point.scale >= SCHEMA_MIN:
        raise InvalidArguments(f"the scale {point.scale} of the histogram is below {SCHEMA_MIN}, the coarsest there is")
    held = sum(point.positive.bucket_counts) + sum(point.negative.bucket_counts) + point.zero_count
    if held != point.count:
        raise InvalidArguments(f"the buckets of the histogram hold {held} values, its count is {point.count}")
    if held > _COUNT_MAX:
        raise InvalidArguments(f"the histogram counts {held} values, more than {_COUNT_MAX}")
    schema = min(point.scale, SCHEMA_MAX)
    total = point.sum if point.HasField("sum") else nan
    hint = _HINT_GAUGE if is_delta else _HINT_UNKNOWN
    head = _HEAD.pack(_FORM, 0, hint, 0, schema, point.zero_threshold, total, point.count, point.zero_count)
    sides = (_side(side, point.scale - schema) for side in (point.positive, point.negative))
    return b"".join((head, *sides, _LENGTH.pack(0)))


def end_of_series(mark: float) -> bytes:
    """Return the histogram that says that its series has ended."""
    return _HEAD.pack(_FORM, 0, _HINT_UNKNOWN, 0, 0, 0.0, mark, 0, 0) + bytes(5 * _LENGTH.size)


def _side(side: ExponentialHistogramDataPoint.Buckets, steps: int) -> bytes:
    """Return the spans and buckets of one side, made coarser by so many steps."""
    spans, deltas = [], []
    end = last = 0
    for start, counts in _stretches(side, steps):
        spans.append(_SPAN.pack(start - end, len(counts)))
        for count in counts:
            deltas.append(count - last)
            last = count
        end = start + len(counts)
    packed = struct.pack(f"<I{len(deltas)}q", len(deltas), *deltas)
    return b"".join((_LENGTH.pack(len(spans)), *spans, packed))


def _stretches(side: ExponentialHistogramDataPoint.Buckets, steps: int) -> Iterator[tuple[int, list[int]]]:
    """Yield where buckets begin that follow each other, and their counts; first and last are not empty."""
    start, counts = 0, list[int]()
    for index, count in _merged(side, steps):
        gap = index - start - len(counts)
        if counts and gap > _GAP_MAX:
            yield start, counts
            counts = []
        if counts:
            counts.extend([0] * gap)
        else:
            start = index
        counts.append(count)
    if counts:
        yield start, counts


def _merged(side: ExponentialHistogramDataPoint.Buckets, steps: int) -> Iterator[tuple[int, int]]:
    """Yield the buckets that are not empty, by their index in Prometheus."""
    places = ((side.offset + at >> steps) + 1 for at in range(len(side.bucket_counts)))
    for index, members in groupby(zip(places, side.bucket_counts, strict=True), lambda pair: pair[0]):
        count = sum(count for _, count in members)
        if not count:
            continue
        if abs(index) > _INDEX_MAX:
            raise InvalidArguments(f"the bucket {index} of the histogram is out of range")
        yield index, count
