"""`take_rows` against Arrow's own `take`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tsdb._kernels import SteppedTimes, take_rows

if TYPE_CHECKING:
    from tsdb._kernels import RowsKind

NARROW = (pa.int8(), pa.int16(), pa.int32(), pa.int64())
PLAIN = (pa.int8(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64(), pa.float32(), pa.float64())


@st.composite
def pieces(draw: st.DrawFn, kinds: tuple[pa.DataType, ...]) -> tuple[list[pa.Array], list[pa.Array]]:
    """Pieces of a column, some of them parts of longer arrays, and which of their rows are taken."""
    arrays, places = [], []
    for kind in kinds:
        values = draw(st.lists(st.none() | st.integers(0, 100), max_size=20))
        array = pa.array(values, kind)
        start = draw(st.integers(0, len(array)))
        arrays.append(array.slice(start))
        rows = st.integers(0, len(array) - start - 1) if start < len(array) else st.nothing()
        places.append(pa.array(draw(st.lists(rows, max_size=10)) if start < len(array) else [], pa.int64()))
    return arrays, places


@given(st.lists(st.sampled_from(NARROW), min_size=1, max_size=4).flatmap(lambda kinds: pieces(tuple(kinds))))
def test_integers_of_any_width_come_as_the_widest(given: tuple[list[pa.Array], list[pa.Array]]) -> None:
    arrays, places = given
    (found,) = take_rows([arrays], places, ["int64"])
    wanted = pa.concat_arrays([array.take(own).cast(pa.int64()) for array, own in zip(arrays, places, strict=True)])
    assert pa.array(found) == wanted


@given(st.sampled_from(PLAIN).flatmap(lambda kind: pieces((kind, kind))))
def test_other_columns_keep_their_type(given: tuple[list[pa.Array], list[pa.Array]]) -> None:
    arrays, places = given
    found = take_rows([arrays, arrays], places, ["own", "own"])
    wanted = pa.concat_arrays([array.take(own) for array, own in zip(arrays, places, strict=True)])
    assert [pa.array(each) for each in found] == [wanted, wanted]


@given(
    st.lists(st.sampled_from((*NARROW, pa.float64())), min_size=1, max_size=4).flatmap(
        lambda kinds: pieces(tuple(kinds))
    )
)
def test_whole_doubles_that_are_held_as_integers_come_as_doubles(given: tuple[list[pa.Array], list[pa.Array]]) -> None:
    arrays, places = given
    (found,) = take_rows([arrays], places, ["float64"])
    wanted = pa.concat_arrays([array.take(own).cast(pa.float64()) for array, own in zip(arrays, places, strict=True)])
    assert pa.array(found) == wanted


def test_times_come_as_their_numbers() -> None:
    times = pa.array([1, 2, 3], pa.timestamp("ms"))
    stepped = SteppedTimes.pack(times)
    assert stepped is not None
    kinds: tuple[RowsKind, ...] = ("own", "int64")
    for kind in kinds:
        for held in (times, stepped):
            (found,) = take_rows([[held]], [pa.array([2, 0])], [kind])
            assert pa.array(found).to_pylist() == [3, 1]


def test_what_does_not_fit_is_refused() -> None:
    numbers, texts = pa.array([1, 2]), pa.array(["a", "b"])
    for row in (2, -1):
        with pytest.raises(ValueError, match="outside of 2 rows"):
            take_rows([[numbers]], [pa.array([row])], ["own"])
    with pytest.raises(ValueError, match="2 pieces, expected 1"):
        take_rows([[numbers, numbers]], [pa.array([0])], ["own"])
    with pytest.raises(ValueError, match="one for each column"):
        take_rows([[numbers]], [pa.array([0])], [])
    with pytest.raises(TypeError, match="is no number"):
        take_rows([[texts]], [pa.array([0])], ["own"])
    with pytest.raises(TypeError, match="no integer with a sign"):
        take_rows([[pa.array([1.0])]], [pa.array([0])], ["int64"])
    with pytest.raises(TypeError, match="are no doubles"):
        take_rows([[pa.array([1], pa.uint8())]], [pa.array([0])], ["float64"])
    with pytest.raises(ValueError, match="wide is not known"):
        take_rows([[numbers]], [pa.array([0])], ["wide"])  # type: ignore[list-item]
    with pytest.raises(TypeError, match="pieces of"):
        take_rows([[numbers, pa.array([1.0])]], [pa.array([0]), pa.array([0])], ["own"])
