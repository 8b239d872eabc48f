"""`contested_spans` against a walk over all series: no time that two sources may both have is missing."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tsdb import _kernels

Part = tuple[dict[int, tuple[int, int]], tuple[int, int]]
"""From when to when a source has rows of each series, and which times count."""

SPANS = st.tuples(st.integers(0, 20), st.integers(0, 8)).map(lambda each: (each[0], each[0] + each[1]))
PARTS = st.lists(st.tuples(st.dictionaries(st.integers(0, 6), SPANS, max_size=6), SPANS), max_size=4)


def find(parts: list[Part]) -> tuple[int, dict[int, set[int]]] | None:
    """Return how many series there are, and the contested times of each."""
    hashed = []
    for spans, (first, last) in parts:
        series = np.array(list(spans), np.uint64)
        bounds = np.array(list(spans.values()), np.int64).reshape(-1, 2)
        # Series that differ in one of both hashes only are different.
        low, high = np.ascontiguousarray(bounds[:, 0]), np.ascontiguousarray(bounds[:, 1])
        hashed.append((series // 2, series % 2, low, high, first, last))
    found = _kernels.contested_spans(hashed)
    if found is None:
        return None
    columns, count, numbers = found
    own = [pa.array(each).to_pylist() for each in numbers] or [list(range(count))] * len(parts)
    names = {number: name for (spans, _), places in zip(parts, own, strict=True)
             for name, number in zip(spans, places, strict=True)}  # fmt: skip
    times: dict[int, set[int]] = {}
    for first, last, number in zip(*(pa.array(each).to_pylist() for each in columns), strict=True):
        times.setdefault(names[number], set()).update(range(first, last + 1))
    return count, times


def clipped(part: Part) -> Iterator[tuple[int, range]]:
    spans, (first, last) = part
    for series, (low, high) in spans.items():
        yield series, range(max(low, first), min(high, last) + 1)


@given(PARTS)
def test_what_two_sources_may_have_is_contested(parts: list[Part]) -> None:
    shared: dict[int, set[int]] = {}
    for one, other in combinations([dict(clipped(part)) for part in parts], 2):
        for series in one.keys() & other.keys():
            if both := set(one[series]) & set(other[series]):
                shared.setdefault(series, set()).update(both)
    found = find(parts)
    times = {} if found is None else found[1]
    assert times == within_hulls(parts)
    assert all(times[series] >= shared[series] for series in shared)
    if found is not None:
        assert found[0] == len(set().union(*(spans for spans, _ in parts)))


def within_hulls(parts: list[Part]) -> dict[int, set[int]]:
    """Return the times of each series that are between the first and the last one of earlier sources."""
    hulls: dict[int, set[int]] = {}
    contested: dict[int, set[int]] = {}
    for part in parts:
        for series, span in clipped(part):
            if not span:
                continue
            hull = hulls.get(series, set())
            if both := set(span) & hull:
                contested.setdefault(series, set()).update(both)
            everything = {*span, *hull}
            hulls[series] = set(range(min(everything), max(everything) + 1))
    return contested


def test_spans_are_compared_with_the_hull_of_all_earlier_ones() -> None:
    everything = (0, 100)
    parts: list[Part] = [({1: (0, 2)}, everything), ({1: (8, 9)}, everything), ({1: (4, 5)}, everything)]
    assert find(parts) == (1, {1: {4, 5}})


def test_columns_of_different_lengths_are_refused() -> None:
    two, three = np.zeros(2, np.uint64), np.zeros(3, np.int64)
    with pytest.raises(ValueError, match="each series"):
        _kernels.contested_spans([(two, two, three, three, 0, 1)])
