"""`run_boundaries` against a loop over the groups."""

from __future__ import annotations

from itertools import groupby
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tsdb._kernels import run_boundaries

TIMES = st.integers(-(2**63), 2**63 - 1)


def runs_of(series: Any, ts: Any) -> list[tuple[Any, ...]]:
    starts, ts_min, ts_max = run_boundaries(series, ts)
    columns = (pa.array(starts, pa.uint32()), pa.array(ts_min, pa.int64()), pa.array(ts_max, pa.int64()))
    return list(zip(*(column.to_pylist() for column in columns), strict=True))


def reference(rows: list[tuple[int, int]]) -> list[tuple[int, int, int]]:
    runs = []
    for _, group in groupby(enumerate(rows), key=lambda numbered: numbered[1][0]):
        numbered = list(group)
        times = [ts for _, (_, ts) in numbered]
        runs.append((numbered[0][0], min(times), max(times)))
    return runs


@given(st.lists(st.tuples(st.integers(0, 5), TIMES), max_size=40), st.booleans())
def test_runs_agree_with_the_reference(rows: list[tuple[int, int]], wide: bool) -> None:
    rows.sort(key=lambda row: row[0])
    series = pa.array([row[0] for row in rows], pa.uint64() if wide else pa.uint32())
    assert runs_of(series, pa.array([row[1] for row in rows], pa.int64())) == reference(rows)


def test_a_series_that_comes_back_starts_another_run() -> None:
    series = pa.array([7, 7, 1, 7], pa.uint64())
    assert runs_of(series, pa.array([3, 1, 5, 9])) == [(0, 1, 3), (2, 5, 5), (3, 9, 9)]


def test_the_rows_of_a_slice_are_counted_from_its_start() -> None:
    series, ts = pa.array([1, 2, 2, 3], pa.uint32()), pa.array([0, 4, 5, 6]).cast(pa.timestamp("ms"))
    assert runs_of(series[1:], ts[1:]) == [(0, 4, 5), (2, 6, 6)]


def test_no_rows_have_no_runs() -> None:
    assert runs_of(pa.array([], pa.uint64()), pa.array([], pa.int64())) == []


def test_columns_of_different_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match="ts has 2 rows, but series has 1"):
        run_boundaries(pa.array([1], pa.uint32()), pa.array([1, 2]))
