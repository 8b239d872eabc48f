"""A data file as a source: nothing is read before it is asked for, and no more of it than the rows lie in."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache, partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tsdb.engine.errors import FileCorrupted
from tsdb.engine.manifest import FileMeta, data_path, index_path
from tsdb.engine.rows.cache import ByteCache, Caches, MetaKey, PageKey, VectorKey
from tsdb.engine.rows.series import SeriesBlock
from tsdb.engine.rows.slices import Slices
from tsdb.engine.rows.source import Counters, SourceFacts
from tsdb.engine.sst._block import SERIES_BLOB, RowGroupKeys, decode_block, rebuild_block
from tsdb.engine.sst._columns import OP_TYPE, SEQUENCE, TSID
from tsdb.engine.sst._container import IndexDamaged, IndexFile
from tsdb.engine.sst._footer import Footer, read_footer
from tsdb.engine.sst._input import RangeFile
from tsdb.engine.sst._reader import ColumnReader
from tsdb.engine.sst._vectors import CarryOver, Vectors, split_by_row_group
from tsdb.model import ColumnId, RegionSchema
from tsdb.store import ObjectStore, StoreError

_log = logging.getLogger("tsdb.sst")

_DECODERS_MAX = min(4, os.cpu_count() or 1)
"""How many threads decode for one reader."""
_WIDE = pa.int64()
"""The type whose values may be held in a narrower one."""
_WIDE_SHARE = 8
"""Who reads one row of this many or more gets them from a column in its own type."""
_SHARE_MIN = 4
"""How many columns of row groups are worth a second thread."""

# Where a row group's number is expected: the last rows of all series of a file, and the first.
_LAST_ROWS = -1
_FIRST_ROWS = -2
_WIDE_ROWS = -3
"""And from here downwards the row groups again, in the type that they were written with."""


@cache
def _decoders() -> ThreadPoolExecutor:
    """The threads that decode for all readers together: more than there are cores would only wait."""
    return ThreadPoolExecutor(_DECODERS_MAX, thread_name_prefix="tsdb-decode")


class SstFile:
    """A `Source` over one data file. Safe for many readers at once.

    A region has one of these for every file, perhaps thousands: what is read of a file is in the caches, not here.
    """

    __slots__ = (
        "__weakref__",
        "_counters",
        "_directory",
        "_idle",
        "_is_passing",
        "_pages",
        "_pinned",
        "_sst_meta",
        "_store",
        "_vectors",
        "_warned",
        "facts",
        "meta",
    )

    def __init__(self, meta: FileMeta, *, store: ObjectStore, directory: str, caches: Caches) -> None:
        self.meta = meta
        self.facts = SourceFacts(
            rows=meta.rows,
            time_range=meta.time_range,
            sequence_min=meta.sequence_min,
            sequence_max=meta.sequence_max,
            has_tombstones=meta.has_tombstones,
            is_unique=meta.is_unique,
        )
        self._store = store
        self._directory = directory
        self._sst_meta = caches.sst_meta
        self._vectors: Vectors = caches.vectors
        self._pages = caches.pages
        self._pinned: tuple[Footer, SeriesBlock | None] | None = None
        self._warned: list[bool] = []
        """Shared by all views: not empty once a damaged index was told of."""
        self._counters: Counters | None = None
        self._idle: list[ColumnReader] | None = None
        self._is_passing = False
        """Whether nothing that is read stays in memory."""

    def observed(self, counters: Counters) -> SstFile:
        """Return a view for one scan, which is told what was decoded before and what has to be read.

        It keeps the file open between columns: opening one costs as much as it has columns.
        """
        view = self._copy()
        view._counters = counters
        view._idle = []
        return view

    def _copy(self) -> SstFile:
        """Return the same file once more: every scan does that for every file, and `copy` takes ten times as long."""
        view = object.__new__(SstFile)
        view.meta, view.facts = self.meta, self.facts
        view._store, view._directory = self._store, self._directory
        view._sst_meta, view._vectors, view._pages = self._sst_meta, self._vectors, self._pages
        view._pinned, view._warned = self._pinned, self._warned
        view._counters, view._idle, view._is_passing = self._counters, self._idle, self._is_passing
        return view

    def uncached(self) -> SstFile:
        """Return a view for one reader that goes through the file once and leaves no trace in the caches.

        It keeps the file open between columns.
        """
        view = self._copy()
        view._vectors = CarryOver()
        view._is_passing = True
        view._pages = ByteCache(0, "none")
        view._idle = []
        footer = self._sst_meta.peek(MetaKey(self.meta.file_id, "footer")) or view._load_footer()
        view._pinned = footer, None
        view._pinned = footer, self._sst_meta.peek(MetaKey(self.meta.file_id, "block")) or view._load_block()
        return view

    @property
    def _path(self) -> str:
        return data_path(self._directory, self.meta.file_id)

    @property
    def _index_path(self) -> str:
        return index_path(self._directory, self.meta.file_id)

    @property
    def schema(self) -> RegionSchema:
        return self.footer.schema

    @property
    def footer(self) -> Footer:
        if self._pinned is not None:
            return self._pinned[0]
        key = MetaKey(self.meta.file_id, "footer")
        footer: Footer = self._sst_meta.get_or_load(key, self._load_footer, lambda footer: footer.nbytes)
        if self._counters is not None:
            # A scan asks for it again and again.
            self._pinned = footer, None
        return footer

    @property
    def block(self) -> SeriesBlock:
        if self._pinned is not None and self._pinned[1] is not None:
            return self._pinned[1]
        key = MetaKey(self.meta.file_id, "block")
        block: SeriesBlock = self._sst_meta.get_or_load(key, self._load_block, lambda block: block.nbytes)
        if self._counters is not None:
            self._pinned = self.footer, block
        return block

    def times(self, rows: Slices) -> npt.NDArray[np.int64]:
        footer = self.footer
        if len(rows.starts) == 1 and (known := self._known_times(footer, int(rows.starts[0]), int(rows.stops[0]))):
            return known[0]
        return self._read_numpy(footer, footer.schema.time.id, rows, np.dtype(np.int64))

    def _known_times(self, footer: Footer, start: int, stop: int) -> list[npt.NDArray[np.int64]]:
        """Return the times of one stretch if it lies in one row group whose times are decoded; otherwise nothing."""
        row_group = int(footer.row_offsets.searchsorted(start, side="right")) - 1
        if start >= stop or stop > footer.row_offsets[row_group + 1]:
            return []
        (times,) = self._vectors.get_many([VectorKey(self.meta.file_id, row_group, footer.schema.time.id)])
        if times is None:
            return []
        if self._counters is not None:
            self._counters.add(vector_hits=1)
        first = int(footer.row_offsets[row_group])
        return [times[start - first : stop - first]]

    def sequences(self, rows: Slices) -> npt.NDArray[np.uint64]:
        footer = self.footer
        if SEQUENCE not in footer.leaves:
            return np.full(rows.rows, footer.constant_sequence, dtype=np.uint64)
        return self._read_numpy(footer, SEQUENCE, rows, np.dtype(np.uint64))

    def ops(self, rows: Slices) -> npt.NDArray[np.uint8] | None:
        if not self.meta.has_tombstones:
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
        return not self._is_passing

    def stored_type(self, column: ColumnId) -> pa.DataType | None:
        footer = self.footer
        return footer.schema.by_id[column].type if column in footer.leaves else None

    def stores_whole(self, column: ColumnId) -> bool:
        """Whether the values of a field are known to be whole numbers, because they are stored as such."""
        return self.footer.is_whole(column)

    def has_pieces(self, numbers: Sequence[int], columns: Sequence[ColumnId]) -> bool:
        file = self.meta.file_id
        return self._vectors.has_all(VectorKey(file, number, column) for column in columns for number in numbers)

    def pieces(
        self, numbers: Sequence[int], columns: Sequence[ColumnId], *, is_narrow: bool = False
    ) -> list[list[pa.Array]]:
        """Return columns of row groups, times as int64; with `is_narrow` integers as they are held."""
        file = self.meta.file_id
        keys = [VectorKey(file, number, column) for column in columns for number in numbers]
        vectors = self._vectors.get_many(keys)
        missing = [at for at, vector in enumerate(vectors) if vector is None]
        if missing:
            for at, vector in self._decode_many(keys, missing):
                vectors[at] = vector
        if self._counters is not None:
            self._counters.add(vector_hits=len(keys) - len(missing))
        found = _by_column(vectors, len(numbers))
        if is_narrow:
            return found
        kinds = self.footer.schema.by_id
        return [
            [_widened(values, kinds[column].type) for values in own] if column in kinds else own
            for column, own in zip(columns, found, strict=True)
        ]

    def pieces_at_hand(self, numbers: Sequence[int], columns: Sequence[ColumnId]) -> list[list[pa.Array]] | None:
        file = self.meta.file_id
        vectors = self._vectors.get_many([VectorKey(file, number, column) for column in columns for number in numbers])
        if any(vector is None for vector in vectors):
            return None
        if self._counters is not None:
            self._counters.add(vector_hits=len(vectors))
        return _by_column(vectors, len(numbers))

    def series_ends(
        self, columns: Sequence[ColumnId], rows: npt.NDArray[np.int64], *, is_newest: bool
    ) -> list[pa.Array] | None:
        """Return fields in the last rows of series, or in the first; None if rows are others, or few."""
        offsets = self.block.offsets
        ends = offsets[1:] - 1 if is_newest else offsets[:-1]
        series = offsets.searchsorted(rows, side="right") - 1
        if not np.array_equal(ends[series], rows):
            return None
        part = _LAST_ROWS if is_newest else _FIRST_ROWS
        keys = [VectorKey(self.meta.file_id, part, column) for column in columns]
        if 2 * len(rows) < len(ends) and not self._vectors.has_all(keys):
            return None
        footer = self.footer

        def load(key: VectorKey) -> pa.Array:
            return self._vectors.get_or_load(key, lambda: self._load_ends(footer, key.column, ends), _weigh)

        found = self._vectors.get_many(keys)
        missing = [at for at, values in enumerate(found) if values is None]
        loaded = list(
            map(load, [keys[at] for at in missing])
            if len(missing) < 2
            else _decoders().map(load, [keys[at] for at in missing])
        )
        for at, values in zip(missing, loaded, strict=True):
            found[at] = values
        if self._counters is not None:
            self._counters.add(vector_hits=len(keys) - len(missing))
        if np.array_equal(rows, ends):
            return found
        places = pa.array(series)
        return [values.take(places) for values in found]

    def _load_ends(self, footer: Footer, column: ColumnId, rows: npt.NDArray[np.int64]) -> pa.Array:
        """Read a column in some rows; what is decoded for that is not kept."""
        pieces = []
        with self._reader(footer) as reader:
            before = len(reader.decoded)
            for row_group, part in split_by_row_group(Slices(rows, rows + 1), footer.row_offsets):
                (vector,) = self._vectors.get_many([VectorKey(self.meta.file_id, row_group, column)])
                if vector is None:
                    vector = reader.decode(row_group, column)
                pieces.append(_widened(vector.take(pa.array(part.positions())), footer.schema.by_id[column].type))
            if self._counters is not None:
                decoded = reader.decoded[before:]
                read = sum(footer.chunk_bytes(row_group, column) for row_group in decoded)
                self._counters.add(vector_misses=len(decoded), bytes_read=read)
        return pa.concat_arrays(pieces)

    def _decode_many(self, keys: Sequence[VectorKey], places: Sequence[int]) -> Iterator[tuple[int, Any]]:
        """Decode some of the keys, on several threads when there are several: Arrow lets them work side by side."""
        footer = self.footer
        workers = min(_DECODERS_MAX, len(places) // _SHARE_MIN)
        if workers < 2:
            yield from self._decode_share(footer, keys, places)
            return
        shares = [
            _decoders().submit(self._decode_share, footer, keys, places[first::workers]) for first in range(1, workers)
        ]
        yield from self._decode_share(footer, keys, places[::workers])
        for share in shares:
            yield from share.result()

    def _decode_share(self, footer: Footer, keys: Sequence[VectorKey], places: Sequence[int]) -> list[tuple[int, Any]]:
        found = []
        with self._reader(footer) as reader:
            before = len(reader.decoded)
            for at in places:
                load = partial(reader.decode, keys[at].row_group, keys[at].column)
                found.append((at, self._vectors.get_or_load(keys[at], load, _weigh)))
            if self._counters is not None:
                # What somebody else decoded meanwhile was read all the same.
                read = sum(footer.chunk_bytes(keys[at].row_group, keys[at].column) for at in places)
                self._counters.add(vector_misses=len(reader.decoded) - before, bytes_read=read)
        return found

    def _take_field(self, key: VectorKey, vector: pa.Array, rows: Slices, kind: pa.DataType) -> pa.Array:
        """Return rows of a decoded column in the type they were written with.

        Of a narrow column that much is asked for of, a wide one is kept too: scans then share its memory.
        """
        if kind == _WIDE and vector.type != kind and _WIDE_SHARE * rows.rows >= len(vector):
            wide = VectorKey(key.file_id, _WIDE_ROWS - key.row_group, key.column)
            vector = self._vectors.get_or_load(wide, lambda: vector.cast(kind), _weigh)
        return _widened(rows.take_arrow(vector), kind)

    def _read_numpy(self, footer: Footer, column: ColumnId, rows: Slices, kind: np.dtype[Any]) -> npt.NDArray[Any]:
        pieces = [part.take(vector) for _, vector, part in self._along(footer, column, rows)]
        if not pieces:
            return np.empty(0, dtype=kind)
        return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)

    def _along(self, footer: Footer, column: ColumnId, rows: Slices) -> Iterator[tuple[VectorKey, Any, Slices]]:
        """Yield the decoded column of each row group that rows lie in, with its key and the rows in it."""
        with self._reader(footer) as reader:
            before = len(reader.decoded)
            row_groups = split_by_row_group(rows, footer.row_offsets)
            for row_group, part in row_groups:
                key = VectorKey(self.meta.file_id, row_group, column)
                yield key, self._vectors.get_or_load(key, partial(reader.decode, row_group, column), _weigh), part
            if self._counters is not None:
                decoded = reader.decoded[before:]
                read = sum(footer.chunk_bytes(row_group, column) for row_group in decoded)
                hits = len(row_groups) - len(decoded)
                self._counters.add(vector_hits=hits, vector_misses=len(decoded), bytes_read=read)

    @contextmanager
    def _reader(self, footer: Footer) -> Iterator[ColumnReader]:
        """Lend a reader to one thread."""
        idle = self._idle
        if idle is None:
            with self._open_reader(footer) as reader:
                yield reader
            return
        try:
            reader = idle.pop()
        except IndexError:
            reader = self._open_reader(footer)
        try:
            yield reader
        except BaseException:
            reader.close()
            raise
        # There are never more than threads that read at the same time; they go with the view.
        idle.append(reader)

    def _open_reader(self, footer: Footer) -> ColumnReader:
        read_range = self._read_page if self._pages.is_enabled else None
        return ColumnReader(self._path, footer, self._open_source, read_range, holds_narrow=not self._is_passing)

    def _open_source(self) -> pa.NativeFile:
        if self._pages.is_enabled:
            return RangeFile(self.meta.size_bytes, self._read_page).as_arrow()
        return self._store.open_input(self._path)

    def _read_page(self, offset: int, length: int) -> bytes:
        key = PageKey(self.meta.file_id, offset, length)
        return self._pages.get_or_load(key, lambda: self._store.get_range(self._path, offset, length), len)

    def _load_footer(self) -> Footer:
        footer = read_footer(self._store, self._path, self.meta.size_bytes)
        if footer.rows != self.meta.rows:
            raise FileCorrupted(file=self._path, reason=f"it holds {footer.rows} rows, expected {self.meta.rows}")
        return footer

    def _load_block(self) -> SeriesBlock:
        footer = self.footer
        if self.meta.has_index:
            try:
                return self._load_indexed_block(footer)
            except (IndexDamaged, StoreError) as error:
                self._warn(error)
        return rebuild_block(self._keys(footer), footer.schema)

    def _load_indexed_block(self, footer: Footer) -> SeriesBlock:
        index = IndexFile(self._store, self._index_path, self.meta.index_size_bytes, file_id=self.meta.file_id)
        blob = index.blob(SERIES_BLOB)
        if blob is None:
            raise IndexDamaged("it has no series block")
        block = decode_block(blob, footer.schema)
        if block.rows != self.meta.rows or len(block) != self.meta.series:
            raise IndexDamaged(f"its series block is of {len(block)} series and {block.rows} rows")
        return block

    def _keys(self, footer: Footer) -> Iterator[RowGroupKeys]:
        wanted = [*(tag.id for tag in footer.schema.tags), TSID, footer.schema.time.id]
        with self._reader(footer) as reader:
            for row_group in range(footer.row_groups):
                *tags, tsid, times = reader.read_stored(row_group, wanted)
                yield RowGroupKeys(tags, tsid.to_numpy(), times.view(pa.int64()).to_numpy())

    def _warn(self, error: Exception) -> None:
        if not self._warned:
            self._warned.append(True)
            _log.warning("the index %s cannot be used, the data file is read instead: %s", self._index_path, error)


def _weigh(vector: Any) -> int:
    return int(vector.nbytes if isinstance(vector, np.ndarray) else vector.get_total_buffer_size())


def _widened(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return integers in the type they were written with; everything else has it, times are numbers."""
    is_narrow = kind == _WIDE and values.type != kind
    return values.cast(kind) if is_narrow else values


def _by_column(vectors: list[Any], count: int) -> list[list[pa.Array]]:
    """Return decoded columns, each with an array for each of some row groups."""
    arrays = [pa.array(vector) if isinstance(vector, np.ndarray) else vector for vector in vectors]
    return [arrays[at : at + count] for at in range(0, len(arrays), count or 1)]
