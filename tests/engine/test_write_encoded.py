"""Rows that another node has encoded: the log gets the same bytes, and what is not an entry is refused whole."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine.harness import DIRECTORY, REGION, SCHEMA, batch_of, create, open_engine, read
from tsdb.engine import EncodedPayload, Engine, FrameKind, SchemaOutdated
from tsdb.engine.entry import PackedTag, encode_batch, open_payload, receive_payload
from tsdb.engine.errors import RegionNotFound
from tsdb.engine.log import encode_frame_payload
from tsdb.errors import InvalidArguments, Unsupported
from tsdb.model import OpType, RegionOptions, RegionSchema, Semantic, region_id

ROWS = [{"host": f"h{at}", "dc": "x", "ts": at, "a": at / 2, "b": at} for at in range(500)]


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    opened = open_engine(tmp_path)
    create(opened)
    yield opened
    opened.close(flush=False)


def encoded(op: OpType = OpType.PUT) -> EncodedPayload:
    return encode_batch(SCHEMA, batch_of(SCHEMA, ROWS, op))


def test_the_log_gets_the_bytes_that_were_sent(tmp_path: Path) -> None:
    engine = open_engine(tmp_path)
    create(engine)
    payload = encoded()
    assert engine.write_encoded(REGION, payload, FrameKind.DATA, rows=500, schema_version=0).result(30) == 500
    assert read(engine) == sorted(ROWS, key=lambda row: str(row["host"]))
    engine.close(flush=False)
    assert any(payload.stored in path.read_bytes() for path in (tmp_path / "wal").rglob("*") if path.is_file())
    again = open_engine(tmp_path)
    assert len(read(again)) == 500
    again.close(flush=False)


def test_rows_are_deleted(engine: Engine) -> None:
    engine.write_encoded(REGION, encoded(), FrameKind.DATA, rows=500, schema_version=0).result(30)
    gone = encode_batch(SCHEMA, batch_of(SCHEMA, ROWS[:9], OpType.DELETE))
    assert engine.write_encoded(REGION, gone, FrameKind.DELETE, rows=9, schema_version=0).result(30) == 9
    assert len(read(engine)) == 491


def test_another_version_region_or_mode_is_refused(engine: Engine) -> None:
    with pytest.raises(SchemaOutdated):
        engine.write_encoded(REGION, encoded(), FrameKind.DATA, rows=500, schema_version=1)
    with pytest.raises(RegionNotFound):
        engine.write_encoded(region_id(1, 1), encoded(), FrameKind.DATA, rows=500, schema_version=0)
    other = region_id(1024, 1)
    engine.create_region(
        other, DIRECTORY.replace("_0000000000", "_0000000001"), SCHEMA, RegionOptions(append_mode=True)
    )
    with pytest.raises(Unsupported):
        engine.write_encoded(other, encoded(OpType.DELETE), FrameKind.DELETE, rows=500, schema_version=0)


@pytest.mark.parametrize(
    "payload",
    [
        replace(encoded(), crc=1),
        replace(encoded(), stored=encoded().stored[:-1]),
        replace(encoded(), raw_bytes=1 << 31),
        encode_frame_payload(b"not an entry"),
        encode_frame_payload(bytes(4096)),
        encode_frame_payload(b""),
    ],
    ids=["checksum", "cut off", "too large", "text", "zeroes", "nothing"],
)
def test_what_is_not_an_entry_is_refused(engine: Engine, payload: EncodedPayload) -> None:
    with pytest.raises(InvalidArguments):
        engine.write_encoded(REGION, payload, FrameKind.DATA, rows=500, schema_version=0)
    assert read(engine) == []


def test_a_count_of_rows_or_a_codec_that_is_not_its_own_is_refused(engine: Engine) -> None:
    with pytest.raises(InvalidArguments, match="another number of rows"):
        engine.write_encoded(REGION, encoded(), FrameKind.DATA, rows=499, schema_version=0)
    with pytest.raises(InvalidArguments, match="cannot be read"):
        receive_payload(b"", crc=0, codec=9, raw_bytes=0)


def test_rows_that_name_no_series_are_refused(engine: Engine) -> None:
    batch = batch_of(SCHEMA, ROWS)
    wrong = replace(batch, series_index=np.full(500, 500, dtype=np.uint32))
    with pytest.raises(InvalidArguments, match="a series that the batch does not have"):
        engine.write_encoded(REGION, encode_batch(SCHEMA, wrong), FrameKind.DATA, rows=500, schema_version=0)


def test_a_column_that_may_not_be_null_is_checked(tmp_path: Path) -> None:
    engine = open_engine(tmp_path)
    columns = [replace(each, nullable=False) if each.name == "a" else each for each in SCHEMA.columns]
    create(engine, RegionSchema(tuple(columns), 0, SCHEMA.next_column_id))
    rows = encode_batch(SCHEMA, batch_of(SCHEMA, [{"host": "a", "ts": 1}]))
    with pytest.raises(InvalidArguments, match="may not be null"):
        engine.write_encoded(REGION, rows, FrameKind.DATA, rows=1, schema_version=0)
    engine.close(flush=False)


def test_packed_tags_that_point_elsewhere_are_refused() -> None:
    values = pa.array(["a", "b"])
    PackedTag(values, np.array([0, 1, 255], dtype=np.uint8)).validate()
    with pytest.raises(ValueError, match="does not have"):
        PackedTag(values, np.array([0, 2], dtype=np.uint8)).validate()


WIDE = RegionSchema.create(
    [
        ("host", pa.string(), Semantic.TAG),
        ("ts", pa.timestamp("ms"), Semantic.TIMESTAMP),
        ("v", pa.float64(), Semantic.FIELD),
        ("s", pa.string(), Semantic.FIELD),
        ("l", pa.list_(pa.int64()), Semantic.FIELD),
    ]
)
SOUND = batch_of(WIDE, [{"host": f"h{at % 7}", "ts": at, "v": 1.0, "s": "x" * at, "l": [at]} for at in range(40)])


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 100_000), st.integers(0, 255)), min_size=1, max_size=8), st.integers(0, 64))
def test_any_bytes_are_an_entry_or_refused(changes: list[tuple[int, int]], cut: int) -> None:
    """Even with a checksum that fits."""
    payload = encode_batch(WIDE, SOUND)
    raw = bytearray(_raw(payload))
    for at, value in changes:
        raw[at % len(raw)] = value
    damaged = encode_frame_payload(bytes(raw[: len(raw) - cut]))
    try:
        batch = open_payload(WIDE, damaged, FrameKind.DATA, rows=40)
    except InvalidArguments:
        return
    assert batch.rows == 40
    batch.series.read_tags().to_pylist()
    assert all(len(column.to_pylist()) == 40 for column in batch.fields.values())


def _raw(payload: EncodedPayload) -> bytes:
    stored = pa.py_buffer(payload.stored)
    raw = pa.Codec("lz4_raw").decompress(stored, payload.raw_bytes) if payload.codec else stored
    return bytes(raw)
