"""The footer of a data file: what Parquet says of it, and what the engine adds in key-value metadata.

The footer carries the schema under which the file was written, so that an old file stays readable however the table
changes. Everything else that is added repeats what the manifest knows, for those who have only the file.

Parquet has checksums of pages but none of the footer, where one changed bit may move a column or change a statistic:
the manifest has one.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import types

from tsdb.engine.errors import FileCorrupted
from tsdb.engine.ranges import read_range
from tsdb.engine.rows.narrow import WIDE
from tsdb.engine.sst._columns import SEQUENCE, leaves_by_id
from tsdb.engine.sst._input import reading
from tsdb.engine.sst._plain import PlainLeaf, find_plain
from tsdb.model import ColumnId, RegionSchema
from tsdb.store import ObjectStore

FORMAT_VERSION = 1
TAIL_BYTES = 64 << 10
"""How much of the end of a file is read at first: most footers are shorter."""

_VERSION = "tsdb:format_version"
_SCHEMA = "tsdb:region_schema"
_CONSTANT_SEQUENCE = "tsdb:constant_sequence"

# What one column of one row group takes in memory once its metadata is parsed: measured with 460 of them.
_CHUNK_BYTES = 800


@dataclass(frozen=True, slots=True, eq=False)
class Footer:
    """A footer that was read."""

    metadata: pq.FileMetaData
    schema: RegionSchema
    row_offsets: npt.NDArray[np.int64]
    """Row group i has the rows `row_offsets[i]` to `row_offsets[i + 1]`."""
    leaves: dict[ColumnId, range]
    plain: dict[ColumnId, PlainLeaf]
    """The columns that need no reader of Parquet."""
    constant_sequence: int | None
    checksum: int
    """CRC-32 of the bytes it was read from."""

    @property
    def rows(self) -> int:
        return int(self.row_offsets[-1])

    @property
    def row_groups(self) -> int:
        return len(self.row_offsets) - 1

    def chunk_bytes(self, row_group: int, column: ColumnId) -> int:
        """How many bytes of the file one column of a row group takes."""
        group = self.metadata.row_group(row_group)
        return sum(int(group.column(leaf).total_compressed_size) for leaf in self.leaves[column])

    def is_whole(self, column: ColumnId) -> bool:
        """Whether a column of floats is stored as integers."""
        plain = self.plain.get(column)
        is_stored_so = plain is not None and types.is_int64(plain.type)
        return is_stored_so and types.is_float64(self.schema.by_id[column].type)

    def is_narrow(self, column: ColumnId) -> bool:
        """Whether a column is a field of whole numbers of 64 bits, which mostly fit into fewer."""
        known = self.schema.by_id.get(column)
        if known is None or known is self.schema.time:
            return False
        return known.type == WIDE or self.is_whole(column)

    @property
    def nbytes(self) -> int:
        chunks = self.row_groups * int(self.metadata.num_columns)
        return int(self.metadata.serialized_size) + chunks * _CHUNK_BYTES


def encode_key_values(
    schema: RegionSchema, *, constant_sequence: int | None, sorted_by: list[str], facts: dict[str, Any]
) -> dict[str, str]:
    """Return the key-value metadata of a file; `facts` go in as they are, under the engine's prefix."""
    values = {
        _VERSION: FORMAT_VERSION,
        _SCHEMA: schema.to_json(),
        "tsdb:sorted_by": sorted_by,
        **{f"tsdb:{name}": value for name, value in facts.items()},
    }
    if constant_sequence is not None:
        values[_CONSTANT_SEQUENCE] = constant_sequence
    return {key: json.dumps(value) for key, value in values.items()}


def read_footer(store: ObjectStore, path: str, size_bytes: int, checksum: int | None = None) -> Footer:
    """Read the footer of a file that should have this size and, if that is known, a footer of this checksum."""
    with reading(path):
        content = _read_tail(store, path, size_bytes)
        found = zlib.crc32(content)
        if checksum is not None and found != checksum:
            raise FileCorrupted(file=path, reason="its footer is not what was written, the checksums differ")
        return _parse_footer(pq.read_metadata(pa.BufferReader(content)), path, found)


def _read_tail(store: ObjectStore, path: str, size_bytes: int) -> bytes:
    """Read the footer with its length and the magic at the end."""
    tail = read_range(store, path, max(0, size_bytes - TAIL_BYTES), min(size_bytes, TAIL_BYTES))
    needed = int.from_bytes(tail[-8:-4], "little") + 8
    if needed > len(tail) and needed <= size_bytes:
        missing = needed - len(tail)
        tail = read_range(store, path, size_bytes - needed, missing) + tail
    return tail[-needed:]


def _parse_footer(metadata: pq.FileMetaData, path: str, checksum: int) -> Footer:
    key_values = metadata.metadata or {}

    def value_of(key: str) -> Any:
        text = key_values.get(key.encode())
        return None if text is None else json.loads(text)

    version = value_of(_VERSION)
    if version != FORMAT_VERSION:
        written = "without a format version" if version is None else f"in format version {version}"
        raise FileCorrupted(file=path, reason=f"it is written {written}, expected {FORMAT_VERSION}")
    rows = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
    stored = metadata.schema.to_arrow_schema()
    leaves = leaves_by_id(stored)
    constant_sequence = value_of(_CONSTANT_SEQUENCE)
    if constant_sequence is None and SEQUENCE not in leaves:
        raise FileCorrupted(file=path, reason="it does not say when its rows were written")
    return Footer(
        metadata=metadata,
        schema=RegionSchema.from_json(value_of(_SCHEMA)),
        row_offsets=np.cumsum([0, *rows], dtype=np.int64),
        leaves=leaves,
        plain=find_plain(metadata, stored, leaves),
        constant_sequence=constant_sequence,
        checksum=checksum,
    )
