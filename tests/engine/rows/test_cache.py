"""Caches: bounded in bytes, resistant to scans, one load per key at a time."""

from __future__ import annotations

import random
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tsdb.engine.rows.cache import ByteCache, Caches


def get(cache: ByteCache[str, str], key: str, size: int = 10) -> str:
    return cache.get_or_load(key, lambda: key.upper(), lambda value: size)


def is_cached(cache: ByteCache[str, str], key: str) -> bool:
    hits = cache.statistics().hits
    get(cache, key)
    return cache.statistics().hits > hits


def test_a_value_is_loaded_once() -> None:
    cache: ByteCache[str, str] = ByteCache(100, "c")
    assert [get(cache, "a") for _ in range(3)] == ["A"] * 3
    found = cache.statistics()
    assert (found.hits, found.misses, found.entries, found.bytes) == (2, 1, 1, 10)


def test_capacity_0_keeps_nothing_and_always_loads() -> None:
    cache: ByteCache[str, str] = ByteCache(0, "c")
    assert [get(cache, "a"), get(cache, "a")] == ["A", "A"]
    cache.put("b", "B", 1)
    found = cache.statistics()
    assert (found.hits, found.misses, found.entries, found.bytes) == (0, 2, 0, 0)


def test_the_least_recently_used_goes_first() -> None:
    cache: ByteCache[str, str] = ByteCache(30, "c")
    for key in "abcd":
        get(cache, key)
    found = cache.statistics()
    assert (found.entries, found.bytes, found.evictions) == (3, 30, 1)
    assert is_cached(cache, "b")
    assert not is_cached(cache, "a")


def test_a_scan_does_not_push_out_what_is_used_often() -> None:
    cache: ByteCache[str, str] = ByteCache(100, "c")
    for key in ("hot1", "hot2", "hot1", "hot2"):
        get(cache, key)
    for number in range(1000):
        get(cache, f"scan{number}")
    assert is_cached(cache, "hot1")
    assert is_cached(cache, "hot2")


def test_what_was_used_often_long_ago_gives_way() -> None:
    cache: ByteCache[str, str] = ByteCache(100, "c")
    for key in [f"old{number}" for number in range(9)] * 2:
        get(cache, key)
    for key in [f"new{number}" for number in range(8) for _ in range(2)]:
        get(cache, key)
    assert all(is_cached(cache, f"new{number}") for number in range(8))


def test_a_value_larger_than_the_cache_is_returned_and_pushes_nothing_out() -> None:
    cache: ByteCache[str, str] = ByteCache(100, "c")
    get(cache, "a")
    assert get(cache, "huge", size=101) == "HUGE"
    assert cache.statistics().entries == 1
    assert is_cached(cache, "a")


def test_an_error_of_a_load_is_raised_and_not_kept() -> None:
    cache: ByteCache[str, str] = ByteCache(100, "c")

    def fail() -> str:
        raise OSError("disk")

    for _ in range(2):
        with pytest.raises(OSError, match="disk"):
            cache.get_or_load("a", fail, len)
    assert get(cache, "a") == "A"


def test_readers_of_one_key_wait_for_one_load() -> None:
    cache: ByteCache[str, str] = ByteCache(100, "c")
    started, proceed = threading.Event(), threading.Event()
    loads = []

    def load() -> str:
        loads.append(threading.get_ident())
        started.set()
        assert proceed.wait(10)
        return "A"

    with ThreadPoolExecutor(4) as pool:
        first = pool.submit(cache.get_or_load, "a", load, len)
        assert started.wait(10)
        others = [pool.submit(cache.get_or_load, "a", load, len) for _ in range(3)]
        assert get(cache, "b") == "B", "a load holds up nobody who wants something else"
        proceed.set()
        assert [each.result(10) for each in (first, *others)] == ["A"] * 4
    assert len(loads) == 1


def test_readers_whose_load_failed_elsewhere_load_themselves() -> None:
    cache: ByteCache[str, str] = ByteCache(100, "c")
    started, proceed = threading.Event(), threading.Event()

    def fail() -> str:
        started.set()
        assert proceed.wait(10)
        raise OSError("disk")

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(cache.get_or_load, "a", fail, len)
        assert started.wait(10)
        second = pool.submit(get, cache, "a")
        proceed.set()
        assert second.result(10) == "A"
        with pytest.raises(OSError, match="disk"):
            first.result(10)


def test_keys_of_a_removed_group_are_gone_even_those_being_loaded() -> None:
    cache: ByteCache[str, str] = ByteCache(100, "c", lambda key: key[0])
    get(cache, "x1")
    get(cache, "y1")

    def load() -> str:
        cache.remove_group("x")
        return "X2"

    assert cache.get_or_load("x2", load, len) == "X2"
    assert cache.statistics().entries == 1
    assert is_cached(cache, "y1")


def test_shrinking_frees_what_is_used_least() -> None:
    cache: ByteCache[str, str] = ByteCache(100, "c")
    for key in "abcdefghij":
        get(cache, key)
    get(cache, "a")
    assert cache.limit_to(0.3) == 70
    assert cache.statistics().bytes == 30
    assert is_cached(cache, "a")
    get(cache, "x")
    assert cache.statistics().bytes == 30
    assert cache.limit_to(1) == 0
    get(cache, "y")
    assert cache.statistics().bytes == 40


def test_what_is_not_used_between_two_looks_is_dropped() -> None:
    cache: ByteCache[str, str] = ByteCache(100, "c")
    for key in "abcc":
        get(cache, key)
    assert cache.drop_unused() == 0
    get(cache, "a")
    get(cache, "d")
    assert cache.drop_unused() == 20
    assert [is_cached(cache, key) for key in "ad"] == [True, True]
    assert cache.drop_unused() == 0
    assert cache.drop_unused() == 20
    assert cache.statistics().entries == 0


def test_what_is_not_dropped_at_one_look_goes_at_the_next() -> None:
    cache: ByteCache[str, str] = ByteCache(100, "c")
    for key in "abcde":
        get(cache, key)
    assert [cache.drop_unused(2) for _ in range(5)] == [0, 20, 20, 10, 0]


@given(
    st.integers(1, 200),
    st.lists(
        st.tuples(st.sampled_from("abcdefghijkl"), st.integers(0, 60), st.sampled_from(["get", "put", "drop", "look"]))
    ),
)
def test_bytes_are_counted_and_bounded_whatever_happens(capacity: int, steps: list[tuple[str, int, str]]) -> None:
    cache: ByteCache[str, str] = ByteCache(capacity, "c")
    sizes: dict[str, int] = {}
    for key, size, step in steps:
        if step == "get":
            cache.get_or_load(key, lambda: "v", lambda _, size=size: size)  # type: ignore[misc]
        elif step == "put":
            cache.put(key, "v", size)
        elif step == "look":
            cache.drop_unused()
        else:
            cache.remove_group(key)
        sizes[key] = size
        found = cache.statistics()
        held = [*cache._probation.values(), *cache._protected.values()]
        assert found.bytes == sum(entry.size_bytes for entry in held) <= capacity
        assert cache._protected_bytes == sum(entry.size_bytes for entry in cache._protected.values())
        assert {key for keys in cache._groups.values() for key in keys} == {*cache._probation, *cache._protected}


def test_many_threads_leave_the_counts_right() -> None:
    cache: ByteCache[int, int] = ByteCache(500, "c")

    def work(seed: int) -> None:
        chance = random.Random(seed)
        for _ in range(2000):
            key = chance.randrange(100)
            assert cache.get_or_load(key, lambda key=key: key * 2, lambda _: 10) == key * 2  # type: ignore[misc]

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    found = cache.statistics()
    assert found.hits + found.misses == 16_000
    assert found.bytes == found.entries * 10 <= 500


def test_caches_report_by_the_names_of_their_settings() -> None:
    caches = Caches.of(sst_meta_bytes=1, vector_bytes=2, page_bytes=3)
    assert [(each.name, each.capacity_bytes) for each in caches.statistics()] == [
        ("sst_meta", 1),
        ("vector", 2),
        ("page", 3),
    ]
