"""Requests of `greptime.v1`, by row or by column, as tables of Arrow columns.

A kernel decodes rows. Requests by column have the values that are not null one after the other, and a mask of the
nulls. Integers are encoded wider than their column; one that does not fit is refused.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

import numpy as np
import pyarrow as pa

from tsdb._kernels import MalformedInput, parse_greptime_rows
from tsdb.database import canonical_json
from tsdb.errors import InvalidArguments
from tsdb.model import DataType, Kind, Semantic
from tsdb.servers.grpc._calls import parse_message
from tsdb.servers.grpc._types import GivenColumn, GivenTable, column_semantic, column_type
from tsdb.servers.grpc.proto import greptime_pb2 as v1

ROWS_MAX = 1 << 31
SCHEMAS_MAX = 4096
"""How many schemas of columns are remembered, if they are not longer than `SCHEMA_BYTES_MAX`."""
SCHEMA_BYTES_MAX = 256
_VECTOR_ELEMENT_BYTES = 4
_VALUES = v1.Column.Values.DESCRIPTOR.fields_by_number


def tables_of_rows(body: bytes) -> list[GivenTable]:
    """Read a `RowInsertRequests`, or a `RowDeleteRequests`, which looks the same."""
    try:
        parsed = parse_greptime_rows(body)
    except MalformedInput as error:
        raise InvalidArguments(str(error)) from None
    return [
        GivenTable(name, tuple(map(_column_of_rows, schemas, map(pa.array, arrays))), rows)
        for name, schemas, arrays, rows in parsed
    ]


def _column_of_rows(encoded: bytes, values: pa.Array) -> GivenColumn:
    # Clients send the same few schemas with every request.
    is_short = len(encoded) <= SCHEMA_BYTES_MAX
    name, semantic, given = _known_schema(encoded) if is_short else _read_schema(encoded)
    return GivenColumn(name, semantic, given, _typed(name, given, values))


def _read_schema(encoded: bytes) -> tuple[str, Semantic, DataType]:
    schema = parse_message(v1.ColumnSchema, encoded)
    name = schema.column_name
    given = column_type(name, schema.datatype, schema.datatype_extension)
    return name, column_semantic(name, schema.semantic_type), given


_known_schema = lru_cache(SCHEMAS_MAX)(_read_schema)


def tables_of_inserts(body: bytes) -> list[GivenTable]:
    """Read an `InsertRequests`."""
    requests = parse_message(v1.InsertRequests, body).inserts
    return [_table_of_columns(each.table_name, each.columns, each.row_count) for each in requests]


def tables_of_deletes(body: bytes) -> list[GivenTable]:
    """Read a `DeleteRequests`."""
    requests = parse_message(v1.DeleteRequests, body).deletes
    return [_table_of_columns(each.table_name, each.key_columns, each.row_count) for each in requests]


def _table_of_columns(table: str, columns: Iterable[v1.Column], rows: int) -> GivenTable:
    if rows >= ROWS_MAX:
        raise InvalidArguments(f"table {table}: {rows} rows are too many for one request")
    return GivenTable(table, tuple(_column_of_values(table, column, rows) for column in columns), rows)


def _column_of_values(table: str, column: v1.Column, rows: int) -> GivenColumn:
    name = column.column_name
    given = column_type(name, column.datatype, column.datatype_extension)
    field = _VALUES[_field_number(column.datatype)]
    for other, _ in column.values.ListFields():
        if other.number != field.number:
            raise InvalidArguments(f"table {table}, column {name}: expected {field.name}, received {other.name}")
    found = getattr(column.values, field.name)
    is_null = _null_mask(column.null_mask, rows)
    if len(found) + int(is_null.sum()) != rows:
        raise InvalidArguments(
            f"table {table}, column {name}: {len(found)} values and {int(is_null.sum())} nulls are not {rows} rows"
        )
    values = _spread(_plain_array(given, found), is_null)
    return GivenColumn(name, column_semantic(name, column.semantic_type), given, _typed(name, given, values))


def _field_number(kind: int) -> int:
    """The number of the field that holds the values of a type."""
    special: dict[int, int] = {v1.BOOLEAN: 11, v1.BINARY: 12, v1.STRING: 13, v1.JSON: 13, v1.VECTOR: 12}
    return special.get(kind, kind if kind <= v1.FLOAT64 else kind + 1)


def _null_mask(mask: bytes, rows: int) -> np.ndarray:
    if len(mask) * 8 < rows:
        mask = mask + bytes((rows + 7) // 8 - len(mask)) if mask else bytes((rows + 7) // 8)
    return np.unpackbits(np.frombuffer(mask, np.uint8), count=rows, bitorder="little").astype(np.bool_)


def _plain_array(given: DataType, found: Iterable[object]) -> pa.Array:
    """The values as the kernel of rows would return them."""
    if given.kind is Kind.DECIMAL:
        halves = [((each.hi << 64) | (each.lo & _LOW)) & _ALL for each in found]  # type: ignore[attr-defined]
        return pa.array([each.to_bytes(16, "little") for each in halves], pa.binary(16))
    if given.is_timestamp or given.kind is Kind.DATE:
        return pa.array(found, pa.int64())
    wide = {Kind.JSON: pa.string(), Kind.VECTOR: pa.binary()}.get(given.kind, given.arrow)
    if pa.types.is_signed_integer(wide):
        wide = pa.int64()
    elif pa.types.is_unsigned_integer(wide):
        wide = pa.uint64()
    return pa.array(found, wide)


_LOW = (1 << 64) - 1
_ALL = (1 << 128) - 1


def _spread(values: pa.Array, is_null: np.ndarray) -> pa.Array:
    if not is_null.any():
        return values
    places = np.cumsum(~is_null) - 1
    return values.take(pa.array(np.maximum(places, 0), mask=is_null))


def _typed(name: str, given: DataType, values: pa.Array) -> pa.Array:
    """Return values as their type has them; InvalidArguments for one that does not fit."""
    try:
        if given.kind is Kind.DECIMAL:
            typed = pa.Array.from_buffers(given.arrow, len(values), values.buffers(), values.null_count, values.offset)
            typed.validate(full=True)
            return typed
        if given.kind is Kind.DATE:
            return values.cast(pa.int32()).cast(given.arrow)
        if given.kind is Kind.JSON:
            return _stored_json(values)
        if given.kind is Kind.VECTOR:
            return _checked_vectors(values, given.dimension)
        return values if values.type == given.arrow else values.cast(given.arrow)
    except (pa.ArrowInvalid, ValueError, InvalidArguments) as error:
        raise InvalidArguments(f"column {name}: a value is not of the type {given.name}: {error}") from None


def _stored_json(values: pa.Array) -> pa.Array:
    coded = values.dictionary_encode()
    texts = [canonical_json(text) for text in coded.dictionary.to_pylist()]
    return pa.array(texts, pa.string()).take(coded.indices)


def _checked_vectors(values: pa.Array, dimension: int) -> pa.Array:
    sizes = pa.compute.unique(pa.compute.binary_length(values.drop_null())).to_pylist()
    expected = dimension * _VECTOR_ELEMENT_BYTES
    if any(size != expected for size in sizes):
        raise ValueError(f"expected {expected} bytes, received {next(size for size in sizes if size != expected)}")
    return values
