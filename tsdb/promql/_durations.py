"""Durations as PromQL writes them: `1h30m`, units from large to small, each at most once."""

from __future__ import annotations

import re

UNITS_MS = {
    "y": 365 * 86_400_000,
    "w": 7 * 86_400_000,
    "d": 86_400_000,
    "h": 3_600_000,
    "m": 60_000,
    "s": 1000,
    "ms": 1,
}

DURATION_PATTERN = (
    r"(?=[0-9])(?:[0-9]+y)?(?:[0-9]+w)?(?:[0-9]+d)?(?:[0-9]+h)?"
    r"(?:[0-9]+m(?!s))?(?:[0-9]+s)?(?:[0-9]+ms)?(?![0-9a-zA-Z_])"
)
_WHOLE = re.compile(DURATION_PATTERN)
_PART = re.compile(r"([0-9]+)(ms|[ywdhms])")

DURATION_MS_MAX = 1 << 62


def parse_duration_ms(text: str) -> int | None:
    """Return the milliseconds of `1h30m`; None if the text is no duration."""
    if not text or _WHOLE.fullmatch(text) is None:
        return None
    total = sum(int(count) * UNITS_MS[unit] for count, unit in _PART.findall(text))
    return total if total < DURATION_MS_MAX else None


def format_duration_ms(ms: int) -> str:
    """Return the shortest usual form: `90m` is `1h30m`, nothing is `0s`."""
    if ms == 0:
        return "0s"
    sign, left = ("-", -ms) if ms < 0 else ("", ms)
    parts = []
    for unit, size in UNITS_MS.items():
        # Years and weeks only when they divide the rest: 15d says more than 2w1d.
        if unit in ("y", "w") and left % size:
            continue
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count}{unit}")
    return sign + "".join(parts)
