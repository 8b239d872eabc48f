"""Plain columns of Parquet, read by the kernel as Arrow's reader has them."""

from __future__ import annotations

import io
import struct
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tsdb import _kernels
from tsdb.engine.sst._columns import leaves_by_id
from tsdb.engine.sst._plain import PlainDecoder, find_plain
from tsdb.model import ColumnId

KINDS = {
    "int32": pa.int32(),
    "uint32": pa.uint32(),
    "int64": pa.int64(),
    "uint64": pa.uint64(),
    "float32": pa.float32(),
    "float64": pa.float64(),
    "timestamp[ns]": pa.timestamp("ns"),
    "timestamp[ms]": pa.timestamp("ms"),
    "date32": pa.date32(),
}
STEPS = ("int32", "uint32", "int64", "uint64", "timestamp[ns]", "date32")
ENCODINGS = [
    *((kind, encoding) for kind in KINDS for encoding in ("PLAIN", "DICTIONARY", "BYTE_STREAM_SPLIT")),
    *((kind, "DELTA_BINARY_PACKED") for kind in STEPS),
]


def written(
    values: pa.Array, encoding: str, *, compression: str = "zstd", nullable: bool = True, has_checksums: bool = True
) -> bytes:
    field = pa.field("v", values.type, nullable, metadata={b"PARQUET:field_id": b"7"})
    sink = io.BytesIO()
    pq.write_table(
        pa.table([values], schema=pa.schema([field])),
        sink,
        version="2.6",
        compression=compression,
        use_dictionary=encoding == "DICTIONARY",
        column_encoding=None if encoding == "DICTIONARY" else {"v": encoding},
        write_page_checksum=has_checksums,
        data_page_size=700,
    )
    return sink.getvalue()


def read(content: bytes, *, is_narrow: bool = False) -> pa.Array | None:
    metadata = pq.read_metadata(io.BytesIO(content))
    stored = metadata.schema.to_arrow_schema()
    plain = find_plain(metadata, stored, leaves_by_id(stored))
    decoder = PlainDecoder(metadata, lambda offset, length: content[offset : offset + length])
    return decoder.decode(0, plain[ColumnId(7)], metadata.num_rows, is_narrow=is_narrow)


def bits_of(kind: pa.DataType) -> int:
    return int(kind.bit_width)


def make_values(kind: pa.DataType, words: list[int | None]) -> pa.Array:
    plain = pa.array(words, pa.int32() if bits_of(kind) == 32 else pa.int64())
    return plain.view(kind)


def words_of(bits: int) -> st.SearchStrategy[int]:
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    return st.integers(low, high) | st.integers(-20, 20) | st.sampled_from([low, high, 0])


@pytest.mark.parametrize(("kind", "encoding"), ENCODINGS)
@given(data=st.data())
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_values_are_read_as_they_were_written(kind: str, encoding: str, data: st.DataObject) -> None:
    bits = bits_of(KINDS[kind])
    nullable = data.draw(st.booleans())
    word = words_of(bits) | st.none() if nullable else words_of(bits)
    words = data.draw(st.lists(word, min_size=1, max_size=400))
    times = data.draw(st.sampled_from([1, 1, 3]))
    values = make_values(KINDS[kind], words * times)
    compression = data.draw(st.sampled_from(["zstd", "none"]))
    found = read(written(values, encoding, compression=compression, nullable=nullable))
    assert found is not None
    assert found.type == values.type
    # Bits, because NaN is not equal to itself.
    same = pa.int32() if bits == 32 else pa.int64()
    assert found.view(same).equals(values.view(same))


@pytest.mark.parametrize("width", range(65))
def test_steps_of_every_width_are_read(width: int) -> None:
    random = np.random.default_rng(width)
    steps = random.integers(0, 1 << 63, 300, dtype=np.uint64) >> np.uint64(max(0, 63 - width))
    values = pa.array(np.cumsum(steps, dtype=np.uint64).view(np.int64))
    found = read(written(values, "DELTA_BINARY_PACKED"))
    assert found is not None
    assert found.equals(values)


@given(
    words=st.lists(words_of(64) | st.integers(-130, 130) | st.integers(-33_000, 33_000) | st.none(), max_size=300),
    sign=st.sampled_from([-1, 0, 1]),
)
@settings(max_examples=150, deadline=None)
def test_integers_are_narrowed_as_far_as_all_of_them_fit(words: list[int | None], sign: int) -> None:
    if sign:
        words = [word for word in words if word is not None and (word < 0) == (sign < 0)]
    values = pa.array([*words, sign], pa.int64())
    found = read(written(values, "DELTA_BINARY_PACKED"), is_narrow=True)
    assert found is not None
    assert found.cast(pa.int64()).equals(values)
    present = [word for word in words if word is not None]
    fitting = [bits for bits in (8, 16, 32, 64) if all(-(1 << bits - 1) <= word < 1 << bits - 1 for word in present)]
    assert bits_of(found.type) == fitting[0]


def test_what_is_not_plain_is_left_to_others() -> None:
    values = pa.array([True, False])
    metadata = pq.read_metadata(io.BytesIO(written(values, "PLAIN")))
    stored = metadata.schema.to_arrow_schema()
    assert find_plain(metadata, stored, leaves_by_id(stored)) == {}
    assert read(written(pa.array([1, 2, 3]), "PLAIN", compression="snappy")) is None


def test_a_wrong_checksum_is_told() -> None:
    content = written(pa.array(range(100)), "PLAIN", compression="none")
    damaged = content.replace(struct.pack("<q", 50), struct.pack("<q", 51))
    with pytest.raises(ValueError, match="CRC"):
        read(damaged)


@given(data=st.data())
@settings(max_examples=300, deadline=None)
def test_damaged_pages_are_an_error_or_values_and_nothing_else(data: st.DataObject) -> None:
    encoding = data.draw(st.sampled_from(["PLAIN", "DELTA_BINARY_PACKED", "DICTIONARY", "BYTE_STREAM_SPLIT"]))
    words: list[int | None] = [None if number % 7 == 3 else number * 37 % 90 for number in range(300)]
    compression = data.draw(st.sampled_from(["zstd", "none"]))
    content = written(pa.array(words, pa.int64()), encoding, compression=compression, has_checksums=False)
    damaged = bytearray(chunk_of(content))
    for place in data.draw(st.lists(st.integers(0, len(damaged) - 1), min_size=1, max_size=6)):
        damaged[place] = data.draw(st.integers(0, 255))
    damaged = damaged[: data.draw(st.integers(0, len(damaged)))]
    try:
        found = _kernels.decode_parquet_chunk(
            bytes(damaged), is_compressed=compression == "zstd", word_bytes=8, nullable=True, rows_max=300
        )
    except (ValueError, NotImplementedError):
        return
    assert len(found) <= 300


def chunk_of(content: bytes) -> bytes:
    chunk = pq.read_metadata(io.BytesIO(content)).row_group(0).column(0)
    start = chunk.dictionary_page_offset if chunk.has_dictionary_page else chunk.data_page_offset
    return content[start : start + chunk.total_compressed_size]


def test_values_beyond_the_row_group_are_refused() -> None:
    chunk = chunk_of(written(pa.array(range(50)), "PLAIN", nullable=False))
    with pytest.raises(ValueError, match="its pages have 50 rows, expected 10"):
        _kernels.decode_parquet_chunk(chunk, is_compressed=True, word_bytes=8, nullable=False, rows_max=10)


def test_a_page_that_would_take_more_memory_than_its_rows_is_not_unpacked() -> None:
    bomb = chunk_of(written(pa.array([7] * 1_000_000), "PLAIN", nullable=False))
    with pytest.raises(NotImplementedError, match="bytes"):
        _kernels.decode_parquet_chunk(bomb, is_compressed=True, word_bytes=8, nullable=False, rows_max=10)


def test_files_of_others_are_read_too(tmp_path: Path) -> None:
    """A file whose pages are of the second version goes to Arrow's reader."""
    sink = io.BytesIO()
    field = pa.field("v", pa.int64(), metadata={b"PARQUET:field_id": b"7"})
    pq.write_table(pa.table([pa.array([1, 2])], schema=pa.schema([field])), sink, data_page_version="2.0")
    assert read(sink.getvalue()) is None
