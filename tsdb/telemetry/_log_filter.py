"""The filter that says which records are written: `level[,target=level]*`, as in `info,tsdb.http=debug`."""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass, field

_LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warn": logging.WARNING,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}
_LEVEL_NAMES = {
    logging.DEBUG: "debug",
    logging.INFO: "info",
    logging.WARNING: "warn",
    logging.ERROR: "error",
}
_TARGET = re.compile(r"[A-Za-z0-9_.-]+")


@dataclass(frozen=True, slots=True)
class LogFilter:
    """A level for everything, and others for named targets and what is below them."""

    level: int
    targets: dict[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        targets = (f"{target}={_LEVEL_NAMES[level]}" for target, level in self.targets.items())
        return ",".join((_LEVEL_NAMES[self.level], *targets))


def parse_log_filter(text: str) -> LogFilter:
    """Read a filter; raise ValueError that says which part is wrong and what is expected."""
    first, *rest = (part.strip() for part in text.split(","))
    targets = {}
    for part in rest:
        target, equals, level = part.partition("=")
        if not equals or _TARGET.fullmatch(target.strip()) is None:
            raise ValueError(f"{part!r} in the log filter {text!r} is not of the form target=level")
        targets[target.strip()] = _parse_level(level)
    return LogFilter(_parse_level(first), targets)


def _parse_level(text: str) -> int:
    level = _LEVELS.get(text.strip().lower())
    if level is None:
        raise ValueError(f"{text.strip()!r} is not a log level, expected one of debug, info, warn, error")
    return level
