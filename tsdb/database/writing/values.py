"""Columns of a request as the columns of a table: cast where nothing is lost, refused where something would be.

- A type that the table's column has is taken as it is; a narrower one is widened if every value stays what it is.
- Nothing is ever rounded, truncated or turned into text. Times are brought to the table's unit, towards the past.
- Whatever is refused names the table, the column, the first row, both types, and what to do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from tsdb.database.writing.assign import assign_column
from tsdb.database.writing.defaults import default_array
from tsdb.errors import TsdbError
from tsdb.ingest import Rejection, TableRows
from tsdb.model import ColumnInfo, DataType, Kind, Semantic, TableInfo, can_widen, type_of_arrow

Mask: TypeAlias = npt.NDArray[np.bool_]

VALUE_CHARS_MAX = 100
_EXACT_MAX = 1 << 53
"""Above, a float does not hold every whole number."""

_TICKS = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_INT64_MAX = (1 << 63) - 1
_YEAR_SECONDS_MAX = 8_210_298_412_799
"""The last second of the year 262142: no calendar goes further."""


@dataclass(slots=True)
class Fitted:
    """Rows in the names and types of their table; only those without rejections are to be written."""

    rows: TableRows
    table: TableInfo
    tags: dict[str, pa.Array] = field(default_factory=dict)
    """By tag, one value for each series of the request."""
    fields: dict[str, pa.Array] = field(default_factory=dict)
    times: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    rejections: list[Rejection] = field(default_factory=list)

    @property
    def series(self) -> int:
        """How many series there are; rows of a table without tags are one."""
        return self.rows.series or 1

    def refuse(self, mask: Mask | None, kind: str, reason: str, *, column: str = "", values: pa.Array = None) -> None:
        """Refuse some rows, all without a mask. `values` hold what the rows had in the column."""
        mask = np.ones(self.rows.rows, dtype=np.bool_) if mask is None else mask
        first = int(np.argmax(mask))
        place = first if self.rows.places is None else int(self.rows.places[first])
        value = None if values is None else _shown(values[first])
        self.rejections.append(
            Rejection(
                table=self.rows.table,
                reason=reason,
                place=place,
                column=column or None,
                value=value,
                rows=int(np.count_nonzero(mask)),
                kind=kind,
            )
        )

    def refuse_series(self, mask: Mask, kind: str, reason: str, *, column: str, values: pa.Array) -> None:
        """Refuse the rows of some series."""
        index = self.rows.series_index
        spread = mask[index]
        if spread.any():
            self.refuse(spread, kind, reason, column=column, values=_Lazy(values, index))


class _Lazy:
    """A column of series seen as one of rows."""

    def __init__(self, values: pa.Array, index: npt.NDArray[np.uint32]) -> None:
        self._values = values
        self._index = index

    def __getitem__(self, row: int) -> pa.Scalar:
        return self._values[int(self._index[row])]


def fit_rows(fitted: Fitted, names: Mapping[str, str], *, now_ns: int) -> None:
    """Bring rows to the names and types of their table; `names` are its names of fields that have others."""
    rows = fitted.rows
    _fit_time(fitted)
    if not is_known(rows, fitted.table):
        tags = rows.read_tags()
        for name, values in zip(tags.schema.names, tags.columns, strict=True):
            _fit_tag(fitted, name, values)
    for name, values in rows.fields.items():
        _fit_field(fitted, names.get(name, name), values, rows.types.get(name))
    _complete(fitted, now_ns=now_ns)


def is_known(rows: TableRows, table: TableInfo) -> bool:
    """Whether rows can go into a table without a look at their tags: strings that any series may have or lack."""
    if rows.known is None or table.is_logical:
        return False
    tags = table.free_tags
    return tags is not None and tags.issuperset(rows.known.tag_names)


def _fit_tag(fitted: Fitted, name: str, values: pa.Array) -> None:
    column = fitted.table.by_name.get(name)
    if column is None or column.semantic is not Semantic.TAG:
        _refuse_place(fitted, name, column, values, Semantic.TAG)
        return
    converted, bad = convert(values, None, column)
    if bad is not None and bad.any():
        reason = _type_reason(fitted.table, column, given_type(values, None))
        fitted.refuse_series(bad, "type", reason, column=name, values=values)
    if not column.nullable and converted.null_count:
        reason = f"column {name} of table {fitted.table.name} is not null but input has null"
        fitted.refuse_series(_is_null(converted), "null", reason, column=name, values=converted)
    fitted.tags[name] = converted


def _fit_field(fitted: Fitted, name: str, values: pa.Array, said: DataType | None) -> None:
    column = fitted.table.by_name.get(name)
    if column is None or column.semantic is not Semantic.FIELD:
        _refuse_place(fitted, name, column, values, Semantic.FIELD)
        return
    if values.type == column.type.arrow and said in (None, column.type) and column.type.kind is not Kind.JSON:
        converted, bad = values, None
    else:
        converted, bad = convert(values, said, column)
    if bad is not None and bad.any():
        reason = _type_reason(fitted.table, column, given_type(values, said))
        fitted.refuse(bad, "type", reason, column=name, values=values)
    if not column.nullable and converted.null_count:
        missing = _is_null(converted) if bad is None else _is_null(converted) & ~bad
        if missing.any():
            reason = f"column {name} of table {fitted.table.name} is not null but input has null"
            fitted.refuse(missing, "null", reason, column=name)
    fitted.fields[name] = converted


def _refuse_place(fitted: Fitted, name: str, column: ColumnInfo | None, values: pa.Array, semantic: Semantic) -> None:
    """Refuse a column that the table does not have, or has for something else."""
    table = fitted.table.name
    if column is None:
        reason = f"table {table} has no column {name} and may not be changed by this request"
    else:
        is_time = column.semantic is Semantic.TIMESTAMP
        what = "the time index" if is_time else f"a {column.semantic.value}"
        reason = f"column {name} of table {table} is {what}, the request has a {semantic.value} of that name"
    mask = ~_is_null(values)
    if not mask.any():
        return
    if semantic is Semantic.TAG:
        fitted.refuse_series(mask, "name", reason, column=name, values=values)
    else:
        fitted.refuse(mask, "name", reason, column=name, values=values)


def given_type(values: pa.Array, said: DataType | None) -> DataType | None:
    """The type in which a column comes; None for one that no table can hold."""
    return said or type_of_arrow(values.type)


def convert(values: pa.Array, said: DataType | None, column: ColumnInfo) -> tuple[pa.Array, Mask | None]:
    """Return values in a column's type, null where they do not fit, and where that is."""
    target, given = column.type, given_type(values, said)
    if pt.is_null(values.type):
        return pa.nulls(len(values), target.arrow), None
    if given == target:
        return (values if values.type == target.arrow else values.cast(target.arrow)), None
    if given is not None and given.is_timestamp and target.is_timestamp:
        return _convert_timestamps(values, target)
    if target.kind is Kind.JSON and given is not None and given.is_string:
        return _convert_json(values, column)
    if given is not None and not target.is_string and can_widen(given.arrow, target.arrow):
        return _widen(values, target)
    return pa.nulls(len(values), target.arrow), ~_is_null(values)


def _widen(values: pa.Array, target: DataType) -> tuple[pa.Array, Mask | None]:
    plain = values.cast(values.type.value_type) if pt.is_dictionary(values.type) else values
    if target.is_float and pt.is_integer(plain.type) and plain.type.bit_width > 32:
        return _widen_exactly(plain, target)
    return plain.cast(target.arrow), None


def _widen_exactly(values: pa.Array, target: DataType) -> tuple[pa.Array, Mask | None]:
    """Whole numbers as floats, except those that a float does not hold."""
    is_wrong = pc.greater(values, pa.scalar(_EXACT_MAX, values.type))
    if pt.is_signed_integer(values.type):
        is_wrong = pc.or_(is_wrong, pc.less(values, pa.scalar(-_EXACT_MAX, values.type)))
    mask = _to_mask(is_wrong)
    floats = values.cast(target.arrow, safe=False)
    if not mask.any():
        return floats, None
    return pc.if_else(pa.array(mask), pa.scalar(None, target.arrow), floats), mask


def _convert_timestamps(values: pa.Array, target: DataType) -> tuple[pa.Array, Mask | None]:
    is_null = _is_null(values)
    counts = pc.fill_null(values.cast(pa.timestamp(values.type.unit)).cast(pa.int64()), 0)
    times, bad = scale_times(counts.to_numpy(zero_copy_only=False), values.type.unit, target.arrow.unit)
    gone = is_null if bad is None else is_null | bad
    return pa.array(times, pa.int64(), mask=gone).cast(target.arrow), bad


def _convert_json(values: pa.Array, column: ColumnInfo) -> tuple[pa.Array, Mask | None]:
    try:
        return assign_column(values, column, zone="UTC"), None
    except TsdbError:
        return pa.nulls(len(values), column.type.arrow), ~_is_null(values)


def _fit_time(fitted: Fitted) -> None:
    rows, column = fitted.rows, fitted.table.time_index
    unit = column.type.arrow.unit
    fitted.times, bad = scale_times(rows.times, rows.unit, unit)
    if bad is not None:
        reason = (
            f"the time of a row is out of range for column {column.name} of table {fitted.table.name}, "
            f"which has the type {column.type.name}; check the precision of the request"
        )
        fitted.refuse(bad, "time", reason, column=column.name, values=pa.array(rows.times))


def scale_times(times: npt.NDArray[np.int64], source: str, target: str) -> tuple[npt.NDArray[np.int64], Mask | None]:
    """Return times in another unit, rounded towards the past, and where they are out of its range."""
    limit = _INT64_MAX if target == "ns" else min(_INT64_MAX, _YEAR_SECONDS_MAX * _TICKS[target])
    if source == target:
        scaled, low, high = times, -limit - 1, limit
    elif _TICKS[source] > _TICKS[target]:
        factor = _TICKS[source] // _TICKS[target]
        scaled, low, high = times // factor, (-limit - 1) * factor, limit * factor
    else:
        factor = _TICKS[target] // _TICKS[source]
        low, high = -((limit + 1) // factor), limit // factor
        scaled = times * factor
    if not len(times) or (low <= int(times.min()) and int(times.max()) <= high):
        return scaled, None
    below = times < max(low, -_INT64_MAX - 1)
    bad = below | (times > min(high, _INT64_MAX))
    return np.where(bad, 0, scaled), bad


def _complete(fitted: Fitted, *, now_ns: int) -> None:
    """Give the columns that the request does not have their defaults, and refuse rows that need them."""
    for column in fitted.table.columns:
        if column.semantic is Semantic.TIMESTAMP or column.name in fitted.fields or column.name in fitted.tags:
            continue
        if column.default is not None:
            is_tag = column.semantic is Semantic.TAG
            filled = default_array(column, fitted.series if is_tag else fitted.rows.rows, now_ns=now_ns)
            (fitted.tags if is_tag else fitted.fields)[column.name] = filled
        elif not column.nullable:
            reason = f"missing column {column.name} of table {fitted.table.name}, which is not null and has no default"
            fitted.refuse(None, "null", reason, column=column.name)


def _type_reason(table: TableInfo, column: ColumnInfo, given: DataType | None) -> str:
    came = "a type that no column has" if given is None else given.name
    reason = f"column {column.name} of table {table.name} has the type {column.type.name}, the request has {came}"
    if given is not None and given.is_integer and column.type.is_float:
        return f"{reason}; the whole number is too large to be a {column.type.name} exactly"
    if given is not None and given.is_float and column.type.is_integer:
        return (
            f"{reason}; send whole numbers as integers, "
            f"or change the column with ALTER TABLE {table.name} MODIFY COLUMN {column.name} {given.sql}"
        )
    return f"{reason}; send the type of the column, or write to another one"


def place_rejection(rejection: Rejection, word: str) -> Rejection:
    """Return a rejection whose sentence says where the row stood and what it had."""
    where = f"{word} {rejection.place}: " if rejection.place is not None else ""
    what = f" (value {rejection.value})" if rejection.value is not None else ""
    head, semicolon, tail = rejection.reason.partition(";")
    return replace(rejection, reason=f"{where}{head}{what}{semicolon}{tail}")


def _is_null(values: pa.Array) -> Mask:
    if not values.null_count:
        return np.zeros(len(values), dtype=np.bool_)
    return _to_mask(values.is_null())


def _to_mask(values: pa.Array) -> Mask:
    mask: Mask = np.asarray(pc.fill_null(values, False).to_numpy(zero_copy_only=False), dtype=np.bool_)
    return mask


def _shown(scalar: pa.Scalar) -> str | None:
    if not scalar.is_valid:
        return None
    # Python's own times end long before those of a column.
    return str(scalar.value if pt.is_timestamp(scalar.type) else scalar)[:VALUE_CHARS_MAX]
