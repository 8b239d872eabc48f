"""Sources that are known to have no key in common.

Rows of a source never change, so what a look at all of them has shown holds as long as both sources are there, for
any of their series and any range of time. Files of writers that are not in step are looked at once, not by each query.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable, Sequence
from itertools import combinations
from weakref import WeakKeyDictionary

from tsdb.engine.scan.plan.parts import Part


class ApartSources:
    """Pairs of sources without a common key. Thread-safe; a pair is forgotten with either source."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._versions: WeakKeyDictionary[Hashable, WeakKeyDictionary[Hashable, int]] = WeakKeyDictionary()
        """Of each pair the version of the schema under which it was looked at, which decides what a series is."""

    def has_all(self, parts: Sequence[Part], version: int) -> bool:
        """Return whether no two of some parts have a key in common, as far as that is known."""
        found = _identities(parts)
        return found is not None and all(self._version(*pair) == version for pair in combinations(found, 2))

    def _version(self, one: Hashable, other: Hashable) -> int | None:
        known = self._versions.get(one)
        return None if known is None else known.get(other)

    def note(self, parts: Sequence[Part], version: int) -> None:
        """Remember that no two of some parts have a key in common; all rows of their sources were looked at."""
        found = _identities(parts)
        if found is None:
            return
        with self._lock:
            for one, other in combinations(found, 2):
                self._versions.setdefault(one, WeakKeyDictionary())[other] = version
                self._versions.setdefault(other, WeakKeyDictionary())[one] = version


def _identities(parts: Sequence[Part]) -> list[Hashable] | None:
    found = [part.source.identity for part in parts]
    return None if None in found else found


APART = ApartSources()
"""Those of all regions."""
