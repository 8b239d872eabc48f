"""Moments as people write them."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from tsdb.errors import InvalidArguments

NS_PER_MS = 1_000_000
_TIME = re.compile(r"(\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?)(?:\.(\d{1,9}))?\s?(Z|[+-]\d\d:?\d\d|)")


def parse_time(text: str) -> int:
    """Read a moment with a time zone, in nanoseconds since 1970; InvalidArguments."""
    expected = "expected a date, a time and a time zone, such as 2026-11-18T10:00:00Z or 2026-11-18T10:00:00.250+01:00"
    found = _TIME.fullmatch(text.strip())
    try:
        moment = None if found is None else datetime.fromisoformat(f"{found[1]}{found[3]}")
    except ValueError:
        moment = None
    if found is None or moment is None:
        raise InvalidArguments(f"{text!r} is not a time", hint=expected)
    if moment.tzinfo is None:
        raise InvalidArguments(f"{text!r} has no time zone", hint=expected)
    return round(moment.timestamp()) * 1_000_000_000 + int((found[2] or "").ljust(9, "0"))


def format_time(time_ns: int) -> str:
    """Write a moment as `parse_time` reads it, with milliseconds, or with nanoseconds if it has some."""
    seconds, rest_ns = divmod(time_ns, 1_000_000_000)
    fraction = f"{rest_ns // NS_PER_MS:03}" if rest_ns % NS_PER_MS == 0 else f"{rest_ns:09}"
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{fraction}Z"
