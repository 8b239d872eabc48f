"""`time_slices` against a loop over the rows."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tsdb._kernels import time_slices

EXTREMES = st.sampled_from([-(2**63), -1, 0, 1, 2**63 - 1])
TIMES = st.integers(-10, 10) | EXTREMES


def slices_of(offsets: Any, ts: Any, first: int, last: int) -> list[tuple[int, int]]:
    starts, stops = time_slices(offsets, ts, first, last)
    return list(zip(pa.array(starts, pa.int64()).to_pylist(), pa.array(stops, pa.int64()).to_pylist(), strict=True))


@given(st.lists(st.lists(TIMES, max_size=8).map(sorted), max_size=6), TIMES, TIMES)
def test_slices_hold_the_rows_in_the_range(row_ranges: list[list[int]], first: int, last: int) -> None:
    offsets = [0]
    for row_range in row_ranges:
        offsets.append(offsets[-1] + len(row_range))
    times = [time for row_range in row_ranges for time in row_range]
    found = slices_of(pa.array(offsets, pa.int64()), pa.array(times, pa.int64()), first, last)
    assert len(found) == len(row_ranges)
    for (start, stop), low, high in zip(found, offsets, offsets[1:], strict=False):
        assert low <= start <= stop <= high
        assert list(range(start, stop)) == [row for row in range(low, high) if first <= times[row] <= last]


def test_timestamps_and_slices_of_arrays_are_read() -> None:
    times = pa.array([9, 1, 2, 3, 4]).cast(pa.timestamp("ms"))[1:]
    assert slices_of(pa.array([7, 0, 2, 4])[1:], times, 2, 3) == [(1, 2), (2, 3)]


@pytest.mark.parametrize("offsets", [[0, 3, 2], [0, 5], [-1, 2]])
def test_offsets_that_do_not_fit_the_rows_are_refused(offsets: list[int]) -> None:
    with pytest.raises(ValueError, match="offsets"):
        time_slices(pa.array(offsets), pa.array([1, 2, 3, 4]), 0, 1)
