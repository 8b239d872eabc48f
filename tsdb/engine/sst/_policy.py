"""Cache policies of readers: what a reader finds in memory, and what stays there after it.

| policy    | used by                 | decoded columns                | footer and series block             |
|-----------|-------------------------|--------------------------------|-------------------------------------|
| `Cached`  | queries                 | in the cache, numbers narrow   | in the cache                        |
| `Passing` | flushes and compactions | the last row group of each one | from the cache if there, never kept |
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

import pyarrow as pa

from tsdb.engine.errors import StorageUnavailable
from tsdb.engine.index import IndexDamaged, PagedBlob, RowSpan, TagTest
from tsdb.engine.rows.cache import Caches, MetaKey
from tsdb.engine.rows.series import FoundSeries, SeriesBlock
from tsdb.engine.rows.source import Wanted
from tsdb.engine.rows.vectors import CarryOver, Vectors
from tsdb.engine.sst._content import FileContent, Pages
from tsdb.engine.sst._footer import Footer
from tsdb.engine.sst._row_skipper import RowSkipper
from tsdb.engine.sst._series_finder import SeriesFinder
from tsdb.model import ColumnId
from tsdb.store import StoreError

_BLOCK_TIMES = 16
"""A series block takes several times as much in memory as in its file; one that would fill the cache is not loaded for
the sake of queries that need little of it."""


class CachePolicy(Protocol):
    """Where a reader looks before it reads."""

    vectors: Vectors
    """Decoded columns."""
    pages: Pages | None
    """Columns as they are stored."""
    holds_narrow: bool
    """Whether numbers of 64 bits are held in the narrowest type that has room for them, and times as steps."""

    def footer(self, content: FileContent) -> Footer: ...

    def block(self, content: FileContent, footer: Callable[[], Footer]) -> SeriesBlock: ...

    def has_block(self, content: FileContent) -> bool:
        """Whether the series block need not be read."""
        ...

    def find(
        self,
        content: FileContent,
        footer: Callable[[], Footer],
        tests: Sequence[TagTest],
        on_read: Callable[[int], None],
    ) -> FoundSeries | None:
        """Find series by inverted indexes; None if the whole block costs less. `on_read` is told of bytes read."""
        return None

    def skip(
        self,
        content: FileContent,
        footer: Footer,
        column: ColumnId,
        wanted: Wanted,
        span: RowSpan,
        bytes_ratio: float,
        on_read: Callable[[int], None],
    ) -> list[RowSpan] | None:
        """Find the row ranges in which a column may have what is wanted; None if that costs too much."""
        return None


class Cached(CachePolicy):
    """What is read stays in the caches of the process."""

    __slots__ = ("_meta", "pages", "vectors")
    holds_narrow = True

    def __init__(self, caches: Caches) -> None:
        self._meta = caches.sst_meta
        self.vectors: Vectors = caches.vectors
        self.pages = caches.pages if caches.pages.is_enabled else None

    def footer(self, content: FileContent) -> Footer:
        key = MetaKey(content.meta.file_id, "footer")
        footer: Footer = self._meta.get_or_load(key, content.read_footer, lambda footer: footer.nbytes)
        return footer

    def block(self, content: FileContent, footer: Callable[[], Footer]) -> SeriesBlock:
        key = MetaKey(content.meta.file_id, "block")
        block: SeriesBlock = self._meta.get_or_load(
            key, lambda: content.read_block(footer(), self.pages), lambda block: block.nbytes
        )
        return block

    def has_block(self, content: FileContent) -> bool:
        return self._meta.has_all((MetaKey(content.meta.file_id, "block"),))

    def find(
        self,
        content: FileContent,
        footer: Callable[[], Footer],
        tests: Sequence[TagTest],
        on_read: Callable[[int], None],
    ) -> FoundSeries | None:
        meta, file_id = self._meta, content.meta.file_id
        if content.is_index_damaged:
            return None
        try:
            finder: SeriesFinder = meta.get_or_load(
                MetaKey(file_id, "index"), lambda: content.open_finder(footer()), lambda finder: finder.nbytes
            )
            if finder.spent_bytes > finder.block_bytes and _BLOCK_TIMES * finder.block_bytes <= meta.capacity_bytes:
                finder.spent_bytes = 0
                return None
            return finder.find(tests, partial(self._read_page, file_id, on_read))
        except (IndexDamaged, StoreError, StorageUnavailable) as error:
            content.warn(error)
            return None

    def skip(
        self,
        content: FileContent,
        footer: Footer,
        column: ColumnId,
        wanted: Wanted,
        span: RowSpan,
        bytes_ratio: float,
        on_read: Callable[[int], None],
    ) -> list[RowSpan] | None:
        file_id = content.meta.file_id
        if content.is_index_damaged:
            return None
        try:
            skipper: RowSkipper = self._meta.get_or_load(
                MetaKey(file_id, "skipper"), content.open_skipper, lambda skipper: skipper.nbytes
            )
            return skipper.find(footer, column, wanted, span, bytes_ratio, partial(self._read_page, file_id, on_read))
        except (IndexDamaged, StoreError, StorageUnavailable) as error:
            content.warn(error)
            return None

    def _read_page(self, file_id: str, on_read: Callable[[int], None], blob: PagedBlob, page: int) -> pa.RecordBatch:
        def read() -> pa.RecordBatch:
            on_read(int(blob.directory.lengths[page]))
            return blob.read(page)

        return self._meta.get_or_load(MetaKey(file_id, f"{blob.name}:{page}"), read, lambda batch: batch.nbytes)


class Passing(CachePolicy):
    """A reader goes through a file once, without indexes, and leaves no trace in the caches. For one reader."""

    __slots__ = ("_meta", "vectors")
    pages = None
    holds_narrow = False

    def __init__(self, caches: Caches) -> None:
        self._meta = caches.sst_meta
        self.vectors: Vectors = CarryOver()

    def footer(self, content: FileContent) -> Footer:
        footer: Footer | None = self._meta.peek(MetaKey(content.meta.file_id, "footer"))
        return footer or content.read_footer()

    def block(self, content: FileContent, footer: Callable[[], Footer]) -> SeriesBlock:
        block: SeriesBlock | None = self._meta.peek(MetaKey(content.meta.file_id, "block"))
        return content.read_block(footer(), None) if block is None else block

    def has_block(self, content: FileContent) -> bool:
        return True  # all of it is read in any case
