"""`cut_rows` against lists of rows: what is left has every other row once, with the times of its ends."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tsdb import _kernels

LENGTHS = st.lists(st.integers(0, 6), max_size=5)


def cut(lengths: list[int], left_out: list[int], sets_max: int = 100) -> list[list[tuple[int, ...]]] | None:
    """Cut ranges that lie end to end; the time of a row is ten times its number."""
    ends = np.cumsum([0, *lengths]).astype(np.int64)
    starts, stops, rows = ends[:-1], ends[1:], np.array(left_out, np.int64)
    around = rows, rows * 10 - 10, rows * 10 + 10
    found = _kernels.cut_rows(starts, stops, starts * 10, stops * 10 - 10, around, sets_max)
    if found is None:
        return None
    return [list(zip(*(pa.array(each).to_pylist() for each in columns), strict=True)) for columns in found]


@given(LENGTHS, st.sets(st.integers(0, 30)))
def test_every_other_row_is_left_once(lengths: list[int], left_out: set[int]) -> None:
    sets = cut(lengths, sorted(left_out))
    assert sets is not None
    ends = np.cumsum([0, *lengths]).tolist()
    found = []
    for ranges in sets:
        assert all(one[0] < other[0] for one, other in pairwise(ranges)), "a series is in a set once"
        for place, start, stop, first, last in ranges:
            assert ends[place] <= start < stop <= ends[place + 1]
            assert (first, last) == (start * 10, stop * 10 - 10)
            found += range(start, stop)
    assert sorted(found) == sorted(set(range(ends[-1])) - left_out)


def test_rows_in_a_line_are_one_hole() -> None:
    assert cut([6, 2], [2, 3]) == [[(0, 0, 2, 0, 10), (1, 6, 8, 60, 70)], [(0, 4, 6, 40, 50)]]


def test_more_sets_than_wanted_are_none() -> None:
    assert cut([5], [1, 3], sets_max=2) is None
    assert cut([5], [1], sets_max=2) is not None


def test_what_does_not_fit_is_refused() -> None:
    one, two = np.zeros(1, np.int64), np.zeros(2, np.int64)
    with pytest.raises(ValueError, match="each range"):
        _kernels.cut_rows(one, two, one, one, (one, one, one), 9)
    with pytest.raises(ValueError, match="rows must"):
        _kernels.cut_rows(one, one, one, one, (one, two, one), 9)
    with pytest.raises(ValueError, match="rows must"):
        _kernels.cut_rows(one, one, one, one, (np.array([3, 1]), two, two), 9)
