"""The content of a data file and of its index as they are stored: read and checked, not kept."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

import pyarrow as pa

from tsdb.engine.errors import FileCorrupted, damage_of
from tsdb.engine.manifest import FileMeta, data_path, index_path
from tsdb.engine.rows.cache import ByteCache, PageKey
from tsdb.engine.rows.series import SeriesBlock
from tsdb.engine.sst._block import SERIES_BLOB, RowGroupKeys, decode_block, rebuild_block
from tsdb.engine.sst._column_reader import ColumnReader
from tsdb.engine.sst._columns import TSID
from tsdb.engine.sst._container import IndexDamaged, IndexFile
from tsdb.engine.sst._footer import Footer, read_footer
from tsdb.engine.sst._input import RangeFile, reading
from tsdb.errors import TsdbError
from tsdb.store import ObjectStore, StoreError

_log = logging.getLogger("tsdb.sst")

Pages = ByteCache[PageKey, bytes]
OnDamage = Callable[[str], None]
"""Is told why a file cannot be read, on the thread that tried."""


def ignore_damage(reason: str) -> None:
    """Nobody is responsible for the file."""


class FileContent:
    """What is stored of a data file."""

    __slots__ = ("_has_warned", "_on_damage", "_store", "directory", "meta")

    def __init__(self, meta: FileMeta, store: ObjectStore, directory: str, on_damage: OnDamage = ignore_damage) -> None:
        self.meta = meta
        self._on_damage = on_damage
        self._store = store
        self.directory = directory
        self._has_warned = False

    @property
    def path(self) -> str:
        return data_path(self.directory, self.meta.file_id)

    @property
    def _index_path(self) -> str:
        return index_path(self.directory, self.meta.file_id)

    def note(self, error: BaseException) -> None:
        """Tell of an error if it is the file's fault."""
        reason = damage_of(error)
        if reason is not None:
            self._on_damage(reason)

    def read_footer(self) -> Footer:
        try:
            footer = read_footer(self._store, self.path, self.meta.size_bytes)
            if footer.rows != self.meta.rows:
                raise FileCorrupted(file=self.path, reason=f"it holds {footer.rows} rows, expected {self.meta.rows}")
        except TsdbError as error:
            self.note(error)
            raise
        return footer

    def read_block(self, footer: Footer, pages: Pages | None) -> SeriesBlock:
        """Read the series block from the index, or make it from the rows if there is none."""
        if self.meta.has_index:
            try:
                return self.read_indexed_block(footer)
            except (IndexDamaged, StoreError) as error:
                self._warn(error)
        try:
            with reading(self.path), self.open_columns(footer, pages) as reader:
                return rebuild_block(_keys(footer, reader), footer.schema)
        except TsdbError as error:
            self.note(error)
            raise

    def open_columns(self, footer: Footer, pages: Pages | None, *, holds_narrow: bool = False) -> ColumnReader:
        """Return a reader of columns; bytes go through `pages`."""
        path = self.path
        if pages is None:
            return ColumnReader(path, footer, lambda: self._store.open_input(path), holds_narrow=holds_narrow)

        def read_page(offset: int, length: int) -> bytes:
            key = PageKey(self.meta.file_id, offset, length)
            return pages.get_or_load(key, lambda: self._store.get_range(path, offset, length), len)

        def open_pages() -> pa.NativeFile:
            return RangeFile(self.meta.size_bytes, read_page).as_arrow()

        return ColumnReader(path, footer, open_pages, read_page, holds_narrow=holds_narrow)

    def read_indexed_block(self, footer: Footer) -> SeriesBlock:
        """Read the series block from the index; IndexDamaged or a StoreError if that is not possible."""
        index = IndexFile(self._store, self._index_path, self.meta.index_size_bytes, file_id=self.meta.file_id)
        blob = index.blob(SERIES_BLOB)
        if blob is None:
            raise IndexDamaged("it has no series block")
        block = decode_block(blob, footer.schema)
        if block.rows != self.meta.rows or len(block) != self.meta.series:
            raise IndexDamaged(f"its series block is of {len(block)} series and {block.rows} rows")
        return block

    def _warn(self, error: Exception) -> None:
        if not self._has_warned:
            self._has_warned = True
            _log.warning("the index %s cannot be used, the data file is read instead: %s", self._index_path, error)


def _keys(footer: Footer, reader: ColumnReader) -> Iterator[RowGroupKeys]:
    wanted = [*(tag.id for tag in footer.schema.tags), TSID, footer.schema.time.id]
    for row_group in range(footer.row_groups):
        *tags, tsid, times = reader.read_stored(row_group, wanted)
        yield RowGroupKeys(tags, tsid.to_numpy(), times.view(pa.int64()).to_numpy())
