"""MySQL's functions, rewritten to those of the query engine.

Calendar functions become `date_part`, `date_trunc`, a cast to a date or to a time, or `date_add`, and follow the same
time zone. None leaves a call as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable

Expansion = Callable[[list[str]], str | None]

_STRING = re.compile(r"\s*'(?:[^'\\]|''|\\.)*'\s*|\s*\"(?:[^\"\\]|\"\"|\\.)*\"\s*")
_TEXT_CALL = re.compile(r"\s*(?:date_format|concat|concat_ws)\s*\((?:[^()]|\([^()]*\))*\)\s*\Z", re.IGNORECASE)
_FRACTION = re.compile(r"\s*[+-]?\d*\.\d+\s*")
_INTERVAL = re.compile(r"\s*INTERVAL\b", re.IGNORECASE)
_DAY_NAMES = "'Sunday', 'Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday'"
_MONTH_NAMES = (
    "'January', 'February', 'March', 'April', 'May', 'June', 'July', 'August', 'September', 'October', 'November', "
    "'December'"
)
_UNIT_US = {
    "MICROSECOND": 1, "FRAC_SECOND": 1, "SECOND": 1_000_000, "MINUTE": 60_000_000, "HOUR": 3_600_000_000,
    "DAY": 86_400_000_000, "WEEK": 604_800_000_000,
}  # fmt: skip
_UNIT_MONTHS = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}
_DAYS_FROM_YEAR_0 = 719_528
"""TO_DAYS of 1970-01-01."""


def unit_of(text: str) -> str:
    """Return a unit of time as its bare name: `SQL_TSI_HOUR` is HOUR."""
    return text.strip().upper().removeprefix("SQL_TSI_")


def as_time(text: str) -> str:
    """A literal becomes a timestamp, and so does a call that returns text; anything else says its type itself."""
    return f"CAST({text} AS TIMESTAMP(6))" if _STRING.fullmatch(text) or _TEXT_CALL.match(text) else text


def as_date(text: str) -> str:
    return f"CAST({as_time(text)} AS DATE)"


def _part(name: str) -> Expansion:
    return _of_one(lambda value: f"date_part('{name}', {as_time(value)})")


def _of_one(write: Callable[[str], str]) -> Expansion:
    return lambda arguments: write(arguments[0]) if len(arguments) == 1 else None


def _of_none(text: str, *, most: int = 0) -> Expansion:
    """A constant of the statement; some take a number of digits, which the answer has anyway."""
    return lambda arguments: text if len(arguments) <= most else None


def _unix_timestamp(arguments: list[str]) -> str | None:
    if not arguments:
        return "to_unixtime(now())"
    return f"to_unixtime({arguments[0]})" if len(arguments) == 1 else None


def _from_unixtime(arguments: list[str]) -> str | None:
    if len(arguments) not in (1, 2):
        return None
    seconds = arguments[0]
    time = f"from_unixtime({seconds})"
    if _FRACTION.fullmatch(seconds):
        time = f"arrow_cast(CAST(round({seconds} * 1000000) AS BIGINT), 'Timestamp(µs)')"
    return time if len(arguments) == 1 else f"date_format({time}, {arguments[1]})"


def _days(text: str) -> str:
    return f"arrow_cast({as_date(text)}, 'Int32')"


def _microseconds(text: str) -> str:
    return f"arrow_cast(CAST({text} AS TIMESTAMP(6)), 'Int64')"


def _months(text: str) -> str:
    return f"(date_part('year', {text}) * 12 + date_part('month', {text}))"


def _in_month(text: str) -> str:
    """How far a time is into its month, in microseconds."""
    start = _microseconds(f"date_trunc('month', {text})")
    return f"({_microseconds(text)} - {start})"


def _timestampdiff(arguments: list[str]) -> str | None:
    if len(arguments) != 3:
        return None
    unit, first, last = unit_of(arguments[0]), *(as_time(each) for each in arguments[1:])
    if unit in _UNIT_US:
        return f"(({_microseconds(last)} - {_microseconds(first)}) / {_UNIT_US[unit]})"
    if unit not in _UNIT_MONTHS:
        return None
    whole = f"({_months(last)} - {_months(first)})"
    # A month counts when its last day and time of day are reached.
    rest = f"({_in_month(last)} - {_in_month(first)})"
    missing = f"CASE WHEN {whole} > 0 AND {rest} < 0 THEN 1 WHEN {whole} < 0 AND {rest} > 0 THEN -1 ELSE 0 END"
    return f"(({whole} - {missing}) / {_UNIT_MONTHS[unit]})"


def _timestampadd(arguments: list[str]) -> str | None:
    if len(arguments) != 3:
        return None
    unit, number, time = arguments
    return f"date_add({as_time(time)}, {interval(number, unit_of(unit))})"


def interval(number: str, unit: str) -> str | None:
    """Return `INTERVAL number unit` as the query engine takes it; None for units of two parts."""
    scale, name = {"QUARTER": (3, "MONTH"), "MICROSECOND": (1, "MICROSECOND")}.get(unit, (1, unit))
    if name not in (*_UNIT_US, *_UNIT_MONTHS):
        return None
    bare = number.strip().strip("'\"").strip()
    if re.fullmatch(r"[+-]?\d+", bare):
        return f"INTERVAL '{int(bare) * scale}' {name}"
    if re.fullmatch(r"[+-]?\d*\.\d+", bare):
        return f"INTERVAL '{bare}' {name}"
    return f"CAST(concat(CAST(({number}) * {scale} AS STRING), ' {name}') AS INTERVAL)"


def _shift(name: str) -> Expansion:
    """DATE_ADD and DATE_SUB; ADDDATE and SUBDATE take a number of days as well."""

    def expand(arguments: list[str]) -> str | None:
        if len(arguments) != 2:
            return None
        time, step = arguments
        if not _INTERVAL.match(step) and not step.startswith("CAST(concat("):
            if _STRING.fullmatch(step):
                return None
            step = interval(step, "DAY") or step
        return f"{name}({as_time(time)}, {step})"

    return expand


def _week(arguments: list[str]) -> str | None:
    """Weeks that begin on Sunday, of which the first has the year's first Sunday; mode 1 and 3 are those of ISO."""
    if len(arguments) == 2 and arguments[1].strip() in ("1", "3"):
        return f"date_part('week', {as_time(arguments[0])})"
    if len(arguments) == 2 and arguments[1].strip() != "0":
        return None
    if len(arguments) > 2:
        return None
    time = as_time(arguments[0])
    return f"((date_part('doy', {time}) + 6 - date_part('dow', {time})) / 7)"


def _yearweek(arguments: list[str]) -> str | None:
    """Year and week in one number; weeks begin on Sunday, in mode 1 and 3 they are those of ISO."""
    form = {"0": "%X%V", "1": "%x%v", "2": "%X%V", "3": "%x%v"}.get(arguments[1].strip() if arguments[1:] else "0")
    if form is None or len(arguments) not in (1, 2):
        return None
    return f"CAST(date_format({as_time(arguments[0])}, '{form}') AS BIGINT)"


def _last_day(value: str) -> str:
    next_month = as_date(f"date_add(date_trunc('month', {as_date(value)}), INTERVAL '1' MONTH)")
    return f"CAST({next_month} - INTERVAL '1' DAY AS DATE)"


def _hex(arguments: list[str]) -> str | None:
    """The digits of a number, or of the bytes of a text, as far as the argument shows which it is."""
    if len(arguments) == 1 and _STRING.fullmatch(arguments[0]):
        return f"upper(encode({arguments[0]}, 'hex'))"
    is_number = len(arguments) == 1 and arguments[0].strip().isdigit()
    return f"upper(to_hex({arguments[0]}))" if is_number else None


def _unhex(value: str) -> str:
    """A digit may be missing at the start."""
    return f"decode(concat(CASE WHEN char_length({value}) % 2 = 1 THEN '0' ELSE '' END, {value}), 'hex')"


def _convert_tz(arguments: list[str]) -> str | None:
    if len(arguments) != 3:
        return None
    time, before, after = arguments
    return f"convert_tz__zone(CAST({time} AS TIMESTAMP(6)), {before}, {after})"


EXPANSIONS: dict[str, Expansion] = {
    "unix_timestamp": _unix_timestamp,
    "from_unixtime": _from_unixtime,
    "date": _of_one(as_date),
    "time": _of_one(lambda value: f"CAST({as_time(value)} AS TIME)"),
    "timestamp": _of_one(lambda value: f"CAST({value} AS TIMESTAMP(6))"),
    **{name: _part(name) for name in ("year", "quarter", "month", "day", "hour", "minute", "second")},
    "dayofmonth": _part("day"),
    "dayofyear": _part("doy"),
    "weekofyear": _part("week"),
    "week": _week,
    "yearweek": _yearweek,
    "microsecond": _of_one(lambda value: f"(date_part('microsecond', {as_time(value)}) % 1000000)"),
    "dayofweek": _of_one(lambda value: f"(date_part('dow', {as_time(value)}) + 1)"),
    "weekday": _of_one(lambda value: f"((date_part('dow', {as_time(value)}) + 6) % 7)"),
    "dayname": _of_one(lambda value: f"elt(date_part('dow', {as_time(value)}) + 1, {_DAY_NAMES})"),
    "monthname": _of_one(lambda value: f"elt(date_part('month', {as_time(value)}), {_MONTH_NAMES})"),
    "last_day": _of_one(_last_day),
    "to_days": _of_one(lambda value: f"({_days(value)} + {_DAYS_FROM_YEAR_0})"),
    "curdate": _of_none("CAST(now() AS DATE)"),
    "current_date": _of_none("CAST(now() AS DATE)"),
    "curtime": _of_none("CAST(CAST(now() AS TIMESTAMP(6)) AS TIME)", most=1),
    "current_time": _of_none("CAST(CAST(now() AS TIMESTAMP(6)) AS TIME)", most=1),
    **{name: _of_none("now()", most=1) for name in ("now", "sysdate", "current_timestamp", "localtime")},
    "localtimestamp": _of_none("now()", most=1),
    "utc_timestamp": _of_none("convert_tz__zone(CAST(now() AS TIMESTAMP(6)), timezone(), '+00:00')", most=1),
    "datediff": lambda arguments: f"({_days(arguments[0])} - {_days(arguments[1])})" if len(arguments) == 2 else None,
    "timestampdiff": _timestampdiff,
    "timestampadd": _timestampadd,
    "date_add": _shift("date_add"),
    "adddate": _shift("date_add"),
    "date_sub": _shift("date_sub"),
    "subdate": _shift("date_sub"),
    "convert_tz": _convert_tz,
    "mod": lambda arguments: f"({arguments[0]} % nullif({arguments[1]}, 0))" if len(arguments) == 2 else None,
    "hex": _hex,
    "unhex": _of_one(_unhex),
    "truncate": lambda arguments: f"trunc({', '.join(arguments)})" if len(arguments) == 2 else None,
    "last_insert_id": _of_none("CAST(0 AS BIGINT)"),
    "row_count": _of_none("CAST(-1 AS BIGINT)"),
}
