"""What a text must hold, and full-text indexes: filters of what the texts of every so many rows are made of.

A full-text index has the words of its rows, which are runs of letters and digits of ASCII, and their pieces: three
letters or digits, and two or three characters beyond ASCII. A text that holds another has its pieces, and its words as
far as they cannot be parts of longer ones. So an index can tell of a row range that a text is in none of its rows,
whether a function looks for whole terms or for parts of words.

    held            words            pieces
    "disk full"     none for sure    dis isk ful ull      it is in "ramdisk fully" too
    "a disk full."  disk full        dis isk ful ull

The filters are made by a kernel (`kernels/src/rows/text_filters.rs`), which defines words and pieces.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from tsdb._kernels import TextFilters, text_needs
from tsdb.engine.index._bloom import Hashes, are_set, may_have
from tsdb.engine.index._container import IndexFile
from tsdb.engine.index._granules import FilterPages, encode_filters
from tsdb.model import FulltextIndex

FULLTEXT = "fulltext"

_PAGE_BYTES = 128 << 10
"""A page has filters of so many bytes or a few more."""
BYTES_MAX = 64 << 20
"""What the filters of a column take in one file if the configuration sets no limit."""
HOLDS_MAX = 256
"""A condition of more texts is not looked up."""
CHARS_MAX = 4096
"""A longer text is not looked up."""
BITMAP_BYTES = 36**3 // 8
"""What the bitmap of pieces of three letters or digits takes."""
_SCHEMA = pa.schema([("hashes", pa.uint8()), ("bits", pa.binary()), ("pieces", pa.binary())])
_GRAM, _FOLDS_CASE = "gram", "folds_case"
_GRAMS = {"English": 3, "Chinese": 2}
"""How many characters beyond ASCII are one piece: words of Chinese mostly have two, those of alphabets more."""


@dataclass(frozen=True, slots=True)
class TextHolds:
    """A text has another in it; case counts."""

    text: str
    starts_word: bool = False
    """No letter or digit of ASCII stands before it."""
    ends_word: bool = False
    """No letter or digit of ASCII stands after it."""


@dataclass(frozen=True, slots=True)
class TextAll:
    """A text fulfils all of some conditions."""

    items: tuple[TextNode, ...]


@dataclass(frozen=True, slots=True)
class TextAny:
    """A text fulfils one of some conditions."""

    items: tuple[TextNode, ...]


TextNode: TypeAlias = TextHolds | TextAll | TextAny


@dataclass(frozen=True, slots=True)
class TextTest:
    """Rows in which the text of a column does not fulfil a condition, or is null, are not wanted."""

    column: str
    wanted: TextNode


def fulltext_blob(column: int) -> str:
    """Return the name of the blob with the full-text index of a column."""
    return f"{FULLTEXT}.{column}"


def is_searchable(kind: pa.DataType) -> bool:
    """Tell whether a column of a type can have a full-text index."""
    return bool(pt.is_string(kind))


class TextBuilder:
    """Takes the texts of a column in the order of rows and makes a filter of every `granularity` of them.

    All filters together take no more than `bytes_max`: those of rows beyond that rule nothing out.
    """

    def __init__(self, declared: FulltextIndex, bytes_max: int | None) -> None:
        self._granularity = declared.granularity
        self._gram = _GRAMS[declared.analyzer]
        self._folds_case = not declared.case_sensitive
        limit = BYTES_MAX if bytes_max is None else bytes_max
        rate = declared.false_positive_rate
        self._filters = TextFilters(self._granularity, rate, self._gram, self._folds_case, limit)

    def add(self, values: pa.ChunkedArray) -> None:
        for chunk in values.chunks:
            self._filters.add(chunk if pt.is_string(chunk.type) else chunk.cast(pa.string()))

    def finish(self) -> tuple[bytes, bytes]:
        """Return the index and its directory."""
        columns = [pa.array(each, field.type) for each, field in zip(self._filters.finish(), _SCHEMA, strict=True)]
        filters = pa.record_batch(columns, schema=_SCHEMA)
        facts = {_GRAM: pa.scalar(self._gram, pa.int64()), _FOLDS_CASE: pa.scalar(self._folds_case)}
        return encode_filters(filters, list(_page_starts(filters)), self._granularity, **facts)


def _page_starts(filters: pa.RecordBatch) -> Iterator[int]:
    """Yield the first filters of pages."""
    lengths = [pc.binary_length(column).fill_null(0).to_numpy() for column in filters.columns[1:]]
    ends = np.cumsum(np.sum(lengths, axis=0, dtype=np.int64))
    start, before = 0, 0
    while start < len(ends):
        yield start
        stop = int(ends.searchsorted(before + _PAGE_BYTES)) + 1
        before = int(ends[min(stop, len(ends)) - 1])
        start = stop


class TextIndex:
    """The full-text index of one column in one file. Safe for many threads."""

    def __init__(self, index: IndexFile, column: int, *, rows: int) -> None:
        self.pages = FilterPages(index, fulltext_blob(column), _SCHEMA, rows=rows)
        self._gram: int = self.pages.fact(_GRAM)
        self._folds_case: bool = self.pages.fact(_FOLDS_CASE)

    def test(self, wanted: TextNode) -> Callable[..., bool]:
        """Return what tells of a filter whether texts in its rows may fulfil a condition."""
        needs = self._needs(wanted)
        return lambda count, bits, pieces: needs(_Filter(count, bits, pieces))

    def _needs(self, wanted: TextNode) -> _Needs:
        if isinstance(wanted, TextHolds):
            return self._needs_of(wanted)
        items = [self._needs(each) for each in wanted.items]
        if isinstance(wanted, TextAll):
            return lambda filter: all(needs(filter) for needs in items)
        return lambda filter: any(needs(filter) for needs in items)

    def _needs_of(self, wanted: TextHolds) -> _Needs:
        if not _is_looked_up(wanted.text):
            return lambda _: True
        found = text_needs(wanted.text, wanted.starts_word, wanted.ends_word, self._gram, self._folds_case)
        hashes, pieces, hashed_pieces = (np.frombuffer(memoryview(each), each.dtype) for each in found)
        places = pieces.astype(np.intp)

        def decide(filter: _Filter) -> bool:
            if filter.pieces is not None:
                return bool(are_set(filter.pieces, places).all()) and filter.has(hashes)
            return filter.has(hashed_pieces) and filter.has(hashes)

        return decide


class _Filter:
    """A filter of some rows."""

    __slots__ = ("_bits", "_count", "pieces")

    def __init__(self, count: int, bits: bytes, pieces: bytes | None) -> None:
        self._count = count
        self._bits = np.frombuffer(bits, np.uint8)
        self.pieces: npt.NDArray[np.uint8] | None = None if pieces is None else np.frombuffer(pieces, np.uint8)

    def has(self, hashes: Hashes) -> bool:
        """Tell whether all hashes may be in it."""
        turned = (hashes << np.uint64(32)) | (hashes >> np.uint64(32))
        return bool(may_have(self._bits, self._count, (hashes, turned)).all())


_Needs: TypeAlias = Callable[[_Filter], bool]


def is_selective(wanted: TextNode) -> bool:
    """Tell whether an index can say something about a condition, with little work."""
    return _selective(wanted) and _count(wanted) <= HOLDS_MAX


def _selective(wanted: TextNode) -> bool:
    if isinstance(wanted, TextHolds):
        return _is_looked_up(wanted.text)
    decide = any if isinstance(wanted, TextAll) else all
    return decide(_selective(each) for each in wanted.items)


def _is_looked_up(text: str) -> bool:
    """Whether a text is worth the work, and can be in a column: half of a pair of UTF-16 cannot."""
    return 0 < len(text) <= CHARS_MAX and not any("\ud800" <= character <= "\udfff" for character in text)


def _count(wanted: TextNode) -> int:
    return 1 if isinstance(wanted, TextHolds) else sum(_count(each) for each in wanted.items)
