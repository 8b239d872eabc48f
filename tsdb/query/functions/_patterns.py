"""Formats of times as PostgreSQL and MySQL write them, taken apart into the pieces of `_strftime`.

    to_char       YYYY-MM-DD HH24:MI:SS.MS TZ     letters of PostgreSQL; with `%` the format is one of strftime
    date_format   %Y-%m-%d %H:%i:%s               for MySQL clients, %i is minutes and %M the name of a month
    str_to_date   the letters of MySQL, read instead of written
    to_timestamp, to_date with a pattern of PostgreSQL, which is put into the letters of MySQL

A format without anything that stands for a part of a time is a mistake and refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tsdb.model import offsets_of
from tsdb.query.functions._define import FunctionError
from tsdb.query.functions._strftime import MONTHS, WEEKDAYS, Day, Moments, Piece, compile_format, offset_text, zone_name

_EPOCH = datetime(1970, 1, 1)
_ROMAN = ("I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X", "XI", "XII")
_JULIAN_1970 = 2_440_588

# By PostgreSQL's name: a number of a day, and the width it is padded to.
_PG_DAYS: dict[str, tuple[Callable[[Day], int], int]] = {
    "YYYY": (lambda day: day.year, 4),
    "YYY": (lambda day: day.year % 1000, 3),
    "YY": (lambda day: day.year % 100, 2),
    "Y": (lambda day: day.year % 10, 1),
    "IYYY": (lambda day: day.iso_week[0], 4),
    "IYY": (lambda day: day.iso_week[0] % 1000, 3),
    "IY": (lambda day: day.iso_week[0] % 100, 2),
    "I": (lambda day: day.iso_week[0] % 10, 1),
    "MM": (lambda day: day.month, 2),
    "DDD": (lambda day: day.day_of_year, 3),
    "IDDD": (lambda day: day.iso_week[1] * 7 + day.weekday - 6, 3),
    "DD": (lambda day: day.day, 2),
    "D": (lambda day: (day.weekday + 1) % 7 + 1, 1),
    "ID": (lambda day: day.weekday + 1, 1),
    "WW": (lambda day: (day.day_of_year - 1) // 7 + 1, 2),
    "W": (lambda day: (day.day - 1) // 7 + 1, 1),
    "IW": (lambda day: day.iso_week[1], 2),
    "CC": (lambda day: (day.year - 1) // 100 + 1, 2),
    "J": (lambda day: _julian(day), 1),
    "Q": (lambda day: (day.month + 2) // 3, 1),
}
# Seconds of a day that one step is, how many there are, what number is shown, and its width.
_PG_CLOCK: dict[str, tuple[int, int, Callable[[int], int], int]] = {
    "HH24": (3600, 24, lambda hour: hour, 2),
    "HH12": (3600, 24, lambda hour: (hour + 11) % 12 + 1, 2),
    "HH": (3600, 24, lambda hour: (hour + 11) % 12 + 1, 2),
    "MI": (60, 60, lambda minute: minute, 2),
    "SSSSS": (1, 86_400, lambda second: second, 1),
    "SSSS": (1, 86_400, lambda second: second, 1),
    "SS": (1, 60, lambda second: second, 2),
}
_PG_FRACTIONS = {"MS": 3, "US": 6, **{f"FF{digits}": digits for digits in range(1, 7)}}
# Names, and whether they are padded to nine letters.
_PG_NAMES: dict[str, tuple[Callable[[Day], str], bool]] = {
    "MONTH": (lambda day: MONTHS[day.month - 1], True),
    "MON": (lambda day: MONTHS[day.month - 1][:3], False),
    "DAY": (lambda day: WEEKDAYS[day.weekday], True),
    "DY": (lambda day: WEEKDAYS[day.weekday][:3], False),
    "BC": (lambda day: "AD" if day.year > 0 else "BC", False),
    "AD": (lambda day: "AD" if day.year > 0 else "BC", False),
    "B.C.": (lambda day: "A.D." if day.year > 0 else "B.C.", False),
    "A.D.": (lambda day: "A.D." if day.year > 0 else "B.C.", False),
    "RM": (lambda day: _ROMAN[day.month - 1], False),
}
_PG_HALVES = {"AM": ("AM", "PM"), "PM": ("AM", "PM"), "A.M.": ("A.M.", "P.M."), "P.M.": ("A.M.", "P.M.")}
_PG_ZONES = ("TZH", "TZM", "TZ", "OF")
_PG_WORDS = sorted(
    (*_PG_DAYS, *_PG_CLOCK, *_PG_FRACTIONS, *_PG_NAMES, *_PG_HALVES, *_PG_ZONES, "Y,YYY"), key=len, reverse=True
)
_PG = re.compile(
    r'"((?:[^"\\]|\\.)*)"|\\(.)|(FM|FX|TM)?(' + "|".join(map(re.escape, _PG_WORDS)) + r")(TH|th)?|(FM|FX|TM)",
    re.IGNORECASE | re.DOTALL,
)
_STRFTIME = re.compile(r"%[A-Za-z:.#_0-9-]")


def _julian(day: Day) -> int:
    return int(np.datetime64(f"{day.year:04d}-{day.month:02d}-{day.day:02d}").astype(np.int64)) + _JULIAN_1970


@lru_cache(maxsize=256)
def compile_to_char(form: str) -> tuple[Piece, ...]:
    """Take a format of to_char apart."""
    if _STRFTIME.search(form):
        return compile_format(form)
    pieces: list[Piece] = []
    position, found = 0, not form
    for match in _PG.finditer(form):
        pieces.append(form[position : match.start()])
        position = match.end()
        quoted, escaped, prefix, word, suffix, _ = match.groups()
        if quoted is not None or escaped is not None:
            pieces.append(re.sub(r"\\(.)", r"\1", quoted) if quoted is not None else escaped)
        elif word is not None:
            found = True
            is_plain = (prefix or "").upper() == "FM"
            pieces.append(_with_suffix(_pg_piece(word, is_plain), suffix))
    pieces.append(form[position:])
    if not found:
        raise FunctionError(
            f"the format {form!r} of to_char() names no part of a time", hint="write it like YYYY-MM-DD"
        )
    return tuple(piece for piece in pieces if piece != "")


def _pg_piece(written: str, is_plain: bool) -> Piece:
    """Return what a word of PostgreSQL stands for; `is_plain` leaves out the padding."""
    word = written.upper()
    if word in _PG_DAYS:
        number, width = _PG_DAYS[word]
        return lambda moments: moments.by_day(lambda day: _number(number(day), 0 if is_plain else width))
    if word in _PG_CLOCK:
        step, size, shown, digits = _PG_CLOCK[word]
        return lambda moments: moments.by_clock(
            step, size, lambda each: _number(shown(each), 0 if is_plain else digits)
        )
    if word in _PG_FRACTIONS:
        return lambda moments: moments.fraction(_PG_FRACTIONS[word])
    if word in _PG_NAMES:
        name, is_padded = _PG_NAMES[word]
        pads = 9 if is_padded and not is_plain else 0
        return lambda moments: moments.by_day(lambda day: _cased(name(day), written).ljust(pads))
    if word in _PG_HALVES:
        halves = [_cased(each, written) for each in _PG_HALVES[word]]
        return lambda moments: moments.by_clock(3600, 24, lambda hour: halves[hour >= 12])
    if word == "Y,YYY":
        return lambda moments: moments.by_day(lambda day: f"{day.year:,}")
    return _pg_zone(word, written)


def _pg_zone(word: str, written: str) -> Piece:
    if word == "TZ":
        return lambda moments: moments.by_offset(
            lambda offset, at: _cased(zone_name(moments.zone, offset, at), written)
        )
    if word == "TZM":
        return lambda moments: moments.by_offset(lambda offset, _: f"{abs(offset) // 60 % 60:02d}")
    letter = ":::z" if word == "TZH" else "short"
    return lambda moments: moments.by_offset(
        lambda offset, _: offset_text(offset, ":z" if letter == "short" and abs(offset) % 3600 else ":::z")
    )


def _number(number: int, width: int) -> str:
    return f"{number:0{width}d}" if number >= 0 else f"-{-number:0{width}d}"


def _cased(name: str, written: str) -> str:
    if written.isupper():
        return name.upper()
    return name.lower() if written.islower() else name


def _with_suffix(piece: Piece, suffix: str | None) -> Piece:
    if suffix is None or isinstance(piece, str):
        return piece

    def with_suffix(moments: Moments) -> pa.Array:
        encoded = piece(moments).dictionary_encode()
        texts = [each + _cased(_ordinal(int(each)), suffix) for each in encoded.dictionary.to_pylist()]
        return pa.array(texts, pa.string()).take(encoded.indices)

    return with_suffix


def _ordinal(number: int) -> str:
    if number % 100 in (11, 12, 13):
        return "th"
    return {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")


def _sunday_week(day: Day) -> int:
    """Weeks that begin on Sunday; days before the first one are week 0."""
    return (day.day_of_year + 6 - (day.weekday + 1) % 7) // 7


def _last_sunday_week(day: Day) -> tuple[int, int]:
    """Year and week that begins on Sunday; days before the first one are of the year before."""
    week = _sunday_week(day)
    if week:
        return day.year, week
    before = day.year - 1
    days = 366 if before % 4 == 0 and (before % 100 or before % 400 == 0) else 365
    weekday = (day.weekday - day.day_of_year) % 7
    return before, (days + 6 - (weekday + 1) % 7) // 7


# What MySQL's letters are in strftime, where there is such a thing.
_MYSQL_ALIKE = {
    "a": "%a", "b": "%b", "c": "%-m", "d": "%d", "e": "%-d", "f": "%6f", "H": "%H", "h": "%I", "I": "%I", "i": "%M",
    "j": "%j", "k": "%-H", "l": "%-I", "M": "%B", "m": "%m", "p": "%p", "r": "%I:%M:%S %p", "S": "%S", "s": "%S",
    "T": "%H:%M:%S", "U": "%U", "v": "%V", "W": "%A", "w": "%w", "x": "%G", "Y": "%Y", "y": "%y", "%": "%%",
}  # fmt: skip
_MYSQL_DAYS: dict[str, Callable[[Day], str]] = {
    "D": lambda day: f"{day.day}{_ordinal(day.day)}",
    "u": lambda day: f"{(day.day_of_year - day.weekday + 9) // 7:02d}",
    "V": lambda day: f"{_last_sunday_week(day)[1]:02d}",
    "X": lambda day: f"{_last_sunday_week(day)[0]:04d}",
}
_MYSQL = re.compile(r"%(.|$)", re.DOTALL)


@lru_cache(maxsize=256)
def compile_mysql(form: str) -> tuple[Piece, ...]:
    """Take a format of MySQL's date_format apart."""
    pieces: list[Piece] = []
    position = 0
    for match in _MYSQL.finditer(form):
        pieces.append(form[position : match.start()])
        position = match.end()
        letter = match[1]
        if letter in _MYSQL_ALIKE:
            pieces.extend(compile_format(_MYSQL_ALIKE[letter]))
        elif letter in _MYSQL_DAYS:
            pieces.append(_by_day(_MYSQL_DAYS[letter]))
        else:
            raise FunctionError(f"date_format() does not know the letter {match.group()!r} in the format {form!r}")
    pieces.append(form[position:])
    return tuple(piece for piece in pieces if piece != "")


def _by_day(render: Callable[[Day], str]) -> Piece:
    return lambda moments: moments.by_day(render)


def check_format(form: str) -> None:
    """Refuse a format of date_format that has letters but none behind a `%`."""
    if "%" not in form and any(each.isalpha() for each in form):
        raise FunctionError(f"the format {form!r} of date_format() has no %", hint="write it like %Y-%m-%d")


# How a part is written that str_to_date reads: by letter, what it is and the pattern of its text.
_READ = {
    "Y": ("year", r"\d{4}"), "y": ("short_year", r"\d{2}"), "m": ("month", r"\d{1,2}"), "c": ("month", r"\d{1,2}"),
    "d": ("day", r"\d{1,2}"), "e": ("day", r"\d{1,2}"), "D": ("day", r"\d{1,2}(?:st|nd|rd|th)"),
    "H": ("hour", r"\d{1,2}"), "k": ("hour", r"\d{1,2}"), "h": ("half_hour", r"\d{1,2}"),
    "I": ("half_hour", r"\d{1,2}"), "l": ("half_hour", r"\d{1,2}"), "i": ("minute", r"\d{1,2}"),
    "S": ("second", r"\d{1,2}"), "s": ("second", r"\d{1,2}"), "f": ("fraction", r"\d{1,6}"), "p": ("half", r"[ap]m"),
    "M": ("month_name", "|".join(MONTHS)), "b": ("month_name", "|".join(each[:3] for each in MONTHS)),
    "W": ("weekday", "|".join(WEEKDAYS)), "a": ("weekday", "|".join(each[:3] for each in WEEKDAYS)),
    "j": ("day_of_year", r"\d{1,3}"), "X": ("week_year", r"\d{4}"), "V": ("week", r"\d{1,2}"),
}  # fmt: skip
_READ_COMPOSED = {"T": "%H:%i:%s", "r": "%h:%i:%s %p"}


@lru_cache(maxsize=256)
def _reader(form: str) -> tuple[re.Pattern[str], tuple[str, ...]]:
    """Return a pattern for texts of a format, and which part each of its groups is."""
    for letter, whole in _READ_COMPOSED.items():
        form = form.replace(f"%{letter}", whole)
    pattern, parts, position = "", [], 0
    for match in _MYSQL.finditer(form):
        pattern += _blanks(form[position : match.start()])
        position = match.end()
        if match[1] == "%":
            pattern += "%"
            continue
        if match[1] not in _READ:
            raise FunctionError(f"str_to_date() does not know the letter {match.group()!r} in the format {form!r}")
        part, text = _READ[match[1]]
        pattern += rf"\s*({text})"
        parts.append(part)
    if not parts:
        raise FunctionError(f"the format {form!r} of str_to_date() has no %", hint="write it like %Y-%m-%d")
    return re.compile(pattern + _blanks(form[position:]) + r"\s*", re.IGNORECASE), tuple(parts)


def _blanks(text: str) -> str:
    return re.sub(r"(?:\\ |\s)+", r"\\s*", re.escape(text))


def read_by_format(texts: pa.Array, form: str, zone: str) -> pa.Array:
    """Return texts that are times of a format as such, null for all others."""
    pattern, parts = _reader(form)
    encoded = texts.dictionary_encode()
    local = [_read(pattern.fullmatch(each.strip()), parts) for each in encoded.dictionary.to_pylist()]
    valid = pa.array([each is not None for each in local], pa.bool_())
    micros = np.array([each or 0 for each in local], np.int64)
    seconds, rest = np.divmod(micros, 1_000_000)
    instants = pa.array(offsets_of(zone).instants(seconds) * 1_000_000 + rest).cast(pa.timestamp("us"))
    return pc.if_else(valid, instants, pa.scalar(None, pa.timestamp("us"))).take(encoded.indices)


_PG_READ = {
    "YYYY": "%Y", "YY": "%y", "MM": "%m", "DD": "%d", "DDD": "%j", "HH24": "%H", "HH12": "%h", "HH": "%h", "MI": "%i",
    "SS": "%s", "MS": "%f", "US": "%f", **dict.fromkeys((f"FF{digits}" for digits in range(1, 7)), "%f"),
    "AM": "%p", "PM": "%p", "MONTH": "%M", "MON": "%b", "DAY": "%W", "DY": "%a",
}  # fmt: skip
"""By PostgreSQL's name: what MySQL calls it."""


@lru_cache(maxsize=256)
def _letters_of(form: str) -> str:
    """Return a pattern of PostgreSQL in the letters of str_to_date."""
    written, position, found = "", 0, False
    for match in _PG.finditer(form):
        written += form[position : match.start()].replace("%", "%%")
        position = match.end()
        quoted, escaped, _, word, _, _ = match.groups()
        if word is None:
            written += (escaped or re.sub(r"\\(.)", r"\1", quoted or "")).replace("%", "%%")
        elif word.upper() in _PG_READ:
            written, found = written + _PG_READ[word.upper()], True
        else:
            raise FunctionError(f"times are not read by {word!r}, which is in the format {form!r}")
    if not found:
        raise FunctionError(f"the format {form!r} names no part of a time", hint="write it like YYYY-MM-DD")
    return written + form[position:].replace("%", "%%")


def read_by_pattern(texts: pa.Array, form: str, zone: str) -> pa.Array:
    """Parse times by a pattern of PostgreSQL; a text that does not match is an error."""
    found = read_by_format(texts, _letters_of(form), zone)
    wrong = pc.and_(texts.is_valid(), found.is_null())
    if pc.any(wrong).as_py():
        raise FunctionError(f"'{texts.filter(wrong)[0]}' is no time of the format {form!r}")
    return found


def _read(match: re.Match[str] | None, parts: tuple[str, ...]) -> int | None:
    if match is None:
        return None
    found = dict(zip(parts, match.groups(), strict=True))
    if "short_year" in found:
        found["year"] = str(int(found["short_year"]) + (2000 if int(found["short_year"]) < 70 else 1900))
    if "week_year" in found and "week" in found and "weekday" in found:
        return _read_week(int(found["week_year"]), int(found["week"]), found["weekday"])
    if "year" not in found:
        return None
    month, day = int(found.get("month", 1)), int(re.sub(r"\D", "", found.get("day", "1")))
    if "month_name" in found:
        month = [each[:3].lower() for each in MONTHS].index(found["month_name"][:3].lower()) + 1
    hour = int(found.get("hour", 0))
    if "half_hour" in found:
        hour = int(found["half_hour"]) % 12 + 12 * (found.get("half", "am").lower() == "pm")
    fraction = int(found.get("fraction", "0").ljust(6, "0"))
    try:
        moment = datetime(
            int(found["year"]), month, day, hour, int(found.get("minute", 0)), int(found.get("second", 0)), fraction
        )
    except ValueError:
        return None
    days = int(found["day_of_year"]) - 1 if "day_of_year" in found else 0
    span = moment - _EPOCH
    return (span.days + days) * 86_400_000_000 + span.seconds * 1_000_000 + span.microseconds


def _read_week(year: int, week: int, weekday: str) -> int | None:
    """Return the microseconds of a day of a week that begins on Sunday; week 1 has the first Sunday of its year."""
    if not (1 <= year <= 9998 and week <= 53):
        return None
    first = datetime(year, 1, 1)
    day = [each[:3].lower() for each in WEEKDAYS].index(weekday[:3].lower())
    days = (6 - first.weekday()) + 7 * (week - 1) + (day + 1) % 7
    return ((first - _EPOCH).days + days) * 86_400_000_000
