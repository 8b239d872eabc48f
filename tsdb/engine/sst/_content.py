"""The content of a data file and of its index as they are stored: read and checked, not kept."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

import pyarrow as pa

from tsdb.engine.errors import FileCorrupted, StorageUnavailable, damage_of
from tsdb.engine.index import IndexDamaged, IndexFile
from tsdb.engine.manifest import FileMeta, data_path, index_path
from tsdb.engine.ranges import read_range
from tsdb.engine.rows.cache import ByteCache, PageKey
from tsdb.engine.rows.series import SeriesBlock
from tsdb.engine.sst._block import SERIES_BLOB, RowGroupKeys, decode_block, rebuild_block
from tsdb.engine.sst._column_reader import ColumnReader
from tsdb.engine.sst._columns import TSID
from tsdb.engine.sst._footer import Footer, read_footer
from tsdb.engine.sst._input import reading
from tsdb.engine.sst._row_skipper import RowSkipper
from tsdb.engine.sst._series_finder import SeriesFinder
from tsdb.errors import TsdbError
from tsdb.model import RegionSchema
from tsdb.store import LocalCopy, ObjectStore, RangeFile, StoreError, distrust, is_local, local_copy

_log = logging.getLogger("tsdb.sst")

Pages = ByteCache[PageKey, bytes]
OnDamage = Callable[[str], None]
"""Is told why a file cannot be read, on the thread that tried."""


def ignore_damage(reason: str) -> None:
    """Nobody is responsible for the file."""


class FileContent:
    """What is stored of a data file."""

    __slots__ = ("__weakref__", "_has_warned", "_on_damage", "_store", "directory", "meta")

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

    def note_elsewhere(self, reason: str) -> None:
        """Tell of damage that another process has found in the file, or in the copy of it on this machine."""
        if not distrust(self._store, self.path):
            self._on_damage(reason)

    def local_copy(self) -> LocalCopy | None:
        """Return where the file and its index are on this machine, to be read by another process."""
        paths = [self.path, self._index_path] if self.meta.has_index else [self.path]
        return local_copy(self._store, paths)

    def read_footer(self) -> Footer:
        try:
            return self._read_footer()
        except FileCorrupted as error:
            if not distrust(self._store, self.path):
                self.note(error)
                raise
        try:
            return self._read_footer()
        except TsdbError as error:
            self.note(error)
            raise

    def _read_footer(self) -> Footer:
        footer = read_footer(self._store, self.path, self.meta.size_bytes, self.meta.footer_checksum)
        if footer.rows != self.meta.rows:
            raise FileCorrupted(file=self.path, reason=f"it holds {footer.rows} rows, expected {self.meta.rows}")
        return footer

    def read_block(self, footer: Footer, pages: Pages | None) -> SeriesBlock:
        """Read the series block from the index, or make it from the rows if there is none."""
        if self.meta.has_index:
            try:
                return self._read_index(footer)
            except (IndexDamaged, StoreError, StorageUnavailable) as error:
                self.warn(error)
        try:
            with reading(self.path), self.open_columns(footer, pages) as reader:
                return rebuild_block(_keys(footer, reader), footer.schema)
        except TsdbError as error:
            self.note(error)
            raise

    def open_columns(self, footer: Footer, pages: Pages | None, *, holds_narrow: bool = False) -> ColumnReader:
        """Return a reader of columns; bytes of what is not on this machine go through `pages`."""
        path, store = self.path, self._store

        def may_be_mended() -> bool:
            return distrust(store, path)

        if pages is None or is_local(store, path):
            return ColumnReader(
                path, footer, lambda: store.open_input(path), holds_narrow=holds_narrow, may_be_mended=may_be_mended
            )

        def read_page(offset: int, length: int) -> bytes:
            key = PageKey(self.meta.file_id, offset, length)
            return pages.get_or_load(key, lambda: read_range(store, path, offset, length), len)

        def open_pages() -> pa.NativeFile:
            return RangeFile(self.meta.size_bytes, read_page).as_arrow()

        return ColumnReader(path, footer, open_pages, read_page, holds_narrow=holds_narrow)

    def open_finder(self, footer: Footer) -> SeriesFinder:
        """Open the inverted indexes; IndexDamaged or StoreError if that cannot be done."""
        return SeriesFinder(self.open_index(), self.meta, footer.schema)

    def open_skipper(self) -> RowSkipper:
        """Open the skipping indexes; IndexDamaged or StoreError if that cannot be done."""
        return RowSkipper(self.open_index(), self.meta)

    def open_index(self) -> IndexFile:
        return IndexFile(self._store, self._index_path, self.meta.index_size_bytes, file_id=self.meta.file_id)

    def _read_index(self, footer: Footer) -> SeriesBlock:
        """Read the series block from the index; IndexDamaged or a StoreError if that is not possible."""
        try:
            return self._read_indexed_block(footer)
        except IndexDamaged:
            if not self.distrust_index():
                raise
            return self._read_indexed_block(footer)

    def _read_indexed_block(self, footer: Footer) -> SeriesBlock:
        return self.decode_series(self.open_index(), footer.schema)

    def decode_series(self, index: IndexFile, schema: RegionSchema) -> SeriesBlock:
        """Read the series block from an open index."""
        blob = index.blob(SERIES_BLOB)
        if blob is None:
            raise IndexDamaged("it has no series block")
        block = decode_block(blob, schema)
        if block.rows != self.meta.rows or len(block) != self.meta.series:
            raise IndexDamaged(f"its series block is of {len(block)} series and {block.rows} rows")
        return block

    def distrust_index(self) -> bool:
        """The index is damaged: True if that may be a copy of it, and the next read is of another."""
        return distrust(self._store, self._index_path)

    def trust_index(self) -> None:
        """All of the index was found to be whole: queries may use it."""
        self._has_warned = False

    @property
    def is_index_damaged(self) -> bool:
        """Whether the index was found to be of no use."""
        return self._has_warned

    def warn(self, error: Exception) -> None:
        """Say once that the index cannot be used."""
        if not self._has_warned:
            self._has_warned = True
            _log.warning("the index %s cannot be used, the data file is read instead: %s", self._index_path, error)


def _keys(footer: Footer, reader: ColumnReader) -> Iterator[RowGroupKeys]:
    wanted = [*(tag.id for tag in footer.schema.tags), TSID, footer.schema.time.id]
    for row_group in range(footer.row_groups):
        *tags, tsid, times = reader.read_stored(row_group, wanted)
        yield RowGroupKeys(tags, tsid.to_numpy(), times.view(pa.int64()).to_numpy())
