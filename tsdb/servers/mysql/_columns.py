"""The columns of a result as MySQL describes them: type, length, flags.

A length of 1 makes some clients read a TINY as a boolean, so that only booleans have it. Strings and bytes have the
same type and differ in the character set.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.types as pt

from tsdb.model import Kind, type_of_field
from tsdb.servers.mysql._protocol import CHARSET_BINARY, CHARSET_UTF8MB4, ColumnFlag, ColumnType, encode_text

_TEXT_BYTES_MAX = 0x7FFFFFFF
"""Some clients keep a length in a signed integer of 32 bits."""
_NAME_BYTES = 0x0C
_ANY_DECIMALS = 31
_FRACTION_DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 6}


@dataclass(frozen=True, slots=True)
class WireType:
    """How a type is described to clients."""

    type: ColumnType
    length: int
    flags: ColumnFlag = ColumnFlag.BINARY
    charset: int = CHARSET_BINARY
    decimals: int = 0


_UNSIGNED = ColumnFlag.BINARY | ColumnFlag.UNSIGNED
_TEXT = WireType(ColumnType.VAR_STRING, _TEXT_BYTES_MAX, ColumnFlag(0), CHARSET_UTF8MB4)
_BYTES = WireType(ColumnType.VAR_STRING, _TEXT_BYTES_MAX)
_SHAPES: dict[pa.DataType, WireType] = {
    pa.null(): WireType(ColumnType.NULL, 0),
    pa.bool_(): WireType(ColumnType.TINY, 1),
    pa.int8(): WireType(ColumnType.TINY, 4),
    pa.int16(): WireType(ColumnType.SHORT, 6),
    pa.int32(): WireType(ColumnType.LONG, 11),
    pa.int64(): WireType(ColumnType.LONGLONG, 20),
    pa.uint8(): WireType(ColumnType.TINY, 3, _UNSIGNED),
    pa.uint16(): WireType(ColumnType.SHORT, 5, _UNSIGNED),
    pa.uint32(): WireType(ColumnType.LONG, 10, _UNSIGNED),
    pa.uint64(): WireType(ColumnType.LONGLONG, 20, _UNSIGNED),
    pa.float16(): WireType(ColumnType.FLOAT, 12, decimals=_ANY_DECIMALS),
    pa.float32(): WireType(ColumnType.FLOAT, 12, decimals=_ANY_DECIMALS),
    pa.float64(): WireType(ColumnType.DOUBLE, 22, decimals=_ANY_DECIMALS),
    pa.date32(): WireType(ColumnType.DATE, 10),
    pa.date64(): WireType(ColumnType.DATE, 10),
}


def shape_of(field: pa.Field) -> WireType:
    """Return how the type of a column is described to clients."""
    kind = field.type
    while pt.is_dictionary(kind):
        kind = kind.value_type
    known = type_of_field(field)
    if known is not None and known.kind is Kind.JSON:
        return WireType(ColumnType.JSON, _TEXT_BYTES_MAX, ColumnFlag(0), CHARSET_UTF8MB4)
    if known is not None and known.kind is Kind.VECTOR:
        return WireType(ColumnType.BLOB, _TEXT_BYTES_MAX)
    if pt.is_timestamp(kind):
        digits = _FRACTION_DIGITS[kind.unit]
        return WireType(ColumnType.TIMESTAMP, 19 + (digits and digits + 1), decimals=digits)
    if pt.is_time(kind) or pt.is_duration(kind):
        digits = _FRACTION_DIGITS[kind.unit]
        return WireType(ColumnType.TIME, 10 + (digits and digits + 1), decimals=digits)
    if pt.is_decimal(kind):
        return WireType(ColumnType.NEWDECIMAL, kind.precision + 2, decimals=max(kind.scale, 0))
    if pt.is_binary(kind) or pt.is_large_binary(kind) or pt.is_binary_view(kind) or pt.is_fixed_size_binary(kind):
        return _BYTES
    return _SHAPES.get(kind, _TEXT)


def encode_column(field: pa.Field, database: str) -> bytes:
    """Return the definition of a column."""
    shape = shape_of(field)
    flags = shape.flags if field.nullable else shape.flags | ColumnFlag.NOT_NULL
    name = encode_text(field.name)
    return b"".join(
        (
            encode_text("def"),
            encode_text(database),
            b"\x00\x00",  # the table and its original name: unknown for results
            name,
            name,
            bytes((_NAME_BYTES,)),
            shape.charset.to_bytes(2, "little"),
            shape.length.to_bytes(4, "little"),
            bytes((shape.type,)),
            int(flags).to_bytes(2, "little"),
            bytes((shape.decimals,)),
            b"\x00\x00",
        )
    )
