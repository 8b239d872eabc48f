"""Decoded columns of row groups, or of other pieces: finding those that rows lie in, keeping one between two reads."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tsdb import _kernels
from tsdb.arrays import as_numpy
from tsdb.engine.rows.cache import ColumnKey
from tsdb.engine.rows.slices import Slices
from tsdb.engine.rows.source import Held
from tsdb.model import ColumnId


class Vectors(Protocol):
    """Where decoded columns are kept: the cache, or something smaller."""

    def get_or_load(self, key: ColumnKey, load: Callable[[], Any], weigh: Callable[[Any], int]) -> Any: ...

    def get_many(self, keys: Sequence[ColumnKey]) -> list[Any]:
        """Return what is at hand, None for the rest."""
        ...

    def has_all(self, keys: Iterable[ColumnKey]) -> bool: ...


class CarryOver:
    """Keeps the last row group of each column: a reader that goes forward through a file decodes each one once.

    For one reader at a time. Flushes and compactions read this way, because what they read is not what is asked for
    next, and must not push that out of the cache.
    """

    def __init__(self) -> None:
        self._last: dict[ColumnId, tuple[int | None, Any]] = {}

    def get_or_load(self, key: ColumnKey, load: Callable[[], Any], weigh: Callable[[Any], int]) -> Any:
        row_group, vector = self._last.get(key.column, (None, None))
        if row_group != key.row_group:
            vector = load()
            self._last[key.column] = key.row_group, vector
        return vector

    def get_many(self, keys: Sequence[ColumnKey]) -> list[Any]:
        return [None] * len(keys)

    def has_all(self, keys: Iterable[ColumnKey]) -> bool:
        return False


def weigh(vector: Held) -> int:
    """Return how many bytes a decoded column takes."""
    return int(vector.get_total_buffer_size() if isinstance(vector, pa.Array) else vector.nbytes)


def as_arrow(vector: Held) -> pa.Array:
    """Return a decoded column as Arrow: numbers may be held as numpy, times as steps."""
    return vector if isinstance(vector, pa.Array) else pa.array(vector)


def hold_times(times: pa.Array) -> Held:
    """Return times as they are held: as steps if that is shorter, else as int64."""
    return _kernels.SteppedTimes.pack(times) or times.view(pa.int64()).to_numpy()


def take_numbers(vector: Held, rows: Slices) -> npt.NDArray[Any]:
    """Return rows of a decoded column of numbers without nulls."""
    if isinstance(vector, _kernels.SteppedTimes):
        joined = rows.coalesce()
        return as_numpy(vector.read(joined.starts, joined.stops))
    return rows.take(vector)


def split_by_row_group(rows: Slices, offsets: npt.NDArray[np.int64]) -> list[tuple[int, Slices]]:
    """Return the row groups that rows lie in, and for each the rows counted from its start."""
    if len(rows.starts) == 1:
        return _split_one(int(rows.starts[0]), int(rows.stops[0]), offsets)
    known = rows.__dict__.get("_split")
    if known is None or known[0] is not offsets:
        known = rows.__dict__["_split"] = offsets, _split_many(rows, offsets)
    found: list[tuple[int, Slices]] = known[1]
    return found


def _split_many(rows: Slices, offsets: npt.NDArray[np.int64]) -> list[tuple[int, Slices]]:
    joined = rows.coalesce()
    if not len(joined.starts):
        return []
    first = np.searchsorted(offsets, joined.starts, side="right") - 1
    last = np.searchsorted(offsets, joined.stops, side="left") - 1
    # A group is touched where more row ranges have begun than ended.
    steps = np.zeros(len(offsets) + 1, dtype=np.int64)
    np.add.at(steps, first, 1)
    np.add.at(steps, last + 1, -1)
    touched = np.flatnonzero(np.cumsum(steps) > 0)
    low = np.searchsorted(joined.stops, offsets[touched], side="right")
    high = np.searchsorted(joined.starts, offsets[touched + 1], side="left")
    return [
        (int(group), _within(Slices(joined.starts[begin:end], joined.stops[begin:end]), *offsets[group : group + 2]))
        for group, begin, end in zip(touched, low, high, strict=True)
    ]


def _split_one(start: int, stop: int, offsets: npt.NDArray[np.int64]) -> list[tuple[int, Slices]]:
    """The same for one row range, the usual case of a query of one series, in less time than numpy needs to begin."""
    if start >= stop:
        return []
    first = bisect_right(offsets, start) - 1
    last = bisect_left(offsets, stop) - 1
    bounds = offsets[first : last + 2].tolist()
    return [
        (group, Slices.one(max(start, begin) - begin, min(stop, end) - begin))
        for group, (begin, end) in enumerate(pairwise(bounds), start=first)
    ]


def _within(rows: Slices, start: np.int64, stop: np.int64) -> Slices:
    return Slices(np.maximum(rows.starts, start) - start, np.minimum(rows.stops, stop) - start)
