"""Finding series by the value of a tag, without looking at all of them.

For a tag that a query asks for, the hashes of its values in a table of series are sorted once and kept as long as the
table is: 12 bytes for each series. Looking a value up is a search among them; a hash that agrees is checked.
"""

from __future__ import annotations

import threading
import weakref
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tsdb import _kernels
from tsdb.engine.scan._filter import Filter, TagIs
from tsdb.engine.series import Positions
from tsdb.model import SeriesTable

SERIES_MIN = 2048
"""Fewer series are compared one by one in less time than this takes."""

_VALUES_MAX = 1000
_name = "tag"
_known: weakref.WeakKeyDictionary[SeriesTable, dict[str, _TagIndex]] = weakref.WeakKeyDictionary()
_lock = threading.Lock()


@dataclass(frozen=True, slots=True, eq=False)
class _TagIndex:
    hashes: npt.NDArray[np.uint64]
    """Ascending."""
    positions: npt.NDArray[np.uint32]
    """The series that each is of."""


def look_up(series: SeriesTable, wanted: Filter) -> tuple[Positions, TagIs] | None:
    """Return the series, in order, that fulfil one of the conditions, and which; None if all are to be looked at."""
    if len(series) < SERIES_MIN or series.late is not None:
        return None
    for check in wanted.on_series:
        if isinstance(check, TagIs) and len(check.values) <= _VALUES_MAX:
            return _find(series, check), check
    return None


def _find(series: SeriesTable, check: TagIs) -> Positions:
    index = _index_of(series, check.tag)
    values = pa.array(check.values)
    hashes = _hash(values)
    first = index.hashes.searchsorted(hashes, side="left")
    last = index.hashes.searchsorted(hashes, side="right")
    found = [index.positions[low:high] for low, high in zip(first, last, strict=True) if high > low]
    if not found:
        return np.empty(0, dtype=np.int64)
    positions: Positions = np.unique(np.concatenate(found)).astype(np.int64)
    own = series.tags.column(check.tag).take(pa.array(positions))
    chosen: Positions = positions[pc.is_in(own, value_set=values.cast(own.type)).to_numpy(zero_copy_only=False)]
    return chosen


def _index_of(series: SeriesTable, tag: str) -> _TagIndex:
    with _lock:
        found = _known.setdefault(series, {}).get(tag)
    if found is None:
        hashes = _hash(series.tags.column(tag))
        order = np.argsort(hashes, kind="stable")
        found = _TagIndex(hashes[order], order.astype(np.uint32))
        with _lock:
            _known[series][tag] = found
    return found


def _hash(values: pa.Array) -> npt.NDArray[np.uint64]:
    hashes: npt.NDArray[np.uint64] = pa.array(_kernels.row_hash([values], [_name])).to_numpy()
    return hashes
