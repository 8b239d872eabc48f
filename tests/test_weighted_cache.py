"""Kept results: a sum of weights that is never exceeded, whatever comes."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tsdb.processes.known_results import KnownResults
from tsdb.weighted_cache import WeightedCache


def repeated(calls: list[int], *, weight_max: int) -> WeightedCache[int, str]:
    def compute(count: int) -> str:
        calls.append(count)
        return "x" * count

    return WeightedCache(compute, weigh=lambda _, text: len(text), weight_max=weight_max)


def test_a_result_is_computed_once_while_there_is_room() -> None:
    calls: list[int] = []
    cache = repeated(calls, weight_max=10)
    assert [cache(count) for count in (3, 4, 3, 4)] == ["xxx", "xxxx"] * 2
    assert (calls, len(cache), cache.weight) == ([3, 4], 2, 7)


def test_what_is_used_stays_and_what_is_not_goes_first() -> None:
    calls: list[int] = []
    cache = repeated(calls, weight_max=10)
    for count in (3, 4, 3, 5, 3, 4):
        cache(count)
    assert calls == [3, 4, 5, 4], "4 made room for 5, because 3 was used"


def test_a_result_larger_than_the_budget_is_returned_and_not_kept() -> None:
    calls: list[int] = []
    cache = repeated(calls, weight_max=10)
    cache(4)
    assert len(cache(11)) == 11
    assert (len(cache), cache.weight) == (1, 4)


def test_errors_are_not_kept() -> None:
    cache: WeightedCache[int, float] = WeightedCache(lambda number: 1 / number, weigh=lambda *_: 1, weight_max=9)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            cache(0)
    assert len(cache) == 0


@given(st.lists(st.integers(0, 30), max_size=200), st.integers(0, 40))
def test_the_budget_holds_for_any_calls(counts: list[int], weight_max: int) -> None:
    cache = repeated([], weight_max=weight_max)
    for count in counts:
        assert len(cache(count)) == count
        assert cache.weight <= weight_max


def test_threads_share_it() -> None:
    cache = repeated([], weight_max=500)
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(cache, [count % 97 for count in range(5000)]))
    assert [len(text) for text in found] == [count % 97 for count in range(5000)]
    assert cache.weight == sum(entry.weight for entry in cache._entries.values()) <= 500


def test_a_cache_with_less_room_evicts_at_once_and_grows_again() -> None:
    calls: list[int] = []
    cache = repeated(calls, weight_max=10)
    for count in (3, 4, 3):
        cache(count)
    cache.limit_to(0.5)
    assert (len(cache), cache.weight, cache.weight_max) == (1, 3, 5)
    cache(4)
    cache.limit_to(1.0)
    for count in (3, 4, 3, 4):
        cache(count)
    assert cache.weight == 7


def test_all_caches_of_the_process_are_one_owner_of_memory() -> None:
    caches = [
        WeightedCache(lambda count: "x" * count, weigh=lambda _, text: len(text), weight_max=size, owner="test_caches")
        for size in (10, 30)
    ]
    known = KnownResults(0.5)
    caches[0](4)
    caches[1](12)
    assert [use for use in known.memory_use() if use.owner == "test_caches"] == [("test_caches", 16, 20)]
    known.limit_memory(0.5)
    assert [use for use in known.memory_use() if use.owner == "test_caches"] == [("test_caches", 0, 9)]
    assert {"log_schemas", "regular_expressions"} <= {use.owner for use in known.memory_use()}
    KnownResults()
    assert [cache.weight_max for cache in caches] == [10, 30]
