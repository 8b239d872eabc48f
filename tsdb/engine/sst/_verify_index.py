"""Reading a whole index file to see that it is what the data file needs: the other half of `ADMIN verify_table`.

| block                    | its bytes                 | what it says                                             |
|--------------------------|---------------------------|----------------------------------------------------------|
| `series`                 | checksums of it and pages | compared with the rows of the data file, by `_verify.py` |
| `inverted.{…}`           | checksums of it and pages | every series once, with the tag of the series block      |
| `bloom.`, `fulltext.{…}` | checksums of it and pages | a filter for every so many rows, of a size that can be   |
| any other                | its checksum              | nothing: it may be of a later version                    |

Directories of pages are read before their blocks. One piece of a block is in memory at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tsdb.engine.errors import StorageUnavailable
from tsdb.engine.index import (
    BITMAP_BYTES,
    BloomIndex,
    FilterPages,
    IndexDamaged,
    IndexFile,
    InvertedIndex,
    Postings,
    TextIndex,
    bloom_blob,
    directory_blob,
    fulltext_blob,
    inverted_blob,
)
from tsdb.engine.rows.series import SeriesBlock
from tsdb.engine.sst._block import SERIES_BLOB, BlockPages
from tsdb.engine.sst._content import FileContent
from tsdb.engine.sst._footer import Footer
from tsdb.engine.sst._row_skipper import fulltext_columns, skipping_columns
from tsdb.engine.sst._series_finder import indexed_tags
from tsdb.model import RegionSchema
from tsdb.store import StoreError

_PIECE_BYTES = 1 << 20
_SHOWN_MAX = 8
"""How many damaged blocks of a file are told."""
_DAMAGE = (IndexDamaged, StoreError, StorageUnavailable)
# What Arrow and numpy say of a block that has other columns than it should.
_UNFIT = (KeyError, IndexError, ValueError, TypeError, pa.ArrowException)

Check = Callable[[], None]


def verify_index(content: FileContent, footer: Footer, block: SeriesBlock, check: Check) -> str | None:
    """Read all blocks of an index; return what is wrong with them. `block` is known to be what the rows say."""
    if not content.meta.has_index:
        return None
    wrong = _look(content, footer, block, check)
    if wrong and content.distrust_index():
        wrong = _look(content, footer, block, check)
    if not wrong:
        content.trust_index()
        return None
    more = [f"{len(wrong) - _SHOWN_MAX} more blocks"] if len(wrong) > _SHOWN_MAX else []
    reason = "; ".join([*wrong[:_SHOWN_MAX], *more])
    content.warn(IndexDamaged(reason))
    return reason


def _look(content: FileContent, footer: Footer, block: SeriesBlock, check: Check) -> list[str]:
    """Return what is wrong with each damaged block."""
    try:
        index = content.open_index()
    except _DAMAGE as error:
        return [str(error)]
    plan = dict(_plan(index, content, footer.schema, block))
    known = {*plan, *map(directory_blob, plan)}
    plan |= {name: partial(_check_bytes, index, name) for name in index.names if name not in known}
    found = [(name, _reason(verify, check)) for name, verify in plan.items()]
    return [reason if name in reason else f"{name}: {reason}" for name, reason in found if reason is not None]


def _plan(
    index: IndexFile, content: FileContent, schema: RegionSchema, block: SeriesBlock
) -> Iterator[tuple[str, Callable[[Check], None]]]:
    """Yield the names of the blocks that the file should have, with what verifies each."""
    meta = content.meta
    yield SERIES_BLOB, partial(_verify_series, index, content, schema, block)
    for tag in sorted(indexed_tags(meta)):
        yield inverted_blob(tag), partial(_verify_inverted, index, schema, block, tag)
    for column in sorted(skipping_columns(meta)):
        yield bloom_blob(column), partial(_verify_filters, partial(BloomIndex, index, column, rows=meta.rows))
    for column in sorted(fulltext_columns(meta)):
        yield fulltext_blob(column), partial(_verify_filters, partial(TextIndex, index, column, rows=meta.rows))


def _reason(verify: Callable[[Check], None], check: Check) -> str | None:
    try:
        verify(check)
    except _DAMAGE as error:
        return str(error)
    except _UNFIT as error:
        return f"it does not have what it should: {error}"
    return None


def _expect(is_so: object, reason: str) -> None:
    if not is_so:
        raise IndexDamaged(reason)


def _check_bytes(index: IndexFile, name: str, check: Check) -> None:
    size = index.size_of(name)
    for _ in index.pieces(name, [*range(_PIECE_BYTES, size, _PIECE_BYTES), size]):
        check()


def _verify_series(
    index: IndexFile, content: FileContent, schema: RegionSchema, block: SeriesBlock, check: Check
) -> None:
    content.decode_series(index, schema)
    meta = content.meta
    if not indexed_tags(meta):
        return
    pages = BlockPages(index, schema, rows=meta.rows, series=meta.series)
    first = 0
    for (series, row), page in zip(pages.starts(), pages.blob.read_all(), strict=True):
        check()
        _expect(series == first and row == block.offsets[first], "its directory of pages has other series")
        first += page.num_rows
    _expect(first == meta.series, "its pages have other series")


def _verify_inverted(index: IndexFile, schema: RegionSchema, block: SeriesBlock, tag: int, check: Check) -> None:
    column = next(each for each in schema.tags if each.id == tag)
    inverted = InvertedIndex(index, tag, column.type)
    values = block.table.read_tags().column(column.name)
    facts = inverted.blob.directory.facts
    firsts, lasts, counts = (facts.column(name).to_pylist() for name in ("first", "last", "postings"))
    is_seen = np.zeros(len(block), np.bool_)
    before: pa.Array | None = None
    for page, postings in inverted.read_all():
        check()
        own = postings.values
        ends = (own[0].as_py(), own[-1].as_py(), len(postings.series))
        _expect(ends == (firsts[page], lasts[page], counts[page]), "its directory of pages has other values")
        _check_order(own if before is None else pa.concat_arrays([before, own]))
        before = own.slice(len(own) - 1)
        _check_postings(postings, values, is_seen)
    _expect(is_seen.all(), "some series are in none of its postings")


def _check_order(values: pa.Array) -> None:
    """Values are in order, null first, and each is there once."""
    nulls = values.null_count
    _expect(nulls <= 1 and not (nulls and values[0].is_valid), "its null is not first")
    rest = values.slice(nulls)
    _expect(pc.all(pc.less(rest[:-1], rest[1:]), min_count=0).as_py(), "its values are not in order")


def _check_postings(postings: Postings, values: pa.Array, is_seen: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> None:
    """The series of each value have it, and no series was seen before."""
    series = postings.series
    _expect(len(series) == 0 or int(series.max()) < len(values), "it has series that the file does not have")
    own = np.repeat(np.arange(len(postings)), np.diff(postings.offsets))
    expected = postings.values.take(pa.array(own))
    _expect(values.take(pa.array(series)).equals(expected), "it has series with other tags")
    _expect(not is_seen[series].any() and len(np.unique(series)) == len(series), "it has a series twice")
    is_seen[series] = True


def _verify_filters(open_index: Callable[[], BloomIndex | TextIndex], check: Check) -> None:
    pages: FilterPages = open_index().pages
    for filters, count in zip(pages.blob.read_all(), pages.counts(), strict=True):
        check()
        _expect(filters.num_rows == count, f"a page of it has {filters.num_rows} filters, expected {count}")
        hashes, bits, *bitmaps = filters.columns
        _expect(not (hashes.null_count or bits.null_count), "it has filters without bits")
        sizes = pc.binary_length(bits).to_numpy()
        _expect(np.all((sizes > 0) & (sizes % 8 == 0)), "its filters have sizes that cannot be")
        widths = [pc.binary_length(bitmap).drop_null().to_numpy() for bitmap in bitmaps]
        _expect(all(np.all(width == BITMAP_BYTES) for width in widths), "its bitmaps have sizes that cannot be")
