"""Bound values of prepared statements as SQL literals.

A value is decoded by the type that the client sent and written in the form that the parser reads back as the same
value: numbers as digits, text in quotes and escaped, bytes in hexadecimal. It is always exactly one literal.

A DOUBLE without a fraction is written as an integer where only rows or counts can stand, in INSERT and after LIMIT:
some clients have no other numeric type.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping, Sequence
from math import isfinite

import numpy as np

from tsdb.servers.mysql._protocol import BadPacket, ColumnType, Reader

_INTEGERS = {
    ColumnType.TINY: 1,
    ColumnType.SHORT: 2,
    ColumnType.YEAR: 2,
    ColumnType.LONG: 4,
    ColumnType.INT24: 4,
    ColumnType.LONGLONG: 8,
}
_TEXTS = frozenset(
    {ColumnType.VARCHAR, ColumnType.VAR_STRING, ColumnType.STRING, ColumnType.ENUM, ColumnType.SET, ColumnType.JSON}
)
_DECIMALS = frozenset({ColumnType.DECIMAL, ColumnType.NEWDECIMAL})
_BLOBS = frozenset(
    {
        ColumnType.TINY_BLOB,
        ColumnType.MEDIUM_BLOB,
        ColumnType.LONG_BLOB,
        ColumnType.BLOB,
        ColumnType.BIT,
        ColumnType.GEOMETRY,
    }
)
_FLOAT = struct.Struct("<f")
_DOUBLE = struct.Struct("<d")
_DATE = struct.Struct("<HBB")
_CLOCK = struct.Struct("<BBB")
_SPAN = struct.Struct("<BIBBB")
_MICROS = struct.Struct("<I")
_UNSIGNED = 0x80
_EXACT_MAX = float(1 << 53)
"""Up to here every integer is a double of its own."""

_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?")
_COUNT = re.compile(r"\d{1,18}")
_ESCAPED = str.maketrans({"\\": "\\\\", "'": "''", "\x00": "\\0"})


def quote_text(text: str) -> str:
    """Return text as a literal of MySQL's dialect."""
    return "'" + text.translate(_ESCAPED) + "'"


def quote_bytes(value: bytes) -> str:
    return f"X'{value.hex()}'"


def parse_types(reader: Reader, count: int) -> list[tuple[ColumnType, bool]]:
    """Read the types of parameters, each with whether it is unsigned."""
    types = []
    for _ in range(count):
        kind, flags = reader.take(2)
        try:
            types.append((ColumnType(kind), bool(flags & _UNSIGNED)))
        except ValueError:
            raise BadPacket(f"there is no type {kind} of parameters") from None
    return types


def parse_literals(
    reader: Reader,
    types: Sequence[tuple[ColumnType, bool]],
    nulls: bytes,
    long_data: Mapping[int, bytes],
    are_counts: Sequence[bool],
) -> list[str]:
    """Read the values of parameters, those apart that came before, as literals.

    `are_counts` says of each place whether an integer must stand there if the value is one.
    """
    literals = []
    for position, (kind, is_unsigned) in enumerate(types):
        if position in long_data:
            literals.append(_from_bytes(kind, long_data[position]))
        elif nulls[position // 8] >> position % 8 & 1 or kind is ColumnType.NULL:
            literals.append("NULL")
        elif are_counts[position]:
            literals.append(_count(reader, kind, is_unsigned))
        else:
            literals.append(_literal(reader, kind, is_unsigned))
    return literals


def _literal(reader: Reader, kind: ColumnType, is_unsigned: bool) -> str:
    size = _INTEGERS.get(kind)
    if size is not None:
        # A sign that follows another one directly could begin a comment.
        value = int.from_bytes(reader.take(size), "little", signed=not is_unsigned)
        return f" {value}" if value < 0 else str(value)
    read = _READERS.get(kind)
    return read(reader) if read is not None else _from_bytes(kind, reader.counted())


def _count(reader: Reader, kind: ColumnType, is_unsigned: bool) -> str:
    """As `_literal`, and an integer if the value is one in another form."""
    if kind is ColumnType.DOUBLE:
        (value,) = reader.unpack(_DOUBLE)
        is_whole = isfinite(value) and value == int(value) and abs(value) < _EXACT_MAX
        return _number(str(int(value))) if is_whole else _float_literal(value, repr)
    return _literal(reader, kind, is_unsigned)


def _from_bytes(kind: ColumnType, value: bytes) -> str:
    if kind in _BLOBS:
        return quote_bytes(value)
    try:
        text = value.decode("utf-8")
    except UnicodeDecodeError:
        return quote_bytes(value)
    if kind in _DECIMALS and _NUMBER.fullmatch(text):
        return _number(text)
    return quote_text(text)


def as_count(literal: str) -> str:
    """Return a literal for LIMIT and OFFSET, where text of digits stands for the number."""
    text = literal[1:-1] if literal.startswith("'") else literal
    return text if _COUNT.fullmatch(text) else literal


def _number(text: str) -> str:
    return f" {text}" if text[0] in "+-" else text


def _float_literal(value: float, shortest: Callable[[float], str]) -> str:
    if isfinite(value):
        return _number(shortest(value))
    name = "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    return f"CAST('{name}' AS DOUBLE)"


def _double(reader: Reader) -> str:
    (value,) = reader.unpack(_DOUBLE)
    return _float_literal(value, repr)


def _float(reader: Reader) -> str:
    (value,) = reader.unpack(_FLOAT)
    return _float_literal(value, lambda number: str(np.float32(number)))


def _timestamp(reader: Reader) -> str:
    size = reader.integer(1)
    body = Reader(reader.take(size))
    if size not in (0, 4, 7, 11):
        raise BadPacket(f"a time of {size} bytes")
    year, month, day = body.unpack(_DATE) if size else (0, 0, 0)
    text = f"{year:04}-{month:02}-{day:02}"
    if size >= 7:
        hour, minute, second = body.unpack(_CLOCK)
        text += f" {hour:02}:{minute:02}:{second:02}"
    if size == 11:
        text += f".{body.unpack(_MICROS)[0]:06}"
    return f"'{text}'"


def _date(reader: Reader) -> str:
    return "'" + _timestamp(reader)[1:11] + "'"


def _datetime(reader: Reader) -> str:
    text = _timestamp(reader)
    return text if len(text) > 12 else f"{text[:-1]} 00:00:00'"


def _time(reader: Reader) -> str:
    size = reader.integer(1)
    body = Reader(reader.take(size))
    if size not in (0, 8, 12):
        raise BadPacket(f"a duration of {size} bytes")
    is_negative, days, hours, minutes, seconds = body.unpack(_SPAN) if size else (0, 0, 0, 0, 0)
    text = f"{'-' if is_negative else ''}{days * 24 + hours:02}:{minutes:02}:{seconds:02}"
    if size == 12:
        text += f".{body.unpack(_MICROS)[0]:06}"
    return f"'{text}'"


_READERS: dict[ColumnType, Callable[[Reader], str]] = {
    ColumnType.FLOAT: _float,
    ColumnType.DOUBLE: _double,
    ColumnType.DATE: _date,
    ColumnType.DATETIME: _datetime,
    ColumnType.TIMESTAMP: _datetime,
    ColumnType.TIME: _time,
}
