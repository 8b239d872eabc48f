"""Functions of time that depend on the zone of the session.

The query engine hands over times as text, because only text takes timestamps of every unit over their whole range,
dates and strings alike. It prints timestamps without a zone, in UTC.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from datafusion import ScalarUDF

from tsdb.model import InvalidTimeZone, canonical_zone
from tsdb.query.functions._define import STRING, Function, FunctionError, by_distinct
from tsdb.query.functions._strftime import Integers, Moments, format_moments

_TEXT = re.compile(
    r"([+-]?\d{1,6})-(\d{1,2})-(\d{1,2})"
    r"(?:(?:\s+|T|t)(\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d{1,9})\d*)?)?)?"
    r"\s*(Z|z|UTC|[+-]\d{1,2}:?\d{2})?"
)
_MONTH_DAYS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_NS = 1_000_000_000
_MICROSECONDS = pa.timestamp("us")


@lru_cache(maxsize=256)
def time_functions(zone: str) -> list[ScalarUDF]:
    """The functions for sessions in a zone."""

    def date_format(times: pa.Array, form: pa.Array) -> pa.Array:
        return by_distinct(times, form, STRING, lambda part, text: format_times(part, text, zone))

    def to_unixtime_text(texts: pa.Array) -> pa.Array:
        return unix_seconds(texts, zone)

    def to_unixtime_any(kinds: pa.Array, values: pa.Array) -> pa.Array:
        return by_distinct(values, kinds, pa.int64(), lambda part, kind: _unixtime_of(part, kind, zone))

    def convert_tz(times: pa.Array, before: pa.Array, after: pa.Array) -> pa.Array:
        names = pc.binary_join_element_wise(before, after, "\n")
        return by_distinct(times, names, _MICROSECONDS, lambda part, pair: move_clock(part, pair.split("\n"), zone))

    return [
        Function("convert_tz__zone", (_MICROSECONDS, STRING, STRING), _MICROSECONDS, convert_tz, "stable").make(),
        Function("date_format", (STRING, STRING), STRING, date_format, "stable").make(),
        Function("to_unixtime__text", (STRING,), pa.int64(), to_unixtime_text, "stable").make(),
        Function("to_unixtime__any", (STRING, STRING), pa.int64(), to_unixtime_any, "stable").make(),
    ]


def format_times(times: pa.Array, form: str, zone: str) -> pa.Array:
    """Return times, given in UTC, as the zone shows them."""
    seconds, nanos, valid = read_instants(times, "UTC")
    if not pc.all(pc.or_(valid, times.is_null())).as_py():
        wrong = times.filter(pc.invert(valid)).drop_null()[0]
        raise FunctionError(f"date_format() needs a timestamp or a date, got '{wrong}'")
    shown = format_moments(Moments(seconds, nanos, zone), form)
    return pc.if_else(valid, shown, pa.scalar(None, STRING))


def move_clock(times: pa.Array, zones: Sequence[str], zone: str) -> pa.Array:
    """Return what clocks in one zone show when those in another show these times; null if there is no such zone.

    Both are clock times as the session's zone shows them, which is how a client gets and sends them.
    """
    try:
        source, target = (canonical_zone(each) for each in zones)
    except InvalidTimeZone:
        return pa.nulls(len(times), times.type)
    moved = pc.local_timestamp(_of_zone(_assume(_shown(times, zone), source), target))
    return _assume(moved, zone).cast(pa.timestamp("us", "UTC")).cast(_MICROSECONDS)


def _shown(times: pa.Array, zone: str) -> pa.Array:
    """Times of UTC as clocks in the zone show them."""
    return times if zone == "UTC" else pc.local_timestamp(_of_zone(times, zone))


def _of_zone(times: pa.Array, zone: str) -> pa.Array:
    return times.cast(pa.timestamp("us", "UTC")).cast(pa.timestamp("us", zone))


def unix_seconds(texts: pa.Array, zone: str) -> pa.Array:
    """Return the seconds since 1970 of texts that are read in the zone, null for what is no time."""
    seconds, _, valid = read_instants(pc.utf8_trim_whitespace(texts), zone)
    return pc.if_else(valid, pa.array(seconds), pa.scalar(None, pa.int64()))


def _unixtime_of(values: pa.Array, kind: str, zone: str) -> pa.Array:
    if kind.startswith(("Timestamp", "Date")):
        return unix_seconds(values, "UTC")
    if kind.startswith(("Int", "UInt")):
        return values.cast(pa.int64())
    if "Utf8" in kind or kind == "Null":
        return unix_seconds(values, zone)
    raise FunctionError(f"to_unixtime() takes a timestamp, a date, an integer or text, got {kind}")


def read_instants(texts: pa.Array, zone: str) -> tuple[Integers, Integers, pa.Array]:
    """Return seconds, nanoseconds and which of them are valid; times without a zone of their own are of `zone`."""
    try:
        counts = texts.cast(pa.timestamp("ns"))
    except pa.ArrowInvalid:
        return _read_slowly(texts, zone)
    if zone != "UTC":
        counts = _assume(counts, zone)
    whole: Integers = counts.cast(pa.int64()).fill_null(0).to_numpy()
    seconds, nanos = np.divmod(whole, _NS)
    return seconds, nanos, pc.is_valid(texts)


def _assume(local: pa.Array, zone: str) -> pa.Array:
    """The instants at which clocks in the zone show this: the first of two, the end of a gap."""
    return pc.assume_timezone(local, zone, ambiguous="earliest", nonexistent="latest")


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
        assumed = _assume(pa.array(local).cast(pa.timestamp("s")), zone).cast(pa.int64()).to_numpy()
        seconds = np.where(has_zone, seconds, assumed)
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
