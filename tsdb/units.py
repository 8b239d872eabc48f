"""Sizes and durations: integers that know how people write them.

Sizes are binary throughout: `64M`, `64MB` and `64MiB` are the same 64 × 1024² bytes, upper or lower case. Durations are
sums of terms, as in `1h30m` or `2 days 6 hours`; a month is 30.44 days and a year 365.25 days, as in humantime.
Both print in the largest units that lose nothing, and parsing what was printed gives the same value.
"""

from __future__ import annotations

import re
from typing import Self

_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(?:([kmgtp])(?:i?b)?|b)?\s*", re.IGNORECASE)
_SIZE_SHIFTS = {"k": 10, "m": 20, "g": 30, "t": 40, "p": 50}
_SIZE_MAX = 1 << 63

_NS = 1
_US = 1_000
_MS = 1_000_000
_S = 1_000_000_000
_M = 60 * _S
_H = 60 * _M
_D = 24 * _H
_DURATION_UNITS = {
    **dict.fromkeys(("ns", "nsec", "nanos", "nanosecond", "nanoseconds"), _NS),
    **dict.fromkeys(("us", "µs", "usec", "micros", "microsecond", "microseconds"), _US),
    **dict.fromkeys(("ms", "msec", "millis", "millisecond", "milliseconds"), _MS),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), _S),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), _M),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), _H),
    **dict.fromkeys(("d", "day", "days"), _D),
    **dict.fromkeys(("w", "week", "weeks"), 7 * _D),
    **dict.fromkeys(("month", "months"), 2_630_016 * _S),
    **dict.fromkeys(("y", "year", "years"), 31_557_600 * _S),
}
_DURATION_TERM = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-zµ]+)\s*", re.IGNORECASE)
_DURATION_PRINTED = (("d", _D), ("h", _H), ("m", _M), ("s", _S), ("ms", _MS), ("us", _US), ("ns", _NS))
_DURATION_MAX_NS = (1 << 63) - 1


class Size(int):
    """A number of bytes."""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `64MB`, `1.5GiB`, `0`; raise ValueError with the expected form otherwise."""
        match = _SIZE.fullmatch(text)
        if match is None:
            raise ValueError(f"{text!r} is not a size, expected a number and a unit such as 64MB or 1GiB")
        number, unit = match.groups()
        scale = 1 << _SIZE_SHIFTS[unit.lower()] if unit else 1
        size = round(float(number) * scale) if "." in number else int(number) * scale
        if size >= _SIZE_MAX:
            raise ValueError(f"{text!r} is too large for a size, the limit is 8EiB")
        return cls(size)

    def __str__(self) -> str:
        for letter, shift in reversed(_SIZE_SHIFTS.items()):
            if self and self % (1 << shift) == 0:
                return f"{self >> shift}{letter.upper()}iB"
        return f"{int(self)}B"

    def __repr__(self) -> str:
        return f"Size({str(self)!r})"


class DurationTooLong(ValueError):
    """A duration that 64 bits of nanoseconds do not hold."""


class Duration(int):
    """A span of time in nanoseconds, never negative."""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `30s`, `1h30m`, `500ms`; raise ValueError with the expected form otherwise."""
        total, position = 0, 0
        while match := _DURATION_TERM.match(text, position):
            number, unit = match.groups()
            scale = _DURATION_UNITS.get(unit) or _DURATION_UNITS.get(unit.lower())
            if scale is None:
                break
            total += round(float(number) * scale) if "." in number else int(number) * scale
            position = match.end()
        if position == 0 or position != len(text):
            if text.strip() == "0":
                return cls(0)
            raise ValueError(f"{text!r} is not a duration, expected numbers with units such as 30s, 10m or 1h30m")
        if total > _DURATION_MAX_NS:
            raise DurationTooLong(f"{text!r} is too long for a duration, the limit is 292 years")
        return cls(total)

    @classmethod
    def of_seconds(cls, seconds: float) -> Self:
        return cls(round(seconds * _S))

    @property
    def seconds(self) -> float:
        return int(self) / _S

    def __str__(self) -> str:
        rest, text = int(self), ""
        for unit, scale in _DURATION_PRINTED:
            count, rest = divmod(rest, scale)
            if count:
                text += f"{count}{unit}"
        return text or "0s"

    def __repr__(self) -> str:
        return f"Duration({str(self)!r})"
