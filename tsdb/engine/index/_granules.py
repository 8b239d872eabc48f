"""Filters of row ranges: a column has one for every so many rows of a data file, in pages.

    rows       ├── granularity ──┼── granularity ──┼──  …
    filters    │      0          │        1        │
    pages      │               0                   │     1 …

The directory says with which row each page begins. What a filter is made of is the matter of its kind of index.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tsdb.engine.index._container import IndexDamaged, IndexFile
from tsdb.engine.index._pages import PagedBlob, encode_pages

RowSpan = tuple[int, int]

_FIRST_ROW, _GRANULARITY = "row_start", "granularity"


def encode_filters(
    filters: pa.RecordBatch, starts: Sequence[int], granularity: int, **facts: pa.Scalar
) -> tuple[bytes, bytes]:
    """Return filters and their directory; page i begins with filter `starts[i]`, and all pages have the same facts."""
    first_rows = pa.array(np.asarray(starts, np.int64) * granularity)
    own = {_FIRST_ROW: first_rows, _GRANULARITY: pa.array([granularity] * len(starts), pa.int64())}
    own |= {name: pa.repeat(fact, len(starts)) for name, fact in facts.items()}
    bounds = zip(starts, [*starts[1:], filters.num_rows], strict=True)
    pages = (filters.slice(start, stop - start) for start, stop in bounds)
    return encode_pages(filters.schema, pages, lambda: own)


class FilterPages:
    """The filters of one column in one file. Safe for many threads."""

    def __init__(self, index: IndexFile, name: str, schema: pa.Schema, *, rows: int) -> None:
        self.blob = PagedBlob(index, name, schema)
        self._facts = self.blob.directory.facts
        self._bounds = np.append(self._facts.column(_FIRST_ROW).to_numpy(), rows)
        self._granularity: int = self.fact(_GRANULARITY)

    def fact(self, name: str) -> Any:
        """Return what the directory says of all pages; IndexDamaged if it does not."""
        try:
            return self._facts.column(name)[0].as_py()
        except (KeyError, IndexError) as error:
            raise IndexDamaged(f"the directory of {self.blob.name} does not say {name}") from error

    def counts(self) -> npt.NDArray[np.int64]:
        """Return how many filters each page should have; IndexDamaged if pages do not follow each other."""
        rows = np.diff(self._bounds)
        if self._bounds[0] != 0 or self._granularity < 1 or np.any(rows <= 0) or np.any(rows[:-1] % self._granularity):
            raise IndexDamaged(f"the directory of {self.blob.name} has other rows")
        return -(-rows // self._granularity)

    def pages_of(self, start: int, stop: int) -> npt.NDArray[np.int64]:
        """Return the pages with filters of rows from `start` to before `stop`."""
        first = int(self._bounds.searchsorted(start, side="right")) - 1
        return np.arange(first, int(self._bounds.searchsorted(stop, side="left")))

    def rows_where(self, page: int, filters: pa.RecordBatch, may_have: Callable[..., bool]) -> list[RowSpan]:
        """Return the row ranges of a page for whose filters, given as one argument for each column, something holds."""
        begin, end = int(self._bounds[page]), int(self._bounds[page + 1])
        found = []
        for at, filter in enumerate(zip(*(column.to_pylist() for column in filters.columns), strict=True)):
            start = begin + at * self._granularity
            if may_have(*filter):
                found.append((start, min(start + self._granularity, end)))
        return found
