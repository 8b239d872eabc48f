"""Times as text by a format of `%` specifiers, a column at a time.

A format is taken apart once. What depends on the day is formatted once per distinct day, hours, minutes and seconds
come from tables of 24 and 60 strings, fractions are padded numbers; the pieces are joined by one kernel.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TypeAlias
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tsdb.model import offsets_of
from tsdb.query.functions._define import FunctionError

Integers: TypeAlias = npt.NDArray[np.int64]

_DAY_S = 86400
MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")

# What stands for several others.
_COMPOSED = {
    "T": "%H:%M:%S",
    "X": "%H:%M:%S",
    "R": "%H:%M",
    "r": "%I:%M:%S %p",
    "D": "%m/%d/%y",
    "x": "%m/%d/%y",
    "F": "%Y-%m-%d",
    "v": "%e-%b-%Y",
    "c": "%a %b %e %H:%M:%S %Y",
    "+": "%Y-%m-%dT%H:%M:%S%.f%:z",
    "h": "%b",
    "n": "\n",
    "t": "\t",
}
_SPECIFIER = re.compile(r"%([-_0]?)(\.?[369]?f|:{0,3}z|#z|.|$)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Day:
    """A day and the values that formats print."""

    year: int
    month: int
    day: int
    weekday: int
    """Monday is 0."""
    day_of_year: int
    """From 1."""

    @classmethod
    def all_of(cls, numbers: Integers) -> list[Day]:
        """The days that many days after 1970-01-01; numpy's calendar knows any year."""
        dates = numbers.astype("datetime64[D]")
        months, years = dates.astype("datetime64[M]"), dates.astype("datetime64[Y]")
        counted = months.astype(np.int64)
        columns = (
            counted // 12 + 1970,
            counted % 12 + 1,
            (dates - months).astype(np.int64) + 1,
            (numbers + 3) % 7,
            (dates - years).astype(np.int64) + 1,
        )
        return [cls(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]

    @property
    def iso_week(self) -> tuple[int, int]:
        """Year and number of the week as ISO counts them: the week belongs to the year of its Thursday."""
        week = (self.day_of_year - self.weekday + 9) // 7
        if week < 1:
            return self.year - 1, _iso_weeks(self.year - 1)
        if week > _iso_weeks(self.year):
            return self.year + 1, 1
        return self.year, week


def _iso_weeks(year: int) -> int:
    def last_weekday(year: int) -> int:
        return (year + year // 4 - year // 100 + year // 400) % 7

    return 53 if last_weekday(year) == 4 or last_weekday(year - 1) == 3 else 52


def _year(day: Day) -> str:
    return f"{day.year:04d}" if 0 <= day.year <= 9999 else f"{day.year:+05d}"


# Number, width, filled with; by letter.
_DAY_NUMBERS: dict[str, tuple[Callable[[Day], int], int, str]] = {
    "C": (lambda day: day.year // 100, 2, "0"),
    "y": (lambda day: day.year % 100, 2, "0"),
    "m": (lambda day: day.month, 2, "0"),
    "d": (lambda day: day.day, 2, "0"),
    "e": (lambda day: day.day, 2, " "),
    "j": (lambda day: day.day_of_year, 3, "0"),
    "u": (lambda day: day.weekday + 1, 1, "0"),
    "w": (lambda day: (day.weekday + 1) % 7, 1, "0"),
    "U": (lambda day: (day.day_of_year + 6 - (day.weekday + 1) % 7) // 7, 2, "0"),
    "W": (lambda day: (day.day_of_year + 6 - day.weekday) // 7, 2, "0"),
    "G": (lambda day: day.iso_week[0], 4, "0"),
    "g": (lambda day: day.iso_week[0] % 100, 2, "0"),
    "V": (lambda day: day.iso_week[1], 2, "0"),
    "q": (lambda day: (day.month + 2) // 3, 1, "0"),
}
_DAY_TEXTS: dict[str, Callable[[Day], str]] = {
    "Y": _year,
    "B": lambda day: MONTHS[day.month - 1],
    "b": lambda day: MONTHS[day.month - 1][:3],
    "A": lambda day: WEEKDAYS[day.weekday],
    "a": lambda day: WEEKDAYS[day.weekday][:3],
}
_HOUR_NUMBERS: dict[str, tuple[Callable[[int], int], str]] = {
    "H": (lambda hour: hour, "0"),
    "k": (lambda hour: hour, " "),
    "I": (lambda hour: (hour + 11) % 12 + 1, "0"),
    "l": (lambda hour: (hour + 11) % 12 + 1, " "),
}
_HOUR_TEXTS: dict[str, Callable[[int], str]] = {
    "p": lambda hour: "AM" if hour < 12 else "PM",
    "P": lambda hour: "am" if hour < 12 else "pm",
}


class Moments:
    """Instants and what the clock on the wall of a zone shows then, as columns."""

    def __init__(self, seconds: Integers, nanos: Integers, zone: str) -> None:
        self.seconds = seconds
        self.nanos = nanos
        self.zone = zone
        self.local = local_seconds(seconds, zone)
        self.days, self._clock = np.divmod(self.local, _DAY_S)
        self._distinct_days: tuple[list[Day], pa.Array] | None = None

    def by_day(self, render: Callable[[Day], str]) -> pa.Array:
        if self._distinct_days is None:
            distinct, places = np.unique(self.days, return_inverse=True)
            self._distinct_days = Day.all_of(distinct), pa.array(places)
        days, places = self._distinct_days
        return pa.array([render(day) for day in days], pa.string()).take(places)

    def by_clock(self, unit_s: int, size: int, render: Callable[[int], str]) -> pa.Array:
        table = pa.array([render(number) for number in range(size)], pa.string())
        return table.take(pa.array(self._clock // unit_s % size))

    def by_offset(self, render: Callable[[int, int], str]) -> pa.Array:
        """`render(offset from UTC, an instant with that offset)`."""
        offsets, first, places = np.unique(self.local - self.seconds, return_index=True, return_inverse=True)
        texts = [render(int(each), int(self.seconds[at])) for each, at in zip(offsets, first, strict=True)]
        return pa.array(texts, pa.string()).take(pa.array(places))

    def fraction(self, digits: int) -> pa.Array:
        shown = pa.array(self.nanos // 10 ** (9 - digits)).cast(pa.string())
        return pc.utf8_lpad(shown, digits, "0")

    def short_fraction(self) -> pa.Array:
        """A point and 3, 6 or 9 digits, the fewest that lose nothing; nothing at all for a whole second."""
        choice = np.select([self.nanos == 0, self.nanos % 10**6 == 0, self.nanos % 1000 == 0], [0, 1, 2], 3)
        points = [pc.binary_join_element_wise("", self.fraction(digits), ".") for digits in (3, 6, 9)]
        return pc.choose(pa.array(choice), pa.scalar(""), *points)


Piece: TypeAlias = str | Callable[[Moments], pa.Array]


def local_seconds(seconds: Integers, zone: str) -> Integers:
    """What a clock in the zone shows at these instants, as seconds."""
    if zone == "UTC":
        return seconds
    return seconds + offsets_of(zone).at(seconds)


def format_moments(moments: Moments, pieces: tuple[Piece, ...]) -> pa.Array:
    """Return the moments as text, from the pieces of a format."""
    if not pieces or all(isinstance(piece, str) for piece in pieces):
        return pa.repeat(pa.scalar("".join(str(piece) for piece in pieces)), len(moments.seconds))
    columns = [pa.scalar(piece) if isinstance(piece, str) else piece(moments) for piece in pieces]
    return pc.binary_join_element_wise(*columns, "")


@lru_cache(maxsize=256)
def compile_format(form: str) -> tuple[Piece, ...]:
    """Take a format apart into literal texts and functions of moments."""
    pieces: list[Piece] = []
    position = 0
    for match in _SPECIFIER.finditer(form):
        pieces.append(form[position : match.start()])
        pieces.extend(_compile_specifier(match, form))
        position = match.end()
    pieces.append(form[position:])
    return tuple(piece for piece in pieces if piece != "")


def _compile_specifier(match: re.Match[str], form: str) -> tuple[Piece, ...]:
    padding, letter = match.groups()
    if letter == "%":
        return ("%",)
    if letter in _COMPOSED:
        return compile_format(_COMPOSED[letter])
    piece = _day_piece(letter, padding) or _clock_piece(letter, padding) or _other_piece(letter)
    if piece is None:
        raise FunctionError(f"date_format() does not support the specifier {match.group()!r} in the format {form!r}")
    return (piece,)


def _padded(number: int, width: int, fill: str, padding: str) -> str:
    fill = {"-": "", "_": " ", "0": "0"}.get(padding, fill)
    if not fill:
        return str(number)
    return f"{number:0{width}d}" if fill == "0" else f"{number:>{width}d}"


def _day_piece(letter: str, padding: str) -> Piece | None:
    if letter in _DAY_TEXTS:
        render = _DAY_TEXTS[letter]
        return lambda moments: moments.by_day(render)
    if letter not in _DAY_NUMBERS:
        return None
    number, width, fill = _DAY_NUMBERS[letter]
    return lambda moments: moments.by_day(lambda day: _padded(number(day), width, fill, padding))


def _clock_piece(letter: str, padding: str) -> Piece | None:
    if letter in _HOUR_TEXTS:
        render = _HOUR_TEXTS[letter]
        return lambda moments: moments.by_clock(3600, 24, render)
    if letter in _HOUR_NUMBERS:
        number, fill = _HOUR_NUMBERS[letter]
        return lambda moments: moments.by_clock(3600, 24, lambda hour: _padded(number(hour), 2, fill, padding))
    if letter in ("M", "S"):
        unit_s = 60 if letter == "M" else 1
        return lambda moments: moments.by_clock(unit_s, 60, lambda number: _padded(number, 2, "0", padding))
    return None


def _other_piece(letter: str) -> Piece | None:
    if letter == "s":
        return lambda moments: pa.array(moments.seconds).cast(pa.string())
    if letter == ".f":
        return lambda moments: moments.short_fraction()
    if letter.endswith("f"):
        digits = int(letter.strip(".f") or 9)
        if letter.startswith("."):
            return lambda moments: pc.binary_join_element_wise("", moments.fraction(digits), ".")
        return lambda moments: moments.fraction(digits)
    if letter == "Z":
        return lambda moments: moments.by_offset(lambda offset, at: zone_name(moments.zone, offset, at))
    if letter.endswith("z"):
        return lambda moments: moments.by_offset(lambda offset, _: offset_text(offset, letter))
    return None


def offset_text(offset_s: int, letter: str) -> str:
    sign, absolute = "-" if offset_s < 0 else "+", abs(offset_s)
    hours, minutes, seconds = absolute // 3600, absolute // 60 % 60, absolute % 60
    match letter:
        case "z":
            return f"{sign}{hours:02d}{minutes:02d}"
        case ":z":
            return f"{sign}{hours:02d}:{minutes:02d}"
        case "::z":
            return f"{sign}{hours:02d}:{minutes:02d}:{seconds:02d}"
        case ":::z":
            return f"{sign}{hours:02d}"
        case _:
            return f"{sign}{hours:02d}{minutes:02d}" if minutes else f"{sign}{hours:02d}"


def zone_name(zone: str, offset_s: int, at_s: int) -> str:
    """The abbreviation in use then, the offset itself for a zone that has no name."""
    if zone[:1] in "+-":
        return offset_text(offset_s, ":z")
    instant = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=at_s)
    return instant.astimezone(ZoneInfo(zone)).tzname() or offset_text(offset_s, ":z")
