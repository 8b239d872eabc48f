"""Sources: sorted, immutable rows with a series block, in memory or in a file.

Every source is sorted by (series, time, sequence) and says of itself what a reader needs to decide before it touches
rows: its span of time and sequences, whether it holds tombstones, whether its keys are unique.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, TypeGuard

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tsdb import _kernels
from tsdb.engine.index import RowSpan, TagTest, TextNode
from tsdb.engine.rows.series import FoundSeries, SeriesBlock
from tsdb.engine.rows.slices import Slices
from tsdb.model import Column, ColumnId, RegionSchema, TimeRange, cast_or_null


@dataclass(frozen=True, slots=True)
class SourceFacts:
    """What is known of a source without reading it."""

    rows: int
    time_range: TimeRange
    sequence_min: int
    sequence_max: int
    has_tombstones: bool
    is_unique: bool
    is_indexed: bool = False
    """Series can be found by their tags without the whole series block."""
    skips_rows: bool = False
    """Filters tell of some columns in which rows a value, or a word, cannot be."""


class Counters(Protocol):
    """Where a source says what reading it took."""

    def add(
        self, *, vector_hits: int = 0, vector_misses: int = 0, bytes_read: int = 0, index_bytes_read: int = 0
    ) -> None: ...


class KnownRows(Protocol):
    """What pruning needs to know of rows."""

    @property
    def schema(self) -> RegionSchema:
        """The schema under which the rows were written."""
        ...

    @property
    def facts(self) -> SourceFacts: ...

    @property
    def block(self) -> SeriesBlock: ...


class Source(KnownRows, Protocol):
    """Rows of a region in one place."""

    def reader(self, counters: Counters | None = None) -> SourceReader:
        """Return what reads the rows for one scan, and tells `counters` what reading takes."""
        ...


Held: TypeAlias = pa.Array | npt.NDArray[Any] | _kernels.SteppedTimes
"""A column as it lies in memory; kernels take all of them, `as_arrow` makes one for Arrow."""


class SourceReader(KnownRows, Protocol):
    """Reads rows along row ranges, or columns in the pieces in which they lie in memory."""

    @property
    def identity(self) -> Hashable | None:
        """The same object for all readers of these rows, while they exist; None if the reader hides some of them."""
        ...

    def times(self, rows: Slices) -> npt.NDArray[np.int64]: ...

    def sequences(self, rows: Slices) -> npt.NDArray[np.uint64]: ...

    def ops(self, rows: Slices) -> npt.NDArray[np.uint8] | None:
        """Return the operation of every row, or None when all are puts."""
        ...

    def field(self, column: ColumnId, rows: Slices) -> pa.Array | None:
        """Return a field in the type it was written with, or None if the source does not have it."""
        ...

    @property
    def piece_offsets(self) -> npt.NDArray[np.int64]:
        """Piece i has the rows `piece_offsets[i]` to `piece_offsets[i + 1]`."""
        ...

    @property
    def holds_narrow(self) -> bool:
        """Whether numbers of 64 bits may be held in a narrower type."""
        ...

    def stored_type(self, column: ColumnId) -> pa.DataType | None:
        """Return the type of a field as it was written, None if the source does not have it."""
        ...

    def pieces(self, numbers: Sequence[int], columns: Sequence[ColumnId]) -> list[list[pa.Array]]:
        """Return columns, each with an array for each of some pieces, times as int64; all of them must be there."""
        ...

    def pieces_as_held(self, numbers: Sequence[int], columns: Sequence[ColumnId]) -> list[list[Held]]:
        """Return the same as they are held, numbers of 64 bits perhaps in a narrower type, times perhaps as steps.

        Nothing is copied that is in memory.
        """
        ...

    def has_pieces(self, numbers: Sequence[int], columns: Sequence[ColumnId]) -> bool:
        """Tell whether all of that is in memory."""
        ...

    def pieces_at_hand(self, numbers: Sequence[int], columns: Sequence[ColumnId]) -> list[list[Held]] | None:
        """Return the same as `pieces_as_held`, if all of it is in memory; None if not."""
        ...


class EndsReader(SourceReader, Protocol):
    """Reads a source that keeps the last row of each of its series at hand, and the first."""

    def series_ends(
        self, columns: Sequence[ColumnId], rows: npt.NDArray[np.int64], *, is_newest: bool
    ) -> list[pa.Array] | None:
        """Return columns in rows that are the last of their series, or the first.

        None if they are not, or too few to be worth keeping.
        """
        ...


class IndexedReader(SourceReader, Protocol):
    """Reads a source whose series can be found by their tags without the whole series block."""

    @property
    def indexed_tags(self) -> frozenset[ColumnId]: ...

    @property
    def series_count(self) -> int: ...

    @property
    def has_block(self) -> bool:
        """Whether the series block is in memory."""
        ...

    def find_series(self, tests: Sequence[TagTest]) -> FoundSeries | None:
        """Return series among which are all that fulfil conditions on indexed tags; None if the block is to be read."""
        ...


Wanted: TypeAlias = pa.Array | TextNode
"""What a column is to have: one of some values, or a text that fulfils a condition."""


class SkippingReader(SourceReader, Protocol):
    """Reads a source that has filters of the values, or of the words, of some columns."""

    @property
    def skipping_columns(self) -> frozenset[ColumnId]:
        """The columns with filters of values."""
        ...

    @property
    def fulltext_columns(self) -> frozenset[ColumnId]:
        """The columns with filters of words."""
        ...

    def rows_with(self, column: ColumnId, wanted: Wanted, span: RowSpan, bytes_ratio: float) -> list[RowSpan] | None:
        """Return the row ranges, in order, in which a column may have what is wanted; None if it is not known, or would
        cost more than `bytes_ratio` times the column itself.
        """
        ...


def skips_rows(source: SourceReader) -> TypeGuard[SkippingReader]:
    return source.facts.skips_rows and hasattr(source, "rows_with")


def finds_series(source: SourceReader) -> TypeGuard[IndexedReader]:
    """Tell whether it is worth asking a source for series by their tags."""
    return source.facts.is_indexed and hasattr(source, "find_series")


def keeps_ends(source: SourceReader) -> TypeGuard[EndsReader]:
    return hasattr(source, "series_ends")


def read_field(source: SourceReader, column: Column, rows: Slices) -> pa.Array:
    """Return a field as the current schema has it: cast to its type, or the default where the source lacks it."""
    return cast_or_null(read_stored(source, column, rows), column.type)


def read_stored(source: SourceReader, column: Column, rows: Slices) -> pa.Array:
    """Return a field in the type it was written with; where the source does not know it, the default it came with."""
    values = source.field(column.id, rows)
    if values is not None:
        return values
    first = column.first
    return pa.repeat(pa.scalar(first.default, first.type), rows.rows)


def find_time(source: SourceReader, time: int, start: int, stop: int) -> int:
    """Return the first row of a range that is not before a time, probing row by row instead of reading all."""
    while start < stop:
        middle = (start + stop) // 2
        if int(source.times(Slices.one(middle, middle + 1))[0]) < time:
            start = middle + 1
        else:
            stop = middle
    return start
