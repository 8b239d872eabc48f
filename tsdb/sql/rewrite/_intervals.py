"""Intervals in the forms DataFusion does not read, spelled out.

3y2mon4h              3 years 2 months 4 hours
-1h5m                 -1 hours 5 minutes              a sign belongs to its own number
P3Y3M700DT133H17M     … milliseconds                  a year is 365 days, a month 30
"""

from __future__ import annotations

import re
from decimal import Decimal

from tsdb.errors import InvalidSyntax
from tsdb.nearest import nearest
from tsdb.sql.lexer import TokenKind, locate
from tsdb.sql.rewrite._edits import Edits
from tsdb.sql.rewrite._layout import TokenLayout

_UNITS = {
    "y": "years",
    "mon": "months",
    "w": "weeks",
    "d": "days",
    "h": "hours",
    "m": "minutes",
    "s": "seconds",
    "ms": "milliseconds",
    "millis": "milliseconds",
    "us": "microseconds",
    "ns": "nanoseconds",
}
_UNIT_NAMES = """
year quarter month week day date hour minute second millisecond microsecond nanosecond century decade millenium
millennium dow doy epoch isodow isoweek isoyear julian time datetime timezone
"""
_UNIT_WORDS = frozenset(_UNIT_NAMES.split())
_TERM = re.compile(r"([+-]?\d+(?:\.\d+)?)(mon|millis|ms|us|ns|y|w|d|h|m|s)(?![a-z])", re.IGNORECASE)
_ISO = re.compile(
    r"([+-]?)P(?:(-?\d+)Y)?(?:(-?\d+)M)?(?:(-?\d+)W)?(?:(-?\d+)D)?"
    r"(?:T(?:(-?\d+)H)?(?:(-?\d+)M)?(?:(-?\d+(?:\.\d+)?)S)?)?",
    re.IGNORECASE,
)
_DAY_MS = 86_400_000
_ISO_MS = (365 * _DAY_MS, 30 * _DAY_MS, 7 * _DAY_MS, _DAY_MS, 3_600_000, 60_000, 1000)


def edit_intervals(layout: TokenLayout, edits: Edits) -> None:
    """Spell out the text behind every INTERVAL; a number needs a unit."""
    for index, word in enumerate(layout.words):
        if word != "INTERVAL":
            continue
        token = layout.tokens[index + 1]
        if token.kind == TokenKind.STRING and token.text[0] == "'":
            body = token.text[1:-1]
            wanted = expand_interval(body)
            if wanted != body:
                edits.replace(token.start, token.end, f"'{wanted}'")
        elif token.kind == TokenKind.NUMBER and layout.is_name(index + 2):
            _check_unit(layout, index + 2)


def _check_unit(layout: TokenLayout, index: int) -> None:
    """Refuse a word that DataFusion would take for the alias of an interval of seconds."""
    token = layout.tokens[index]
    if token.text.lower().removesuffix("s") in _UNIT_WORDS:
        return
    line, column = locate(layout.text, token.start)
    near = nearest(token.text, _UNIT_WORDS) or _UNITS.get(token.text.lower(), "").removesuffix("s")
    raise InvalidSyntax(
        f"'{token.text}' is not a unit of an interval at line {line}, column {column}",
        hint=f"did you mean {near.upper()}?" if near else None,
    )


def expand_interval(body: str) -> str:
    """Return an interval spelled out, or as it is when it is in none of the short forms."""
    text = body.strip()
    if match := _ISO.fullmatch(text):
        return _expand_iso(match) or body
    terms = _TERM.findall(text)
    if not terms or "".join(number + unit for number, unit in terms) != text:
        return body
    return " ".join(f"{number} {_UNITS[unit.lower()]}" for number, unit in terms)


def _expand_iso(match: re.Match[str]) -> str | None:
    sign, *numbers = match.groups()
    if not any(numbers):
        return None
    total = sum(Decimal(number) * scale for number, scale in zip(numbers, _ISO_MS, strict=True) if number)
    milliseconds = int(-total if sign == "-" else total)
    return f"{milliseconds} milliseconds"
