"""`group_series` against a dictionary."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tsdb import _kernels

# Few values, and some that share their low bits, so that slots collide and pairs differ in one half only.
HASHES = st.sampled_from([0, 1, 2, 8, 16, 1 << 20, (1 << 20) + 1, 1 << 63, (1 << 64) - 1])


def reference(pairs: list[tuple[int, int]]) -> tuple[list[int], list[int]]:
    known: dict[tuple[int, int], int] = {}
    first: list[int] = []
    group = []
    for row, pair in enumerate(pairs):
        if pair not in known:
            known[pair] = len(first)
            first.append(row)
        group.append(known[pair])
    return first, group


def grouped(pairs: list[tuple[int, int]]) -> tuple[list[int], list[int]]:
    tsid = pa.array([pair[0] for pair in pairs], pa.uint64())
    check = pa.array([pair[1] for pair in pairs], pa.uint64())
    first, group = _kernels.group_series(tsid, check)
    return pa.array(first).to_pylist(), pa.array(group).to_pylist()


@given(st.lists(st.tuples(HASHES, HASHES), max_size=200))
def test_it_agrees_with_the_reference(pairs: list[tuple[int, int]]) -> None:
    assert grouped(pairs) == reference(pairs)


@given(st.lists(st.tuples(st.integers(0, (1 << 64) - 1), st.integers(0, 3)), max_size=100))
def test_it_agrees_with_the_reference_on_any_hash(pairs: list[tuple[int, int]]) -> None:
    assert grouped(pairs * 2) == reference(pairs * 2)


def test_slices_are_read_at_their_place() -> None:
    tsid = pa.array([9, 1, 1, 2], pa.uint64()).slice(1)
    check = pa.array([9, 9, 5, 5, 5], pa.uint64()).slice(2)
    first, group = _kernels.group_series(tsid, check)
    assert pa.array(first).to_pylist() == [0, 2]
    assert pa.array(group).to_pylist() == [0, 0, 1]


def test_columns_of_different_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match="check has 1 rows"):
        _kernels.group_series(pa.array([1, 2], pa.uint64()), pa.array([1], pa.uint64()))


def test_other_types_and_nulls_are_refused() -> None:
    with pytest.raises(TypeError):
        _kernels.group_series(pa.array([1], pa.int32()), pa.array([1], pa.uint64()))
    with pytest.raises(ValueError, match="null"):
        _kernels.group_series(pa.array([None], pa.uint64()), pa.array([1], pa.uint64()))


def test_a_million_rows_of_few_series_have_few_groups() -> None:
    random = np.random.default_rng(1)
    tsid = random.integers(0, 4000, 1_000_000, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    first, group = (pa.array(part).to_numpy() for part in _kernels.group_series(pa.array(tsid), pa.array(tsid)))
    assert len(first) == 4000
    assert np.array_equal(tsid[first][group], tsid)
