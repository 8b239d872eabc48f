"""Which datanodes are chosen for the regions of a table."""

from __future__ import annotations

from collections import Counter
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from tsdb.meta._selectors import NodeSelector, select_nodes


@given(
    st.sampled_from(NodeSelector),
    st.dictionaries(st.integers(0, 50), st.integers(0, 100), min_size=1, max_size=8),
    st.integers(0, 20),
    st.integers(0, 1000),
)
def test_regions_of_one_table_are_spread_over_all_nodes_there_are(
    selector: NodeSelector, loads: dict[int, int], count: int, seed: int
) -> None:
    chosen = select_nodes(selector, loads, count, Random(seed))
    assert len(chosen) == count
    assert set(chosen) <= set(loads)
    used = Counter(chosen)
    assert max(used.values(), default=0) - min((used[node] for node in loads), default=0) <= 1


def test_nodes_with_few_regions_get_more_of_the_new_ones() -> None:
    random = Random(1)
    loads = {1: 0, 2: 50, 3: 100}
    by_load = Counter(select_nodes(NodeSelector.LOAD_BASED, loads, 1, random)[0] for _ in range(3000))
    assert by_load[1] > 1.2 * by_load[2] > 1.2 * by_load[3] > 0
    by_lease = Counter(select_nodes(NodeSelector.LEASE_BASED, loads, 1, random)[0] for _ in range(3000))
    assert min(by_lease.values()) > 850


def test_the_same_seed_chooses_the_same_nodes() -> None:
    loads = {1: 3, 2: 1, 3: 2}
    for selector in NodeSelector:
        assert select_nodes(selector, loads, 5, Random(7)) == select_nodes(selector, loads, 5, Random(7))
