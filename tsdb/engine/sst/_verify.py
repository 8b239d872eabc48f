"""Reading a whole data file to see that it is what the manifest says: `ADMIN verify_table`.

    footer ─▶ number of rows and row groups       series block ─▶ tags in order
    row group by row group: every page (its checksum), tags against hashes, the order of rows, times, sequences
    all of it ─▶ range of time, sequences, number of series, tombstones, as the manifest has them
    then the index, block by block (`_verify_index.py`)

Nothing is taken from the caches or left in them, and one column of one row group is in memory at a time, besides keys.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tsdb.engine.errors import FileCorrupted
from tsdb.engine.rows.series import SeriesBlock, sort_order
from tsdb.engine.sst._block import hashable_tags
from tsdb.engine.sst._column_reader import ColumnReader
from tsdb.engine.sst._columns import OP_TYPE, SEQUENCE, TSID
from tsdb.engine.sst._content import FileContent
from tsdb.engine.sst._footer import Footer
from tsdb.engine.sst._input import reading
from tsdb.engine.sst._verify_index import verify_index
from tsdb.errors import TsdbError
from tsdb.model import hash_tags

Hashes = npt.NDArray[np.uint64]


class _Wrong(Exception):
    """The file is not what it should be."""


def verify_file(content: FileContent, check: Callable[[], None]) -> str | None:
    """Verify a file and its index; FileCorrupted if something is wrong with the file, a text if with the index."""
    try:
        try:
            footer = content.read_footer()
            block = content.read_block(footer, None)
            with reading(content.path):
                _Verification(content, footer, block).run(check)
        except _Wrong as error:
            raise FileCorrupted(file=content.path, reason=str(error)) from None
    except TsdbError as error:
        content.note(error)
        raise
    return verify_index(content, footer, block, check)


@dataclass(slots=True, eq=False)
class _Seen:
    """What the rows so far have."""

    time_min: int = np.iinfo(np.int64).max
    time_max: int = np.iinfo(np.int64).min
    sequence_min: int = np.iinfo(np.uint64).max
    sequence_max: int = 0
    has_tombstones: bool = False


class _Verification:
    def __init__(self, content: FileContent, footer: Footer, block: SeriesBlock) -> None:
        self._content = content
        self._meta = content.meta
        self._footer = footer
        self._block = block
        self._seen = _Seen()
        self._before: tuple[int, int, int] | None = None
        """Series, time and sequence of the last row of the row group in front."""

    def run(self, check: Callable[[], None]) -> None:
        self._compare("row groups", self._footer.row_groups, self._meta.row_groups)
        self._compare("series", len(self._block), self._meta.series)
        self._compare("rows in its series block", self._block.rows, self._meta.rows)
        self._check_series_order()
        with self._content.open_columns(self._footer, None) as reader:
            for row_group in range(self._footer.row_groups):
                check()
                self._read_keys(reader, row_group)
                self._read_others(reader, row_group)
        self._check_totals()

    def _compare(self, what: str, found: object, expected: object) -> None:
        if found != expected:
            raise _Wrong(f"{what}: found {found}, expected {expected}")

    def _check_series_order(self) -> None:
        order = sort_order(self._block.table.read_tags())
        if not np.array_equal(order, np.arange(len(order))):
            raise _Wrong("its series are not in order")

    def _read_keys(self, reader: ColumnReader, row_group: int) -> None:
        schema, footer = self._footer.schema, self._footer
        first, last = int(footer.row_offsets[row_group]), int(footer.row_offsets[row_group + 1])
        series = self._block.offsets.searchsorted(np.arange(first, last), side="right") - 1
        *tags, tsid = reader.read_stored(row_group, [*(tag.id for tag in schema.tags), TSID])
        table = self._block.table
        _, hashes = hash_tags(hashable_tags(tags, schema), [tag.name for tag in schema.tags], last - first)
        if not (np.array_equal(tsid.to_numpy(), table.tsid[series]) and np.array_equal(hashes, table.check[series])):
            raise _Wrong(f"rows of row group {row_group} are not of the series that they should be of")
        times = reader.decode(row_group, schema.time.id)
        sequences = reader.decode(row_group, SEQUENCE) if SEQUENCE in footer.leaves else None
        self._check_order(row_group, series, times, sequences)
        self._note_rows(times, sequences)
        if OP_TYPE in footer.leaves:
            self._seen.has_tombstones |= bool(reader.decode(row_group, OP_TYPE).any())

    def _check_order(
        self, row_group: int, series: npt.NDArray[np.int64], times: npt.NDArray[np.int64], sequences: Hashes | None
    ) -> None:
        """Rows are sorted by series, time and sequence; where keys are unique, no two have the same series and time."""
        own = np.zeros(len(times), dtype=np.uint64) if sequences is None else sequences
        if self._before is not None:
            rank, time, sequence = self._before
            series, times = np.append(rank, series), np.append(time, times)
            own = np.append(np.uint64(sequence), own)
        is_same = series[1:] == series[:-1]
        is_repeated = is_same & (times[1:] == times[:-1])
        if np.any(is_same & (times[1:] < times[:-1])):
            raise _Wrong(f"rows of row group {row_group} are not sorted by time")
        if self._meta.is_unique and is_repeated.any():
            raise _Wrong(f"a key has several rows in row group {row_group}")
        if sequences is not None and np.any(is_repeated & (own[1:] < own[:-1])):
            raise _Wrong(f"rows of row group {row_group} are not sorted by sequence")
        self._before = int(series[-1]), int(times[-1]), int(own[-1])

    def _note_rows(self, times: npt.NDArray[np.int64], sequences: Hashes | None) -> None:
        seen = self._seen
        seen.time_min, seen.time_max = min(seen.time_min, int(times.min())), max(seen.time_max, int(times.max()))
        if sequences is not None:
            seen.sequence_min = min(seen.sequence_min, int(sequences.min()))
            seen.sequence_max = max(seen.sequence_max, int(sequences.max()))

    def _read_others(self, reader: ColumnReader, row_group: int) -> None:
        """Decode the fields: that checks every page of them."""
        rows = int(self._footer.row_offsets[row_group + 1] - self._footer.row_offsets[row_group])
        for field in self._footer.schema.fields:
            found: pa.Array | npt.NDArray[np.generic] = reader.decode(row_group, field.id)
            self._compare(f"values of column {field.name}", len(found), rows)

    def _check_totals(self) -> None:
        seen, meta = self._seen, self._meta
        found = (seen.time_min, seen.time_max)
        self._compare("range of time", found, (meta.time_range.start, meta.time_range.last))
        self._compare("tombstones", seen.has_tombstones, meta.has_tombstones)
        if SEQUENCE in self._footer.leaves:
            self._compare("sequences", (seen.sequence_min, seen.sequence_max), (meta.sequence_min, meta.sequence_max))
        else:
            self._compare("sequence", self._footer.constant_sequence, meta.sequence_max)
