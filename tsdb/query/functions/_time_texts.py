"""Reads a column of texts as times; a text that is no time is marked, not refused."""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tsdb.model import instants_of, offsets_of
from tsdb.query.functions._strftime import Integers

_TEXT = re.compile(
    r"([+-]?\d{1,6})-(\d{1,2})-(\d{1,2})"
    r"(?:(?:\s+|T|t)(\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d{1,9})\d*)?)?)?"
    r"\s*(Z|z|UTC|[+-]\d{1,2}:?\d{2})?"
)
_MONTH_DAYS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_NS = 1_000_000_000


def read_instants(texts: pa.Array, zone: str) -> tuple[Integers, Integers, pa.Array]:
    """Return seconds, nanoseconds and which of them are valid; times without a zone of their own are of `zone`."""
    try:
        counts = texts.cast(pa.timestamp("ns"))
    except pa.ArrowInvalid:
        return _read_slowly(texts, zone)
    if zone != "UTC":
        counts = instants_of(counts, zone)
    whole: Integers = counts.cast(pa.int64()).fill_null(0).to_numpy()
    seconds, nanos = np.divmod(whole, _NS)
    return seconds, nanos, pc.is_valid(texts)


def _read_slowly(texts: pa.Array, zone: str) -> tuple[Integers, Integers, pa.Array]:
    """Every form the kernel does not know: zones, single digits, years of more than four digits."""
    encoded = texts.dictionary_encode()
    rows = [_read_text(text) for text in encoded.dictionary.to_pylist()]
    local = np.array([row[0] if row else 0 for row in rows], np.int64)
    nanos = np.array([row[1] if row else 0 for row in rows], np.int64)
    has_zone = np.array([row is not None and row[2] is not None for row in rows], np.bool_)
    offsets = np.array([row[2] or 0 if row else 0 for row in rows], np.int64)
    seconds = local - offsets
    if zone != "UTC" and len(local):
        seconds = np.where(has_zone, seconds, offsets_of(zone).instants(local))
    valid = pa.array([row is not None for row in rows], pa.bool_()).take(encoded.indices).fill_null(False)
    places = encoded.indices.fill_null(0).to_numpy(zero_copy_only=False)
    if not len(rows):
        return np.zeros(len(texts), np.int64), np.zeros(len(texts), np.int64), valid
    return seconds[places], nanos[places], valid


def _read_text(text: str) -> tuple[int, int, int | None] | None:
    """Seconds and nanoseconds as the text shows them, and its own offset from UTC."""
    match = _TEXT.fullmatch(text)
    if match is None:
        return None
    year, month, day = (int(each) for each in match.group(1, 2, 3))
    hour, minute, second = (int(each or 0) for each in match.group(4, 5, 6))
    is_leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    if not (1 <= month <= 12 and 1 <= day <= _MONTH_DAYS[month - 1] - (month == 2 and not is_leap)):
        return None
    if hour > 23 or minute > 59 or second > 59:
        return None
    nanos = int((match[7] or "0").ljust(9, "0"))
    return _days(year, month, day) * 86400 + hour * 3600 + minute * 60 + second, nanos, _offset(match[8])


def _days(year: int, month: int, day: int) -> int:
    """Days since 1970-01-01, of any year."""
    months = (year - 1970) * 12 + month - 1
    return int(np.datetime64(months, "M").astype("datetime64[D]").astype(np.int64)) + day - 1


def _offset(text: str | None) -> int | None:
    if text is None:
        return None
    if text[0] not in "+-":
        return 0
    digits = text[1:].replace(":", "").zfill(4)
    offset_s = int(digits[:2]) * 3600 + int(digits[2:]) * 60
    return -offset_s if text[0] == "-" else offset_s
