"""`sort_keys` against numpy's lexicographic sort."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tsdb._kernels import sort_keys

Column = npt.NDArray[Any]


def order_of(series: Column, ts: Column, sequence: Column | None = None) -> list[int]:
    arrays = [pa.array(column) for column in (series, ts, sequence) if column is not None]
    result = pa.array(sort_keys(*arrays), pa.uint32())
    result.validate(full=True)
    return cast("list[int]", result.to_pylist())


def reference(series: Column, ts: Column, sequence: Column | None = None) -> list[int]:
    keys = (ts, series) if sequence is None else (sequence, ts, series)
    return [int(row) for row in np.lexsort(keys)]


def assert_sorts(series: Column, ts: Column, sequence: Column | None = None) -> None:
    assert order_of(series, ts, sequence) == reference(series, ts, sequence)
    assert order_of(series, ts) == reference(series, ts)


FEW_OR_ANY_SERIES = st.one_of(
    st.integers(0, 3),
    # Hashes that agree in their leading bits, which is what packing may drop the rest of.
    st.sampled_from([0, 1, 2, 2**63, 2**63 + 1, 2**63 + 2, 2**64 - 2, 2**64 - 1]),
    st.integers(0, 2**64 - 1),
)
FEW_OR_ANY_TS = st.one_of(st.integers(0, 5), st.integers(-(2**63), 2**63 - 1))
FEW_OR_ANY_SEQUENCE = st.one_of(st.integers(0, 5), st.integers(0, 2**64 - 1))
ROWS = st.lists(st.tuples(FEW_OR_ANY_SERIES, FEW_OR_ANY_TS, FEW_OR_ANY_SEQUENCE), max_size=60)


def columns_of(rows: list[tuple[int, int, int]]) -> tuple[Column, Column, Column]:
    return (
        np.array([row[0] for row in rows], np.uint64),
        np.array([row[1] for row in rows], np.int64),
        np.array([row[2] for row in rows], np.uint64),
    )


@given(ROWS)
def test_any_rows_are_ordered_as_numpy_orders_them(rows: list[tuple[int, int, int]]) -> None:
    assert_sorts(*columns_of(rows))


@given(ROWS)
def test_rows_with_growing_sequence_are_ordered_as_numpy_orders_them(rows: list[tuple[int, int, int]]) -> None:
    series, ts, _ = columns_of(rows)
    growing = np.arange(len(rows), dtype=np.uint64)
    assert_sorts(series, ts, growing)
    assert_sorts(series, np.sort(ts), growing)
    assert_sorts((series % np.uint64(5)).astype(np.uint32), ts, growing)


@given(st.lists(ROWS, min_size=2, max_size=5))
def test_sorted_runs_behind_each_other_are_merged(runs: list[list[tuple[int, int, int]]]) -> None:
    assert_sorts(*columns_of([row for run in runs for row in sorted(run)]))


@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.lists(st.tuples(st.integers(0, 9), st.integers(0, 3)), min_size=4, max_size=9)),
        max_size=8,
    )
)
def test_overlapping_spans_of_one_series_are_untied(spans: list[tuple[int, list[tuple[int, int]]]]) -> None:
    assert_sorts(*columns_of([(series, *place) for series, places in spans for place in sorted(places)]))


@given(ROWS, st.integers(0, 5), st.integers(0, 5))
def test_a_slice_is_ordered_by_its_own_row_numbers(rows: list[tuple[int, int, int]], before: int, after: int) -> None:
    columns = columns_of(rows)
    end = max(before, len(rows) - after)
    sliced = [pa.array(column)[before:end] for column in columns]
    series, ts, sequence = (column[before:end] for column in columns)
    assert pa.array(sort_keys(*sliced), pa.uint32()).to_pylist() == reference(series, ts, sequence)


@pytest.mark.parametrize("series_count", [1, 7, 1000, 50_000])
@pytest.mark.parametrize("span", [10, 3600 * 10**6, 365 * 86400 * 10**9])
def test_many_rows_in_many_shapes(series_count: int, span: int) -> None:
    rows = 50_000
    random = np.random.default_rng(series_count)
    ids = random.integers(0, 2**64, series_count, dtype=np.uint64)
    series = ids[random.integers(0, series_count, rows)]
    ts = random.integers(-span, span, rows)
    growing = np.arange(rows, dtype=np.uint64)
    assert_sorts(series, ts, growing)
    assert_sorts(series, ts, random.permutation(rows).astype(np.uint64))
    assert_sorts(series, np.sort(ts), growing)
    ten_runs = np.concatenate([part[np.lexsort((ts[part], series[part]))] for part in np.array_split(growing, 10)])
    assert_sorts(series[ten_runs], ts[ten_runs], growing)
    in_order = np.lexsort((ts, series))
    assert_sorts(series[in_order], ts[in_order], growing)


def test_series_that_differ_in_their_low_bits_only_are_told_apart() -> None:
    rows = 5000
    random = np.random.default_rng(3)
    series = random.integers(0, 3, rows).astype(np.uint64) + np.uint64(2**63)
    series[0] = 0
    assert_sorts(series, np.arange(rows), np.arange(rows, dtype=np.uint64))
    assert_sorts(series, random.integers(-(2**62), 2**62, rows), random.integers(0, 2**60, rows, dtype=np.uint64))


def test_keys_too_wide_to_pack_are_compared() -> None:
    rows = 2000
    random = np.random.default_rng(4)
    ts = random.choice(np.array([-(2**63), 0, 2**63 - 1]), rows)
    sequence = random.integers(0, 2**64, rows, dtype=np.uint64)
    assert_sorts(random.integers(0, 2**64, rows, dtype=np.uint64), ts, sequence)
    assert_sorts(random.integers(0, 5, rows).astype(np.uint32), ts, sequence)


def test_rows_in_order_are_answered_with_the_identity() -> None:
    assert order_of(np.array([1, 1, 1, 2], np.uint32), np.array([5, 5, 6, 0])) == [0, 1, 2, 3]


def test_equal_keys_keep_their_order() -> None:
    assert order_of(np.array([2, 1, 2, 1], np.uint64), np.array([0, 0, 0, 0])) == [1, 3, 0, 2]


def test_no_rows_and_one_row() -> None:
    assert order_of(np.array([], np.uint64), np.array([], np.int64), np.array([], np.uint64)) == []
    assert order_of(np.array([9], np.uint32), np.array([9]), np.array([9], np.uint64)) == [0]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_timestamps_of_any_unit_are_times(unit: Any) -> None:
    ts = pa.array([2, -1, 0]).cast(pa.timestamp(unit, "UTC"))
    assert pa.array(sort_keys(pa.array([1, 1, 1], pa.uint32()), ts), pa.uint32()).to_pylist() == [1, 2, 0]


def test_wrong_columns_are_refused() -> None:
    series, ts = pa.array([1, 2], pa.uint64()), pa.array([1, 2], pa.int64())
    with pytest.raises(TypeError, match="series: expected an array of UInt32 or UInt64, received Int64"):
        sort_keys(ts, ts)
    with pytest.raises(TypeError, match="ts: expected an array of Int64 or Timestamp, received UInt64"):
        sort_keys(series, series)
    with pytest.raises(TypeError, match="sequence: expected an array of UInt64, received Int64"):
        sort_keys(series, ts, ts)
    with pytest.raises(ValueError, match="ts has 1 rows, but series has 2"):
        sort_keys(series, ts[1:])
    with pytest.raises(ValueError, match="sequence has 1 rows, but series has 2"):
        sort_keys(series, ts, series[1:])
    with pytest.raises(ValueError, match="ts: row 1 is null"):
        sort_keys(series, pa.array([1, None], pa.int64()))
    with pytest.raises(ValueError, match="series: row 0 is null"):
        sort_keys(pa.array([None, 1], pa.uint32()), ts)


def test_a_slice_that_leaves_the_nulls_out_is_accepted() -> None:
    series = pa.array([None, 2, 1], pa.uint32())[1:]
    assert pa.array(sort_keys(series, pa.array([1, 1])), pa.uint32()).to_pylist() == [1, 0]
