"""Time zones as clients name them, and timestamps as people write them.

A zone is an IANA name in any case, an offset such as `+8:00`, or SYSTEM. Text without a zone of its own is read in the
session's. Where a clock was set back and a local time occurred twice, the earlier one is meant.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo, available_timezones

from tsdb.errors import InvalidArguments

_OFFSET = re.compile(r"([+-])(\d{1,2}):?(\d{2})?")
_TIMESTAMP = re.compile(
    r"([+-]?\d{4,6})-(\d{1,2})-(\d{1,2})"
    r"(?:[ T](\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d{1,9})\d*)?)?)?"
    r"\s*(Z|[+-]\d{1,2}:?(?:\d{2})?)?",
    re.IGNORECASE,
)
# 400 years of the Gregorian calendar: dates beyond what `datetime` knows are shifted by whole cycles.
_CYCLE_YEARS, _CYCLE_DAYS = 400, 146_097
NS_PER_UNIT = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}
_INT64_MAX = (1 << 63) - 1
_YEAR_SECONDS_MAX = 8_210_298_412_799
"""The last second of the year 262142: no calendar of ours goes further."""


class InvalidTimeZone(InvalidArguments):
    """A time zone that does not exist."""


class InvalidTimestamp(InvalidArguments):
    """Text that is not a timestamp, or one outside of what its type holds."""


@lru_cache(1)
def _names() -> dict[str, str]:
    return {name.lower(): name for name in available_timezones()}


@lru_cache(256)
def canonical_zone(text: str) -> str:
    """Return a zone's name in its one form: `UTC`, `Asia/Shanghai`, `+08:00`; InvalidTimeZone if there is none."""
    name = text.strip()
    if name.upper() in ("SYSTEM", "UTC", "Z"):
        return "UTC"
    if match := _OFFSET.fullmatch(name):
        hours, minutes = int(match[2]), int(match[3] or 0)
        if hours < 24 and minutes < 60:
            return f"{match[1]}{hours:02}:{minutes:02}"
    known = _names().get(name.lower())
    if known is None:
        raise InvalidTimeZone(f"Invalid time zone: {text!r}", hint="use a name such as Europe/Berlin, or +08:00")
    return known


@lru_cache(256)
def zone_of(text: str) -> tzinfo:
    """Return a zone to compute with."""
    name = canonical_zone(text)
    if name == "UTC":
        return UTC
    if match := _OFFSET.fullmatch(name):
        span = timedelta(hours=int(match[2]), minutes=int(match[3]))
        return timezone(span if match[1] == "+" else -span)
    return ZoneInfo(name)


def parse_timestamp(text: str, zone: str = "UTC") -> int:
    """Return nanoseconds since the epoch, of any size; InvalidTimestamp if it is not one."""
    if zone == "UTC" and (seconds := _plain_seconds(text)) is not None:
        return seconds * 1_000_000_000
    match = _TIMESTAMP.fullmatch(text.strip())
    if match is None:
        raise InvalidTimestamp(f"{text!r} is not a timestamp", hint="write it like 2024-01-30 12:30:00.5")
    year, month, day, hour, minute, second = (int(part or 0) for part in match.groups()[:6])
    fraction = int((match[7] or "").ljust(9, "0") or 0)
    cycles = 0 if 1 < year < 9999 else (year - 2000) // _CYCLE_YEARS
    try:
        local = datetime(year - cycles * _CYCLE_YEARS, month, day, hour, minute, second)
        moment = local.replace(tzinfo=_zone_in(match[8]) if match[8] else zone_of(zone))
        seconds = (moment - _EPOCH) // timedelta(seconds=1)
    except (ValueError, OverflowError) as error:
        raise InvalidTimestamp(f"{text!r} is not a timestamp: {error}") from error
    return (seconds + cycles * _CYCLE_DAYS * 86_400) * 1_000_000_000 + fraction


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NAIVE_EPOCH = datetime(1970, 1, 1)
_PLAIN_CHARS = len("2024-01-30 12:30:00")


def _plain_seconds(text: str) -> int | None:
    """Return the seconds since the epoch of the plainest form of a time, in a tenth of the time; None for others."""
    if len(text) != _PLAIN_CHARS or text[4] != "-" or text[7] != "-" or text[10] not in " T" or not text.isascii():
        return None
    try:
        since = datetime.fromisoformat(text) - _NAIVE_EPOCH
    except ValueError:
        return None
    return since.days * 86_400 + since.seconds


def _zone_in(text: str) -> tzinfo:
    return UTC if text in "Zz" else zone_of(text)


def to_unit(nanoseconds: int, unit: str) -> int:
    """Return a time in a unit, rounded down; InvalidTimestamp when the type does not hold it."""
    value = nanoseconds // NS_PER_UNIT[unit]
    check_range(value, unit)
    return value


def check_range(value: int, unit: str) -> None:
    """Refuse a count of a unit that is no time of the calendar."""
    limit = _INT64_MAX if unit == "ns" else min(_INT64_MAX, _YEAR_SECONDS_MAX * (1_000_000_000 // NS_PER_UNIT[unit]))
    if not -limit - 1 <= value <= limit:
        raise InvalidTimestamp(f"{value} is outside of the range of timestamps in {unit}")


def names_zone(text: str) -> bool:
    """Return whether a text of a time says of which zone it is."""
    match = _TIMESTAMP.fullmatch(text.strip())
    return match is not None and match[8] is not None


def parse_date(text: str) -> int:
    """Return days since the epoch of `YYYY-MM-DD`."""
    match = _TIMESTAMP.fullmatch(text.strip())
    if match is None or match[4] is not None or match[8] is not None:
        raise InvalidTimestamp(f"{text!r} is not a date", hint="write it like 2024-01-30")
    return parse_timestamp(text) // 86_400_000_000_000
