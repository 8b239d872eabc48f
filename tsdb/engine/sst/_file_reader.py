"""Reading rows of a data file: no more of it than the row groups that rows lie in."""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache, partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tsdb.engine.index import RowSpan, TagTest
from tsdb.engine.metrics import INDEX_READ_BYTES
from tsdb.engine.rows.cache import ColumnForm, ColumnKey
from tsdb.engine.rows.narrow import is_narrower, widened
from tsdb.engine.rows.series import FoundSeries, SeriesBlock
from tsdb.engine.rows.slices import Slices
from tsdb.engine.rows.source import Counters, Held, SourceFacts, Wanted
from tsdb.engine.rows.vectors import as_arrow, split_by_row_group, take_numbers, weigh
from tsdb.engine.sst._column_reader import ColumnReader
from tsdb.engine.sst._columns import OP_TYPE, SEQUENCE
from tsdb.engine.sst._content import FileContent
from tsdb.engine.sst._footer import Footer
from tsdb.engine.sst._policy import CachePolicy
from tsdb.engine.sst._row_skipper import fulltext_columns, skipping_columns
from tsdb.engine.sst._series_finder import indexed_tags
from tsdb.model import ColumnId, RegionSchema

_DECODERS_MAX = min(4, os.cpu_count() or 1)
"""How many threads decode for one reader."""
_WIDE_ROWS_RATIO = 8
"""A read of one row in this many, or of more, takes them from a column in its own type."""
_THREAD_COLUMNS_MIN = 4
"""How many columns of row groups are worth a second thread."""


@cache
def _decoders() -> ThreadPoolExecutor:
    """The threads that decode for all readers together: more than there are cores would only wait."""
    return ThreadPoolExecutor(_DECODERS_MAX, thread_name_prefix="tsdb-decode")


class FileReader:
    """A `SourceReader` over one data file, for one scan. Safe for the threads of that scan.

    It keeps the footer, the series block and the open file between columns: opening one costs as much as it has
    columns.
    """

    __slots__ = (
        "_block",
        "_content",
        "_counters",
        "_file_id",
        "_footer",
        "_idle",
        "_policy",
        "_vectors",
        "facts",
    )

    def __init__(
        self, content: FileContent, facts: SourceFacts, policy: CachePolicy, counters: Counters | None
    ) -> None:
        self.facts = facts
        self._content = content
        self._file_id = content.meta.file_id
        self._policy = policy
        self._vectors = policy.vectors
        self._counters = counters
        self._footer: Footer | None = None
        self._block: SeriesBlock | None = None
        self._idle: list[ColumnReader] = []

    @property
    def identity(self) -> Hashable:
        return self._content

    @property
    def footer(self) -> Footer:
        footer = self._footer
        if footer is None:
            footer = self._footer = self._policy.footer(self._content)
        return footer

    @property
    def schema(self) -> RegionSchema:
        return self.footer.schema

    @property
    def block(self) -> SeriesBlock:
        block = self._block
        if block is None:
            block = self._block = self._policy.block(self._content, lambda: self.footer)
        return block

    @property
    def indexed_tags(self) -> frozenset[ColumnId]:
        """The tags that have an inverted index."""
        return indexed_tags(self._content.meta)

    @property
    def series_count(self) -> int:
        return self._content.meta.series

    @property
    def has_block(self) -> bool:
        """Whether the series block is in memory."""
        return self._block is not None or self._policy.has_block(self._content)

    def find_series(self, tests: Sequence[TagTest]) -> FoundSeries | None:
        """Return series among which are all that fulfil conditions on indexed tags; None if the block is to be read."""
        return self._policy.find(self._content, lambda: self.footer, tests, self._count_index_bytes)

    @property
    def skipping_columns(self) -> frozenset[ColumnId]:
        """The columns that have a skipping index."""
        return skipping_columns(self._content.meta)

    @property
    def fulltext_columns(self) -> frozenset[ColumnId]:
        """The columns that have a full-text index."""
        return fulltext_columns(self._content.meta)

    def rows_with(self, column: ColumnId, wanted: Wanted, span: RowSpan, bytes_ratio: float) -> list[RowSpan] | None:
        """Return the row ranges in which a column may have what is wanted; None if it is not known."""
        return self._policy.skip(self._content, self.footer, column, wanted, span, bytes_ratio, self._count_index_bytes)

    def _count_index_bytes(self, nbytes: int) -> None:
        INDEX_READ_BYTES.inc(nbytes)
        if self._counters is not None:
            self._counters.add(index_bytes_read=nbytes)

    def times(self, rows: Slices) -> npt.NDArray[np.int64]:
        footer = self.footer
        if len(rows.starts) == 1 and (known := self._known_times(footer, int(rows.starts[0]), int(rows.stops[0]))):
            return known[0]
        return self._read_numpy(footer, footer.schema.time.id, rows, np.dtype(np.int64))

    def _known_times(self, footer: Footer, start: int, stop: int) -> list[npt.NDArray[np.int64]]:
        """Return the times of a row range if it lies in one row group whose times are decoded; otherwise nothing."""
        row_group = int(footer.row_offsets.searchsorted(start, side="right")) - 1
        if start >= stop or stop > footer.row_offsets[row_group + 1]:
            return []
        (times,) = self._vectors.get_many([ColumnKey(self._file_id, footer.schema.time.id, row_group)])
        if times is None:
            return []
        if self._counters is not None:
            self._counters.add(vector_hits=1)
        first = int(footer.row_offsets[row_group])
        return [take_numbers(times, Slices.one(start - first, stop - first))]

    def sequences(self, rows: Slices) -> npt.NDArray[np.uint64]:
        footer = self.footer
        if SEQUENCE not in footer.leaves:
            return np.full(rows.rows, footer.constant_sequence, dtype=np.uint64)
        return self._read_numpy(footer, SEQUENCE, rows, np.dtype(np.uint64))

    def ops(self, rows: Slices) -> npt.NDArray[np.uint8] | None:
        if not self.facts.has_tombstones:
            return None
        return self._read_numpy(self.footer, OP_TYPE, rows, np.dtype(np.uint8))

    def field(self, column: ColumnId, rows: Slices) -> pa.Array | None:
        footer = self.footer
        if column not in footer.leaves:
            return None
        kind = footer.schema.by_id[column].type
        pieces = [self._take_field(key, vector, part, kind) for key, vector, part in self._along(footer, column, rows)]
        if not pieces:
            return pa.nulls(0, kind)
        return pieces[0] if len(pieces) == 1 else pa.concat_arrays(pieces)

    @property
    def piece_offsets(self) -> npt.NDArray[np.int64]:
        return self.footer.row_offsets

    @property
    def holds_narrow(self) -> bool:
        return self._policy.holds_narrow

    def stored_type(self, column: ColumnId) -> pa.DataType | None:
        footer = self.footer
        return footer.schema.by_id[column].type if column in footer.leaves else None

    def stores_whole(self, column: ColumnId) -> bool:
        """Whether a field holds whole numbers only: its values are stored as integers."""
        return self.footer.is_whole(column)

    def has_pieces(self, numbers: Sequence[int], columns: Sequence[ColumnId]) -> bool:
        return self._vectors.has_all(self._keys(numbers, columns))

    def pieces(self, numbers: Sequence[int], columns: Sequence[ColumnId]) -> list[list[pa.Array]]:
        """Return columns of row groups, times as int64."""
        kinds = self.footer.schema.by_id
        found = []
        for column, own in zip(columns, self.pieces_as_held(numbers, columns), strict=True):
            arrays = [as_arrow(vector) for vector in own]
            found.append([widened(values, kinds[column].type) for values in arrays] if column in kinds else arrays)
        return found

    def pieces_as_held(self, numbers: Sequence[int], columns: Sequence[ColumnId]) -> list[list[Held]]:
        keys = self._keys(numbers, columns)
        vectors = self._vectors.get_many(keys)
        missing = [at for at, vector in enumerate(vectors) if vector is None]
        if missing:
            for at, vector in self._decode_many(keys, missing):
                vectors[at] = vector
        if self._counters is not None:
            self._counters.add(vector_hits=len(keys) - len(missing))
        return _by_column(vectors, len(numbers))

    def pieces_at_hand(self, numbers: Sequence[int], columns: Sequence[ColumnId]) -> list[list[Held]] | None:
        vectors = self._vectors.get_many(self._keys(numbers, columns))
        if any(vector is None for vector in vectors):
            return None
        if self._counters is not None:
            self._counters.add(vector_hits=len(vectors))
        return _by_column(vectors, len(numbers))

    def _keys(self, row_groups: Sequence[int], columns: Sequence[ColumnId]) -> list[ColumnKey]:
        file_id = self._file_id
        return [ColumnKey(file_id, column, row_group) for column in columns for row_group in row_groups]

    def series_ends(
        self, columns: Sequence[ColumnId], rows: npt.NDArray[np.int64], *, is_newest: bool
    ) -> list[pa.Array] | None:
        """Return fields in the last rows of series, or in the first; None if rows are others, or few."""
        form = ColumnForm.LAST_ROWS if is_newest else ColumnForm.FIRST_ROWS
        keys = [ColumnKey(self._file_id, column, form=form) for column in columns]
        # The series block is not loaded for the sake of a few rows.
        if 2 * len(rows) < self.series_count and not self._vectors.has_all(keys):
            return None
        offsets = self.block.offsets
        ends = offsets[1:] - 1 if is_newest else offsets[:-1]
        series = offsets.searchsorted(rows, side="right") - 1
        if not np.array_equal(ends[series], rows):
            return None
        found = self._load_ends(keys, ends)
        if np.array_equal(rows, ends):
            return found
        places = pa.array(series)
        return [values.take(places) for values in found]

    def _load_ends(self, keys: Sequence[ColumnKey], rows: npt.NDArray[np.int64]) -> list[pa.Array]:
        """Return columns in some rows, on several threads if several have to be read."""
        footer = self.footer

        def load(key: ColumnKey) -> pa.Array:
            return self._vectors.get_or_load(key, lambda: self._read_ends(footer, key.column, rows), weigh)

        found = self._vectors.get_many(keys)
        missing = [at for at, values in enumerate(found) if values is None]
        wanted = [keys[at] for at in missing]
        loaded = list(map(load, wanted) if len(missing) < 2 else _decoders().map(load, wanted))
        for at, values in zip(missing, loaded, strict=True):
            found[at] = values
        if self._counters is not None:
            self._counters.add(vector_hits=len(keys) - len(missing))
        return found

    def _read_ends(self, footer: Footer, column: ColumnId, rows: npt.NDArray[np.int64]) -> pa.Array:
        """Read a column in some rows; what is decoded for that is not kept."""
        pieces = []
        with self._lend_reader(footer) as reader:
            before = len(reader.decoded)
            for row_group, part in split_by_row_group(Slices(rows, rows + 1), footer.row_offsets):
                (vector,) = self._vectors.get_many([ColumnKey(self._file_id, column, row_group)])
                if vector is None:
                    vector = reader.decode(row_group, column)
                pieces.append(
                    widened(as_arrow(vector).take(pa.array(part.positions())), footer.schema.by_id[column].type)
                )
            if self._counters is not None:
                decoded = reader.decoded[before:]
                read = sum(footer.chunk_bytes(row_group, column) for row_group in decoded)
                self._counters.add(vector_misses=len(decoded), bytes_read=read)
        return pa.concat_arrays(pieces)

    def _decode_many(self, keys: Sequence[ColumnKey], places: Sequence[int]) -> Iterator[tuple[int, Any]]:
        """Decode some of the keys, on several threads when there are several: Arrow lets them work side by side."""
        footer = self.footer
        workers = min(_DECODERS_MAX, len(places) // _THREAD_COLUMNS_MIN)
        if workers < 2:
            yield from self._decode(footer, keys, places)
            return
        others = [_decoders().submit(self._decode, footer, keys, places[first::workers]) for first in range(1, workers)]
        yield from self._decode(footer, keys, places[::workers])
        for other in others:
            yield from other.result()

    def _decode(self, footer: Footer, keys: Sequence[ColumnKey], places: Sequence[int]) -> list[tuple[int, Any]]:
        found = []
        with self._lend_reader(footer) as reader:
            before = len(reader.decoded)
            for at in places:
                load = partial(reader.decode, keys[at].row_group, keys[at].column)
                found.append((at, self._vectors.get_or_load(keys[at], load, weigh)))
            if self._counters is not None:
                # A column that another scan decoded meanwhile counts as read all the same.
                read = sum(footer.chunk_bytes(keys[at].row_group, keys[at].column) for at in places)
                self._counters.add(vector_misses=len(reader.decoded) - before, bytes_read=read)
        return found

    def _take_field(self, key: ColumnKey, held: Held, rows: Slices, kind: pa.DataType) -> pa.Array:
        """Return rows of a decoded column in the type they were written with.

        A read of many rows of a narrow column keeps a wide one too: scans then share its memory.
        """
        vector = as_arrow(held)
        if is_narrower(vector, kind) and _WIDE_ROWS_RATIO * rows.rows >= len(vector):
            wide = key._replace(form=ColumnForm.WIDE)
            vector = self._vectors.get_or_load(wide, lambda: widened(vector, kind), weigh)
        return widened(rows.take_arrow(vector), kind)

    def _read_numpy(self, footer: Footer, column: ColumnId, rows: Slices, kind: np.dtype[Any]) -> npt.NDArray[Any]:
        pieces = [take_numbers(vector, part) for _, vector, part in self._along(footer, column, rows)]
        if not pieces:
            return np.empty(0, dtype=kind)
        return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)

    def _along(self, footer: Footer, column: ColumnId, rows: Slices) -> Iterator[tuple[ColumnKey, Any, Slices]]:
        """Yield the decoded column of each row group that rows lie in, with its key and the rows in it."""
        with self._lend_reader(footer) as reader:
            before = len(reader.decoded)
            row_groups = split_by_row_group(rows, footer.row_offsets)
            for row_group, part in row_groups:
                key = ColumnKey(self._file_id, column, row_group)
                yield key, self._vectors.get_or_load(key, partial(reader.decode, row_group, column), weigh), part
            if self._counters is not None:
                decoded = reader.decoded[before:]
                read = sum(footer.chunk_bytes(row_group, column) for row_group in decoded)
                hits = len(row_groups) - len(decoded)
                self._counters.add(vector_hits=hits, vector_misses=len(decoded), bytes_read=read)

    @contextmanager
    def _lend_reader(self, footer: Footer) -> Iterator[ColumnReader]:
        """Lend a reader of columns to one thread."""
        idle = self._idle
        try:
            reader = idle.pop()
        except IndexError:
            policy = self._policy
            reader = self._content.open_columns(footer, policy.pages, holds_narrow=policy.holds_narrow)
        try:
            yield reader
        except BaseException as error:
            reader.close()
            self._content.note(error)
            raise
        # There are never more than threads that read at the same time; they are closed with this reader.
        idle.append(reader)


def _by_column(vectors: list[Any], count: int) -> list[list[Any]]:
    """Return decoded columns, each with an array for each of some row groups."""
    return [vectors[at : at + count] for at in range(0, len(vectors), count or 1)]
