"""Finding series of a data file by their tags, without reading all of its series block.

    conditions on tags ─▶ pages of inverted indexes ─▶ places of series ─▶ pages of the series block ─▶ FoundSeries

What is found may be more than what fulfils the conditions, never less: the caller looks at the tags again.

An index is used as long as that costs less than the whole block: if the pages take more than half of it, or all pages
read so far more than the whole, the block is loaded, once, and stays in the cache, where every query finds it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from tsdb.engine.index import INVERTED, IndexFile, InvertedIndex, PagedBlob, TagTest
from tsdb.engine.manifest import FileMeta
from tsdb.engine.rows.series import FoundSeries, Positions
from tsdb.engine.sst._block import BlockPages
from tsdb.model import ColumnId, RegionSchema

ReadPage = Callable[[PagedBlob, int], pa.RecordBatch]
"""Returns a page of a blob by its number, from a cache or the store."""

_OBJECT_BYTES = 2048


def indexed_tags(meta: FileMeta) -> frozenset[ColumnId]:
    """Return the tags that have an inverted index."""
    prefix = f"{INVERTED}."
    return frozenset(ColumnId(int(name.removeprefix(prefix))) for name in meta.indexes if name.startswith(prefix))


class SeriesFinder:
    """The open index of one file: directories of pages. Safe for many threads."""

    def __init__(self, index: IndexFile, meta: FileMeta, schema: RegionSchema) -> None:
        self._series = BlockPages(index, schema, rows=meta.rows, series=meta.series)
        self._tags = {tag: InvertedIndex(index, tag, schema.by_id[tag].type) for tag in indexed_tags(meta)}
        index.release_end()
        self.spent_bytes = 0
        """How many bytes the pages take that were asked for so far."""

    @property
    def nbytes(self) -> int:
        blobs = [self._series.blob, *(each.blob for each in self._tags.values())]
        return sum(blob.directory.nbytes + _OBJECT_BYTES for blob in blobs)

    @property
    def block_bytes(self) -> int:
        """How many bytes of the file the whole series block takes."""
        return self._series.blob.size_bytes

    def find(self, tests: Sequence[TagTest], read_page: ReadPage) -> FoundSeries | None:
        """Return series among which are all that fulfil the conditions; None if the whole block costs less."""
        found = self._look_up(tests, read_page)
        if found is None:
            return None
        pages = self._series.pages_of(found)
        cost = self._series.blob.bytes_of(pages)
        if cost > self.block_bytes // 2:
            return None
        self.spent_bytes += cost
        return self._series.gather(found, {int(page): read_page(self._series.blob, int(page)) for page in pages})

    def _look_up(self, tests: Sequence[TagTest], read_page: ReadPage) -> Positions | None:
        """Return where series can be that fulfil the conditions; None if no index is worth reading."""
        plans = []
        for test in tests:
            index = self._tags[ColumnId(test.column)]
            pages = index.pages_of(test)
            plans.append((index.blob.bytes_of(pages), test, index, pages))
        plans.sort(key=lambda plan: plan[0])
        found: Positions | None = None
        for cost, test, index, pages in plans:
            # What another condition may spare is no more than the pages that are left to be read.
            left = self.block_bytes // 2 if found is None else self._series.blob.bytes_of(self._series.pages_of(found))
            if cost > left:
                break
            self.spent_bytes += cost
            places = index.match([read_page(index.blob, int(page)) for page in pages], test)
            found = places if found is None else np.intersect1d(found, places, assume_unique=True)
        return found
