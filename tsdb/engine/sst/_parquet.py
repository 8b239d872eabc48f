"""A file of Parquet, of which most columns are packed by a kernel and the others by Arrow.

    row group ─┬─ integers in steps, tags and series ids in codes ─▶ pages (kernel) ─┐
               └─ all other columns ─▶ a small file (Arrow), its pages ──────────────┴▶ the file; at its end one footer

- Arrow packs steps as tightly as bits allow, which leaves nothing to compress. The kernel can lay them out along bytes
  (`kernels/src/parquet/write/steps.rs`): any reader of Parquet has the same values, in two thirds of the space. Which
  layout is the smaller one is tried once for each column, with the first row group.
- Tags and series ids come in runs, one for each series. Arrow looks at every row of them, which took most of the time
  of writing a file.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import types

from tsdb import _kernels
from tsdb.engine.sst._encoding import DELTA, Encodings
from tsdb.engine.sst._types import leaf_count
from tsdb.store import ObjectSink

ZSTD_LEVEL = 1

DICTIONARY_BYTES_MAX = 1 << 30
"""Parquet has 31 bits for the size of a page; Arrow's writer gives up a dictionary long before."""

_MAGIC = b"PAR1"
_TAIL_BYTES = 8
"""At the end of a file: how long the footer is, and the magic."""


class ParquetWriter:
    """Writes the row groups of one file, then its footer."""

    def __init__(
        self,
        sink: ObjectSink,
        schema: pa.Schema,
        encodings: Encodings,
        *,
        dictionary_bytes_max: int = DICTIONARY_BYTES_MAX,
    ) -> None:
        self._sink = sink
        self._schema = schema
        self._encodings = encodings
        self._dictionary_bytes_max = dictionary_bytes_max
        self._packings: dict[str, str | None] = {name: None for name, own in encodings.others.items() if own == DELTA}
        self._packings.update(dict.fromkeys(encodings.dictionary, "codes"))
        self._row_groups: list[bytes] = []
        self._rows = 0
        sink.write(_MAGIC)

    def write(self, rows: pa.Table) -> None:
        """Write a row group."""
        start = self._sink.tell()
        own = [name for name in self._packings if self._is_packed_here(rows[name])]
        described, plain_bytes = self._write_others(rows.drop_columns(own))
        pages, chunks, more_bytes, layouts = _kernels.pack_columns(
            [self._given(rows.schema.field(name), rows[name]) for name in own],
            offset=self._sink.tell(),
            level=ZSTD_LEVEL,
        )
        self._sink.write(pages)
        for name, chunk, is_aligned in zip(own, chunks, layouts, strict=True):
            described[name] = [chunk]
            self._packings[name] = self._packings[name] or ("aligned" if is_aligned else "tight")
        self._row_groups.append(
            _kernels.describe_row_group(
                [chunk for name in self._schema.names for chunk in described[name]],
                rows=rows.num_rows,
                plain_bytes=plain_bytes + more_bytes,
                packed_bytes=self._sink.tell() - start,
                offset=start,
                ordinal=len(self._row_groups),
            )
        )
        self._rows += rows.num_rows

    def finish(self, key_values: dict[str, str]) -> int:
        """Write the footer, with more key-value metadata; return the size of the file."""
        _, empty = _split(self._by_arrow(self._schema, None))
        footer = _kernels.describe_file(empty, self._rows, self._row_groups, list(key_values.items()))
        self._sink.write(footer + len(footer).to_bytes(4, "little") + _MAGIC)
        return self._sink.tell()

    def _write_others(self, rows: pa.Table) -> tuple[dict[str, list[bytes]], int]:
        """Write what Arrow packs; return the descriptions of each column, and the bytes before compression."""
        if not rows.num_columns:
            return {}, 0
        pages, footer = _split(self._by_arrow(rows.schema, rows))
        chunks, plain_bytes = _kernels.adopt_columns(footer, self._sink.tell() - len(_MAGIC))
        self._sink.write(pages)
        left = iter(chunks)
        return {field.name: [next(left) for _ in range(leaf_count(field.type))] for field in rows.schema}, plain_bytes

    def _is_packed_here(self, column: pa.ChunkedArray) -> bool:
        """Whether the kernel has a way to pack a column."""
        kind = column.type
        if not types.is_dictionary(kind):
            return _word(kind) is not None
        values = kind.value_type
        is_text = any(
            is_kind(values)
            for is_kind in (types.is_string, types.is_binary, types.is_large_string, types.is_large_binary)
        )
        dictionary_bytes = sum(chunk.dictionary.nbytes for chunk in column.chunks)
        return is_text and types.is_int32(kind.index_type) and dictionary_bytes < self._dictionary_bytes_max

    def _given(self, field: pa.Field, column: pa.ChunkedArray) -> tuple[str, pa.Array, bool, str | None]:
        """Return a column as the kernel takes it."""
        values = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
        if not types.is_dictionary(field.type):
            values = values.cast(pa.int32()) if field.type.bit_width < 32 else values.view(_word(field.type))
        return field.name, values, field.nullable, self._packings[field.name]

    def _by_arrow(self, schema: pa.Schema, rows: pa.Table | None) -> pa.Buffer:
        """Return a file with one row group, or with none."""
        sink = pa.BufferOutputStream()
        with pq.ParquetWriter(
            sink,
            schema,
            version="2.6",
            compression="zstd",
            compression_level=ZSTD_LEVEL,
            use_dictionary=[name for name in self._encodings.dictionary if name in schema.names],
            column_encoding={name: own for name, own in self._encodings.others.items() if name in schema.names},
            write_page_checksum=True,
            store_schema=rows is None,
        ) as writer:
            if rows is not None:
                writer.write_table(rows, row_group_size=rows.num_rows)
        return sink.getvalue()


def _split(file: pa.Buffer) -> tuple[pa.Buffer, bytes]:
    """Return the pages of a file and its footer."""
    footer_bytes = int.from_bytes(file[-_TAIL_BYTES : -_TAIL_BYTES + 4].to_pybytes(), "little")
    stop = file.size - _TAIL_BYTES
    return file[len(_MAGIC) : stop - footer_bytes], file[stop - footer_bytes : stop].to_pybytes()


def _word(kind: pa.DataType) -> pa.DataType | None:
    """Return the integers that Parquet stores for values of a type, bit for bit; None if it has them otherwise."""
    if types.is_integer(kind):
        return kind if kind.bit_width >= 32 else pa.int32()
    if types.is_date32(kind):
        return pa.int32()
    # Seconds become milliseconds.
    if types.is_timestamp(kind) or types.is_time64(kind) or types.is_duration(kind):
        return None if kind.unit == "s" else pa.int64()
    return pa.int32() if types.is_time32(kind) and kind.unit == "ms" else None
