"""`passing_rows` against a loop over rows."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tsdb._kernels import passing_rows


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 9)), max_size=8),
    st.lists(st.sampled_from([True, False, None]), min_size=1),
    st.integers(0, 1000),
    st.integers(0, 70),
)
def test_rows_of_stretches_pass_for_which_the_mask_is_true(
    gaps: list[tuple[int, int]], pattern: list[bool | None], first: int, skipped: int
) -> None:
    starts, stops, end = [], [], first
    for gap, rows in gaps:
        starts.append(end + gap)
        end = starts[-1] + rows
        stops.append(end)
    passes = (pattern * (end - first + 1))[: end - first]
    # A part of a longer mask, whose bits do not begin with a byte.
    mask = pa.array([None, True, False] * 30 + passes, pa.bool_())[90 - skipped :][skipped:]
    rows, owners = passing_rows(mask, first, np.array(starts, np.int64), np.array(stops, np.int64))
    wanted = [
        (row, owner)
        for owner, (start, stop) in enumerate(zip(starts, stops, strict=True))
        for row in range(start, stop)
        if passes[row - first]
    ]
    found = zip(np.frombuffer(memoryview(rows), np.int64), np.frombuffer(memoryview(owners), np.int64), strict=True)
    assert list(found) == wanted


def test_stretches_outside_of_the_mask_are_refused() -> None:
    mask = pa.array([True, False])
    for start, stop in ((4, 6), (5, 8), (-1, 6)):
        with pytest.raises(ValueError, match=f"from row {start} to {stop}"):
            passing_rows(mask, 5, np.array([start]), np.array([stop]))
    with pytest.raises(ValueError, match="a stop for each start"):
        passing_rows(mask, 5, np.array([5]), np.array([6, 7]))
    with pytest.raises(TypeError, match="expected booleans, received Int64"):
        passing_rows(pa.array([1]), 0, np.array([0]), np.array([1]))
