"""Files put together from pages of the kernel and pages of Arrow: what Arrow, DuckDB and the kernel read in them."""

from __future__ import annotations

import io
from contextlib import suppress
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kernels.test_parquet_chunk import bits_of, make_values, read, words_of
from tsdb import _kernels
from tsdb.engine.sst._encoding import DELTA, Encodings
from tsdb.engine.sst._parquet import DICTIONARY_BYTES_MAX, ParquetWriter

KINDS: dict[str, pa.DataType] = {
    "int32": pa.int32(),
    "uint32": pa.uint32(),
    "int64": pa.int64(),
    "uint64": pa.uint64(),
    "timestamp[ns]": pa.timestamp("ns"),
    "timestamp[us]": pa.timestamp("us", "UTC"),
    "timestamp[ms]": pa.timestamp("ms"),
    "time64[ns]": pa.time64("ns"),
    "duration[ms]": pa.duration("ms"),
    "date32": pa.date32(),
}


def write(*groups: pa.Table, dictionary_bytes_max: int = DICTIONARY_BYTES_MAX, **encodings: str) -> bytes:
    """Write row groups with everything in steps, unless another encoding is named."""
    others = {name: encodings.get(name, DELTA) for name in groups[0].column_names}
    dictionary = [name for name, encoding in others.items() if encoding == "DICTIONARY"]
    chosen = Encodings(dictionary, {name: own for name, own in others.items() if name not in dictionary})
    sink = io.BytesIO()
    writer = ParquetWriter(sink, groups[0].schema, chosen, dictionary_bytes_max=dictionary_bytes_max)
    for group in groups:
        writer.write(group)
    assert writer.finish({"made": "here"}) == len(sink.getvalue())
    return sink.getvalue()


def column(values: pa.Array, *, nullable: bool = True) -> pa.Table:
    field = pa.field("v", values.type, nullable, metadata={b"PARQUET:field_id": b"7"})
    return pa.table([values], schema=pa.schema([field]))


def walk(rows: int, *, spread: float, seed: int = 0) -> pa.Array:
    random = np.random.default_rng(seed)
    return pa.array(np.cumsum(np.rint(random.normal(0, spread, rows))).astype(np.int64))


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_values_are_read_as_they_were_written(kind: str, data: st.DataObject) -> None:
    bits = bits_of(KINDS[kind])
    nullable = data.draw(st.booleans())
    word = words_of(bits) | st.none() if nullable else words_of(bits)
    if kind == "time64[ns]":
        word = st.integers(0, 86_399_999_999_999)
    words = data.draw(st.lists(word | st.integers(0, 9), min_size=1, max_size=400)) * data.draw(st.integers(1, 3))
    values = make_values(KINDS[kind], words)
    content = write(column(values, nullable=nullable))
    assert pq.read_table(io.BytesIO(content)).column("v").combine_chunks().equals(values)
    found = read(content)
    assert found is not None
    assert found.equals(values)


@pytest.mark.parametrize("is_aligned", [False, True])
@given(steps=st.lists(st.integers(-8, 7) | st.integers(-200, 200) | st.integers(-(2**63), 2**63 - 1), max_size=700))
@settings(max_examples=150, deadline=None)
def test_both_layouts_hold_steps_of_every_length(is_aligned: bool, steps: list[int]) -> None:
    values = np.cumsum(np.array([3, *steps], dtype=np.int64))
    pages, _, _, [layout] = _kernels.pack_columns(
        [("v", pa.array(values), False, "aligned" if is_aligned else "tight")], offset=4, level=1
    )
    assert is_aligned or not layout
    again = _kernels.decode_parquet_chunk(pages, is_compressed=True, word_bytes=8, nullable=False, rows_max=len(values))
    assert pa.array(again).equals(pa.array(values))


@pytest.mark.parametrize("width", range(1, 65))
def test_groups_of_every_width_are_written(width: int) -> None:
    random = np.random.default_rng(width)
    steps = random.integers(0, 1 << 63, 400, dtype=np.uint64) >> np.uint64(max(0, 63 - width))
    values = pa.array(np.cumsum(steps, dtype=np.uint64).view(np.int64))
    assert pq.read_table(io.BytesIO(write(column(values)))).column("v").combine_chunks().equals(values)


def test_short_steps_are_laid_out_along_bytes() -> None:
    values = walk(100_000, spread=1.0)
    content = write(column(values))
    plain = io.BytesIO()
    pq.write_table(
        column(values), plain, compression="zstd", use_dictionary=False, column_encoding={"v": "DELTA_BINARY_PACKED"}
    )
    assert len(content) < 0.8 * len(plain.getvalue())
    assert read(content) == values


def test_steps_that_gain_nothing_stay_tight() -> None:
    random = np.random.default_rng(1)
    values = pa.array(np.cumsum(random.integers(0, 1 << 11, 50_000)))
    size = len(write(column(values)))
    assert size < 50_000 * 11 / 8 * 1.05


def test_a_row_group_that_differs_from_the_first_is_written_all_the_same() -> None:
    groups = [column(walk(5000, spread=1.0)), column(walk(5000, spread=1e9)), column(walk(5000, spread=2.0, seed=1))]
    content = write(*groups)
    assert pq.read_table(io.BytesIO(content)).equals(pa.concat_tables(groups))
    assert pq.read_metadata(io.BytesIO(content)).num_row_groups == 3


def test_columns_of_all_kinds_lie_beside_each_other(tmp_path: Path) -> None:
    rows: dict[str, Any] = {
        "a": pa.array([5, None, 7], pa.int16()),
        "names": pa.array([["x"], [], None], pa.list_(pa.string())),
        "b": pa.array([1, 2, 3], pa.uint8()),
        "both": pa.array([{"l": 1.5, "r": "é"}] * 3, pa.struct({"l": pa.float64(), "r": pa.string()})),
        "at": pa.array([1, 2, 3], pa.timestamp("s")),
        "c": pa.array([10, 11, 2**63 - 1], pa.int64()),
    }
    table = pa.table(rows)
    content = write(table, table.slice(1), names="PLAIN", both="PLAIN")
    expected = pa.concat_tables([table, table.slice(1)])
    assert pq.read_table(io.BytesIO(content)).to_pylist() == expected.to_pylist()
    path = tmp_path / "all.parquet"
    path.write_bytes(content)
    found = duckdb.connect().execute(f"select a, b, c, epoch(\"at\") from read_parquet('{path}')").fetchall()
    assert found == [(5, 1, 10, 1), (None, 2, 11, 2), (7, 3, 2**63 - 1, 3), (None, 2, 11, 2), (7, 3, 2**63 - 1, 3)]


def test_the_footer_tells_sizes_statistics_and_metadata() -> None:
    rows = pa.table({"n": pa.array([5, None, -7]), "u": pa.array([1, 2**64 - 1, 0], pa.uint64()), "s": ["x", "y", "x"]})
    content = write(rows, rows, s="DICTIONARY")
    metadata = pq.read_metadata(io.BytesIO(content))
    assert metadata.num_rows == 6
    assert metadata.metadata[b"made"] == b"here"
    assert b"ARROW:schema" in metadata.metadata
    group = metadata.row_group(1)
    assert group.total_byte_size == sum(group.column(at).total_uncompressed_size for at in range(3))
    numbers, unsigned, texts = (group.column(at) for at in range(3))
    assert (numbers.statistics.min, numbers.statistics.max, numbers.statistics.null_count) == (-7, 5, 1)
    assert (unsigned.statistics.min, unsigned.statistics.max, unsigned.statistics.null_count) == (0, 2**64 - 1, 0)
    assert (texts.statistics.min, texts.statistics.max) == ("x", "y")
    assert numbers.encodings == ("RLE", "DELTA_BINARY_PACKED")
    offsets = sorted(
        (own.dictionary_page_offset or own.data_page_offset, own.total_compressed_size)
        for own in (numbers, unsigned, texts)
    )
    ends = [start + length for start, length in offsets]
    assert [start for start, _ in offsets[1:]] == ends[:-1]


def test_a_column_without_a_value_has_no_range() -> None:
    values = pa.array([None] * 300, pa.int64())
    content = write(column(values))
    assert pq.read_table(io.BytesIO(content)).column("v").combine_chunks().equals(values)
    statistics = pq.read_metadata(io.BytesIO(content)).row_group(0).column(0).statistics
    assert statistics.null_count == 300
    assert not statistics.has_min_max


def test_what_cannot_be_packed_is_refused() -> None:
    with pytest.raises(TypeError, match="v: values of Float64 are not packed here"):
        _kernels.pack_columns([("v", pa.array([1.0]), True, None)], offset=4, level=1)
    with pytest.raises(ValueError, match="v: a column that may not be null has a null"):
        _kernels.pack_columns([("v", pa.array([1, None]), False, None)], offset=4, level=1)


TEXTS: dict[str, pa.DataType] = {
    "string": pa.string(),
    "binary": pa.binary(),
    "large_string": pa.large_string(),
}


@pytest.mark.parametrize("kind", TEXTS)
@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_texts_in_runs_are_read_as_they_were_written(kind: str, data: st.DataObject) -> None:
    nullable = data.draw(st.booleans())
    word = st.text(max_size=9) | st.none() if nullable else st.text(max_size=9)
    runs = data.draw(st.lists(st.tuples(word, st.integers(1, 3) | st.integers(1, 400)), min_size=1, max_size=60))
    texts = [None if text is None else text.encode() for text, length in runs for _ in range(length)]
    values = pa.array(texts, pa.binary()).cast(TEXTS[kind])
    first = data.draw(st.integers(0, len(values) - 1))
    coded = values.dictionary_encode().slice(first)
    content = write(column(coded, nullable=nullable), v="DICTIONARY")
    assert pq.read_table(io.BytesIO(content)).column("v").cast(TEXTS[kind]).combine_chunks().equals(values.slice(first))
    own = pq.read_metadata(io.BytesIO(content)).row_group(0).column(0)
    present = [text for text in texts[first:] if text is not None]
    if present:
        assert (own.statistics.min_raw, own.statistics.max_raw) == (min(present), max(present))
    assert own.statistics.null_count == len(texts) - first - len(present)


@pytest.mark.parametrize("kind", ["int32", "uint32", "int64", "uint64", "date32"])
@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_codes_of_numbers_are_read_as_they_were_written(kind: str, data: st.DataObject) -> None:
    word = words_of(bits_of(KINDS[kind])) | st.none()
    runs = data.draw(st.lists(st.tuples(word, st.integers(1, 300)), min_size=1, max_size=40))
    values = make_values(KINDS[kind], [word for word, length in runs for _ in range(length)])
    content = write(column(values), v="DICTIONARY")
    assert pq.read_table(io.BytesIO(content)).column("v").combine_chunks().equals(values)
    found = read(content)
    assert found is not None
    assert found.equals(values)


def test_duckdb_reads_codes_packed_and_in_runs(tmp_path: Path) -> None:
    texts = [f"host_{number % 37}" for number in range(5000)]
    rows = pa.table({"mixed": pa.array(texts).dictionary_encode(), "runs": pa.array(sorted(texts)).dictionary_encode()})
    path = tmp_path / "codes.parquet"
    path.write_bytes(write(rows, rows, mixed="DICTIONARY", runs="DICTIONARY"))
    found = duckdb.connect().execute(f"select mixed, runs from read_parquet('{path}')").fetchall()
    assert found == list(zip(texts, sorted(texts), strict=True)) * 2


def test_dictionaries_too_long_for_a_page_are_left_to_arrow() -> None:
    short, long = (pa.array([letter * length] * 9).dictionary_encode() for letter, length in (("s", 9), ("l", 2000)))
    content = write(column(short), column(long), column(short), dictionary_bytes_max=1000, v="DICTIONARY")
    expected = [*short.to_pylist(), *long.to_pylist(), *short.to_pylist()]
    assert pq.read_table(io.BytesIO(content)).column("v").to_pylist() == expected


@pytest.mark.parametrize("kind", ["string", "int64"])
def test_codes_of_nothing_but_nulls_are_read(kind: str) -> None:
    values = pa.nulls(300, pa.string() if kind == "string" else pa.int64())
    given = values.dictionary_encode() if kind == "string" else values
    content = write(column(given), v="DICTIONARY")
    assert pq.read_table(io.BytesIO(content)).column("v").to_pylist() == [None] * 300


def test_codes_beyond_the_dictionary_are_refused() -> None:
    indices = pa.array([0, 5], pa.int32())
    damaged = pa.DictionaryArray.from_arrays(indices, pa.array(["a"]), safe=False)
    with pytest.raises(TypeError, match="not packed here"):
        _kernels.pack_columns([("v", damaged, True, None)], offset=4, level=1)


@given(cut=st.integers(0, 400), noise=st.binary(min_size=1, max_size=4))
@settings(max_examples=100, deadline=None)
def test_damaged_footers_are_refused_or_read(cut: int, noise: bytes) -> None:
    sink = io.BytesIO()
    pq.write_table(pa.table({"a": [1, 2], "b": ["x", "y"]}), sink, store_schema=False)
    content = sink.getvalue()
    length = int.from_bytes(content[-8:-4], "little")
    footer = bytearray(content[-8 - length : -8])
    columns, plain_bytes = _kernels.adopt_columns(bytes(footer), 0)
    assert len(columns) == 2
    assert plain_bytes > 0
    at = cut % len(footer)
    for damaged in (bytes(footer[:at]), bytes(footer[:at]) + noise + bytes(footer[at + len(noise) :])):
        for ask in (
            lambda footer=damaged: _kernels.adopt_columns(footer, 1),
            lambda footer=damaged: _kernels.describe_file(footer, 1, [], [("k", "v")]),
        ):
            with suppress(ValueError):
                ask()
