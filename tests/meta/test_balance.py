"""Regions are evened out over datanodes: a few at a time, not twice, and not where no other node could open them."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.catalog.worlds import draft
from tests.meta.clusters import MetaCluster, datanode, running_cluster, wait_until
from tests.meta.test_moves import MovingWorld
from tsdb.catalog import all_places
from tsdb.clock import SystemClock
from tsdb.errors import Busy, Unsupported
from tsdb.meta import NodeDescription
from tsdb.meta._balance import plan_balance
from tsdb.meta._nodes import NodeRegistry
from tsdb.meta.client import Heartbeats, MetaClient, NodeReport
from tsdb.model import NodeRole, RegionId
from tsdb.units import Duration


def regions_on(*counts: int) -> dict[RegionId, int]:
    """So many regions on nodes 1, 2, …"""
    nodes = [node for node, count in enumerate(counts, 1) for _ in range(count)]
    return {RegionId(at): node for at, node in enumerate(nodes)}


@pytest.mark.parametrize(
    ("counts", "expected"),
    [((5, 0), (3, 2)), ((4, 4, 1), (3, 3, 3)), ((1, 0, 0), (1, 0, 0)), ((2, 2), (2, 2)), ((0,), (0,)), ((), ())],
)
def test_counts_differ_by_one_at_most_after_the_fewest_moves(
    counts: tuple[int, ...], expected: tuple[int, ...]
) -> None:
    places = regions_on(*counts)
    moves = plan_balance(places, under_way=(), nodes=range(1, len(counts) + 1), moves_max=100)
    assert len(moves) == sum(max(0, before - after) for before, after in zip(counts, expected, strict=True))
    assert counts_after(places, moves, len(counts)) == list(expected)


def counts_after(places: dict[RegionId, int], moves: list[tuple[RegionId, int, int]], nodes: int) -> list[int]:
    for region, from_node, to_node in moves:
        assert places[region] == from_node
        places[region] = to_node
    found = Counter(places.values())
    return [found[node] for node in range(1, nodes + 1)]


@settings(max_examples=100)
@given(st.lists(st.integers(0, 9), min_size=1, max_size=5), st.integers(0, 30), st.integers(0, 6))
def test_whatever_is_where_no_region_moves_twice_and_it_never_gets_worse(
    counts: list[int], moves_max: int, fixed: int
) -> None:
    places = regions_on(*counts)
    under_way = list(places)[:fixed]
    moves = plan_balance(places, under_way=under_way, nodes=range(1, len(counts) + 1), moves_max=moves_max)
    assert len(moves) <= moves_max
    moved = [region for region, _, _ in moves]
    assert len(set(moved)) == len(moved)
    assert not set(moved) & set(under_way)
    after = counts_after(dict(places), moves, len(counts))
    assert max(after) - min(after) <= max(counts) - min(counts)
    if not fixed and moves_max == 30:
        assert max(after) - min(after) <= 1


def test_regions_on_their_way_count_where_they_go_and_others_stay_out_of_it() -> None:
    places = {**regions_on(4, 2), RegionId(100): 9}
    assert plan_balance(places, under_way=[RegionId(4), RegionId(5)], nodes=(1, 2), moves_max=9) == [(3, 1, 2)]
    assert plan_balance(places, under_way=list(places), nodes=(1, 2), moves_max=9) == []


def beat(stack: ExitStack, client: MetaClient, node: NodeDescription) -> None:
    """Let a datanode live."""
    client.register(node)
    heartbeats = Heartbeats(client, node, SystemClock(), report=NodeReport, interval=Duration.of_seconds(0.1))
    heartbeats.start()
    stack.callback(heartbeats.stop)


def counts_of(cluster: MetaCluster) -> Counter[int]:
    return Counter(place.node_id for place in all_places(cluster.store).values())


def test_a_new_datanode_gets_its_share_a_few_regions_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tsdb.meta._moves.BALANCED_MAX", 2)
    with running_cluster(tmp_path) as cluster, ExitStack() as stack:
        client = cluster.client()
        beat(stack, client, datanode(1))
        leader = cluster.leader().leading()
        wait_until(lambda: leader.is_recovered)
        tables = 7
        for number in range(tables):
            leader._wait_recovered().create_table(draft(f"t{number}"))
        assert client.command("balance_regions") == {"procedures": []}, "there is nowhere to go"
        beat(stack, client, datanode(2))
        begun = client.command("balance_regions")["procedures"]
        assert len(begun) == 2
        while begun:
            wait_until(lambda ids=begun: all(client.procedure(each)["state"] == "Done" for each in ids))
            begun = client.command("balance_regions")["procedures"]
        counts = counts_of(cluster)
        assert counts.total() == tables
        assert abs(counts[1] - counts[2]) <= 1
        assert not any(place.is_moving for place in all_places(cluster.store).values())


def test_what_is_begun_already_is_not_begun_again() -> None:
    world = MovingWorld()
    moves = world.moves()
    chosen = moves.choose_balancing()
    assert [(from_node, to_node) for _, from_node, to_node in chosen] == [(1, 2), (1, 3)]
    records = [moves.plan_migration(*each) for each in chosen]
    assert moves.choose_balancing() == []
    for record in records:
        moves.run(record)
    assert sorted(world.places()) == [1, 2, 3]
    assert moves.choose_balancing() == []
    world.check()


def test_more_moves_wait_until_there_is_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tsdb.meta._moves.BALANCED_MAX", 1)
    world = MovingWorld()
    moves = world.moves()
    (first,) = moves.choose_balancing()
    moves.plan_migration(*first)
    with pytest.raises(Busy, match="1 regions are on their way already"):
        moves.choose_balancing()


def test_regions_with_files_on_the_disk_of_their_node_stay_there() -> None:
    world = MovingWorld(nodes=0)
    registry: NodeRegistry = world.registry
    for node_id in (1, 2):
        registry.register(
            NodeDescription(NodeRole.DATANODE, node_id, f"127.0.0.1:{node_id}", "first", has_local_files=True)
        )
    before = world.kv.scan("")
    problem = "from datanode 1 to datanode 2: datanode 1 has its data files on its own disk"
    with pytest.raises(Unsupported, match=problem):
        world.moves().choose_balancing()
    with pytest.raises(Unsupported, match=problem):
        world.moves().plan_migration(world.table.region_ids[0], 1, 2)
    assert world.kv.scan("") == before
