"""Inverted indexes: from the values of a tag to the series of a data file that have them.

The values are sorted, null first, and lie in pages. The directory says with which value each page begins and ends, so
that a condition on a few values needs a few pages. Postings are steps from series to series, which compress well: most
are the same.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pt

from tsdb.engine.index._container import IndexFile
from tsdb.engine.index._options import IndexOptions
from tsdb.engine.index._pages import PagedBlob, encode_pages
from tsdb.engine.index._postings import Postings, Series
from tsdb.engine.index._spill import iter_postings
from tsdb.engine.tuning import IndexTuning

INVERTED = "inverted"

Positions = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


def inverted_blob(column: int) -> str:
    """Return the name of the blob with the inverted index of a tag."""
    return f"{INVERTED}.{column}"


def is_indexable(kind: pa.DataType) -> bool:
    """Tell whether Python orders the values of a type as Arrow sorts them."""
    return bool(pt.is_string(kind) or pt.is_integer(kind) or pt.is_boolean(kind))


class ValueSpan(NamedTuple):
    """Values from `low` to `high`, both included; None is no bound."""

    low: Any
    high: Any


@dataclass(frozen=True, slots=True, eq=False)
class TagTest:
    """A condition on one tag."""

    column: int
    spans: tuple[ValueSpan, ...] | None
    """No other value, and not null, fulfils it; None if that is not known."""
    decide: Callable[[pa.Array], Mask]
    """Tells which values fulfil it."""


def encode_inverted(values: pa.Array, options: IndexOptions) -> tuple[bytes, bytes]:
    """Return the inverted index of a tag and its directory; `values` has the value of each series of a file."""
    schema = _schema(values.type)
    bounds: list[tuple[Any, Any, int]] = []

    def pages() -> Iterator[pa.RecordBatch]:
        for postings in iter_postings(values, options):
            cuts = list(_cut(postings, options.tuning))
            rows = _rows(postings, schema, [start for start, _ in cuts])
            for start, stop in cuts:
                count = int(postings.offsets[stop] - postings.offsets[start])
                bounds.append((postings.values[start].as_py(), postings.values[stop - 1].as_py(), count))
                yield rows.slice(start, stop - start)

    def facts() -> dict[str, pa.Array]:
        firsts, lasts, counts = zip(*bounds, strict=True)
        kind = values.type
        return {"first": pa.array(firsts, kind), "last": pa.array(lasts, kind), "postings": pa.array(counts)}

    return encode_pages(schema, pages(), facts)


def _schema(kind: pa.DataType) -> pa.Schema:
    return pa.schema([("value", kind), ("steps", pa.list_(pa.uint32()))])


def _rows(postings: Postings, schema: pa.Schema, starts: list[int]) -> pa.RecordBatch:
    """Return postings as pages have them; `starts` are the first values of pages."""
    first = postings.offsets[starts]
    # Steps go on from value to value and may go back, modulo 2^32; a page begins anew.
    steps = np.diff(postings.series, prepend=np.uint32(0))
    steps[first] = postings.series[first]
    lists = pa.ListArray.from_arrays(pa.array(postings.offsets, pa.int32()), pa.array(steps))
    return pa.record_batch([postings.values, lists], schema=schema)


def _cut(postings: Postings, tuning: IndexTuning) -> Iterator[tuple[int, int]]:
    """Yield where pages start and stop: after so many values, or earlier after so many postings."""
    start = 0
    while start < len(postings):
        full = int(np.searchsorted(postings.offsets, postings.offsets[start] + tuning.page_postings))
        stop = min(start + tuning.page_values, max(full, start + 1), len(postings))
        yield start, stop
        start = stop


class InvertedIndex:
    """The inverted index of one tag in one file. Safe for many threads."""

    def __init__(self, index: IndexFile, column: int, kind: pa.DataType) -> None:
        self.column = column
        self.blob = PagedBlob(index, inverted_blob(column), _schema(kind))

    @cached_property
    def _bounds(self) -> tuple[int, list[Any], int, list[Any]]:
        """The first and the last values of pages, and how many of each are null, which comes first."""
        facts = self.blob.directory.facts
        firsts, lasts = facts.column("first"), facts.column("last")
        return (
            firsts.null_count,
            firsts.drop_null().to_pylist(),
            lasts.null_count,
            lasts.drop_null().to_pylist(),
        )

    def pages_of(self, test: TagTest) -> Positions:
        """Return the pages that can have values that fulfil a condition."""
        if test.spans is None:
            return np.arange(len(self.blob.directory))
        chosen = [np.arange(*self._pages_in(span)) for span in test.spans]
        return np.unique(np.concatenate([np.empty(0, np.int64), *chosen]))

    def _pages_in(self, span: ValueSpan) -> tuple[int, int]:
        null_firsts, firsts, null_lasts, lasts = self._bounds
        first = null_lasts + (0 if span.low is None else bisect_left(lasts, span.low))
        last = null_firsts + (len(firsts) if span.high is None else bisect_right(firsts, span.high))
        return first, max(first, last)

    @staticmethod
    def match(pages: Sequence[pa.RecordBatch], test: TagTest) -> Positions:
        """Return the series, in order, whose values in some pages fulfil a condition."""
        found = [_places(page.column(1), test.decide(page.column(0))) for page in pages]
        places = np.concatenate(found) if found else np.empty(0, np.int64)
        places.sort()
        return places

    def read_all(self) -> Iterator[tuple[int, Postings]]:
        """Read the whole index: the number of each page, and its postings."""
        for number, page in enumerate(self.blob.read_all()):
            lists = page.column(1)
            yield number, Postings(page.column(0), lists.offsets.to_numpy().astype(np.int64), _series(lists))


def _series(lists: pa.ListArray) -> Series:
    """Return the series of all values of a page."""
    return np.cumsum(lists.flatten().to_numpy(), dtype=np.uint32)


def _places(lists: pa.ListArray, chosen: Mask) -> Positions:
    """Return the series of chosen values of a page."""
    if not chosen.any():
        return np.empty(0, np.int64)
    series = _series(lists)
    is_wanted = np.repeat(chosen, np.diff(lists.offsets.to_numpy()))
    return series[is_wanted].astype(np.int64)
