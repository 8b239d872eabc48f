"""Numbers that are given out once: a key that holds the next one."""

from __future__ import annotations

from tsdb.kv._protocol import Absent, Compare, Equals, KvStore, Put


def plan_sequence(kv: KvStore, key: str, *, start: int, count: int = 1) -> tuple[int, Compare, Put]:
    """Return the first of the next numbers, and what a transaction compares and puts so that nobody else gets them."""
    found = kv.get(key)
    number = start if found is None else max(start, int(found))
    compare: Compare = Absent(key) if found is None else Equals(key, found)
    return number, compare, Put(key, str(number + count).encode())
