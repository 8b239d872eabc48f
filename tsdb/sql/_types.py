"""The names of types in SQL.

Two families of names look alike: INT2, INT4, INT8, FLOAT4 and FLOAT8 count bytes, INT16 … INT64, UINT8 … UINT64,
FLOAT32 and FLOAT64 count bits. So INT8 is a BIGINT.
"""

from __future__ import annotations

from collections.abc import Sequence

from tsdb.errors import InvalidSyntax
from tsdb.model import DataType, Kind

DECIMAL_PRECISION_MAX = 38
DECIMAL_DEFAULT = (38, 10)
FLOAT32_BITS_MAX, FLOAT_BITS_MAX = 24, 53
VECTOR_DIMENSION_MAX = 65_535

_NAMES: dict[Kind, str] = {
    Kind.STRING: "STRING TEXT VARCHAR CHAR CHARACTER TINYTEXT MEDIUMTEXT LONGTEXT NVARCHAR",
    Kind.BINARY: "BINARY VARBINARY BLOB BYTEA TINYBLOB MEDIUMBLOB LONGBLOB BYTES",
    Kind.BOOLEAN: "BOOLEAN BOOL",
    Kind.INT8: "TINYINT",
    Kind.INT16: "SMALLINT INT2 INT16",
    Kind.INT32: "INT INTEGER INT4 INT32 MEDIUMINT",
    Kind.INT64: "BIGINT INT8 INT64",
    Kind.UINT8: "UINT8",
    Kind.UINT16: "UINT16",
    Kind.UINT32: "UINT32",
    Kind.UINT64: "UINT64",
    Kind.FLOAT32: "FLOAT FLOAT4 FLOAT32 REAL",
    Kind.FLOAT64: "DOUBLE FLOAT8 FLOAT64",
    Kind.DECIMAL: "DECIMAL NUMERIC DEC",
    Kind.DATE: "DATE DATE32",
    Kind.TIMESTAMP_SECOND: "TIMESTAMP_S TIMESTAMP_SEC TIMESTAMPSECOND",
    Kind.TIMESTAMP_MILLISECOND: "TIMESTAMP TIMESTAMPTZ TIMESTAMP_MS TIMESTAMPMILLISECOND",
    Kind.TIMESTAMP_MICROSECOND: "TIMESTAMP_US TIMESTAMPMICROSECOND DATETIME",
    Kind.TIMESTAMP_NANOSECOND: "TIMESTAMP_NS TIMESTAMPNANOSECOND",
    Kind.JSON: "JSON",
    Kind.VECTOR: "VECTOR",
}
_KINDS = {name: kind for kind, names in _NAMES.items() for name in names.split()}

_UNSIGNED = {
    Kind.INT8: Kind.UINT8,
    Kind.INT16: Kind.UINT16,
    Kind.INT32: Kind.UINT32,
    Kind.INT64: Kind.UINT64,
}
_TIMESTAMPS = {
    0: Kind.TIMESTAMP_SECOND,
    3: Kind.TIMESTAMP_MILLISECOND,
    6: Kind.TIMESTAMP_MICROSECOND,
    9: Kind.TIMESTAMP_NANOSECOND,
}
_WITH_PRECISION = frozenset({"TIMESTAMP", "TIMESTAMPTZ", "DATETIME"})
_WITH_WIDTH = frozenset({Kind.STRING, Kind.BINARY, Kind.INT8, Kind.INT16, Kind.INT32, Kind.INT64})
"""Kinds whose one number, a length or a display width, says nothing about the values."""


def type_of_name(name: str, arguments: Sequence[int] = (), *, is_unsigned: bool = False) -> DataType | None:
    """Return the type of a name with the numbers behind it, None for a name no type has.

    InvalidSyntax when the name is known and the numbers are not what it takes.
    """
    upper = name.upper()
    kind = _KINDS.get(upper)
    if kind is None:
        return None
    if is_unsigned:
        if kind not in _UNSIGNED:
            raise InvalidSyntax(f"{upper} cannot be UNSIGNED")
        kind = _UNSIGNED[kind]
    if kind is Kind.DECIMAL:
        return _decimal(arguments)
    if kind is Kind.VECTOR:
        return _vector(arguments)
    if upper in _WITH_PRECISION and arguments:
        return _timestamp(upper, arguments)
    if upper in ("FLOAT", "DOUBLE") and arguments:
        return _float(upper, arguments)
    if arguments and (len(arguments) > 1 or (kind not in _WITH_WIDTH and kind not in _UNSIGNED.values())):
        raise InvalidSyntax(f"{upper} does not take ({', '.join(map(str, arguments))})")
    return DataType(kind)


def _float(name: str, arguments: Sequence[int]) -> DataType:
    """`FLOAT(53)`: so many bits. `DOUBLE(10, 2)`: digits to show, which say nothing about the values."""
    if len(arguments) == 2:
        return DataType(_KINDS[name])
    if len(arguments) > 2 or not 0 <= arguments[0] <= FLOAT_BITS_MAX or name == "DOUBLE":
        raise InvalidSyntax(f"{name}({', '.join(map(str, arguments))}) is not a type")
    return DataType(Kind.FLOAT64 if arguments[0] > FLOAT32_BITS_MAX else Kind.FLOAT32)


def _decimal(arguments: Sequence[int]) -> DataType:
    if len(arguments) > 2:
        raise InvalidSyntax("DECIMAL takes a precision and a scale, no more")
    precision, scale = (*arguments, 0)[:2] if arguments else DECIMAL_DEFAULT
    if not 1 <= precision <= DECIMAL_PRECISION_MAX:
        raise InvalidSyntax(f"the precision of a decimal is 1 to {DECIMAL_PRECISION_MAX}, found {precision}")
    if not 0 <= scale <= precision:
        raise InvalidSyntax(f"the scale of a decimal is 0 to its precision {precision}, found {scale}")
    return DataType(Kind.DECIMAL, precision=precision, scale=scale)


def _vector(arguments: Sequence[int]) -> DataType:
    if len(arguments) != 1:
        raise InvalidSyntax("VECTOR takes its dimension: VECTOR(3)")
    if not 1 <= arguments[0] <= VECTOR_DIMENSION_MAX:
        raise InvalidSyntax(f"the dimension of a vector is 1 to {VECTOR_DIMENSION_MAX}, found {arguments[0]}")
    return DataType(Kind.VECTOR, dimension=arguments[0])


def _timestamp(name: str, arguments: Sequence[int]) -> DataType:
    if len(arguments) != 1 or arguments[0] not in _TIMESTAMPS:
        shown = ", ".join(map(str, arguments))
        raise InvalidSyntax(f"{name}({shown}) is not a type: the precision of a timestamp is 0, 3, 6 or 9")
    return DataType(_TIMESTAMPS[arguments[0]])
