"""Answers of many rows: threads make text of their stretches, and nobody can tell from the text."""

from __future__ import annotations

from collections.abc import Iterator

import orjson
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tsdb.errors import Unsupported
from tsdb.servers.http.sql._formats import PARALLEL_ROWS_MIN, FormatOptions, encode_rows, encode_tsdb_v1, json_rows

ROWS = st.lists(st.integers(0, 40_000), max_size=5)


def batches_of(lengths: list[int]) -> list[pa.RecordBatch]:
    begins = [sum(lengths[:at]) for at in range(len(lengths))]
    numbers = [pa.array(range(begin, begin + length)) for begin, length in zip(begins, lengths, strict=True)]
    return [pa.RecordBatch.from_arrays([each, each.cast(pa.string())], names=["n", "s"]) for each in numbers]


class BatchRecords:
    """The rows of some batches."""

    def __init__(self, schema: pa.Schema, batches: list[pa.RecordBatch]) -> None:
        self.schema = schema
        self._batches = batches
        self.is_closed = False

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        yield from self._batches

    def close(self) -> None:
        self.is_closed = True


SCHEMA = pa.schema([("n", pa.int64()), ("s", pa.string())])


@settings(max_examples=15, deadline=None)
@given(lengths=ROWS, limit=st.none() | st.integers(0, 60_000))
def test_rows_come_in_order_whichever_thread_made_them_text(lengths: list[int], limit: int | None) -> None:
    records = BatchRecords(SCHEMA, batches_of(lengths))
    text = b"".join(encode_tsdb_v1(iter([records]), FormatOptions(elapsed_ms=lambda: 1, limit=limit)))
    found = orjson.loads(text)["output"][0]["records"]
    total = sum(lengths) if limit is None else min(limit, sum(lengths))
    assert found["rows"] == [[at, str(at)] for at in range(total)]
    assert found["total_rows"] == total


def test_an_answer_that_nobody_reads_on_closes_its_records() -> None:
    records = BatchRecords(SCHEMA, batches_of([100_000, 100_000]))
    stretches = encode_rows(records, json_rows, None)
    next(stretches)
    stretches.close()  # type: ignore[attr-defined]
    assert records.is_closed


def test_a_value_that_has_no_text_is_told_by_any_thread() -> None:
    values = pa.nulls(PARALLEL_ROWS_MIN, pa.run_end_encoded(pa.int32(), pa.int8()))
    records = BatchRecords(pa.schema([("x", values.type)]), [pa.RecordBatch.from_arrays([values], names=["x"])])
    with pytest.raises(Unsupported):
        list(encode_rows(records, json_rows, None))
