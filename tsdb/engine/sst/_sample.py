"""Reading back some of what was written: a file that does not give back its values is found before anyone relies on it.

Checksums of the columns of one row group in `SAMPLED` are taken before they are encoded, and compared with those of the
row group as Parquet's own reader decodes it. They do not depend on how nulls and dictionaries are laid out.
"""

from __future__ import annotations

import zlib

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import types

from tsdb.engine.errors import FileCorrupted
from tsdb.engine.sst._footer import Footer
from tsdb.engine.sst._input import reading
from tsdb.store import ObjectStore

SAMPLED = 64
"""Of so many row groups one is read back, and the first one always."""
_LISTED_MAX = 64


class WrittenSamples:
    """Checksums of row groups on their way into a file."""

    def __init__(self) -> None:
        self._row_groups = 0
        self._checksums: dict[int, list[int]] = {}

    def add(self, row_group: pa.Table) -> None:
        if self._row_groups % SAMPLED == 0:
            self._checksums[self._row_groups] = _checksums(row_group)
        self._row_groups += 1

    def compare(self, store: ObjectStore, path: str, footer: Footer) -> None:
        """Read the row groups back; FileCorrupted if a value is another."""
        with reading(path), store.open_input(path) as source:
            file = pq.ParquetFile(source, metadata=footer.metadata, pre_buffer=False, page_checksum_verification=True)
            for number, expected in self._checksums.items():
                found = _checksums(file.read_row_group(number, use_threads=False))
                for name, before, after in zip(
                    footer.metadata.schema.to_arrow_schema().names, expected, found, strict=True
                ):
                    if before != after:
                        raise FileCorrupted(
                            file=path,
                            reason=f"column {name} of row group {number} is not what was written",
                            hint="the write can be tried again",
                        )


def _checksums(table: pa.Table) -> list[int]:
    return [column_checksum(column) for column in table.columns]


def column_checksum(column: pa.ChunkedArray) -> int:
    """Return a checksum of values: of all where they are numbers, times or texts, else of the first."""
    values = pa.concat_arrays([_dense(chunk) for chunk in column.chunks])
    nulls = np.packbits(values.is_null().to_numpy(zero_copy_only=False))
    found = zlib.crc32(nulls.tobytes())
    if types.is_string(values.type) or types.is_binary(values.type):
        lengths = pc.fill_null(pc.binary_length(values), 0).to_numpy(zero_copy_only=False)
        found = zlib.crc32(lengths.astype(np.int64).tobytes(), found)
        return zlib.crc32(_content(values.drop_null().cast(pa.large_binary())), found)
    if types.is_boolean(values.type):
        values = values.cast(pa.uint8())
    if types.is_integer(values.type) or types.is_floating(values.type) or types.is_temporal(values.type):
        width = np.dtype(f"u{values.type.bit_width // 8}")
        plain = values.view(pa.from_numpy_dtype(width)).fill_null(0).to_numpy(zero_copy_only=False)
        return zlib.crc32(np.ascontiguousarray(plain).tobytes(), found)
    return zlib.crc32(repr(values.slice(0, _LISTED_MAX).to_pylist()).encode(), found)


def _content(values: pa.Array) -> memoryview:
    """Return the bytes of texts without nulls, one behind the other."""
    _, offsets, content = values.buffers()
    if content is None:
        return memoryview(b"")
    ends = np.frombuffer(offsets, dtype=np.int64)[values.offset : values.offset + len(values) + 1]
    return memoryview(content)[int(ends[0]) : int(ends[-1])]


def _dense(values: pa.Array) -> pa.Array:
    return values.dictionary_decode() if types.is_dictionary(values.type) else values
