"""Casts of MySQL that take whatever they are given: `CAST(x AS SIGNED)` and `CAST(x AS UNSIGNED)`.

Fractions are rounded, of a text as much is taken as is a number, and a negative number wraps around in an unsigned one.
Values come as text, because only text takes integers of every width exactly.
"""

from __future__ import annotations

import re
from decimal import ROUND_HALF_UP, Decimal

import pyarrow as pa
import pyarrow.compute as pc

from tsdb.query.functions._define import STRING, function, map_distinct

_NUMBER = re.compile(r"\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,3})?)")
_WORDS = {"true": 1, "false": 0}
_INT64_MIN, _INT64_MAX, _UINT64_MAX = -(2**63), 2**63 - 1, 2**64 - 1


@function("cast_signed", [STRING], pa.int64())
def cast_signed(texts: pa.Array) -> pa.Array:
    try:
        return pc.cast(texts, pa.int64())
    except pa.ArrowInvalid:
        return map_distinct(texts, pa.int64(), lambda text: min(max(_whole(text), _INT64_MIN), _INT64_MAX))


@function("cast_unsigned", [STRING], pa.uint64())
def cast_unsigned(texts: pa.Array) -> pa.Array:
    try:
        return pc.cast(texts, pa.uint64())
    except pa.ArrowInvalid:
        return map_distinct(texts, pa.uint64(), _unsigned)


def _unsigned(text: str) -> int:
    whole = _whole(text)
    return max(whole, _INT64_MIN) + _UINT64_MAX + 1 if whole < 0 else min(whole, _UINT64_MAX)


def _whole(text: str) -> int:
    """The number that a text begins with, rounded; 0 if it begins with none."""
    match = _NUMBER.match(text)
    if match is None:
        return _WORDS.get(text, 0)
    return (
        int(Decimal(match[1]).quantize(Decimal(1), ROUND_HALF_UP)) if Decimal(match[1]).adjusted() < 30 else _far(text)
    )


def _far(text: str) -> int:
    return -(10**30) if text.lstrip().startswith("-") else 10**30


FUNCTIONS = [cast_signed, cast_unsigned]
