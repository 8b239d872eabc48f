"""The windows of an export: they cover the times of the table without gap or overlap, and have about as many rows."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tsdb.cli.transfer.exports._windows import windows_by_length, windows_by_rows

_TIMES = st.lists(
    st.integers(-(2**63), 2**63 - 1) | st.integers(1_700_000_000_000, 1_700_000_000_050), min_size=1, max_size=60
)


@given(times=_TIMES, rows_max=st.integers(1, 20))
def test_windows_by_rows_cover_everything_with_no_more_rows_than_wanted(times: list[int], rows_max: int) -> None:
    times.sort()

    def count(first: int, last: int) -> int:
        return bisect_right(times, last) - bisect_left(times, first)

    windows = list(windows_by_rows(times[0], times[-1], len(times), rows_max=rows_max, count=count))
    assert (windows[0][0], windows[-1][1]) == (times[0], times[-1])
    assert all(last + 1 == first for (_, last), (first, _) in pairwise(windows))
    assert all(count(first, last) <= rows_max or first == last for first, last in windows)
    pairs = pairwise(windows)
    assert all(count(first, last) > rows_max for (first, _), (_, last) in pairs), "no two could be one"


@given(first=st.integers(-(2**63), 2**63 - 1), extra=st.integers(0, 500), length=st.integers(1, 100))
def test_windows_of_a_length_cover_everything(first: int, extra: int, length: int) -> None:
    windows = list(windows_by_length(first, first + extra, length))
    times = [time for start, stop in windows for time in range(start, stop + 1)]
    assert times == list(range(first, first + extra + 1))
    assert {stop - start + 1 for start, stop in windows[:-1]} <= {length}


def test_counts_that_change_meanwhile_leave_no_gap() -> None:
    windows = list(windows_by_rows(0, 99, 1000, rows_max=10, count=lambda _first, _last: 0))
    assert (windows[0][0], windows[-1][1]) == (0, 99)
    assert all(last + 1 == first for (_, last), (first, _) in pairwise(windows))
