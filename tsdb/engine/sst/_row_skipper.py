"""Leaving out rows of a data file by the skipping and full-text indexes of its columns.

    column = value ─▶ filters of the row ranges that are asked for ─▶ row ranges that may hold it

The filters are read only if they take less than the column itself does in the same rows (`bytes_ratio`).
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from tsdb.engine.index import BLOOM, FULLTEXT, BloomIndex, IndexFile, PagedBlob, RowSpan, TextIndex
from tsdb.engine.manifest import FileMeta
from tsdb.engine.rows.source import Wanted
from tsdb.engine.sst._footer import Footer
from tsdb.model import ColumnId

_OBJECT_BYTES = 2048


def skipping_columns(meta: FileMeta) -> frozenset[ColumnId]:
    """Return the columns that have a skipping index."""
    return _columns(meta, BLOOM)


def fulltext_columns(meta: FileMeta) -> frozenset[ColumnId]:
    """Return the columns that have a full-text index."""
    return _columns(meta, FULLTEXT)


def _columns(meta: FileMeta, kind: str) -> frozenset[ColumnId]:
    prefix = f"{kind}."
    return frozenset(ColumnId(int(name.removeprefix(prefix))) for name in meta.indexes if name.startswith(prefix))


class RowSkipper:
    """The open skipping and full-text indexes of one file. Safe for many threads."""

    def __init__(self, index: IndexFile, meta: FileMeta) -> None:
        self._values = {column: BloomIndex(index, column, rows=meta.rows) for column in skipping_columns(meta)}
        self._texts = {column: TextIndex(index, column, rows=meta.rows) for column in fulltext_columns(meta)}
        index.release_end()

    @property
    def nbytes(self) -> int:
        pages = [each.pages for each in self._values.values()] + [each.pages for each in self._texts.values()]
        return sum(each.blob.directory.nbytes + _OBJECT_BYTES for each in pages)

    def find(
        self,
        footer: Footer,
        column: ColumnId,
        wanted: Wanted,
        span: RowSpan,
        bytes_ratio: float,
        read_page: Callable[[PagedBlob, int], pa.RecordBatch],
    ) -> list[RowSpan] | None:
        """Return the row ranges in which a column may have what is wanted; None if the column costs less."""
        index = self._values[column].pages if isinstance(wanted, pa.Array) else self._texts[column].pages
        pages = index.pages_of(*span)
        if index.blob.bytes_of(pages) > bytes_ratio * _column_bytes(footer, column, span):
            return None
        may_have = self._test(column, wanted)
        return [
            rows for page in pages.tolist() for rows in index.rows_where(page, read_page(index.blob, page), may_have)
        ]

    def _test(self, column: ColumnId, wanted: Wanted) -> Callable[..., bool]:
        if isinstance(wanted, pa.Array):
            return self._values[column].test(wanted)
        return self._texts[column].test(wanted)


def _column_bytes(footer: Footer, column: ColumnId, span: RowSpan) -> int:
    """Return what a column takes in the row groups that some rows lie in."""
    first = int(footer.row_offsets.searchsorted(span[0], side="right")) - 1
    last = int(footer.row_offsets.searchsorted(span[1], side="left"))
    return sum(footer.chunk_bytes(row_group, column) for row_group in range(first, last))
