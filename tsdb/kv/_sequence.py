"""A sequence: a key that holds the next number to hand out."""

from __future__ import annotations

from tsdb.kv._protocol import Absent, Compare, Equals, KvStore, PutKey


def plan_sequence(kv: KvStore, key: str, *, start: int, count: int = 1) -> tuple[int, Compare, PutKey]:
    """Return the first of the next numbers, and the compare and put that reserve them in a transaction."""
    found = kv.get(key)
    number = start if found is None else max(start, int(found))
    compare: Compare = Absent(key) if found is None else Equals(key, found)
    return number, compare, PutKey(key, str(number + count).encode())
