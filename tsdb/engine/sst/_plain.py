"""Columns of plain numbers, decoded by a kernel instead of Parquet's reader.

Most of what queries read are numbers and times of 4 or 8 bytes. For these the way through Parquet's reader took 0.9 ms
for 100,000 steady integers and a file that has to be opened; this takes less than half of that. Whatever is not plain
(nested columns, texts, other compressions, other encodings) stays with the reader.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from tsdb import _kernels
from tsdb.model import ColumnId

_WORD_BYTES = {"INT32": 4, "INT64": 8, "FLOAT": 4, "DOUBLE": 8}
_IS_COMPRESSED = {"ZSTD": True, "UNCOMPRESSED": False}


class PlainLeaf(NamedTuple):
    """A column whose values are words."""

    leaf: int
    word_bytes: int
    is_nullable: bool
    type: pa.DataType
    """As it is stored."""


def find_plain(
    metadata: pq.FileMetaData, stored: pa.Schema, leaves: dict[ColumnId, range]
) -> dict[ColumnId, PlainLeaf]:
    """Return the columns of a file that are plain; `stored` has its columns in the order of `leaves`."""
    found = {}
    for (column, own), field in zip(leaves.items(), stored, strict=True):
        if len(own) != 1:
            continue
        described = metadata.schema.column(own.start)
        word_bytes = _WORD_BYTES.get(described.physical_type)
        is_flat = described.max_repetition_level == 0 and described.max_definition_level <= 1
        if is_flat and word_bytes is not None and _bit_width(field.type) == 8 * word_bytes:
            is_nullable = described.max_definition_level == 1
            found[column] = PlainLeaf(own.start, word_bytes, is_nullable, field.type)
    return found


def _bit_width(kind: pa.DataType) -> int | None:
    try:
        return int(kind.bit_width)
    except ValueError:
        return None


class PlainDecoder:
    """Decodes plain columns of one file. For one thread."""

    def __init__(self, metadata: pq.FileMetaData, read_range: Callable[[int, int], bytes]) -> None:
        self._metadata = metadata
        self._read_range = read_range

    def decode(self, row_group: int, plain: PlainLeaf, rows: int, *, is_narrow: bool = False) -> pa.Array | None:
        """Return a column of a row group; None if it is to be left to Parquet's reader.

        With `is_narrow`, integers come in the narrowest type that holds them.
        """
        chunk = self._metadata.row_group(row_group).column(plain.leaf)
        is_compressed = _IS_COMPRESSED.get(chunk.compression)
        if is_compressed is None:
            return None
        start = chunk.data_page_offset
        if chunk.has_dictionary_page and chunk.dictionary_page_offset is not None:
            start = min(start, chunk.dictionary_page_offset)
        try:
            found = _kernels.decode_parquet_chunk(
                self._read_range(start, chunk.total_compressed_size),
                is_compressed=is_compressed,
                word_bytes=plain.word_bytes,
                nullable=plain.is_nullable,
                rows_max=rows,
                narrow=is_narrow,
            )
        except NotImplementedError:
            return None
        values = pa.array(found)
        return values if is_narrow or values.type == plain.type else values.view(plain.type)
