"""Casts between the types a column can have, as SQL's `TRY_CAST` has them: what cannot be cast becomes null.

Data is never rewritten when a column gets another type, so these casts run when it is read. Each is a few calls over
whole arrays. Values that Arrow's own casts refuse, or turn into others, are found by their range or their form and set
to null before.

| from \\ to | bool | int | float | decimal | text | binary | date | timestamp |
|-----------|------|-----|-------|---------|------|--------|------|-----------|
| bool      |  =   |  x  |   x   |         |  x   |        |      |           |
| int       |  x   |  x  |   x   |    x    |  x   |        |  x   |     x     |
| float     |  x   |  x  |   x   |    x    |  x   |        |      |     x     |
| decimal   |      |  x  |   x   |    x    |  x   |        |      |           |
| text      |  x   |  x  |   x   |    x    |  x   |   x    |  x   |     x     |
| binary    |      |     |       |         |  x   |   x    |      |           |
| date      |      |  x  |       |         |  x   |        |  x   |     x     |
| timestamp |      |  x  |   x   |         |  x   |        |  x   |     x     |

Fractions are cut off on the way to integers and rounded, halves away from zero, on the way to decimals.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Context, Decimal
from enum import StrEnum
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

_TICKS = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_DAY_SECONDS = 86_400
_WIDE_DIGITS = 76
_EXACT = Context(prec=_WIDE_DIGITS)

_INTEGER = r"^[+-]?[0-9]{1,20}$"
_FLOAT = r"(?i)^[+-]?(nan|inf|infinity|([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?)$"
_DECIMAL = r"^(?P<sign>[+-]?)(?P<whole>[0-9]*)\.?(?P<fraction>[0-9]*)$"
_TIMESTAMP = (
    r"^(?P<date>[0-9]{4}-[0-9]{2}-[0-9]{2})(?:[ Tt](?P<time>[0-9]{2}:[0-9]{2}:[0-9]{2})(?:\.(?P<fraction>[0-9]+))?"
    r" ?(?:Z|z|UTC|(?P<sign>[+-])(?P<hours>[0-9]{2}):?(?P<minutes>[0-9]{2})?)?)?$"
)
_TRUE = ("true", "t", "yes", "y", "on", "1")
_FALSE = ("false", "f", "no", "n", "off", "0")


class _Family(StrEnum):
    BOOL = "bool"
    INT = "int"
    FLOAT = "float"
    DECIMAL = "decimal"
    TEXT = "text"
    BINARY = "binary"
    DATE = "date"
    TIMESTAMP = "timestamp"


def is_castable(old: pa.DataType, new: pa.DataType) -> bool:
    """Return whether there is a cast from one type to another; some values may still become null."""
    families = _family(old), _family(new)
    if _Family.DATE in families and _Family.INT in families:
        # A day is a number of 32 bits, and no day is lost on the way to larger ones.
        return {old, new} & {pa.int32(), pa.int64()} != set()
    return old == new or families in _CASTS


def cast_or_null(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Cast an array to a type to which its own is castable; what cannot be cast becomes null."""
    if values.type == kind:
        return values
    old, new = _family(values.type), _family(kind)
    # Types that no table of SQL has, such as times of day, can be widened to text.
    cast = _or_null if old is None or new is None else _CASTS.get((old, new), _or_null)
    return cast(values, kind)


def cast_value_or_null(value: Any, old: pa.DataType, new: pa.DataType) -> Any:
    """The same for one Python value."""
    return None if value is None else cast_or_null(pa.array([value], old), new)[0].as_py()


def _family(kind: pa.DataType) -> _Family | None:
    for family, is_of_family in _FAMILIES.items():
        if is_of_family(kind):
            return family
    return None


_FAMILIES: dict[_Family, Callable[[pa.DataType], bool]] = {
    _Family.BOOL: pt.is_boolean,
    _Family.INT: pt.is_integer,
    _Family.FLOAT: lambda kind: pt.is_float32(kind) or pt.is_float64(kind),
    _Family.DECIMAL: pt.is_decimal,
    _Family.TEXT: lambda kind: pt.is_string(kind) or pt.is_large_string(kind),
    _Family.BINARY: lambda kind: pt.is_binary(kind) or pt.is_large_binary(kind),
    _Family.DATE: pt.is_date32,
    _Family.TIMESTAMP: lambda kind: pt.is_timestamp(kind) and kind.tz is None,
}


def _plain(values: pa.Array, kind: pa.DataType) -> pa.Array:
    return values.cast(kind, safe=False)


def _keep(values: pa.Array, is_kept: pa.Array) -> pa.Array:
    """Set everything else to null."""
    return pc.if_else(is_kept, values, pa.scalar(None, values.type))


def _within(values: pa.Array, low: pa.Scalar, high: pa.Scalar) -> pa.Array:
    return _keep(values, pc.and_(pc.greater_equal(values, low), pc.less_equal(values, high)))


def _bounds(kind: pa.DataType) -> tuple[int, int]:
    bits = kind.bit_width
    return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if pt.is_signed_integer(kind) else (0, (1 << bits) - 1)


def _int_to_int(values: pa.Array, kind: pa.DataType) -> pa.Array:
    (low, high), (least, most) = _bounds(values.type), _bounds(kind)
    limits = [pa.scalar(limit, values.type) for limit in (max(low, least), min(high, most))]
    return (values if least <= low and high <= most else _within(values, *limits)).cast(kind, safe=False)


def _float_to_int(values: pa.Array, kind: pa.DataType) -> pa.Array:
    low, high = _bounds(kind)
    whole = pc.trunc(values.cast(pa.float64()))
    # Limits of integers are powers of two, which floats hold exactly.
    is_kept = pc.and_(pc.greater_equal(whole, float(low)), pc.less(whole, float(high + 1)))
    return _keep(whole, is_kept).cast(kind, safe=False)


def _wide(scale: int) -> pa.DataType:
    return pa.decimal256(_WIDE_DIGITS, scale)


def _decimal_to_int(values: pa.Array, kind: pa.DataType) -> pa.Array:
    whole = pc.trunc(values.cast(_wide(values.type.scale))).cast(_wide(0), safe=False)
    low, high = (pa.scalar(Decimal(limit), _wide(0)) for limit in _bounds(kind))
    return _within(whole, low, high).cast(kind, safe=False)


def _to_decimal(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Cast integers or decimals: a wide decimal holds 38 digits at any scale."""
    scale = values.type.scale if pt.is_decimal(values.type) else 0
    wide = values.cast(_wide(scale))
    if scale > kind.scale:
        wide = pc.round(wide, kind.scale, round_mode="half_towards_infinity")
    return _narrowed(wide.cast(_wide(kind.scale), safe=False), kind)


def _narrowed(wide: pa.Array, kind: pa.DataType) -> pa.Array:
    """Bring a wide decimal of the right scale to the precision of a type."""
    limit = pa.scalar(Decimal(10**kind.precision - 1).scaleb(-kind.scale, _EXACT), wide.type)
    return _within(wide, pc.negate(limit), limit).cast(kind, safe=False)


def _float_to_decimal(values: pa.Array, kind: pa.DataType) -> pa.Array:
    shifted = pc.round(
        pc.multiply(values.cast(pa.float64()), float(10**kind.scale)), 0, round_mode="half_towards_infinity"
    )
    limit = float(10**kind.precision)
    digits = _keep(shifted, pc.less(pc.abs(shifted), limit)).cast(pa.decimal128(38, 0), safe=False)
    return pa.Array.from_buffers(
        pa.decimal128(38, kind.scale), len(digits), digits.buffers(), digits.null_count, digits.offset
    ).cast(kind, safe=False)


def _text_to_int(values: pa.Array, kind: pa.DataType) -> pa.Array:
    try:
        return values.cast(kind)
    except pa.ArrowInvalid:
        shorter = pc.replace_substring_regex(pc.utf8_trim_whitespace(values), r"^([+-]?)0+([0-9])", r"\1\2")
        return _decimal_to_int(_matching(shorter, _INTEGER).cast(pa.decimal128(38, 0)), kind)


def _text_to_float(values: pa.Array, kind: pa.DataType) -> pa.Array:
    try:
        return values.cast(kind)
    except pa.ArrowInvalid:
        return _or_null(_matching(pc.utf8_trim_whitespace(values), _FLOAT), kind)


def _text_to_bool(values: pa.Array, kind: pa.DataType) -> pa.Array:
    lowered = pc.utf8_lower(pc.utf8_trim_whitespace(values))
    is_true = pc.is_in(lowered, value_set=pa.array(_TRUE, lowered.type))
    return _keep(is_true, pc.or_(is_true, pc.is_in(lowered, value_set=pa.array(_FALSE, lowered.type))))


def _text_to_decimal(values: pa.Array, kind: pa.DataType) -> pa.Array:
    found = pc.extract_regex(pc.utf8_trim_whitespace(values), _DECIMAL)
    sign, whole, fraction = (pc.struct_field(found, name) for name in ("sign", "whole", "fraction"))
    whole = pc.utf8_ltrim(whole, "0")
    # One digit more than is kept decides how the last one is rounded.
    digits = pc.utf8_slice_codeunits(fraction, 0, kind.scale + 1)
    has_digits = pc.match_substring_regex(values, "[0-9]")
    # Numbers with more digits than the type has before the point do not fit, whatever follows.
    fits = pc.less_equal(pc.utf8_length(whole), kind.precision - kind.scale)
    text = pc.binary_join_element_wise(sign, pc.binary_join_element_wise("0", whole, ""), ".", digits, "0", "")
    wide = _keep(text, pc.and_(has_digits, fits)).cast(_wide(kind.scale + 2))
    rounded = pc.round(wide, kind.scale, round_mode="half_towards_infinity").cast(_wide(kind.scale), safe=False)
    return _narrowed(rounded, kind)


def _text_to_timestamp(values: pa.Array, kind: pa.DataType) -> pa.Array:
    try:
        return values.cast(kind)
    except pa.ArrowInvalid:
        found = pc.extract_regex(pc.utf8_trim_whitespace(values), _TIMESTAMP)
        part = {field.name: pc.struct_field(found, field.name) for field in found.type}
        seconds = pc.subtract(_seconds(part["date"], part["time"]), _offset_seconds(part))
        nanoseconds = pc.utf8_slice_codeunits(pc.utf8_rpad(part["fraction"], 9, "0"), 0, 9).cast(pa.int64())
        ticks = _TICKS[kind.unit]
        fractions = pc.divide(nanoseconds, 1_000_000_000 // ticks)
        return pc.add(_scaled(seconds, ticks), fractions).view(kind)


def _seconds(date: pa.Array, time: pa.Array) -> pa.Array:
    """Read dates and times of day; those that no calendar has become null."""
    text = pc.binary_join_element_wise(date, _filled(time, "00:00:00"), " ")
    read = pc.strptime(text, format="%Y-%m-%d %H:%M:%S", unit="s", error_is_null=True)
    # 30 February is read as 1 March, and is found out when it is written again.
    return _keep(read, pc.equal(pc.strftime(read, "%Y-%m-%d %H:%M:%S"), text)).view(pa.int64())


def _offset_seconds(part: dict[str, pa.Array]) -> pa.Array:
    hours, minutes = (_filled(part[name], "0").cast(pa.int64()) for name in ("hours", "minutes"))
    offset = pc.add(pc.multiply(hours, 3600), pc.multiply(minutes, 60))
    return pc.if_else(pc.equal(part["sign"], "-"), pc.negate(offset), offset)


def _filled(texts: pa.Array, instead: str) -> pa.Array:
    """Replace parts that are missing; where nothing matched, there is null."""
    return pc.if_else(pc.equal(texts, ""), instead, texts)


def _text_to_date(values: pa.Array, kind: pa.DataType) -> pa.Array:
    try:
        return values.cast(kind)
    except pa.ArrowInvalid:
        padded = pc.replace_substring_regex(pc.utf8_trim_whitespace(values), r"^([0-9]{4})-([0-9])-", r"\1-0\2-")
        padded = pc.replace_substring_regex(padded, r"^([0-9]{4}-[0-9]{2})-([0-9])$", r"\1-0\2")
        return _timestamp_to_date(_text_to_timestamp(padded, pa.timestamp("s")), kind)


def _matching(texts: pa.Array, pattern: str) -> pa.Array:
    return _keep(texts, pc.match_substring_regex(texts, pattern))


def _or_null(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Cast by halves: the last resort, for the few values that fail in spite of their form and range."""
    try:
        return values.cast(kind)
    except pa.ArrowInvalid:
        if len(values) == 1:
            return pa.nulls(1, kind)
        middle = len(values) // 2
        return pa.concat_arrays([_or_null(values.slice(0, middle), kind), _or_null(values.slice(middle), kind)])


def _float_to_text(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Write floats as SQL does: `1.0`, `1e16`, `1e-6`, `NaN`."""
    text = pc.replace_substring(values.cast(pa.string()), "e+", "e")
    is_double = pt.is_float64(values.type)
    for exponent in range(10, 16 if is_double else 13):
        text = pc.if_else(pc.ends_with(text, f"e{exponent}"), _written_out(text, exponent), text)
    if is_double:
        text = pc.replace_substring_regex(text, r"^(-?)0\.00000([1-9])([0-9]*)$", r"\1\2.\3e-6")
        text = pc.replace_substring(text, ".e-6", "e-6")
    text = pc.replace_substring_regex(text, r"^(-?[0-9]+)$", r"\1.0")
    return pc.replace_substring(text, "nan", "NaN").cast(kind)


def _written_out(text: pa.Array, exponent: int) -> pa.Array:
    """Write numbers with this exponent without it."""
    found = pc.extract_regex(text, r"^(?P<sign>-?)(?P<first>[0-9])\.?(?P<rest>[0-9]*)e[0-9]+$")
    sign, first, rest = (pc.struct_field(found, name) for name in ("sign", "first", "rest"))
    whole = pc.utf8_rpad(pc.utf8_slice_codeunits(rest, 0, exponent), exponent, "0")
    fraction = _filled(pc.utf8_slice_codeunits(rest, exponent, None), "0")
    return pc.binary_join_element_wise(sign, first, whole, ".", fraction, "")


def _decimal_to_text(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Write decimals with all digits of their scale and without exponents."""
    scale = values.type.scale
    if not scale:
        return values.cast(kind)
    wide = values.cast(pa.decimal128(38, scale))
    digits = pa.Array.from_buffers(pa.decimal128(38, 0), len(wide), wide.buffers(), wide.null_count, wide.offset)
    sign = pc.if_else(pc.less(digits, pa.scalar(Decimal(0), digits.type)), "-", "")
    text = pc.utf8_lpad(pc.abs(digits).cast(pa.string()), scale + 1, "0")
    whole, fraction = pc.utf8_slice_codeunits(text, 0, -scale), pc.utf8_slice_codeunits(text, -scale, None)
    return pc.binary_join_element_wise(sign, whole, ".", fraction, "").cast(kind)


def _decimal_to_float(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Find the nearest float: Arrow's own cast divides, and is off in the last bit."""
    return values.cast(pa.string()).cast(kind)


def _date_to_text(values: pa.Array, kind: pa.DataType) -> pa.Array:
    text = values.cast(kind)
    return _keep(text, pc.invert(pc.starts_with(text, "<")))


def _timestamp_to_text(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Write timestamps as SQL does: with a `T`, and as many groups of three digits after the second as are not 0."""
    text = pc.replace_substring(_date_to_text(values, pa.string()), " ", "T")
    text = pc.replace_substring_regex(text, r"(\.(?:[0-9]{3})*?)(?:000)+$", r"\1")
    return pc.replace_substring_regex(text, r"\.$", "").cast(kind)


def _timestamp_to_timestamp(values: pa.Array, kind: pa.DataType) -> pa.Array:
    old, new = _TICKS[values.type.unit], _TICKS[kind.unit]
    ticks = values.view(pa.int64())
    return (pc.divide(ticks, old // new) if old >= new else _scaled(ticks, new // old)).view(kind)


def _timestamp_to_date(values: pa.Array, kind: pa.DataType) -> pa.Array:
    ticks = pc.fill_null(values.view(pa.int64()), 0).to_numpy()
    days = np.floor_divide(ticks, _DAY_SECONDS * _TICKS[values.type.unit])
    found = pa.array(days, mask=values.is_null().to_numpy(zero_copy_only=False))
    return _int_to_int(found, pa.int32()).view(kind)


def _date_to_timestamp(values: pa.Array, kind: pa.DataType) -> pa.Array:
    days = values.view(pa.int32()).cast(pa.int64())
    return _scaled(days, _DAY_SECONDS * _TICKS[kind.unit]).view(kind)


def _scaled(values: pa.Array, factor: int) -> pa.Array:
    """Multiply integers; what does not fit becomes null."""
    low, high = _bounds(pa.int64())
    return pc.multiply(_within(values, pa.scalar(-(-low // factor)), pa.scalar(high // factor)), factor)


def _through(middle: pa.DataType, first: _Cast, second: _Cast) -> _Cast:
    return lambda values, kind: second(first(values, middle), kind)


def _view(values: pa.Array, kind: pa.DataType) -> pa.Array:
    return values.view(kind)


_Cast = Callable[[pa.Array, pa.DataType], pa.Array]

_CASTS: dict[tuple[_Family, _Family], _Cast] = {
    (_Family.BOOL, _Family.INT): _plain,
    (_Family.BOOL, _Family.FLOAT): _plain,
    (_Family.BOOL, _Family.TEXT): _plain,
    (_Family.INT, _Family.BOOL): _plain,
    (_Family.INT, _Family.INT): _int_to_int,
    (_Family.INT, _Family.FLOAT): _plain,
    (_Family.INT, _Family.DECIMAL): _to_decimal,
    (_Family.INT, _Family.TEXT): _plain,
    (_Family.INT, _Family.DATE): _through(pa.int32(), _int_to_int, _view),
    (_Family.INT, _Family.TIMESTAMP): _through(pa.int64(), _int_to_int, _view),
    (_Family.FLOAT, _Family.BOOL): _plain,
    (_Family.FLOAT, _Family.INT): _float_to_int,
    (_Family.FLOAT, _Family.FLOAT): _plain,
    (_Family.FLOAT, _Family.DECIMAL): _float_to_decimal,
    (_Family.FLOAT, _Family.TEXT): _float_to_text,
    (_Family.FLOAT, _Family.TIMESTAMP): _through(pa.int64(), _float_to_int, _view),
    (_Family.DECIMAL, _Family.INT): _decimal_to_int,
    (_Family.DECIMAL, _Family.FLOAT): _decimal_to_float,
    (_Family.DECIMAL, _Family.DECIMAL): _to_decimal,
    (_Family.DECIMAL, _Family.TEXT): _decimal_to_text,
    (_Family.TEXT, _Family.BOOL): _text_to_bool,
    (_Family.TEXT, _Family.INT): _text_to_int,
    (_Family.TEXT, _Family.FLOAT): _text_to_float,
    (_Family.TEXT, _Family.DECIMAL): _text_to_decimal,
    (_Family.TEXT, _Family.TEXT): _plain,
    (_Family.TEXT, _Family.BINARY): _plain,
    (_Family.TEXT, _Family.DATE): _text_to_date,
    (_Family.TEXT, _Family.TIMESTAMP): _text_to_timestamp,
    (_Family.BINARY, _Family.TEXT): _or_null,
    (_Family.BINARY, _Family.BINARY): _plain,
    (_Family.DATE, _Family.INT): _through(pa.int32(), _view, _int_to_int),
    (_Family.DATE, _Family.TEXT): _date_to_text,
    (_Family.DATE, _Family.DATE): _plain,
    (_Family.DATE, _Family.TIMESTAMP): _date_to_timestamp,
    (_Family.TIMESTAMP, _Family.INT): _through(pa.int64(), _view, _int_to_int),
    (_Family.TIMESTAMP, _Family.FLOAT): _through(pa.int64(), _view, _plain),
    (_Family.TIMESTAMP, _Family.TEXT): _timestamp_to_text,
    (_Family.TIMESTAMP, _Family.DATE): _timestamp_to_date,
    (_Family.TIMESTAMP, _Family.TIMESTAMP): _timestamp_to_timestamp,
}
