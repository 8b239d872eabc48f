"""Results of pure functions, kept within a budget.

`functools.lru_cache` bounds the number of entries. Where a client chooses the size of an entry (the columns of a wide
table, a long regular expression), a thousand entries can take gigabytes. Here each entry has a weight, and the cache a
bound on their sum.

These caches belong to the process and not to one of its databases: `all_caches` returns them.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


OWNER = "results"
"""The owner of caches that are not named."""


class _Entry(Generic[V]):
    __slots__ = ("is_used", "value", "weight")

    def __init__(self, value: V, weight: int) -> None:
        self.value = value
        self.weight = weight
        self.is_used = False


class WeightedCache(Generic[K, V]):
    """A function of one argument that remembers its results. For any thread.

    The oldest entry is evicted, unless it was used since it was added or spared: then it is spared and becomes the
    newest. So a hit is one lookup, without a lock. Errors are not kept, nor is a result that exceeds the budget alone.
    Two threads may compute the same result.
    """

    def __init__(
        self, compute: Callable[[K], V], *, weigh: Callable[[K, V], int], weight_max: int, owner: str = OWNER
    ) -> None:
        """`owner` is what the cache counts as in `information_schema.memory_usage`."""
        self._compute = compute
        self._weigh = weigh
        self._weight_max = self._full_weight = weight_max
        self.owner = owner
        self._lock = threading.Lock()
        self._entries: dict[K, _Entry[V]] = {}
        """Oldest first."""
        self._weight = 0
        _caches.append(weakref.ref(self, _caches.remove))

    def __call__(self, key: K) -> V:
        entry = self._entries.get(key)
        if entry is not None:
            entry.is_used = True
            return entry.value
        value = self._compute(key)
        self._keep(key, value)
        return value

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def weight(self) -> int:
        """The sum of the weights of all entries."""
        return self._weight

    @property
    def weight_max(self) -> int:
        """What the entries may weigh at the moment."""
        return self._weight_max

    def limit_to(self, part: float) -> None:
        """Keep at most this part of the weight that the cache was made for, from now on."""
        with self._lock:
            self._weight_max = int(self._full_weight * part)
            while self._weight > self._weight_max:
                self._evict_or_spare()

    def _keep(self, key: K, value: V) -> None:
        weight = self._weigh(key, value)
        with self._lock:
            if key in self._entries or weight > self._weight_max:
                return
            while self._weight + weight > self._weight_max:
                self._evict_or_spare()
            self._entries[key] = _Entry(value, weight)
            self._weight += weight

    def _evict_or_spare(self) -> None:
        oldest = next(iter(self._entries))
        entry = self._entries.pop(oldest)
        if entry.is_used:
            entry.is_used = False
            self._entries[oldest] = entry
        else:
            self._weight -= entry.weight


_caches: list[weakref.ref[WeightedCache[Any, Any]]] = []


def all_caches() -> list[WeightedCache[Any, Any]]:
    """Return the caches of this process."""
    return [cache for each in list(_caches) if (cache := each()) is not None]
