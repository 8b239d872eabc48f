"""The caches of results of a process (`tsdb/weighted_cache.py`), as one owner of memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tsdb.memory import MemoryUse
from tsdb.weighted_cache import all_caches


class KnownResults:
    """All of them; each says what it counts as."""

    def __init__(self, part: float = 1.0) -> None:
        """Each cache may hold this part of what it was made for."""
        self._part = part
        self.limit_memory(1.0)

    def memory_use(self) -> Iterator[MemoryUse]:
        used, most = Counter[str](), Counter[str]()
        for cache in all_caches():
            used[cache.owner] += cache.weight
            most[cache.owner] += cache.weight_max
        for owner in sorted(most):
            yield MemoryUse(owner, used[owner], most[owner])

    def limit_memory(self, share: float) -> None:
        for cache in all_caches():
            cache.limit_to(self._part * share)
