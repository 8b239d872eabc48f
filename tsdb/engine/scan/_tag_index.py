"""Finding series by the value of a tag, without looking at all of them.

For a tag that a query asks for, the hashes of its values in a table of series are sorted once and kept as long as the
table is: 12 bytes for each series. Looking a value up is a search among them; a hash that agrees is checked. The values
of a tag in a small table are kept in a dictionary.
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
from tsdb.engine.rows.series import Positions
from tsdb.engine.scan._filter import Filter, TagIs
from tsdb.model import SeriesTable

SERIES_MIN = 2048
"""The values of fewer series are kept as they are."""

_VALUES_MAX = 1000
_FEW_MAX = 16
"""So many series are looked at one by one in less time than it takes to begin with all together."""
_name = "tag"
_known: weakref.WeakKeyDictionary[SeriesTable, dict[str, _TagIndex | _Places]] = weakref.WeakKeyDictionary()
_lock = threading.Lock()


_Places = dict[str | None, list[int]]
"""The series of each value of a tag, in order."""


@dataclass(frozen=True, slots=True, eq=False)
class _TagIndex:
    hashes: npt.NDArray[np.uint64]
    """Ascending."""
    positions: npt.NDArray[np.uint32]
    """The series that each is of."""


def look_up(series: SeriesTable, wanted: Filter) -> tuple[Positions, TagIs] | None:
    """Return the series, in order, that fulfil one of the conditions, and which; None if all are to be looked at."""
    if series.late is not None:
        return None
    for check in wanted.on_series:
        if isinstance(check, TagIs) and len(check.values) <= _VALUES_MAX:
            return _find(series, check), check
    return None


def _find(series: SeriesTable, check: TagIs) -> Positions:
    index = _index_of(series, check.tag)
    if isinstance(index, dict):
        places = [place for value in set(check.values) for place in index.get(value, ())]
        return np.array(sorted(places), dtype=np.int64)
    values = list(dict.fromkeys(check.values))
    hashes = _hash(pa.array(values))
    first = index.hashes.searchsorted(hashes, side="left")
    last = index.hashes.searchsorted(hashes, side="right")
    column = series.read_tags().column(check.tag)
    if int((last - first).sum()) <= _FEW_MAX:
        places = [
            place
            for value, low, high in zip(values, first.tolist(), last.tolist(), strict=True)
            for place in index.positions[low:high].tolist()
            if column[place].as_py() == value
        ]
        return np.array(sorted(places), dtype=np.int64)
    found = [index.positions[low:high] for low, high in zip(first, last, strict=True)]
    positions: Positions = np.unique(np.concatenate(found)).astype(np.int64)
    own = column.take(pa.array(positions))
    chosen: Positions = positions[pc.is_in(own, value_set=pa.array(values, own.type)).to_numpy(zero_copy_only=False)]
    return chosen


def _index_of(series: SeriesTable, tag: str) -> _TagIndex | _Places:
    with _lock:
        found = _known.setdefault(series, {}).get(tag)
    if found is None:
        found = _make_index(series.read_tags().column(tag))
        with _lock:
            _known[series][tag] = found
    return found


def _make_index(values: pa.Array) -> _TagIndex | _Places:
    if len(values) >= SERIES_MIN:
        hashes = _hash(values)
        order = np.argsort(hashes, kind="stable")
        return _TagIndex(hashes[order], order.astype(np.uint32))
    places: _Places = {}
    for place, value in enumerate(values.to_pylist()):
        places.setdefault(value, []).append(place)
    return places


def _hash(values: pa.Array) -> npt.NDArray[np.uint64]:
    hashes: npt.NDArray[np.uint64] = pa.array(_kernels.row_hash([values], [_name])).to_numpy()
    return hashes
