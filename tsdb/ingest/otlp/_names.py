"""Names of OpenTelemetry as Prometheus writes them.

    http.server.duration, unit ms              ─▶ http_server_duration_milliseconds
    claude_code.cost.usage, unit USD, a total  ─▶ claude_code_cost_usage_USD_total
    service.name                               ─▶ service_name

The unit follows the name unless one of its words is there already; case is kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import StrEnum
from functools import lru_cache

UNITS = {
    "d": "days",
    "h": "hours",
    "min": "minutes",
    "s": "seconds",
    "ms": "milliseconds",
    "us": "microseconds",
    "ns": "nanoseconds",
    "By": "bytes",
    "KiBy": "kibibytes",
    "MiBy": "mebibytes",
    "GiBy": "gibibytes",
    "TiBy": "tibibytes",
    "KBy": "kilobytes",
    "MBy": "megabytes",
    "GBy": "gigabytes",
    "TBy": "terabytes",
    "m": "meters",
    "V": "volts",
    "A": "amperes",
    "J": "joules",
    "W": "watts",
    "g": "grams",
    "Cel": "celsius",
    "Hz": "hertz",
    "%": "percent",
    "1": "",
}
"""Words for the units of UCUM."""
UNITS_PER = {"s": "second", "m": "minute", "min": "minute", "h": "hour", "d": "day"} | {
    "w": "week",
    "mo": "month",
    "y": "year",
}

_NAMES_CACHED = 8192
_SEPARATORS = re.compile(r"[^a-zA-Z0-9]+")
_NOT_LABEL = re.compile(r"[^a-zA-Z0-9_]")


class Strategy(StrEnum):
    """How names are translated."""

    ESCAPED_WITH_SUFFIXES = "UnderscoreEscapingWithSuffixes"
    ESCAPED = "UnderscoreEscapingWithoutSuffixes"
    VERBATIM_WITH_SUFFIXES = "NoUTF8EscapingWithSuffixes"
    VERBATIM = "NoTranslation"

    @property
    def has_suffixes(self) -> bool:
        return self in (Strategy.ESCAPED_WITH_SUFFIXES, Strategy.VERBATIM_WITH_SUFFIXES)

    @property
    def is_escaped(self) -> bool:
        return self in (Strategy.ESCAPED_WITH_SUFFIXES, Strategy.ESCAPED)


@lru_cache(_NAMES_CACHED)
def metric_name(name: str, unit: str, strategy: Strategy, *, is_total: bool = False, is_gauge: bool = False) -> str:
    """Return the table of a metric."""
    if strategy is Strategy.VERBATIM:
        return name
    words = [word for word in _SEPARATORS.split(name) if word]
    suffixes = _suffixes(words, unit, is_total=is_total, is_gauge=is_gauge) if strategy.has_suffixes else []
    if not strategy.is_escaped:
        for suffix in suffixes:
            name = name if name.endswith(f"_{suffix}") else f"{name}_{suffix}"
        return name
    # The words that close a name close it once, wherever the name had them.
    closing = {suffix for suffix in suffixes if suffix in ("total", "ratio")}
    joined = "_".join([*(word for word in words if word not in closing), *suffixes])
    return f"_{joined}" if joined[:1].isdigit() else joined


def _suffixes(words: Iterable[str], unit: str, *, is_total: bool, is_gauge: bool) -> list[str]:
    known, suffixes = set(words), []
    main, _, per = (part.strip() for part in unit.partition("/"))
    word = _unit_word(main, UNITS)
    if word and word not in known:
        suffixes.append(word)
    word = _unit_word(per, UNITS_PER)
    if word and word not in known:
        suffixes += ["per", word]
    if is_total:
        suffixes.append("total")
    elif is_gauge and unit.strip() == "1":
        suffixes.append("ratio")
    return suffixes


def unit_words(unit: str) -> str:
    """A unit as the names of metrics say it: `ms` is milliseconds, `By/s` bytes_per_second."""
    main, _, per = (part.strip() for part in unit.partition("/"))
    words = _unit_word(main, UNITS), _unit_word(per, UNITS_PER)
    return "_per_".join(words) if words[1] else words[0]


def _unit_word(unit: str, words: dict[str, str]) -> str:
    if "{" in unit or "}" in unit:
        return ""
    return words[unit] if unit in words else _SEPARATORS.sub("_", unit).strip("_")


@lru_cache(_NAMES_CACHED)
def label_name(name: str, strategy: Strategy) -> str:
    """Return the tag of an attribute."""
    if not strategy.is_escaped:
        return name
    label = _NOT_LABEL.sub("_", name)
    if label[:1].isdigit():
        return f"key_{label}"
    return f"key{label}" if label.startswith("_") and not label.startswith("__") else label
