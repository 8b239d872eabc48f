"""Decodes the parameters of Bind, text or binary. ValueError if a value is invalid for its type.

Numbers, booleans, bytes and lists become Python values. Times become `Moment`, because their meaning in SQL depends on
the context; other types remain text.
"""

from __future__ import annotations

import json
import re
import struct
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Context, Decimal, InvalidOperation
from typing import TypeAlias

from tsdb.model import InvalidTimestamp, parse_timestamp
from tsdb.query.pg_catalog import TYPES_BY_OID

BOOL, BYTEA, CHAR, NAME, INT8, INT2, INT4, TEXT, OID = 16, 17, 18, 19, 20, 21, 23, 25, 26
JSON, FLOAT4, FLOAT8, UNKNOWN, BPCHAR, VARCHAR = 114, 700, 701, 705, 1042, 1043
DATE, TIME, TIMESTAMP, TIMESTAMPTZ, INTERVAL, NUMERIC, UUID, JSONB = 1082, 1083, 1114, 1184, 1186, 1700, 2950, 3802

INTEGERS = frozenset({INT2, INT4, INT8, OID})
FLOATS = frozenset({FLOAT4, FLOAT8})
MOMENTS = frozenset({DATE, TIME, TIMESTAMP, TIMESTAMPTZ, INTERVAL})

_EPOCH = datetime(2000, 1, 1)
_UNIT_NS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}
_EXACT = Context(prec=150_000)
"""For as many digits as a number can have on the wire."""
_ARRAY_ITEMS_MAX = 1_000_000
_TRUE = frozenset({"t", "true", "y", "yes", "on", "1"})
_FALSE = frozenset({"f", "false", "n", "no", "off", "0"})


@dataclass(frozen=True, slots=True)
class Moment:
    """A date, a time, a timestamp or an interval, as SQL writes it."""

    oid: int
    text: str


Value: TypeAlias = "bool | int | float | Decimal | str | bytes | Moment | list[Value] | None"


def decode_value(raw: bytes, oid: int, *, is_binary: bool) -> Value:
    """Return a value; ValueError if the bytes are none of the type."""
    element = TYPES_BY_OID[oid].element if oid in TYPES_BY_OID else 0
    if not is_binary:
        text = raw.decode("utf-8")
        if "\0" in text:
            raise ValueError("text must not have a zero byte")
        return _read_array(text, element) if element else read_text(text, oid)
    if element:
        return _unpack_array(raw, element)
    unpack = _UNPACK.get(oid)
    if unpack is None:
        name = TYPES_BY_OID[oid].title if oid in TYPES_BY_OID else f"number {oid}"
        raise ValueError(f"values of type {name} are not taken in binary")
    try:
        return unpack(raw)
    except struct.error as error:
        raise ValueError(f"{len(raw)} bytes are not a value of this type") from error


# Text ----------------------------------------------------------------------------------------------------------------


def read_text(text: str, oid: int) -> Value:
    """Read a value of a type from its text."""
    if oid in INTEGERS:
        return int(text)
    if oid in FLOATS:
        return float(text)
    if oid == BOOL:
        return _read_bool(text)
    if oid == NUMERIC:
        return _read_decimal(text)
    if oid == BYTEA:
        return _read_bytes(text)
    return Moment(oid, text) if oid in MOMENTS else text


def _read_bool(text: str) -> bool:
    word = text.strip().lower()
    if word not in _TRUE and word not in _FALSE:
        raise ValueError(f"{text!r} is not a boolean")
    return word in _TRUE


def _read_decimal(text: str) -> Decimal | float:
    try:
        value = Decimal(text)
    except InvalidOperation as error:
        raise ValueError(f"{text!r} is not a number") from error
    return value if value.is_finite() else float(value)


def _read_bytes(text: str) -> bytes:
    if text.startswith("\\x"):
        return bytes.fromhex(text[2:])
    raw = text.encode("utf-8")
    return re.sub(rb"\\(\\|[0-3][0-7]{2})", lambda m: b"\\" if m[1] == b"\\" else bytes([int(m[1], 8)]), raw)


_ITEM = re.compile(r'\s*(?:"((?:[^"\\]|\\.)*)"|([^",{}\s][^",{}]*))\s*([,}])', re.DOTALL)


def _read_array(text: str, element: int) -> Value:
    """`{1,2,NULL,"a b"}`, of one dimension."""
    body = text.strip()
    if body == "{}":
        return []
    if not body.startswith("{") or not body.endswith("}"):
        raise ValueError(f"{text[:40]!r} is not an array")
    items: list[Value] = []
    at = 1
    while at < len(body):
        found = _ITEM.match(body, at)
        if found is None or (found[3] == "}") != (found.end() == len(body)):
            raise ValueError(f"{text[:40]!r} is not an array of one dimension")
        at = found.end()
        if found[1] is not None:
            items.append(read_text(re.sub(r"\\(.)", r"\1", found[1], flags=re.DOTALL), element))
        else:
            word = found[2].strip()
            items.append(None if word.upper() == "NULL" else read_text(word, element))
    return items


# Binary --------------------------------------------------------------------------------------------------------------


def _struct(form: str) -> Callable[[bytes], int | float]:
    packed = struct.Struct(form)

    def unpack(raw: bytes) -> int | float:
        value: int | float = packed.unpack(raw)[0]
        return value

    return unpack


def _text(raw: bytes) -> str:
    text = raw.decode("utf-8")
    if "\0" in text:
        raise ValueError("text must not have a zero byte")
    return text


def _jsonb(raw: bytes) -> str:
    if raw[:1] != b"\x01":
        raise ValueError("jsonb of an unknown version")
    return _text(raw[1:])


def _timestamp(raw: bytes) -> Moment:
    return Moment(TIMESTAMP, _moment(raw).isoformat(" "))


def _timestamptz(raw: bytes) -> Moment:
    return Moment(TIMESTAMPTZ, _moment(raw).replace(tzinfo=UTC).isoformat(" "))


def _moment(raw: bytes) -> datetime:
    try:
        return _EPOCH + timedelta(microseconds=struct.unpack("!q", raw)[0])
    except OverflowError as error:
        raise ValueError("timestamp out of range") from error


def _date(raw: bytes) -> Moment:
    try:
        return Moment(DATE, (date(2000, 1, 1) + timedelta(days=struct.unpack("!i", raw)[0])).isoformat())
    except OverflowError as error:
        raise ValueError("date out of range") from error


def _time(raw: bytes) -> Moment:
    micros = struct.unpack("!q", raw)[0]
    if not 0 <= micros < 86_400_000_000:
        raise ValueError("time out of range")
    seconds, rest = divmod(micros, 1_000_000)
    return Moment(TIME, time(seconds // 3600, seconds // 60 % 60, seconds % 60, rest).isoformat())


def _interval(raw: bytes) -> Moment:
    micros, days, months = struct.unpack("!qii", raw)
    seconds, rest = divmod(abs(micros), 1_000_000)
    sign = "-" if micros < 0 else ""
    return Moment(INTERVAL, f"{months} months {days} days {sign}{seconds}.{rest:06} seconds")


def _numeric(raw: bytes) -> Decimal | float:
    count, weight, sign, scale = struct.unpack_from("!hhHh", raw)
    if sign in (0xC000, 0xD000, 0xF000):
        return {0xC000: float("nan"), 0xD000: float("inf"), 0xF000: float("-inf")}[sign]
    if len(raw) != 8 + 2 * count or sign not in (0, 0x4000) or not 0 <= scale <= 16_383:
        raise ValueError("numeric of an unknown form")
    digits = struct.unpack_from(f"!{count}h", raw, 8)
    if not all(0 <= digit < 10_000 for digit in digits):
        raise ValueError("numeric of an unknown form")
    written = int("".join(f"{digit:04}" for digit in digits) or "0")
    exponent = 4 * (weight + 1 - count)
    whole = Decimal((int(sign == 0x4000), tuple(int(digit) for digit in str(written)), exponent))
    if -exponent <= scale or scale > 38:
        return whole
    return whole.quantize(Decimal(1).scaleb(-scale), context=_EXACT)


def _unpack_array(raw: bytes, element: int) -> Value:
    try:
        dimensions, _, oid = struct.unpack_from("!iii", raw)
        if dimensions == 0:
            return []
        length = struct.unpack_from("!ii", raw, 12)[0]
        if dimensions != 1 or not 0 <= length <= _ARRAY_ITEMS_MAX:
            raise ValueError("only arrays of one dimension are taken")
        items: list[Value] = []
        at = 20
        for _ in range(length):
            size = struct.unpack_from("!i", raw, at)[0]
            at += 4
            if size == -1:
                items.append(None)
                continue
            if size < 0 or at + size > len(raw):
                raise ValueError("an array ends too early")
            items.append(decode_value(raw[at : at + size], oid if oid in _UNPACK else element, is_binary=True))
            at += size
    except struct.error as error:
        raise ValueError("an array ends too early") from error
    return items


def _bool(raw: bytes) -> bool:
    if len(raw) != 1:
        raise ValueError("a truth value is one byte")
    return raw != b"\0"


_UNPACK: dict[int, Callable[[bytes], Value]] = {
    BOOL: _bool,
    BYTEA: bytes,
    INT2: _struct("!h"),
    INT4: _struct("!i"),
    INT8: _struct("!q"),
    OID: _struct("!I"),
    FLOAT4: _struct("!f"),
    FLOAT8: _struct("!d"),
    NUMERIC: _numeric,
    DATE: _date,
    TIME: _time,
    TIMESTAMP: _timestamp,
    TIMESTAMPTZ: _timestamptz,
    INTERVAL: _interval,
    JSONB: _jsonb,
    UUID: lambda raw: str(uuid.UUID(bytes=raw)),
    **dict.fromkeys((TEXT, VARCHAR, BPCHAR, NAME, CHAR, JSON, UNKNOWN, 0), _text),
}


# SQL -----------------------------------------------------------------------------------------------------------------

_CAST_NAMES = {
    BOOL: "BOOLEAN",
    BYTEA: "BYTEA",
    FLOAT4: "DOUBLE",
    FLOAT8: "DOUBLE",
    NUMERIC: "DOUBLE",
    DATE: "DATE",
    TIMESTAMP: "TIMESTAMP",
    TIMESTAMPTZ: "TIMESTAMP",
    **dict.fromkeys(INTEGERS, "BIGINT"),
}


def null_literal(oid: int) -> str:
    """A null of a type, where the type of an expression depends on it."""
    element = TYPES_BY_OID[oid].element if oid in TYPES_BY_OID else 0
    if element:
        return f"CAST(NULL AS {_CAST_NAMES.get(element, 'VARCHAR')}[])"
    return f"CAST(NULL AS {_CAST_NAMES.get(oid, 'VARCHAR')})"


def literal(value: Value, oid: int, *, is_cell: bool, is_compared: bool) -> str:
    """Return SQL for a value.

    A cell of INSERT … VALUES takes the type of its column, so it is written plainly; so is a moment that is compared
    with a column. Elsewhere an expression gets its type from how the value is written.
    """
    if value is None:
        return "NULL" if is_cell or is_compared else null_literal(oid)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return f"({value})" if value < 0 and not is_cell else f" {value}"
    if isinstance(value, float):
        return _float_literal(value, is_cell=is_cell)
    if isinstance(value, Decimal):
        return _decimal_literal(value, is_cell=is_cell)
    if isinstance(value, bytes):
        return f" X'{value.hex()}'"
    if isinstance(value, Moment):
        return _moment_literal(value, is_plain=is_cell or is_compared)
    if isinstance(value, list):
        return _array_literal(value, oid, is_cell=is_cell)
    return quoted(value)


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _float_literal(value: float, *, is_cell: bool) -> str:
    if value != value or value in (float("inf"), float("-inf")):
        word = "NaN" if value != value else "inf" if value > 0 else "-inf"
        return f"CAST('{word}' AS DOUBLE)"
    text = repr(value)
    if is_cell:
        return f" {text}"
    return f"CAST({text} AS DOUBLE)" if "." not in text else f"({text})" if value < 0 else f" {text}"


def _decimal_literal(value: Decimal, *, is_cell: bool) -> str:
    text = format(value, "f")
    if is_cell:
        return f" {text}"
    exponent = value.as_tuple().exponent
    scale = max(-exponent, 0) if isinstance(exponent, int) else 0
    digits = len(text.replace("-", "").replace(".", "").lstrip("0")) or 1
    if max(digits, scale) > 38:
        return f"CAST('{text}' AS DOUBLE)"
    return f"CAST('{text}' AS DECIMAL({max(digits, scale)}, {scale}))"


def _moment_literal(value: Moment, *, is_plain: bool) -> str:
    if value.oid == INTERVAL:
        return f"INTERVAL {quoted(value.text)}"
    if is_plain:
        return quoted(value.text)
    name = {DATE: "DATE", TIME: "TIME"}.get(value.oid, "TIMESTAMP")
    return f"CAST({quoted(value.text)} AS {name})"


def count_literal(value: Moment, unit: str, zone: str) -> str:
    """A timestamp as the number of units since the epoch, or as it is if it does not come out even."""
    try:
        count, rest = divmod(parse_timestamp(value.text, zone), _UNIT_NS[unit])
    except InvalidTimestamp:
        return quoted(value.text)
    if rest:
        return quoted(value.text)
    return f" {count}" if count >= 0 else f" -{-count}"


def _array_literal(items: list[Value], oid: int, *, is_cell: bool) -> str:
    element = TYPES_BY_OID[oid].element if oid in TYPES_BY_OID else TEXT
    if is_cell:
        return quoted(json.dumps(items, default=str))
    if all(item is None for item in items):
        return f"make_array({', '.join(null_literal(element) for _ in items) or null_literal(element)})"
    return f"make_array({', '.join(literal(each, element, is_cell=False, is_compared=False) for each in items)})"
