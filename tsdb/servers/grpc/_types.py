"""The types of `greptime.v1` and those of columns."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from tsdb.errors import InvalidArguments, Unsupported
from tsdb.model import DataType, Kind, Semantic
from tsdb.servers.grpc.proto import greptime_pb2 as v1

DECIMAL_PRECISION_MAX = 38

_KINDS: dict[int, Kind] = {
    v1.BOOLEAN: Kind.BOOLEAN,
    v1.INT8: Kind.INT8,
    v1.INT16: Kind.INT16,
    v1.INT32: Kind.INT32,
    v1.INT64: Kind.INT64,
    v1.UINT8: Kind.UINT8,
    v1.UINT16: Kind.UINT16,
    v1.UINT32: Kind.UINT32,
    v1.UINT64: Kind.UINT64,
    v1.FLOAT32: Kind.FLOAT32,
    v1.FLOAT64: Kind.FLOAT64,
    v1.BINARY: Kind.BINARY,
    v1.STRING: Kind.STRING,
    v1.DATE: Kind.DATE,
    v1.DATETIME: Kind.TIMESTAMP_MICROSECOND,
    v1.TIMESTAMP_SECOND: Kind.TIMESTAMP_SECOND,
    v1.TIMESTAMP_MILLISECOND: Kind.TIMESTAMP_MILLISECOND,
    v1.TIMESTAMP_MICROSECOND: Kind.TIMESTAMP_MICROSECOND,
    v1.TIMESTAMP_NANOSECOND: Kind.TIMESTAMP_NANOSECOND,
    v1.DECIMAL128: Kind.DECIMAL,
    v1.JSON: Kind.JSON,
    v1.VECTOR: Kind.VECTOR,
}
_SEMANTICS: dict[int, Semantic] = {
    v1.TAG: Semantic.TAG,
    v1.FIELD: Semantic.FIELD,
    v1.TIMESTAMP: Semantic.TIMESTAMP,
}


@dataclass(frozen=True, slots=True)
class GivenColumn:
    """A column as a request has it; the Arrow type of the values is that of its type."""

    name: str
    semantic: Semantic
    type: DataType
    values: pa.Array


@dataclass(frozen=True, slots=True)
class GivenTable:
    """The part of a request for one table."""

    name: str
    columns: tuple[GivenColumn, ...]
    rows: int


def column_type(name: str, kind: int, extension: v1.ColumnDataTypeExtension) -> DataType:
    """Return the type of a column; Unsupported if no column of a table can have it."""
    found = _KINDS.get(kind)
    if found is None:
        known = kind in v1.ColumnDataType.values()
        raise Unsupported(
            f"column {name}: no column can have the type {v1.ColumnDataType.Name(kind) if known else kind}"
        )
    if found is Kind.DECIMAL:
        precision, scale = extension.decimal_type.precision, extension.decimal_type.scale
        if not 1 <= precision <= DECIMAL_PRECISION_MAX or not 0 <= scale <= precision:
            raise InvalidArguments(f"column {name}: there is no Decimal({precision}, {scale})")
        return DataType(found, precision=precision, scale=scale)
    if found is Kind.VECTOR:
        if not extension.vector_type.dim:
            raise InvalidArguments(f"column {name}: a vector has a dimension", hint="send vector_type.dim")
        return DataType(found, dimension=extension.vector_type.dim)
    return DataType(found)


def column_semantic(name: str, semantic: int) -> Semantic:
    found = _SEMANTICS.get(semantic)
    if found is None:
        raise InvalidArguments(f"column {name}: there is no semantic type {semantic}")
    return found
