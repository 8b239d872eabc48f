"""Calendar functions in a zone, over the whole range of every unit of time.

The query engine's own `date_trunc` and `date_bin` know UTC and what fits into nanoseconds. A function in Python has one
type of result, but these return the unit they are given. So a call becomes arithmetic that keeps the unit: the time
minus an interval, and the interval comes from here. `tsdb.sql.rewrite` writes it:

    date_trunc('day', ts)       ts - date_trunc__back('day', arrow_typeof(ts), arrow_cast(ts, 'Int64'), 'Europe/Berlin')
    extract(hour FROM ts)       extract(hour FROM ts - zone__behind(…))      what clocks show, as if it were UTC
    ts AT TIME ZONE 'z'         ts + zone__move(…, 'z', session's zone)      what clocks in z show, on clocks here

Everything is computed on arrays; a zone is a table of offsets, see `tsdb.model.ZoneOffsets`.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tsdb.errors import TsdbError
from tsdb.model import NS_PER_UNIT, InvalidTimeZone, ZoneOffsets, offsets_of, parse_timestamps
from tsdb.query.functions._define import STRING, Function, FunctionError, function
from tsdb.query.functions._strftime import Integers, Moments, compile_format, format_moments
from tsdb.query.functions._time_texts import read_instants

_INTERVAL = pa.month_day_nano_interval()
_KIND = re.compile(r"Timestamp\((s|ms|µs|us|ns)")
_READ_KINDS = ("Utf8", "LargeUtf8", "Date")
_DAY_S = 86_400
_NS = 1_000_000_000
_FIELDS = np.dtype([("months", "<i4"), ("days", "<i4"), ("ns", "<i8")])
_CLOCK_NS = {
    "nanosecond": 1, "microsecond": 1_000, "millisecond": 1_000_000, "second": _NS, "minute": 60 * _NS,
    "hour": 3600 * _NS,
}  # fmt: skip
_MONTHS = {"month": 1, "quarter": 3, "year": 12}


def _unit_of(kinds: pa.Array) -> str | None:
    """Return the unit of the timestamps, None for a date and whatever else has no clock."""
    if not len(kinds):
        return "s"
    match = _KIND.match(kinds[0].as_py() or "")
    return match[1].replace("µ", "u") if match else None


def _first(values: pa.Array, name: str) -> Any:
    """Return the one value of an argument that is a constant."""
    distinct = values.unique()
    if len(distinct) > 1:
        raise FunctionError(f"{name} must be the same for all rows")
    return distinct[0].as_py() if len(distinct) else None


def _offsets(zones: pa.Array) -> ZoneOffsets:
    name = _first(zones, "a time zone")
    try:
        return offsets_of(name or "UTC")
    except InvalidTimeZone as error:
        raise FunctionError(str(error)) from error


def _numbers(counts: pa.Array) -> Integers:
    found: Integers = counts.fill_null(0).to_numpy(zero_copy_only=False)
    return found


def _intervals(seconds: Integers, ns: Integers, counts: pa.Array) -> pa.Array:
    """Return spans of time as days and nanoseconds, null where the counts are."""
    rows = np.zeros(len(counts), _FIELDS)
    days, rest = np.divmod(seconds, _DAY_S)
    rows["days"], rows["ns"] = days, rest * _NS + ns
    validity = counts.is_valid().buffers()[1] if counts.null_count else None
    return pa.Array.from_buffers(_INTERVAL, len(counts), [validity, pa.py_buffer(rows)])


def _spans(before: Integers, after: Integers, unit: str, counts: pa.Array) -> pa.Array:
    """Return what lies between two counts of a unit."""
    seconds, rest = np.divmod(before - after, _NS // NS_PER_UNIT[unit])
    return _intervals(seconds, rest * NS_PER_UNIT[unit], counts)


@function("zone__behind", (STRING, pa.int64(), STRING), _INTERVAL)
def _behind(kinds: pa.Array, counts: pa.Array, zones: pa.Array) -> pa.Array:
    unit = _unit_of(kinds)
    if unit is None:
        zeros = np.zeros(len(counts), np.int64)
        return _intervals(zeros, zeros, counts)
    seconds = _numbers(counts) // (_NS // NS_PER_UNIT[unit])
    return _intervals(-_offsets(zones).at(seconds), np.zeros(len(counts), np.int64), counts)


@function("zone__move", (STRING, pa.int64(), STRING, STRING), _INTERVAL)
def _move(kinds: pa.Array, counts: pa.Array, sources: pa.Array, targets: pa.Array) -> pa.Array:
    """How far back the instant is at which clocks in the target show what those in the source show now."""
    unit = _unit_of(kinds)
    if unit is None:
        raise FunctionError("AT TIME ZONE needs a timestamp")
    seconds = _numbers(counts) // (_NS // NS_PER_UNIT[unit])
    moved = _offsets(targets).instants(seconds + _offsets(sources).at(seconds))
    return _intervals(seconds - moved, np.zeros(len(counts), np.int64), counts)


@function("date_trunc__back", (STRING, STRING, pa.int64(), STRING), _INTERVAL)
def _truncate(fields: pa.Array, kinds: pa.Array, counts: pa.Array, zones: pa.Array) -> pa.Array:
    field = str(_first(fields, "the unit of date_trunc") or "").strip().lower()
    unit = _unit_of(kinds)
    if unit is None:
        raise FunctionError("date_trunc() needs a timestamp")
    numbers, offsets = _numbers(counts), _offsets(zones)
    per_second = _NS // NS_PER_UNIT[unit]
    seconds = numbers // per_second
    if field in _CLOCK_NS:
        # Units of the clock keep the offset of the time itself, so that hours that come twice stay two.
        width = max(_CLOCK_NS[field] // NS_PER_UNIT[unit], 1)
        local = numbers % (_DAY_S * per_second) + offsets.at(seconds) * per_second
        return _spans(local % width, np.zeros(len(numbers), np.int64), unit, counts)
    days = (seconds + offsets.at(seconds)) // _DAY_S
    starts = offsets.instants(_first_days(days, field) * _DAY_S, is_start=True)
    return _intervals(seconds - starts, numbers % per_second * NS_PER_UNIT[unit], counts)


def _first_days(days: Integers, field: str) -> Integers:
    """Return the days on which weeks, months or years begin."""
    if field == "day":
        return days
    if field == "week":
        return days - (days + 3) % 7
    if field not in _MONTHS:
        raise FunctionError(f"date_trunc() does not know the unit {field!r}")
    months = days.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64)
    return _days_of(months - months % _MONTHS[field])


def _days_of(months: Integers) -> Integers:
    return months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)


@function("date_bin__back", (_INTERVAL, STRING, pa.int64(), pa.timestamp("ns"), STRING), _INTERVAL)
def _bin(strides: pa.Array, kinds: pa.Array, counts: pa.Array, origins: pa.Array, zones: pa.Array) -> pa.Array:
    """Bins of days and longer lie by the calendar of the zone, shorter ones by the time that has passed."""
    months, days, ns = _stride_of(strides)
    unit, origin = _unit_of(kinds), _first(origins.cast(pa.int64()), "the origin of date_bin")
    if unit is None:
        raise FunctionError("date_bin() needs a timestamp")
    numbers, offsets = _numbers(counts), _offsets(zones)
    if ns or (offsets.fixed == 0 and not months):
        return _bin_elapsed(numbers, unit, days * _DAY_S * _NS + ns, origin or 0, counts)
    per_second = _NS // NS_PER_UNIT[unit]
    seconds, rest = np.divmod(numbers, per_second)
    first, first_ns = divmod(origin or 0, _NS)
    if origin is not None:
        first += int(offsets.at(np.array([first]))[0])
    # With an origin between two seconds, rows before its fraction belong to the bin before.
    local = seconds + offsets.at(seconds) - (rest * NS_PER_UNIT[unit] < first_ns)
    if months:
        starts = _month_starts(local, months, first)
    else:
        starts = (local - first) // (days * _DAY_S) * (days * _DAY_S) + first
    back = seconds - offsets.instants(starts, is_start=True)
    return _intervals(back, rest * NS_PER_UNIT[unit] - first_ns, counts)


def _stride_of(strides: pa.Array) -> tuple[int, int, int]:
    stride = _first_stride(strides)
    months, days, ns = stride
    if months and (days or ns):
        raise FunctionError("the interval of date_bin() is either of months or of days and times")
    if min(stride) < 0 or not any(stride):
        raise FunctionError("the interval of date_bin() must be greater than 0")
    return stride


def _first_stride(strides: pa.Array) -> tuple[int, int, int]:
    rows = np.frombuffer(strides.buffers()[1], _FIELDS, len(strides), strides.offset * _FIELDS.itemsize)
    if not len(rows):
        return 0, 1, 0
    if not (rows == rows[0]).all():
        raise FunctionError("the interval of date_bin must be the same for all rows")
    months, days, ns = rows[0].tolist()
    return months, days, ns


def _bin_elapsed(numbers: Integers, unit: str, width_ns: int, origin_ns: int, counts: pa.Array) -> pa.Array:
    tick = NS_PER_UNIT[unit]
    if width_ns % tick or origin_ns % tick:
        if abs(numbers).max(initial=0) > 2**62 // tick:
            raise FunctionError("the interval or the origin of date_bin() is finer than the unit of the timestamps")
        numbers, tick, unit = numbers * tick, 1, "ns"
    width, origin = width_ns // tick, origin_ns // tick
    # Both are brought into one bin before they are subtracted: their difference may not fit.
    return _spans((numbers % width - origin % width) % width, np.zeros(len(numbers), np.int64), unit, counts)


def _month_starts(local: Integers, months: int, origin: int) -> Integers:
    """Return the latest of the times so many months apart that is not after a local time."""
    day, clock = divmod(origin, _DAY_S)
    month = int(np.datetime64(day, "D").astype("datetime64[M]").astype(np.int64))
    day -= int(_days_of(np.array([month]))[0])
    there = (local // _DAY_S).astype("datetime64[D]").astype("datetime64[M]").astype(np.int64)
    steps = (there - month) // months

    def start(steps: Integers) -> Integers:
        first = _days_of(month + steps * months)
        last = _days_of(month + steps * months + 1) - 1
        return np.asarray(np.minimum(first + day, last) * _DAY_S + clock, np.int64)

    found = start(steps)
    return np.where(found > local, start(steps - 1), found)


def _shifting(name: str, sign: int) -> Function:
    """Months and days are added to what a clock shows, hours and shorter to the instant."""

    @function(name, (STRING, pa.int64(), _INTERVAL, STRING), _INTERVAL)
    def shift(kinds: pa.Array, counts: pa.Array, steps: pa.Array, zones: pa.Array) -> pa.Array:
        unit = _unit_of(kinds)
        rows = np.frombuffer(steps.buffers()[1], _FIELDS, len(steps), steps.offset * _FIELDS.itemsize)
        if unit is None or not len(rows):
            return steps
        seconds, offsets = _numbers(counts) // (_NS // NS_PER_UNIT[unit]), _offsets(zones)
        days, clock = np.divmod(seconds + offsets.at(seconds), _DAY_S)
        months = rows["months"].astype(np.int64) * sign
        if months.any():
            month = days.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64)
            in_month = days - _days_of(month)
            last = _days_of(month + months + 1) - 1
            days = np.minimum(_days_of(month + months) + in_month, last)
        days = days + rows["days"] * sign
        moved = offsets.instants(days * _DAY_S + clock)
        return _intervals((moved - seconds) * sign, rows["ns"], _both(counts, steps))

    return shift


def _both(counts: pa.Array, steps: pa.Array) -> pa.Array:
    """Return counts, null where one of both is."""
    return counts if not steps.null_count else pc.if_else(steps.is_valid(), counts, pa.scalar(None, pa.int64()))


@function("zone__text", (STRING, STRING, STRING), STRING)
def _text(kinds: pa.Array, texts: pa.Array, zones: pa.Array) -> pa.Array:
    """What was cast to text: a timestamp as clocks in the zone show it, anything else as it is."""
    if _unit_of(kinds) is None:
        return texts
    seconds, nanos, valid = read_instants(texts, "UTC")
    moments = Moments(seconds, nanos, _first(zones, "a time zone") or "UTC")
    shown = format_moments(moments, compile_format("%Y-%m-%dT%H:%M:%S%.f"))
    return pc.if_else(valid, shown, pa.scalar(None, STRING))


def _cast_to(unit: str) -> Any:
    @function(f"zone__cast_{unit}", (STRING, STRING), pa.timestamp(unit))
    def cast(texts: pa.Array, zones: pa.Array) -> pa.Array:
        try:
            return parse_timestamps(texts, unit, _first(zones, "a time zone") or "UTC")
        except TsdbError as error:
            raise FunctionError(str(error)) from error

    return cast


def _read_to(unit: str, *, is_try: bool) -> Any:
    """Texts and dates as times in a zone; null for every other type, and for texts that are no time if it is a try."""

    @function(f"zone__{'try' if is_try else 'read'}_{unit}", (STRING, STRING, STRING), pa.timestamp(unit))
    def read(kinds: pa.Array, texts: pa.Array, zones: pa.Array) -> pa.Array:
        kind = kinds[0].as_py() if len(kinds) else None
        if kind is None or not kind.startswith(_READ_KINDS):
            return pa.nulls(len(texts), pa.timestamp(unit))
        zone = _first(zones, "a time zone") or "UTC"
        if is_try:
            seconds, nanos, valid = read_instants(texts, zone)
            counts = pa.array(seconds * (_NS // NS_PER_UNIT[unit]) + nanos // NS_PER_UNIT[unit])
            return pc.if_else(valid, counts.cast(pa.timestamp(unit)), pa.scalar(None, pa.timestamp(unit)))
        try:
            return parse_timestamps(texts, unit, zone)
        except TsdbError as error:
            raise FunctionError(str(error)) from error

    return read


_SHIFTS = {"zone__plus": 1, "zone__minus": -1, "date_add__zone": 1, "date_sub__zone": -1}
FUNCTIONS = [
    *(_shifting(name, sign) for name, sign in _SHIFTS.items()),
    _behind,
    _move,
    _truncate,
    _bin,
    _text,
    *(_cast_to(unit) for unit in NS_PER_UNIT),
    *(_read_to(unit, is_try=is_try) for unit in NS_PER_UNIT for is_try in (False, True)),
]
