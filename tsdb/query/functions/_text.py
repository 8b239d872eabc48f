"""Functions on strings that MySQL users know; positions count characters from 1."""

from __future__ import annotations

import re
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tsdb.errors import Reason
from tsdb.query.functions._define import (
    NUMBER,
    STRING,
    Function,
    FunctionError,
    by_distinct,
    function,
    map_distinct,
    map_rows,
    to_integers,
)
from tsdb.sql.function_names import OVERLOADS

SPACES_MAX = 1 << 20
"""Most blanks `space` makes at once."""
_DECIMALS_MAX = 30
# An escaped character or a class of characters stays; the group is what opens a capture.
_CAPTURE = re.compile(r"\\.|\[\^?\]?(?:\\.|\[:\w+:\]|[^\]\\])*\]|(\((?!\?)|\(\?P?<\w+>)", re.DOTALL)


@function("locate", [STRING, STRING], pa.int64())
def locate(sub: pa.Array, text: pa.Array) -> pa.Array:
    return by_distinct(text, sub, pa.int64(), _find)


def _find(texts: pa.Array, sub: str) -> pa.Array:
    offsets = pc.find_substring(texts, sub)
    if pc.all(pc.string_is_ascii(texts)).as_py() is not False:
        return pc.add(offsets, 1).cast(pa.int64())
    # The kernel counts bytes.
    return map_distinct(texts, pa.int64(), lambda text: text.find(sub) + 1)


@function("locate__3", [STRING, STRING, NUMBER], pa.int64())
def locate_from(sub: pa.Array, text: pa.Array, position: pa.Array) -> pa.Array:
    def find(sub: str, text: str, position: int) -> int:
        return text.find(sub, position - 1) + 1 if position >= 1 else 0

    return map_rows(pa.int64(), find, sub, text, to_integers(position))


def _elt(number: pa.Array, *choices: pa.Array) -> pa.Array:
    numbers = to_integers(number)
    valid = pc.and_(pc.greater_equal(numbers, 1), pc.less_equal(numbers, len(choices)))
    return pc.choose(pc.if_else(valid, pc.subtract(numbers, 1), None), *choices)


def _field(text: pa.Array, *choices: pa.Array) -> pa.Array:
    found = pa.array(np.zeros(len(text), np.int64))
    for position, choice in reversed(list(enumerate(choices, 1))):
        is_equal = pc.equal(text, choice).fill_null(False)
        found = pc.if_else(is_equal, pa.scalar(position, pa.int64()), found)
    return found


@function("insert", [STRING, NUMBER, NUMBER, STRING], STRING)
def insert(text: pa.Array, position: pa.Array, length: pa.Array, new: pa.Array) -> pa.Array:
    def replace(text: str, position: int, length: int, new: str) -> str:
        if not 1 <= position <= len(text) + 1:
            return text
        return text[: position - 1] + new + text[position - 1 + max(length, 0) :]

    return map_rows(STRING, replace, text, to_integers(position), to_integers(length), new)


@function("space", [NUMBER], STRING)
def space(count: pa.Array) -> pa.Array:
    def blanks(count: float) -> str:
        if count > SPACES_MAX:
            raise FunctionError(f"space() makes {SPACES_MAX} blanks at most, asked for {count:.0f}")
        return " " * max(int(count), 0)

    return map_distinct(count, STRING, blanks)


@function("format", [STRING, NUMBER], STRING)
def format_number(number: pa.Array, decimals: pa.Array) -> pa.Array:
    """Takes the number as it prints: what is rounded is the number that users see, of every numeric type."""
    return map_rows(STRING, _format_number, number, to_integers(decimals))


# Doubles reach 1e308; thirty more digits may follow the point.
_WIDE = Context(prec=400, rounding=ROUND_HALF_UP)


def _format_number(text: str, decimals: int) -> str:
    try:
        number = Decimal(text)
    except InvalidOperation:
        raise FunctionError(f"format() needs a number, got {text!r}") from None
    if number.is_nan():
        return "NaN"
    if number.is_infinite():
        return "Infinity" if number > 0 else "-Infinity"
    step = Decimal(1).scaleb(-min(max(decimals, 0), _DECIMALS_MAX))
    return f"{number.quantize(step, context=_WIDE):,f}"


@function("regexp_extract", [STRING, STRING], STRING)
def regexp_extract(text: pa.Array, pattern: pa.Array) -> pa.Array:
    return by_distinct(text, pattern, STRING, _extract)


def _extract(texts: pa.Array, pattern: str) -> pa.Array:
    # The kernel returns named groups and refuses others, so the whole is named and the user's groups do not capture.
    inner = _CAPTURE.sub(lambda match: match[0] if match[1] is None else "(?:", pattern)
    try:
        found = pc.extract_regex(texts, f"(?P<whole>{inner})")
    except pa.ArrowInvalid as error:
        reason = str(error).removeprefix("Invalid regular expression: ")
        raise FunctionError(
            f"regexp_extract() cannot read the pattern {pattern!r}: {reason}", reason=Reason.INVALID_REGEX
        ) from None
    return pc.struct_field(found, [0])


def _overloads(name: str, first: pa.DataType, result: pa.DataType) -> list[Function]:
    body = {"elt": _elt, "field": _field}[name]
    return [Function(inner, (first, *[STRING] * (count - 1)), result, body) for count, inner in OVERLOADS[name].items()]


FUNCTIONS = [
    locate,
    locate_from,
    insert,
    space,
    format_number,
    regexp_extract,
    *_overloads("elt", NUMBER, STRING),
    *_overloads("field", STRING, pa.int64()),
]
