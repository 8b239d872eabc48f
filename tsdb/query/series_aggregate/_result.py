"""From cells to rows: finished aggregates, ordered and limited, with the names and types that the planner gives."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tsdb.engine.reading import Aggregated, Cells, Positions, sortable_bits
from tsdb.model import InvalidTimestamp, TimeRange, check_range
from tsdb.query.series_aggregate._fit import AnswerColumn, BucketColumn, FittedQuery, KeyColumn
from tsdb.sql.terms import Aggregate

_INT64 = range(-(2**63), 2**63)
_PLAIN = {
    kind.id: np.dtype(held)
    for kind, held in (
        (pa.int64(), np.int64),
        (pa.uint64(), np.uint64),
        (pa.float64(), np.float64),
        (pa.float32(), np.float32),
        (pa.timestamp("ns"), np.int64),
    )
}
"""How numpy has the values of a type that is mostly answered with."""


class OutOfRange(Exception):
    """A number does not fit what it is computed in; the planner computes it exactly or reports the error."""


_BUCKET = "a bucket starts outside of the range of the time index"
_MEDIAN = "doubles do not hold the integers of a median exactly"
_SUM = "a sum of integers may overflow"


_EXACT_MAX = 2.0**53
_SUM_MAX = {"i": 2.0**62, "u": 2.0**63}
"""A total of doubles below this is that of a sum which has not left 64 bits, however it was rounded."""


def check_buckets(fitted: FittedQuery, span: TimeRange) -> None:
    """Refuse times that lie outside of the calendar, or whose bucket starts there."""
    width, origin = fitted.runs.width, fitted.runs.origin
    start = (span.start - origin) // width * width + origin
    unit = fitted.table.time_index.type.arrow.unit
    try:
        check_range(start, unit)
        check_range(span.last, unit)
    except InvalidTimestamp as error:
        raise OutOfRange(_BUCKET) from error
    if span.start - origin not in _INT64:
        raise OutOfRange(_BUCKET)


def make_rows(
    fitted: FittedQuery, found: Aggregated, schema: pa.Schema, kinds: Sequence[pa.DataType]
) -> pa.RecordBatch:
    """Return the answer; `kinds` are the types of the schema, which take time to compute."""
    cells = found.cells
    if cells is None:
        return _empty(fitted, schema)
    chosen = _order(fitted, found, cells)
    arrays = [
        _column(fitted, term, found, cells, chosen, kind) for term, kind in zip(fitted.columns, kinds, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _empty(fitted: FittedQuery, schema: pa.Schema) -> pa.RecordBatch:
    """Without rows there are no groups; and one row if nothing is grouped."""
    if fitted.is_grouped or fitted.offset or fitted.limit == 0:
        return pa.RecordBatch.from_arrays([pa.nulls(0, field.type) for field in schema], schema=schema)
    arrays = [
        pa.array([0 if isinstance(term, Aggregate) and term.function == "count" else None], field.type)
        for term, field in zip(fitted.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _array(values: npt.NDArray[np.generic], empty: npt.NDArray[np.bool_] | None, kind: pa.DataType) -> pa.Array:
    """Return numbers, null where they are empty, in a type; those that are held in it are not looked at."""
    if empty is None and _PLAIN.get(kind.id) == values.dtype:
        return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(values)])
    return _cast(pa.array(values, mask=empty), kind)


def _cast(values: pa.Array, kind: pa.DataType) -> pa.Array:
    if values.type == kind:
        return values
    if pa.types.is_timestamp(kind) and pa.types.is_int64(values.type):
        return values.view(kind)
    if pa.types.is_floating(values.type) and pa.types.is_integer(kind):
        try:
            return pc.trunc(values).cast(kind)
        except pa.ArrowInvalid as error:
            raise OutOfRange(_MEDIAN) from error
    return values.cast(kind)


def _order(fitted: FittedQuery, found: Aggregated, cells: Cells) -> Positions | slice:
    """Return which cells make the rows, in order."""
    stop = None if fitted.limit is None else fitted.offset + fitted.limit
    if not fitted.order or _is_by_bucket(fitted):
        return slice(fitted.offset, stop)
    everything = slice(None)
    keys: list[npt.NDArray[np.generic]] = []
    for order in reversed(fitted.order):
        term = fitted.columns[order.item]
        if isinstance(term, KeyColumn):
            ranks = found.groups.codes[term.key][cells.groups]
            values = found.groups.values[term.key]
            nulls = ranks == len(values) - 1 if values.null_count else None
        elif isinstance(term, BucketColumn):
            ranks, nulls = cells.buckets, None
        else:
            ranks, nulls = _ranks(_aggregated(term, cells, everything))
        # Complement turns an order around without leaving 64 bits.
        keys.append(~ranks if order.is_descending else ranks)
        if nulls is not None:
            keys.append(~nulls if order.nulls_first else nulls)
    chosen: Positions = np.lexsort(keys)
    return chosen[fitted.offset : stop]


def _is_by_bucket(fitted: FittedQuery) -> bool:
    """Return whether the requested order is that of cells without keys: ascending buckets."""
    if fitted.runs.keys or len(fitted.order) != 1:
        return False
    (order,) = fitted.order
    return not order.is_descending and isinstance(fitted.columns[order.item], BucketColumn)


def _ranks(values: pa.Array) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_] | None]:
    """Return integers in the order of values, and where there are none."""
    nulls = values.is_null().to_numpy(zero_copy_only=False) if values.null_count else None
    if pa.types.is_floating(values.type):
        numbers = values.fill_null(0.0).to_numpy(zero_copy_only=False)
        # Adding zero makes minus zero plus zero.
        return sortable_bits(numbers + numbers.dtype.type(0)).astype(np.int64), nulls
    if pa.types.is_integer(values.type) or pa.types.is_timestamp(values.type):
        whole = values.view(pa.int64()) if pa.types.is_timestamp(values.type) else values
        numbers = whole.fill_null(0).to_numpy(zero_copy_only=False)
        if numbers.dtype == np.uint64:
            return (numbers ^ np.uint64(1 << 63)).view(np.int64), nulls
        return numbers.astype(np.int64), nulls
    encoded = values.dictionary_encode()
    order = encoded.dictionary.sort().to_pylist()
    places = {value: number for number, value in enumerate(order)}
    ranks = np.array([places[value] for value in encoded.dictionary.to_pylist()] or [0], dtype=np.int64)
    return ranks[encoded.indices.fill_null(0).to_numpy(zero_copy_only=False)], nulls


def _column(
    fitted: FittedQuery,
    term: AnswerColumn,
    found: Aggregated,
    cells: Cells,
    chosen: Positions | slice,
    kind: pa.DataType,
) -> pa.Array:
    if isinstance(term, KeyColumn):
        return _cast(found.groups.key(term.key, cells.groups[chosen]), kind)
    if isinstance(term, BucketColumn):
        starts = cells.buckets[chosen] * fitted.runs.width
        if fitted.runs.origin:
            starts += fitted.runs.origin
        return _cast(_array(starts, None, fitted.table.time_index.type.arrow), kind)
    if term.order is not None:
        return _cast(_ends(term, cells, chosen), kind)
    if term.function == "median" and term.column is not None and pa.types.is_integer(kind):
        _check_median(cells.gathered[term.column])
    return _array(*_finish(term, cells, chosen), kind)


def _aggregated(term: Aggregate, cells: Cells, chosen: Positions | slice) -> pa.Array:
    """Return an aggregate in the type that it was computed in."""
    if term.order is not None:
        return _ends(term, cells, chosen)
    values, empty = _finish(term, cells, chosen)
    return pa.array(values, mask=empty)


def _ends(term: Aggregate, cells: Cells, chosen: Positions | slice) -> pa.Array:
    ends = cells.newest if term.is_newest else cells.oldest
    assert ends is not None
    assert term.column is not None
    values = ends.values[term.column]
    if isinstance(chosen, slice):
        start, stop, _ = chosen.indices(len(values))
        if stop - start == len(values):
            return values
        return values.slice(start, max(0, stop - start))
    return values.take(pa.array(chosen))


def _finish(
    term: Aggregate, cells: Cells, chosen: Positions | slice
) -> tuple[npt.NDArray[np.generic], npt.NDArray[np.bool_] | None]:
    """Return an aggregate of its states, and where there was no value; None if that is nowhere."""
    name = term.column
    counted = cells.states.get((name, "count")) if name is not None else None
    if term.function == "count":
        return (cells.rows if counted is None else counted)[chosen], None
    assert name is not None
    assert counted is not None
    if term.function == "median":
        return _medians(cells.gathered[name], counted)[chosen], (counted == 0)[chosen]
    counts = counted[chosen]
    if term.function == "sum":
        _check_sum(cells.states[name, "sum"], cells.states.get((name, "total")))
    if term.function in ("sum", "total", "min", "max"):
        has_all = counted is cells.rows or counts.all()
        return _widened(cells.states[name, term.function][chosen]), None if has_all else counts == 0
    less = 0 if term.function == "avg" or term.function.endswith("_pop") else 1
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        if term.function == "avg":
            values = cells.states[name, "total"][chosen] / counts
        else:
            values = cells.states[name, "squares"][chosen] / (counts - less)
            if term.function.startswith("stddev"):
                values = np.sqrt(values)
    empty = counts <= less
    return values, empty if empty.any() else None


def _check_median(values: npt.NDArray[np.float64]) -> None:
    if len(values) and max(-values.min(), values.max()) >= _EXACT_MAX:
        raise OutOfRange(_MEDIAN)


def _check_sum(sums: npt.NDArray[np.generic], totals: npt.NDArray[np.generic] | None) -> None:
    """Refuse sums of integers that may have wrapped around; narrow integers have no totals, and cannot."""
    if totals is None or sums.dtype.kind not in _SUM_MAX or not len(totals):
        return
    if np.abs(totals).max() >= _SUM_MAX[sums.dtype.kind]:
        raise OutOfRange(_SUM)


def _widened(values: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
    """Return integers that were held in a narrow type as the usual ones: Arrow would take longer to cast them."""
    is_narrow = values.dtype.kind == "i" and values.dtype.itemsize < 8
    return values.astype(np.int64) if is_narrow else values


def _medians(values: npt.NDArray[np.float64], counts: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Return the value in the middle of each cell, or halfway between the two there; 0 where there is none."""
    if not len(values):
        return np.zeros(len(counts))
    of_values = np.repeat(np.arange(len(counts)), counts)
    laid = values[np.lexsort((sortable_bits(values), of_values))]
    starts = np.cumsum(counts) - counts
    low = np.minimum(starts + np.maximum(counts - 1, 0) // 2, len(laid) - 1)
    high = np.minimum(starts + counts // 2, len(laid) - 1)
    with np.errstate(over="ignore", invalid="ignore"):
        halfway = (laid[low] + laid[high]) / 2
    found: npt.NDArray[np.float64] = np.where(low == high, laid[low], halfway)
    return found
