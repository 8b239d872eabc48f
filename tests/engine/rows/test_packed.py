"""Packed columns come back bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tsdb.engine.rows.packed import pack_column, pack_numbers

KINDS = [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64, np.float32, np.float64]


@given(st.sampled_from(KINDS).flatmap(lambda kind: hnp.arrays(kind, st.integers(0, 300))))
def test_numbers_come_back(values: np.ndarray[Any, Any]) -> None:
    found = pack_numbers(values).unpack()
    assert found.dtype == values.dtype
    assert found.tobytes() == values.tobytes()


@pytest.mark.parametrize(
    "values",
    [
        np.array([-(1 << 63), (1 << 63) - 1, 0, -1]),
        np.array([(1 << 64) - 1, 0, 1 << 63], np.uint64),
        np.array([np.nan, -0.0, 0.0, np.inf, -np.inf, 5e-324]),
        np.arange(5000) * 10_000 + 1_700_000_000_000,
    ],
    ids=["all of int64", "all of uint64", "floats", "times"],
)
def test_extremes_come_back(values: np.ndarray[Any, Any]) -> None:
    assert pack_numbers(values).unpack().tobytes() == values.tobytes()


def test_regular_times_take_next_to_nothing() -> None:
    times = np.tile(np.arange(10) * 10_000 + 1_700_000_000_000, 3000)
    assert pack_numbers(times).nbytes < len(times) // 2


COLUMNS = st.one_of(
    st.lists(st.none() | st.integers(-(1 << 63), (1 << 63) - 1)).map(lambda values: pa.array(values, pa.int64())),
    st.lists(st.integers(-(1 << 63), (1 << 63) - 1)).map(lambda values: pa.array(values, pa.timestamp("ns"))),
    st.lists(st.none() | st.floats(width=32)).map(lambda values: pa.array(values, pa.float32())),
    st.lists(st.none() | st.booleans()).map(lambda values: pa.array(values, pa.bool_())),
    st.lists(st.none() | st.text()).map(lambda values: pa.array(values, pa.string())),
    st.lists(st.none() | st.binary()).map(lambda values: pa.array(values, pa.binary())),
)


@given(COLUMNS, st.data())
def test_columns_come_back_whole_and_in_slices(values: pa.Array, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(values)))
    part = values.slice(start, data.draw(st.integers(0, len(values) - start)))
    found = pack_column(part).unpack()
    assert found.type == part.type
    assert str(found.to_pylist()) == str(part.to_pylist())
