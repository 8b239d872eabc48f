"""Batches, series tables and ranges of time."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tsdb.model import Batch, OpType, RegionSchema, Semantic, TimeRange

SCHEMA = RegionSchema.create(
    [
        ("host", pa.string(), Semantic.TAG),
        ("dc", pa.string(), Semantic.TAG),
        ("ts", pa.timestamp("ms"), Semantic.TIMESTAMP),
        ("v", pa.float64(), Semantic.FIELD),
        ("w", pa.int64(), Semantic.FIELD),
    ]
)
TAG = st.sampled_from([None, "", "a", "b", "a\u0000"])


@given(st.lists(st.tuples(TAG, TAG, st.integers(-5, 5)), max_size=30), st.booleans())
def test_every_row_finds_its_tags(rows: list[tuple[str | None, str | None, int]], is_encoded: bool) -> None:
    host = pa.array([row[0] for row in rows], pa.string())
    data = pa.RecordBatch.from_arrays(
        [
            host.dictionary_encode() if is_encoded else host,
            pa.array([row[1] for row in rows], pa.string()),
            pa.array([row[2] for row in rows], pa.timestamp("ms")),
        ],
        names=["host", "dc", "ts"],
    )
    batch = Batch.from_arrow(SCHEMA, data)
    tags = batch.series.read_tags().to_pylist()
    assert [(tags[at]["host"], tags[at]["dc"]) for at in batch.series_index] == [row[:2] for row in rows]
    assert len(batch.series) == len({row[:2] for row in rows})
    assert batch.times.tolist() == [row[2] for row in rows]
    assert batch.fields == {}


def test_columns_are_cast_to_the_schema_and_missing_tags_are_null() -> None:
    data = pa.record_batch({"ts": pa.array([1], pa.timestamp("s")), "v": pa.array([3], pa.int32())})
    batch = Batch.from_arrow(SCHEMA, data)
    assert batch.times.tolist() == [1000]
    assert batch.fields["v"].to_pylist() == [3.0]
    assert batch.series.read_tags().to_pylist() == [{"host": None, "dc": None}]


def test_delete_has_no_fields() -> None:
    data = pa.record_batch({"ts": pa.array([1], pa.timestamp("ms")), "v": pa.array([3.0])})
    assert Batch.from_arrow(SCHEMA, data, OpType.DELETE).fields == {}


def test_range_of_times_is_half_open() -> None:
    span = TimeRange.of(np.array([3, 1, 2]))
    assert (span.start, span.end, span.last) == (1, 4, 3)
    assert span.overlaps(TimeRange(3, 9))
    assert not span.overlaps(TimeRange(4, 9))
    assert TimeRange.ALL.contains(TimeRange.of(np.array([-(1 << 63), (1 << 63) - 1])))
    assert span.intersection(TimeRange(2, 9)) == TimeRange(2, 4)
    assert span.union(TimeRange(7, 9)) == TimeRange(1, 9)
    assert span.intersection(TimeRange(5, 9)).is_empty
