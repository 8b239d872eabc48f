"""Assignment casts: the columns of a query, or of a file, into the columns of a table.

Arrow does the casting. On top of it stands what SQL expects of an assignment: text becomes a timestamp in the session's
zone, a number becomes a timestamp as a count of its unit, text becomes JSON or a vector.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from tsdb.database.writing.cells import canonical_json, vector_bytes
from tsdb.errors import InvalidArguments, Status, TsdbError
from tsdb.model import ColumnInfo, Kind, floor_to_unit, parse_timestamps


class CannotAssign(TsdbError):
    """A value of a query does not fit its column."""

    status = Status.ENGINE_EXECUTE_QUERY


class IncompatibleTypes(InvalidArguments):
    """A column of a query has a type its target cannot take."""

    status = Status.PLAN_QUERY


_DIGITS_MAX = 76
"""Of the widest decimal."""


def assign_column(values: pa.Array | pa.ChunkedArray, column: ColumnInfo, *, zone: str) -> pa.Array | pa.ChunkedArray:
    """Return values as the column's type."""
    try:
        return _assign(_plain(values), column, zone)
    except InvalidArguments as error:
        if isinstance(error, IncompatibleTypes):
            raise
        raise CannotAssign(f"Cannot assign to column {column.name}: {error}") from error
    except pa.ArrowNotImplementedError as error:
        raise IncompatibleTypes(
            f"Failed to plan SQL: column {column.name} of type {column.type.name} does not take {values.type}"
        ) from error
    except pa.ArrowInvalid as error:
        raise CannotAssign(f"Can't cast value to type {column.type.name} of column {column.name}: {error}") from error


def _plain(values: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    if pt.is_dictionary(values.type):
        return values.cast(values.type.value_type)
    if pt.is_string_view(values.type) or pt.is_large_string(values.type):
        return values.cast(pa.string())
    if pt.is_binary_view(values.type) or pt.is_large_binary(values.type):
        return values.cast(pa.binary())
    return values


def _assign(values: pa.Array | pa.ChunkedArray, column: ColumnInfo, zone: str) -> pa.Array | pa.ChunkedArray:
    source, target, kind = values.type, column.type.arrow, column.type.kind
    if pt.is_null(source):
        return pa.nulls(len(values), target)
    if kind is Kind.JSON:
        return _each_text(values, canonical_json, pa.string())
    if kind is Kind.VECTOR:
        if pt.is_string(source) or pt.is_binary(source):
            return _each_text(values, lambda cell: vector_bytes(cell, column.type.dimension), pa.binary())
        raise pa.ArrowNotImplementedError("not a vector")
    if source == target:
        return values
    if column.type.is_timestamp:
        return _to_timestamp(values, target, zone)
    if kind is Kind.STRING and pt.is_timestamp(source):
        return values.cast(target)
    if kind is Kind.DATE and pt.is_timestamp(source):
        return pc.floor_temporal(values, unit="day").cast(target)
    if pt.is_floating(source) and pt.is_integer(target):
        return pc.trunc(values).cast(target)
    if pt.is_floating(target):
        return values.cast(target, safe=False)
    if pt.is_decimal(target) and pt.is_decimal(source):
        wide = values.cast(pa.decimal256(_DIGITS_MAX, source.scale))
        rounded = pc.round(wide, ndigits=column.type.scale, round_mode="half_towards_infinity")
        return rounded.cast(pa.decimal256(_DIGITS_MAX, column.type.scale), safe=False).cast(target)
    if pt.is_decimal(target) and pt.is_integer(source):
        # A narrow decimal takes no wide integers, whatever their values are.
        return values.cast(pa.decimal256(_DIGITS_MAX, column.type.scale)).cast(target)
    if pt.is_decimal(target) and pt.is_floating(source):
        rounded = pc.round(values, ndigits=column.type.scale)
        return rounded.cast(pa.decimal256(_DIGITS_MAX, column.type.scale), safe=False).cast(target)
    return values.cast(target)


def _to_timestamp(values: pa.Array, target: pa.DataType, zone: str) -> pa.Array:
    source = values.type
    if pt.is_string(source):
        flat = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
        return parse_timestamps(flat, target.unit, zone)
    if pt.is_timestamp(source):
        if source.tz is not None:
            values = values.cast(pa.timestamp(source.unit))
        return floor_to_unit(values, target.unit)
    if pt.is_floating(source):
        return pc.trunc(values).cast(pa.int64()).cast(target)
    if pt.is_date(source):
        return values.cast(pa.timestamp("s")).cast(target)
    if pt.is_integer(source):
        return values.cast(pa.int64()).cast(target)
    raise pa.ArrowNotImplementedError("not a time")


def _each_text(values: pa.Array | pa.ChunkedArray, convert: object, kind: pa.DataType) -> pa.Array:
    """Convert each distinct value once."""
    assert callable(convert)
    flat = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    encoded = flat.dictionary_encode()
    converted = pa.array([convert(cell) for cell in encoded.dictionary.to_pylist()], kind)
    return converted.take(encoded.indices)
