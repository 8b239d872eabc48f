"""`pack_metric_tags`: what a log holds of metric series, read back by the engine's own reader of entries."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tsdb import _kernels
from tsdb.engine.entry import unpack_tags


def pack(table_ids: list[int], text_of: list[int], texts: list[str]) -> pa.Buffer:
    packed = _kernels.pack_metric_tags(
        pa.array(table_ids, pa.uint32()), pa.array(text_of, pa.int64()), pa.array(texts, pa.string())
    )
    return pa.array(packed).buffers()[1] or pa.py_buffer(b"")


@given(
    st.lists(st.text(max_size=5), min_size=1, max_size=400).flatmap(
        lambda texts: st.tuples(
            st.just(texts),
            st.lists(
                st.tuples(st.integers(0, 2**32 - 1) | st.integers(1, 3), st.integers(0, len(texts) - 1)), max_size=600
            ),
        )
    )
)
def test_what_is_packed_is_read_back(drawn: tuple[list[str], list[tuple[int, int]]]) -> None:
    texts, series = drawn
    ids, places = [table for table, _ in series], [place for _, place in series]
    owners, labels = unpack_tags(pack(ids, places, texts), columns=2, rows=len(series))
    assert owners.to_pylist() == [str(table) for table in ids]
    assert labels.to_pylist() == [texts[place] for place in places]


def test_many_distinct_values_have_wider_codes() -> None:
    count = 70_000
    texts = [str(at) for at in range(count)]
    owners, labels = unpack_tags(pack([7] * count, list(range(count)), texts), columns=2, rows=count)
    assert labels.to_pylist() == texts
    assert set(owners.to_pylist()) == {"7"}


@pytest.mark.parametrize("wrong", [-1, 1, 2**40])
def test_a_text_that_is_not_there_is_refused(wrong: int) -> None:
    with pytest.raises(ValueError, match=f"there is no text {wrong}"):
        pack([1], [wrong], ["a"])


def test_columns_of_other_types_and_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match="2 table ids, but 1 texts"):
        pack([1, 2], [0], ["a"])
    with pytest.raises(TypeError, match="expected an array of strings"):
        _kernels.pack_metric_tags(pa.array([], pa.uint32()), pa.array([], pa.int64()), pa.array(np.zeros(0)))
