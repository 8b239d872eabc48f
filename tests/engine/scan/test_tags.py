"""Tag columns spread over rows, against a loop."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tsdb._kernels import repeat_strings
from tsdb.engine.scan.readers.tags import repeat_tags

TEXTS = st.lists(
    st.none() | st.text(max_size=20) | st.just("longer than the twelve bytes that a view holds"), min_size=1
)


@given(TEXTS, st.data())
def test_runs_of_tags_are_repeated(texts: list[str | None], data: st.DataObject) -> None:
    skipped = data.draw(st.integers(0, len(texts) - 1))
    values = pa.array(texts, pa.string())[skipped:]
    runs = data.draw(st.lists(st.tuples(st.integers(0, len(values) - 1), st.integers(0, 5)), max_size=6))
    ranks, lengths = (np.array([run[at] for run in runs], dtype=np.int64) for at in (0, 1))
    found = repeat_tags(values, ranks, lengths)
    found.validate(full=True)
    assert found.type == pa.string()
    assert found.to_pylist() == [texts[skipped + rank] for rank, length in runs for _ in range(length)]


def test_tags_of_other_types_are_repeated_too() -> None:
    found = repeat_tags(pa.array([7, None, 9]), np.array([2, 1]), np.array([2, 1]))
    assert found.to_pylist() == [9, 9, None]


@pytest.mark.parametrize(
    ("ranks", "lengths", "message"),
    [([3], [1], "no value 3"), ([-1], [1], "no value -1"), ([0], [-1], "negative"), ([0], [], "0 lengths")],
)
def test_runs_that_make_no_sense_are_refused(ranks: list[int], lengths: list[int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        repeat_strings(pa.array(["a", "b"]), pa.array(ranks, pa.int64()), pa.array(lengths, pa.int64()))


def test_more_bytes_than_an_array_can_hold_are_refused() -> None:
    with pytest.raises(ValueError, match="do not fit"):
        repeat_strings(pa.array(["x" * 1000]), pa.array([0]), pa.array([1 << 40]))
    with pytest.raises(TypeError, match="expected an array of strings"):
        repeat_strings(pa.array([1]), pa.array([0]), pa.array([1]))
