"""Skipping indexes: a Bloom filter over the values of a column for every so many rows of a data file.

A filter tells of a value that none of its rows has it, or that some may have it. Its size follows from the number of
distinct values and the rate of wrong answers that the table asks for.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pt

from tsdb.engine.index._container import IndexFile
from tsdb.engine.index._granules import FilterPages, encode_filters
from tsdb.model import SkippingIndex, hash_tags

BLOOM = "bloom"

Hashes = npt.NDArray[np.uint64]

_PAGE_ROWS = 8192
"""A page has the filters of so many rows or more."""
_WORD_BITS = 64
_HASHES_MAX = 16
_REPEATS_MIN = 4
"""Values that repeat so often are told apart first: to set bits again costs more."""
_SCHEMA = pa.schema([("hashes", pa.uint8()), ("bits", pa.binary())])


def bloom_blob(column: int) -> str:
    """Return the name of the blob with the skipping index of a column."""
    return f"{BLOOM}.{column}"


def is_skippable(kind: pa.DataType) -> bool:
    """Tell whether values of a type are hashed so that those that are equal have the same hash."""
    return bool(
        pt.is_string(kind) or pt.is_integer(kind) or pt.is_boolean(kind) or pt.is_float32(kind) or pt.is_float64(kind)
    )


def hash_values(values: pa.Array) -> tuple[Hashes, Hashes]:
    return hash_tags([values], ["value"], len(values))


class BloomBuilder:
    """Takes the values of a column in the order of rows and makes a filter of every `granularity` of them."""

    def __init__(self, declared: SkippingIndex) -> None:
        self._granularity = declared.granularity
        self._rate = declared.false_positive_rate
        self._waiting: list[tuple[Hashes, Hashes]] = []
        self._waiting_rows = 0
        self._filters: list[tuple[int, bytes]] = []

    def add(self, values: pa.ChunkedArray) -> None:
        for chunk in values.chunks:
            if len(chunk):
                self._waiting.append(hash_values(chunk))
                self._waiting_rows += len(chunk)
        if self._waiting_rows >= self._granularity:
            self._cut(at_end=False)

    def finish(self) -> tuple[bytes, bytes]:
        """Return the index and its directory."""
        self._cut(at_end=True)
        hashes, bits = zip(*self._filters, strict=True)
        filters = pa.record_batch([pa.array(hashes, pa.uint8()), pa.array(bits, pa.binary())], schema=_SCHEMA)
        per_page = max(1, _PAGE_ROWS // self._granularity)
        return encode_filters(filters, range(0, len(hashes), per_page), self._granularity)

    def _cut(self, *, at_end: bool) -> None:
        """Make filters of the rows that wait, as far as they fill one."""
        if not self._waiting:
            return
        first, second = self._waiting[0]
        if len(self._waiting) > 1:
            first, second = (np.concatenate(each) for each in zip(*self._waiting, strict=True))
        whole = len(first) if at_end else len(first) // self._granularity * self._granularity
        bounds = [*range(0, whole, self._granularity), whole]
        self._filters += [_make_filter(first[low:high], second[low:high], self._rate) for low, high in pairwise(bounds)]
        self._waiting = [(first[whole:], second[whole:])] if whole < len(first) else []
        self._waiting_rows = len(first) - whole


def _make_filter(first: Hashes, second: Hashes, rate: float) -> tuple[int, bytes]:
    """Return how many bits each value sets, and the bits."""
    ordered = np.sort(first)
    distinct = 1 + int(np.count_nonzero(ordered[1:] != ordered[:-1]))
    # A rate of 1 asks for nothing; the smallest filter answers that.
    bits = max(_WORD_BITS, math.ceil(-distinct * math.log(min(rate, 0.9999)) / math.log(2) ** 2))
    bits = -(-bits // _WORD_BITS) * _WORD_BITS
    count = min(_HASHES_MAX, max(1, round(bits / distinct * math.log(2))))
    if _REPEATS_MIN * distinct <= len(first):
        _, places = np.unique(first, return_index=True)
        first, second = first[places], second[places]
    return count, np.packbits(_set_bits(first, second, count, bits), bitorder="little").tobytes()


def _set_bits(first: Hashes, second: Hashes, count: int, bits: int) -> npt.NDArray[np.bool_]:
    """Return a filter of many values: the bits of `_positions` are set.

    One bit of each value at a time, by division: 0.5 ms for 10,240 values where rows of remainders take 3 ms.
    """
    is_set = np.zeros(bits, np.bool_)
    places, step, size = first.copy(), second | np.uint64(1), np.uint64(bits)
    for _ in range(count):
        is_set[(places - places // size * size).view(np.int64)] = True
        places += step
    return is_set


def _positions(first: Hashes, second: Hashes, count: int, bits: int) -> npt.NDArray[np.intp]:
    """Return the bits of values, one row for each."""
    steps = np.arange(count, dtype=np.uint64)
    with np.errstate(over="ignore"):
        found = first[:, None] + steps * (second[:, None] | np.uint64(1))
    return (found % np.uint64(bits)).astype(np.intp)


class BloomIndex:
    """The skipping index of one column in one file. Safe for many threads."""

    def __init__(self, index: IndexFile, column: int, *, rows: int) -> None:
        self.pages = FilterPages(index, bloom_blob(column), _SCHEMA, rows=rows)

    def test(self, values: pa.Array) -> Callable[..., bool]:
        """Return what tells of a filter whether one of some values may be in its rows."""
        wanted = hash_values(values)
        return lambda count, bits: bool(may_have(np.frombuffer(bits, np.uint8), count, wanted).any())


def may_have(bits: npt.NDArray[np.uint8], count: int, wanted: tuple[Hashes, Hashes]) -> npt.NDArray[np.bool_]:
    """Tell of each value whether a filter has all of its bits; `count` is how many a value sets."""
    return np.asarray(are_set(bits, _positions(*wanted, count, 8 * len(bits))).all(axis=1))


def are_set(bits: npt.NDArray[np.uint8], places: npt.NDArray[np.intp]) -> npt.NDArray[np.bool_]:
    """Tell of each place whether its bit is set; the lowest bit of a byte is the first."""
    found: npt.NDArray[np.bool_] = ((bits[places >> 3] >> (places & 7).astype(np.uint8)) & 1).astype(np.bool_)
    return found
