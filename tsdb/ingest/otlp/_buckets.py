"""Buckets of histograms as Prometheus counts them: under an upper bound, all values up to it.

The bounds of an exponential histogram follow from its scale: bucket i ends at base^(i+1) with base = 2^(2^-scale).
Bounds of a coarser scale are bounds of every finer one too, so series go on when a client changes its scale; only the
bounds between them come and go. Its zero bucket ends at the zero threshold, its negative buckets at -base^i.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import accumulate, pairwise
from math import inf

import numpy as np
from opentelemetry.proto.metrics.v1.metrics_pb2 import ExponentialHistogramDataPoint, HistogramDataPoint

from tsdb.errors import InvalidArguments

SCALE_MIN, SCALE_MAX = -10, 20
_EXPONENT_MAX = 1024.0
_BOUNDS_CACHED = 16_384


@lru_cache(_BOUNDS_CACHED)
def bound_text(bound: float) -> str:
    """A number as labels have it: the shortest digits that mean it, without an exponent."""
    if bound in (inf, -inf):
        return "+Inf" if bound > 0 else "-Inf"
    return str(np.format_float_positional(bound, trim="-"))


def explicit_buckets(point: HistogramDataPoint) -> Iterator[tuple[str, int]]:
    """Yield upper bounds and how many values are not above them; the last bound is +Inf."""
    bounds, counts = point.explicit_bounds, point.bucket_counts
    if counts and len(counts) != len(bounds) + 1:
        raise InvalidArguments(
            f"the histogram has {len(bounds)} bounds and {len(counts)} buckets, expected {len(bounds) + 1}"
        )
    if any(low >= high for low, high in pairwise(bounds)):
        raise InvalidArguments("the bounds of the histogram are not ascending")
    if counts and sum(counts) != point.count:
        raise InvalidArguments(f"the buckets of the histogram hold {sum(counts)} values, its count is {point.count}")
    if counts:
        for bound, count in zip(bounds, accumulate(counts), strict=False):
            yield bound_text(bound), count
    yield "+Inf", point.count


def exponential_buckets(point: ExponentialHistogramDataPoint) -> Iterator[tuple[str, int]]:
    """Yield upper bounds and how many values are not above them; the last bound is +Inf."""
    if not SCALE_MIN <= point.scale <= SCALE_MAX:
        raise InvalidArguments(f"the scale {point.scale} of the histogram is not within {SCALE_MIN} and {SCALE_MAX}")
    positive, negative = _counts(point.positive), _counts(point.negative)
    held = sum(positive) + sum(negative) + point.zero_count
    if held != point.count:
        raise InvalidArguments(f"the buckets of the histogram hold {held} values, its count is {point.count}")
    total = 0
    below = _bounds(point.scale, point.negative.offset, len(negative))
    for bound, count in zip(reversed(below[:-1]), reversed(negative), strict=True):
        total += count
        if bound > point.zero_threshold:
            yield bound_text(-bound), total
    total += point.zero_count
    yield bound_text(point.zero_threshold), total
    above = _bounds(point.scale, point.positive.offset, len(positive))
    if positive and point.zero_threshold < above[0] < inf:
        yield bound_text(above[0]), total
    for bound, count in zip(above[1:], positive, strict=True):
        total += count
        if point.zero_threshold < bound < inf:
            yield bound_text(bound), total
    yield "+Inf", point.count


def _counts(side: ExponentialHistogramDataPoint.Buckets) -> Sequence[int]:
    """The counts of one side; clients send a single empty bucket for a side that has none."""
    return side.bucket_counts if any(side.bucket_counts) else ()


def _bounds(scale: int, offset: int, buckets: int) -> Sequence[float]:
    """The bounds of adjacent buckets, one more than there are buckets."""
    return [_bound(scale, index) for index in range(offset, offset + buckets + 1)]


def _bound(scale: int, index: int) -> float:
    exponent = index * 2.0**-scale
    return inf if exponent >= _EXPONENT_MAX else float(2.0**exponent)
