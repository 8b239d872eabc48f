"""What a cache reports of itself, for `/metrics` and `information_schema.cache_statistics`."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeVar


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


C = TypeVar("C", bound=Hashable)


class CacheCounts:
    """What a cache counts; its lock guards it."""

    __slots__ = ("evictions", "hits", "misses")

    def __init__(self) -> None:
        self.hits = self.misses = self.evictions = 0

    def of(self, name: str, capacity_bytes: int, held_bytes: int, entries: int) -> CacheStatistics:
        """Describe a cache that counts here."""
        return CacheStatistics(name, capacity_bytes, held_bytes, entries, self.hits, self.misses, self.evictions)


_reported: weakref.WeakKeyDictionary[Any, Callable[[Any], CacheStatistics]] = weakref.WeakKeyDictionary()


def report_cache(cache: C, describe: Callable[[C], CacheStatistics]) -> None:
    """Let a cache of this process be among `reported_caches` as long as it lives."""
    _reported[cache] = describe


def reported_caches() -> list[CacheStatistics]:
    """Describe the caches that were reported; several of one name, as several databases have, are one."""
    found: dict[str, CacheStatistics] = {}
    for cache, describe in list(_reported.items()):
        each = describe(cache)
        found[each.name] = each if each.name not in found else _sum(found[each.name], each)
    return [found[name] for name in sorted(found)]


def _sum(one: CacheStatistics, other: CacheStatistics) -> CacheStatistics:
    return CacheStatistics(
        one.name,
        one.capacity_bytes + other.capacity_bytes,
        one.bytes + other.bytes,
        one.entries + other.entries,
        one.hits + other.hits,
        one.misses + other.misses,
        one.evictions + other.evictions,
    )
