"""Lengths of time as PromQL writes them: `1h30m`, units from large to small, each at most once."""

from __future__ import annotations

import re

from tsdb.sql.lexer import Token, syntax_error, unquote
from tsdb.sql.range_query._errors import RangePlanError

SPAN_MS_MAX = 1 << 60
"""Leaves room for sums of a few spans in 64 bits; 36 million years."""

_UNITS_MS = {
    "y": 365 * 86_400_000,
    "w": 7 * 86_400_000,
    "d": 86_400_000,
    "h": 3_600_000,
    "m": 60_000,
    "s": 1_000,
    "ms": 1,
}
_DURATION = re.compile("".join(rf"(?:(\d+){unit})?" if unit != "m" else r"(?:(\d+)m(?!s))?" for unit in _UNITS_MS))


def parse_duration_ms(text: str, token: Token) -> int:
    """Read the duration in a token; InvalidSyntax for a wrong form, RangePlanError for none at all."""
    written = unquote(token)
    match = _DURATION.fullmatch(written) if written.isascii() else None
    if match is None or not written:
        raise syntax_error(text, token.start, f"{written!r} is not a duration such as '5m' or '1h30m'")
    ms = sum(int(count or 0) * scale for count, scale in zip(match.groups(), _UNITS_MS.values(), strict=True))
    check_span_ms(ms, written)
    return ms


def check_span_ms(ms: int, written: str) -> None:
    """Refuse a length that is not positive, or beyond all calendars."""
    if ms <= 0:
        raise RangePlanError(f"the duration {written!r} must be at least one millisecond")
    if ms > SPAN_MS_MAX:
        raise RangePlanError(f"the duration {written!r} is too long")
