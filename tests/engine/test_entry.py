"""Entries of the log: what is encoded comes back, wherever the tags are kept."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tsdb._kernels import LineParser
from tsdb.engine import entry
from tsdb.engine.entry import TagPacker, decode_batch, encode_batch
from tsdb.engine.log import EncodedPayload, FrameKind
from tsdb.model import AddColumn, Batch, LateTags, RegionSchema, Semantic, SeriesTable, alter

NAMES = ("a", "b", "c")
SCHEMA = RegionSchema.create(
    [
        *((name, pa.string(), Semantic.TAG) for name in NAMES),
        ("ts", pa.timestamp("ms"), Semantic.TIMESTAMP),
        ("v", pa.float64(), Semantic.FIELD),
    ]
)


def plain(payload: EncodedPayload) -> Any:
    if payload.size_bytes != payload.raw_bytes:
        return pa.Codec("lz4_raw").decompress(payload.stored, payload.raw_bytes)
    return pa.py_buffer(payload.stored)


def make_batch(lines: list[str], schema: RegionSchema = SCHEMA) -> Batch:
    """A batch whose tags the parser keeps."""
    (rows,) = LineParser(1 << 20, 1 << 30).parse("\n".join(lines).encode(), factor=1, default_time=0)
    tags = schema.arrow_tags

    class Kept(TagPacker):
        def read_tags(self, numbers: Any) -> pa.RecordBatch:
            found = {name: pa.array(column) for name, column in rows.tags.read(pa.array(numbers, pa.uint32()))}
            return pa.RecordBatch.from_arrays(
                [found.get(name, pa.nulls(len(numbers), pa.string())) for name in tags.names], schema=tags
            )

        def pack_tags(self, numbers: Any) -> pa.Buffer:
            return pa.array(rows.tags.pack(pa.array(numbers, pa.uint32()), tags.names)).buffers()[1]

    numbers, kept = pa.array(rows.series).to_numpy(), Kept()
    made = SeriesTable.of_tags(schema, kept.read_tags(numbers).columns, len(numbers))
    series = SeriesTable(made.tsid, made.check, LateTags(tags, numbers, kept))
    columns = pa.array(rows.fields)
    fields = dict(zip(columns.type.names, columns.flatten(), strict=True))
    return Batch(series, pa.array(rows.index).to_numpy(), pa.array(rows.times).to_numpy(), fields)


def check_same(batch: Batch, decoded: Batch) -> None:
    assert decoded.series.read_tags().equals(batch.series.read_tags())
    decoded.series.read_tags().validate(full=True)
    assert np.array_equal(decoded.series.tsid, batch.series.tsid)
    assert np.array_equal(decoded.series.check, batch.series.check)
    assert np.array_equal(decoded.series_index, batch.series_index)
    assert np.array_equal(decoded.times, batch.times)
    assert decoded.fields.keys() == batch.fields.keys()
    assert all(decoded.fields[name].equals(values) for name, values in batch.fields.items())


VALUES = st.sampled_from(["x", "y", "é", "longer🙂"])
TAGS = st.dictionaries(st.sampled_from([*NAMES, "unknown"]), VALUES)


@given(st.lists(TAGS, min_size=1, max_size=20))
def test_packed_tags_are_read_back(series: list[dict[str, str]]) -> None:
    known = [{name: value for name, value in tags.items() if name in NAMES} for tags in series]
    lines = [
        f"m{''.join(f',{name}={value}' for name, value in tags.items())} v={row} {row}"
        for row, tags in enumerate(known)
    ]
    batch = make_batch(lines)
    payload = encode_batch(SCHEMA, batch)
    check_same(batch, decode_batch(SCHEMA, plain(payload), FrameKind.DATA, version=SCHEMA.version))


@pytest.mark.parametrize("count", [1, 254, 255, 256, 65_534, 65_535, 65_536])
def test_codes_are_as_wide_as_the_number_of_values_needs(count: int) -> None:
    batch = make_batch(["m,b=z v=0 0", *(f"m,a=h{number} v=1 1" for number in range(count))])
    payload = encode_batch(SCHEMA, batch)
    check_same(batch, decode_batch(SCHEMA, plain(payload), FrameKind.DATA, version=SCHEMA.version))


def test_packed_and_plain_tags_decode_alike_also_under_a_later_schema() -> None:
    late = make_batch(["m,a=1,b=2 v=1 1", "m,a=2 v=2 2"])
    here = Batch(
        SeriesTable(late.series.tsid, late.series.check, late.series.read_tags()),
        late.series_index,
        late.times,
        late.fields,
    )
    later = alter(SCHEMA, [AddColumn("d", pa.string(), Semantic.TAG)])
    decoded = [
        decode_batch(later, plain(encode_batch(SCHEMA, batch)), FrameKind.DATA, version=SCHEMA.version)
        for batch in (late, here)
    ]
    check_same(*decoded)
    assert decoded[0].series.read_tags().schema.names == ["a", "b", "c", "d"]


def test_schemas_of_wide_writes_are_kept_within_a_budget() -> None:
    names = [f"c{number}" for number in range(3000)]
    schema = RegionSchema.create(
        [("ts", pa.timestamp("ms"), Semantic.TIMESTAMP), *((name, pa.float64(), Semantic.FIELD) for name in names)]
    )
    for number in range(60):
        columns = {"ts": pa.array([1], pa.timestamp("ms")), **{name: pa.array([1.5]) for name in names[number:]}}
        encoded = encode_batch(schema, Batch.from_arrow(schema, pa.record_batch(columns)))
        assert encoded.stored
    assert 0 < entry._schema.weight <= entry.SCHEMAS_BYTES_MAX
    wide = [columns for columns in entry._schema._entries if len(columns) > len(names) - 60]
    assert 20 < len(wide) < 60, "other tests of this process may have left small ones"
