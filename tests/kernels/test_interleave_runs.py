"""`interleave_runs`: pieces of series laid out series by series."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tsdb import _kernels

Piece = dict[int, list[int]]


def interleave(pieces: list[Piece], series: int, kind: pa.DataType) -> pa.Array:
    offsets = np.zeros(series + 1, np.int64)
    for piece in pieces:
        for place, values in piece.items():
            offsets[place + 1] += len(values)
    return pa.array(
        _kernels.interleave_runs(
            [
                pa.array([value for values in piece.values() for value in values], pa.int64()).cast(kind)
                for piece in pieces
            ],
            [pa.array(list(piece), pa.int64()) for piece in pieces],
            [pa.array([len(values) for values in piece.values()], pa.int64()) for piece in pieces],
            pa.array(np.cumsum(offsets)),
        )
    )


PIECES = st.lists(
    st.dictionaries(st.integers(0, 9), st.lists(st.integers(-5, 5), max_size=4), max_size=8),
    min_size=1,
    max_size=6,
)


@given(PIECES, st.sampled_from([pa.float64(), pa.int64(), pa.timestamp("ns")]))
def test_rows_of_a_series_follow_each_other_in_the_order_of_pieces(pieces: list[Piece], kind: pa.DataType) -> None:
    pieces = [dict(sorted(piece.items())) for piece in pieces]
    expected = [value for place in range(10) for piece in pieces for value in piece.get(place, [])]
    assert interleave(pieces, 10, kind).to_pylist() == pa.array(expected, pa.int64()).cast(kind).to_pylist()


def test_a_chunk_may_be_a_slice_of_a_longer_one() -> None:
    whole = pa.array([9.0, 1.0, 2.0, 9.0])
    ones = pa.array([0], pa.int64()), pa.array([2], pa.int64())
    found = _kernels.interleave_runs([whole.slice(1, 2)], [ones[0]], [ones[1]], pa.array([0, 2]))
    assert pa.array(found).to_pylist() == [1.0, 2.0]


@pytest.mark.parametrize(
    ("chunk", "place", "count", "offsets", "message"),
    [
        ([1.0], [0], [2], [0, 1], "the counts exceed a chunk"),
        ([1.0, 2.0], [0], [1], [0, 2], "the counts do not cover a chunk"),
        ([1.0], [1], [1], [0, 1], "there is no such place"),
        ([1.0], [-1], [1], [0, 1], "there is no such place"),
        ([1.0], [0], [-1], [0, 1], "a count is negative"),
        ([1.0, 2.0], [0], [2], [0, 1, 2], "more rows than its offsets say"),
        ([1.0], [0], [1], [0, 2], "the chunks have 1 rows, the offsets 2"),
        ([1.0], [0], [1], [1, 1], "offsets do not ascend from 0"),
        ([1.0], [0, 1], [1], [0, 1], "2 places, but 1 counts"),
    ],
)
def test_what_does_not_fit_is_refused(
    chunk: list[float], place: list[int], count: list[int], offsets: list[int], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        _kernels.interleave_runs([pa.array(chunk)], [pa.array(place)], [pa.array(count)], pa.array(offsets))


def test_values_that_are_null_or_of_another_size_are_refused() -> None:
    one = [pa.array([0], pa.int64())], [pa.array([1], pa.int64())], pa.array([0, 1])
    with pytest.raises(ValueError, match="is null"):
        _kernels.interleave_runs([pa.array([None], pa.float64())], *one)
    with pytest.raises(TypeError, match="expected values of 8 bytes"):
        _kernels.interleave_runs([pa.array([1], pa.int32())], *one)
    with pytest.raises(ValueError, match="there are no chunks"):
        _kernels.interleave_runs([], [], [], pa.array([0]))
