"""The SQL types: their names, and the Arrow types that carry their values.

A `DataType` is more than its Arrow type: JSON travels as text and a vector as bytes. The metadata of a field names such
a type (`TYPE_KEY`), so that a result knows what it holds; `type_of_field` reads it back.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property, lru_cache

import pyarrow as pa
import pyarrow.types as pt

TYPE_KEY = b"tsdb:type"
"""Metadata of an Arrow field whose SQL type differs from its Arrow type: `json`, `vector(3)`."""

_TYPES_MAX = 1024
"""How many types are remembered with their stored form."""


class Kind(StrEnum):
    """The kind of a value; the text is the name that `DESC` shows."""

    STRING = "String"
    BINARY = "Binary"
    BOOLEAN = "Boolean"
    INT8 = "Int8"
    INT16 = "Int16"
    INT32 = "Int32"
    INT64 = "Int64"
    UINT8 = "UInt8"
    UINT16 = "UInt16"
    UINT32 = "UInt32"
    UINT64 = "UInt64"
    FLOAT32 = "Float32"
    FLOAT64 = "Float64"
    DECIMAL = "Decimal"
    DATE = "Date"
    TIMESTAMP_SECOND = "TimestampSecond"
    TIMESTAMP_MILLISECOND = "TimestampMillisecond"
    TIMESTAMP_MICROSECOND = "TimestampMicrosecond"
    TIMESTAMP_NANOSECOND = "TimestampNanosecond"
    JSON = "Json"
    VECTOR = "Vector"


@dataclass(frozen=True, slots=True)
class _Facts:
    arrow: pa.DataType
    sql: str


_FACTS: dict[Kind, _Facts] = {
    Kind.STRING: _Facts(pa.string(), "STRING"),
    Kind.BINARY: _Facts(pa.binary(), "VARBINARY"),
    Kind.BOOLEAN: _Facts(pa.bool_(), "BOOLEAN"),
    Kind.INT8: _Facts(pa.int8(), "TINYINT"),
    Kind.INT16: _Facts(pa.int16(), "SMALLINT"),
    Kind.INT32: _Facts(pa.int32(), "INT"),
    Kind.INT64: _Facts(pa.int64(), "BIGINT"),
    Kind.UINT8: _Facts(pa.uint8(), "TINYINT UNSIGNED"),
    Kind.UINT16: _Facts(pa.uint16(), "SMALLINT UNSIGNED"),
    Kind.UINT32: _Facts(pa.uint32(), "INT UNSIGNED"),
    Kind.UINT64: _Facts(pa.uint64(), "BIGINT UNSIGNED"),
    Kind.FLOAT32: _Facts(pa.float32(), "FLOAT"),
    Kind.FLOAT64: _Facts(pa.float64(), "DOUBLE"),
    Kind.DATE: _Facts(pa.date32(), "DATE"),
    Kind.TIMESTAMP_SECOND: _Facts(pa.timestamp("s"), "TIMESTAMP(0)"),
    Kind.TIMESTAMP_MILLISECOND: _Facts(pa.timestamp("ms"), "TIMESTAMP(3)"),
    Kind.TIMESTAMP_MICROSECOND: _Facts(pa.timestamp("us"), "TIMESTAMP(6)"),
    Kind.TIMESTAMP_NANOSECOND: _Facts(pa.timestamp("ns"), "TIMESTAMP(9)"),
    Kind.JSON: _Facts(pa.string(), "JSON"),
    Kind.VECTOR: _Facts(pa.binary(), "VECTOR"),
}

_UNIT_NAMES = {"s": "Second", "ms": "Millisecond", "us": "Microsecond", "ns": "Nanosecond"}
_TIMESTAMP_PRECISIONS = {"s": 0, "ms": 3, "us": 6, "ns": 9}


@dataclass(frozen=True)
class DataType:
    """A type a column can have."""

    kind: Kind
    precision: int = 0
    """Of a decimal."""
    scale: int = 0
    """Of a decimal."""
    dimension: int = 0
    """Of a vector."""

    @cached_property
    def arrow(self) -> pa.DataType:
        """The Arrow type of its values."""
        if self.kind is Kind.DECIMAL:
            return pa.decimal128(self.precision, self.scale)
        return _FACTS[self.kind].arrow

    @property
    def name(self) -> str:
        """As `DESC` and the HTTP API show it: `Float64`, `Decimal(10, 2)`."""
        if self.kind is Kind.DECIMAL:
            return f"Decimal({self.precision}, {self.scale})"
        return f"Vector({self.dimension})" if self.kind is Kind.VECTOR else self.kind.value

    @property
    def sql(self) -> str:
        """As `SHOW CREATE TABLE` prints it: `DOUBLE`, `DECIMAL(10, 2)`; in lower case for information_schema."""
        if self.kind is Kind.DECIMAL:
            return f"DECIMAL({self.precision}, {self.scale})"
        return f"VECTOR({self.dimension})" if self.kind is Kind.VECTOR else _FACTS[self.kind].sql

    @property
    def is_timestamp(self) -> bool:
        return bool(pt.is_timestamp(self.arrow))

    @property
    def is_string(self) -> bool:
        return self.kind is Kind.STRING

    @property
    def is_integer(self) -> bool:
        return bool(pt.is_integer(self.arrow))

    @property
    def is_float(self) -> bool:
        return bool(pt.is_floating(self.arrow))

    @property
    def timestamp_precision(self) -> int:
        """Digits after the second, of a timestamp: 0, 3, 6 or 9."""
        return _TIMESTAMP_PRECISIONS[self.arrow.unit]

    def field(self, name: str, *, nullable: bool = True) -> pa.Field:
        """An Arrow field of this type, which `type_of_field` understands."""
        metadata = {TYPE_KEY: self.to_text().encode()} if self.kind in (Kind.JSON, Kind.VECTOR) else None
        return pa.field(name, self.arrow, nullable, metadata)

    def to_text(self) -> str:
        """A form to store; `from_text` reads it back."""
        if self.kind is Kind.DECIMAL:
            return f"decimal({self.precision},{self.scale})"
        return f"vector({self.dimension})" if self.kind is Kind.VECTOR else self.kind.value.lower()

    @classmethod
    def from_text(cls, text: str) -> DataType:
        return _read_type(text)


@lru_cache(_TYPES_MAX)
def _read_type(text: str) -> DataType:
    name, _, arguments = text.partition("(")
    numbers = [int(each) for each in arguments.rstrip(")").split(",") if each]
    kind = _KIND_BY_TEXT[name]
    if kind is Kind.DECIMAL:
        return DataType(kind, precision=numbers[0], scale=numbers[1])
    return DataType(kind, dimension=numbers[0]) if kind is Kind.VECTOR else DataType(kind)


_KIND_BY_TEXT = {kind.value.lower(): kind for kind in Kind}
_KIND_BY_ARROW = {facts.arrow: kind for kind, facts in reversed(_FACTS.items()) if kind not in (Kind.JSON, Kind.VECTOR)}


def type_of_arrow(kind: pa.DataType) -> DataType | None:
    """Return the SQL type of a plain Arrow type, None for those only expressions have."""
    if pt.is_decimal(kind):
        return DataType(Kind.DECIMAL, precision=kind.precision, scale=kind.scale)
    if pt.is_dictionary(kind):
        return type_of_arrow(kind.value_type)
    if pt.is_timestamp(kind) and kind.tz is not None:
        return type_of_arrow(pa.timestamp(kind.unit))
    if pt.is_large_string(kind) or pt.is_string_view(kind):
        return DataType(Kind.STRING)
    if pt.is_large_binary(kind) or pt.is_binary_view(kind) or pt.is_fixed_size_binary(kind):
        return DataType(Kind.BINARY)
    found = _KIND_BY_ARROW.get(kind)
    return None if found is None else DataType(found)


def type_of_field(field: pa.Field) -> DataType | None:
    """Return the SQL type of a column of a result, None for types only expressions have."""
    if field.metadata and TYPE_KEY in field.metadata:
        return DataType.from_text(field.metadata[TYPE_KEY].decode())
    return type_of_arrow(field.type)


def type_name(field: pa.Field) -> str:
    """Return the name of a column's type as clients see it, those included that only expressions have."""
    known = type_of_field(field)
    return known.name if known is not None else _expression_type_name(field.type)


def _expression_type_name(kind: pa.DataType) -> str:
    if pt.is_null(kind):
        return "Null"
    if pt.is_time(kind):
        return f"Time{_UNIT_NAMES[kind.unit]}"
    if pt.is_duration(kind):
        return f"Duration{_UNIT_NAMES[kind.unit]}"
    if pt.is_interval(kind):
        return "IntervalMonthDayNano"
    if pt.is_date64(kind):
        return "Date"
    if pt.is_list(kind) or pt.is_large_list(kind) or pt.is_fixed_size_list(kind) or pt.is_list_view(kind):
        return f"List<{type_name(kind.value_field)}>"
    if pt.is_struct(kind):
        return "Struct<" + ", ".join(f"{each.name}: {type_name(each)}" for each in kind) + ">"
    if pt.is_map(kind):
        return f"Map<{type_name(kind.key_field)}, {type_name(kind.item_field)}>"
    return str(kind)
