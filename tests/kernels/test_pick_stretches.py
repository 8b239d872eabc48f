"""`pick_stretches` against a loop over series."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tsdb._kernels import pick_stretches

TIMES = st.integers(-20, 20) | st.integers(-(2**63), 2**63 - 1)


@given(
    st.lists(st.tuples(st.integers(1, 5), TIMES, TIMES), max_size=8),
    st.lists(st.integers(0, 7), unique=True),
    TIMES,
    TIMES,
)
def test_series_are_left_whose_times_reach_into_the_range(
    series: list[tuple[int, int, int]], chosen: list[int], first: int, last: int
) -> None:
    chosen = sorted(each for each in chosen if each < len(series))
    offsets = np.cumsum([0, *(rows for rows, _, _ in series)])
    low = np.array([min(times) for _, *times in series], dtype=np.int64)
    high = np.array([max(times) for _, *times in series], dtype=np.int64)
    found, span = pick_stretches(np.array(chosen, dtype=np.int64), offsets, low, high, first, last)
    left = [each for each in chosen if high[each] >= first and low[each] <= last]
    wanted = [[each, offsets[each], offsets[each + 1], low[each], high[each]] for each in left]
    assert np.frombuffer(found, np.int64).reshape(5, -1).T.tolist() == wanted
    assert span == ((min(low[left]), max(high[left])) if left else None)


def test_series_that_there_are_not_are_refused() -> None:
    one = np.array([1])
    for chosen in (1, -1):
        with pytest.raises(ValueError, match=f"there is no series {chosen}"):
            pick_stretches(np.array([chosen]), np.array([0, 5]), one, one, 0, 9)
    with pytest.raises(ValueError, match="a stretch and a span of time for each series"):
        pick_stretches(np.array([0]), np.array([0]), one, one, 0, 9)
