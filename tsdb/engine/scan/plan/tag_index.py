"""Finding series by the value of a tag, without looking at all of them.

For a tag that a query asks for, the hashes of its values in a table of series are sorted once and kept as long as the
table is: 12 bytes for each series. Looking a value up is a search among them; a hash that agrees is checked. The values
of a tag in a small table are kept in a dictionary.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tsdb import _kernels
from tsdb.engine.rows.series import Positions
from tsdb.engine.scan.filters.filter import ScanFilter, TagIs
from tsdb.engine.tuning import ScanTuning
from tsdb.model import SeriesTable

_VALUES_MAX = 1000
_name = "tag"
_known: weakref.WeakKeyDictionary[SeriesTable, dict[str, HashIndex | _Places]] = weakref.WeakKeyDictionary()
_lock = threading.Lock()


_Places = dict[str | None, list[int]]
"""The series of each value of a tag, in order."""


def hash_values(values: pa.Array) -> npt.NDArray[np.uint64]:
    hashes: npt.NDArray[np.uint64] = pa.array(_kernels.row_hash([values], [_name])).to_numpy()
    return hashes


class HashIndex:
    """The series of each hash of a tag's values."""

    def __init__(self, values: pa.Array, hash: Callable[[pa.Array], npt.NDArray[np.uint64]] = hash_values) -> None:
        self._hash = hash
        hashes = hash(values)
        order = np.argsort(hashes, kind="stable")
        self._hashes = hashes[order]
        self._positions = order.astype(np.uint32)

    def find(self, column: pa.Array, wanted: Sequence[str], few_max: int) -> Positions:
        """Return where a column, the one that was hashed, has one of some distinct values."""
        hashes = self._hash(pa.array(wanted))
        first = self._hashes.searchsorted(hashes, side="left")
        last = self._hashes.searchsorted(hashes, side="right")
        if int((last - first).sum()) <= few_max:
            places = [
                place
                for value, low, high in zip(wanted, first.tolist(), last.tolist(), strict=True)
                for place in self._positions[low:high].tolist()
                if column[place].as_py() == value
            ]
            return np.array(sorted(places), dtype=np.int64)
        found = [self._positions[low:high] for low, high in zip(first, last, strict=True)]
        positions: Positions = np.unique(np.concatenate(found)).astype(np.int64)
        own = column.take(pa.array(positions))
        is_wanted = pc.is_in(own, value_set=pa.array(wanted, own.type)).to_numpy(zero_copy_only=False)
        chosen: Positions = positions[is_wanted]
        return chosen


def look_up(series: SeriesTable, wanted: ScanFilter, tuning: ScanTuning) -> tuple[Positions, TagIs] | None:
    """Return the series, in order, that fulfil one of the conditions, and which; None if all are to be looked at."""
    if series.late is not None:
        return None
    for check in wanted.on_series:
        if isinstance(check, TagIs) and len(check.values) <= _VALUES_MAX:
            return _find(series, check, tuning), check
    return None


def _find(series: SeriesTable, check: TagIs, tuning: ScanTuning) -> Positions:
    index = _index_of(series, check.tag, tuning.index_series_min)
    if isinstance(index, HashIndex):
        column = series.read_tags().column(check.tag)
        return index.find(column, list(dict.fromkeys(check.values)), tuning.index_few_max)
    places = [place for value in set(check.values) for place in index.get(value, ())]
    return np.array(sorted(places), dtype=np.int64)


def _index_of(series: SeriesTable, tag: str, series_min: int) -> HashIndex | _Places:
    with _lock:
        found = _known.setdefault(series, {}).get(tag)
    if found is None:
        found = _make_index(series.read_tags().column(tag), series_min)
        with _lock:
            _known[series][tag] = found
    return found


def _make_index(values: pa.Array, series_min: int) -> HashIndex | _Places:
    if len(values) >= series_min:
        return HashIndex(values)
    places: _Places = {}
    for place, value in enumerate(values.to_pylist()):
        places.setdefault(value, []).append(place)
    return places
