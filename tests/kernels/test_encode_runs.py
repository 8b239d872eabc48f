"""Columns whose values come in runs, and integers beside them, are written as each row alone would be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tsdb._kernels import encode_csv_rows, encode_json_lines, encode_json_objects, encode_json_rows

TEXTS = st.none() | st.sampled_from(
    ["", "a", "aa", "aaa", 'he said "no"', "ä\n", "a long text that takes many bytes, more"]
)
KINDS: list[pa.DataType] = [
    pa.string(),
    pa.large_string(),
    pa.string_view(),
    pa.dictionary(pa.int8(), pa.string()),
    pa.dictionary(pa.uint32(), pa.large_string()),
]
ENCODERS: list[tuple[Callable[..., tuple[bytes, int]], bytes]] = [
    (encode_json_rows, b","),
    (encode_json_objects, b","),
    (encode_json_lines, b""),
    (encode_csv_rows, b""),
]


def in_runs(runs: list[tuple[Any, int]], rows: int) -> list[Any]:
    values = [value for value, length in runs for _ in range(length)]
    return (values * (rows // len(values) + 1))[:rows]


@st.composite
def batches(draw: st.DrawFn) -> pa.RecordBatch:
    rows, columns = draw(st.integers(1, 200)), []
    for _ in range(draw(st.integers(1, 5))):
        if draw(st.booleans()):
            runs = draw(st.lists(st.tuples(TEXTS, st.integers(1, 40)), min_size=1, max_size=12))
            kind = draw(st.sampled_from(KINDS))
            plain = pa.array(in_runs(runs, rows), kind.value_type if pa.types.is_dictionary(kind) else kind)
            columns.append(plain.cast(kind))
        else:
            numbers = st.integers(-120, 120) | st.integers(-(2**63), 2**63 - 1)
            values = draw(st.lists(numbers | st.none() if draw(st.booleans()) else numbers, min_size=1, max_size=9))
            kind = draw(st.sampled_from([pa.int64(), pa.timestamp("ns"), pa.duration("s")]))
            columns.append(pa.array((values * rows)[:rows], pa.int64()).view(kind))
    batch = pa.record_batch(columns, [f"c{number}" for number in range(len(columns))])
    return batch.slice(draw(st.integers(0, rows - 1)))


@pytest.mark.parametrize(("encode", "between"), ENCODERS, ids=lambda each: getattr(each, "__name__", ""))
@given(batch=batches(), start=st.integers(0, 199))
def test_runs_are_written_as_each_row_alone(
    encode: Callable[..., tuple[bytes, int]], between: bytes, batch: pa.RecordBatch, start: int
) -> None:
    start = min(start, batch.num_rows - 1)
    alone = [encode(batch.slice(row, 1))[0] for row in range(start, batch.num_rows)]
    assert encode(batch, start=start) == (between.join(alone), batch.num_rows)


def test_runs_that_begin_after_many_short_ones_are_found_and_longer_ones_than_are_looked_at_go_on() -> None:
    values = [str(number) for number in range(500)] + ["same"] * 10_000 + ["other"] * 3
    text, _ = encode_csv_rows(pa.record_batch([pa.array(values), pa.array(range(len(values)))], ["a", "b"]))
    assert text.decode().splitlines() == [f"{value},{row}" for row, value in enumerate(values)]


@pytest.mark.parametrize("encode", [encode_json_rows, encode_json_objects])
def test_rows_that_follow_others_begin_with_a_comma(encode: Callable[..., tuple[bytes, int]]) -> None:
    batch = pa.record_batch([pa.array([1, 2, 3])], ["n"])
    assert encode(batch, start=1, continues=True)[0] == b"," + encode(batch, start=1)[0]
    assert encode(batch, start=3, continues=True) == (b"", 3)
