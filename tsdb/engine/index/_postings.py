"""Postings: the distinct values of a tag in order, and the series of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Series = npt.NDArray[np.uint32]


@dataclass(frozen=True, slots=True, eq=False)
class Postings:
    """Values in order, null first, each with the places of its series in order."""

    values: pa.Array
    offsets: npt.NDArray[np.int64]
    """The series of value i are `offsets[i]` to `offsets[i + 1]`."""
    series: Series

    def __len__(self) -> int:
        return len(self.values)

    def slice(self, start: int, stop: int) -> Postings:
        low, high = int(self.offsets[start]), int(self.offsets[stop])
        return Postings(
            self.values.slice(start, stop - start), self.offsets[start : stop + 1] - low, self.series[low:high]
        )


def sort_postings(values: pa.Array, first: int = 0) -> Postings:
    """Return the postings of consecutive series whose values these are; the first of them is series `first`."""
    if not values.null_count and _is_sorted(values):
        return _sorted_postings(values, first)
    encoded = values.dictionary_encode()
    distinct = encoded.dictionary
    has_nulls = int(values.null_count > 0)
    ranks = np.empty(len(distinct) + 1, dtype=np.uint32)
    order = pc.sort_indices(distinct)
    ranks[order.to_numpy()] = np.arange(has_nulls, len(distinct) + has_nulls, dtype=np.uint32)
    ranks[-1] = 0
    own = ranks[encoded.indices.fill_null(len(distinct)).to_numpy()]
    counts = np.bincount(own, minlength=len(distinct) + has_nulls)
    # Numpy sorts 16 bits by counting.
    places = np.argsort(own.astype(np.uint16) if len(counts) <= 1 << 16 else own, kind="stable")
    found = distinct.take(order)
    if has_nulls:
        found = pa.concat_arrays([pa.nulls(1, found.type), found])
    return Postings(found, np.append(0, np.cumsum(counts)), (places + first).astype(np.uint32))


def _is_sorted(values: pa.Array) -> bool:
    return len(values) > 0 and bool(pc.all(pc.less_equal(values[:-1], values[1:]), min_count=0).as_py())


def _sorted_postings(values: pa.Array, first: int) -> Postings:
    """The same for the first tag, by which series are sorted."""
    is_new = np.append(True, pc.not_equal(values[:-1], values[1:]).to_numpy(zero_copy_only=False))
    starts = np.flatnonzero(is_new)
    series = np.arange(first, first + len(values), dtype=np.uint32)
    return Postings(values.take(pa.array(starts)), np.append(starts, len(values)), series)


def join_postings(pieces: Sequence[Postings]) -> Postings:
    """Put the postings of ranges of series together, which follow each other."""
    if len(pieces) == 1:
        return pieces[0]
    encoded = pa.concat_arrays([piece.values for piece in pieces]).dictionary_encode()
    entries = sort_postings(encoded.dictionary_decode())
    counts = np.concatenate([np.diff(piece.offsets) for piece in pieces])
    starts = np.append(0, np.cumsum(counts))
    series = np.concatenate([piece.series for piece in pieces])
    chosen = entries.series.astype(np.int64)
    lengths = counts[chosen]
    ends = np.cumsum(lengths)
    rows = np.arange(int(ends[-1])) + np.repeat(starts[chosen] - ends + lengths, lengths)
    return Postings(entries.values, np.append(0, ends)[entries.offsets], series[rows])
