"""What a cache reports of itself, for `/metrics` and `information_schema.cache_statistics`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class CacheState(StrEnum):
    """Whether a cache keeps anything new."""

    ON = "on"
    OFF = "off"
    """Its capacity is 0."""
    UNUSED = "unused"
    """There is nothing for it to keep."""
    SUSPENDED = "suspended"
    """It has failed, and is tried again after a while."""


@dataclass(frozen=True, slots=True)
class CacheStatistics:
    """What a cache did since the start, and what it holds now."""

    name: str
    capacity_bytes: int
    bytes: int
    entries: int
    hits: int
    misses: int
    evictions: int
    errors: int = 0
    state: CacheState = CacheState.ON
    reason: str | None = None
    """Why it is in a state other than `on`."""
    since_ms: int | None = None
    """When it came into this state; None: with the start."""
    last_error: str | None = None
