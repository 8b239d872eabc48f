"""Numbers that are given out once: a key that holds the next one."""

from __future__ import annotations

from tsdb.kv._errors import KvConflict
from tsdb.kv._protocol import Absent, Compare, Equals, KvStore, Put

_ATTEMPTS_MAX = 100


def plan_sequence(kv: KvStore, key: str, *, start: int, count: int = 1) -> tuple[int, Compare, Put]:
    """Return the first of the next numbers, and what a transaction compares and puts so that nobody else gets them."""
    found = kv.get(key)
    number = start if found is None else max(start, int(found))
    compare: Compare = Absent(key) if found is None else Equals(key, found)
    return number, compare, Put(key, str(number + count).encode())


def next_of_sequence(kv: KvStore, key: str, *, start: int) -> int:
    """Take the next number, the first is `start`."""
    for _ in range(_ATTEMPTS_MAX):
        number, compare, put = plan_sequence(kv, key, start=start)
        if kv.transact([compare], [put]):
            return number
    raise KvConflict("others take numbers faster than this process", sequence=key, hint="try again later")
