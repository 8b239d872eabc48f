"""Failover and migration as a cluster sees them: heartbeats that stop, places that change, records that stay."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.catalog.worlds import draft
from tests.meta.clusters import MetaCluster, datanode, running_cluster, wait_until
from tsdb.catalog import RemoteCatalog, all_places
from tsdb.clock import SystemClock
from tsdb.engine.errors import RegionQuarantined
from tsdb.errors import InvalidArguments, Unsupported
from tsdb.kv import MirrorKv
from tsdb.meta import Supervision
from tsdb.meta.client import Heartbeats, MetaClient, MirrorRoutes, MoveState, NodeReport, load_records
from tsdb.model import Peer, RegionId
from tsdb.units import Duration

FAST = Duration.of_seconds(0.1)
LEASE = Duration.of_seconds(1)


def beating(
    client: MetaClient, node_id: int, *, log: str = "", report: Callable[[], dict[str, Any]] = dict
) -> Heartbeats:
    node = datanode(node_id, log=log)
    client.register(node)
    heartbeats = Heartbeats(client, node, SystemClock(), report=lambda: NodeReport(report()), interval=FAST)
    heartbeats.start()
    return heartbeats


@contextmanager
def two_datanodes(
    root: Path, *, is_enabled: bool, log: str = "", report: Callable[[], dict[str, Any]] = dict
) -> Iterator[tuple[MetaCluster, MetaClient, dict[int, Heartbeats], MirrorKv]]:
    supervision = Supervision(is_enabled=is_enabled, heartbeat_seconds=FAST.seconds, unheard_seconds=5.0)
    with running_cluster(root, servers=2, lease=LEASE, supervision=supervision) as cluster:
        client = cluster.client()
        heartbeats = {node_id: beating(client, node_id, log=log, report=report) for node_id in (1, 2)}
        mirror = MirrorKv(client.watch(), client.transact)
        mirror.start(30)
        yield cluster, client, heartbeats, mirror
        for each in heartbeats.values():
            each.stop()
        mirror.close()


def place_of(mirror: MirrorKv, region: RegionId) -> tuple[int, bool]:
    place = all_places(mirror)[region]
    return place.node_id, place.is_moving


def test_the_regions_of_a_lost_node_are_moved_if_that_is_enabled(tmp_path: Path) -> None:
    with two_datanodes(tmp_path, is_enabled=True) as (cluster, client, heartbeats, mirror):
        catalog = RemoteCatalog(mirror, client.change)
        (region,) = catalog.create_table(draft("t")).region_ids
        lost = place_of(mirror, region)[0]
        other = 3 - lost
        routes = MirrorRoutes(mirror, client, refresh_seconds=30)
        assert routes.peer_of(region) == Peer(lost, f"127.0.0.1:{7000 + lost}")
        heartbeats[lost].stop()
        wait_until(lambda: place_of(mirror, region) == (other, False))
        assert routes.refresh(region)
        assert routes.peer_of(region).node_id == other
        ((node_id, (opening,)),) = [opened for each in cluster.regions for opened in each.opened]
        assert (node_id, opening.region_id, opening.epoch, opening.log_nodes) == (other, region, 1, (lost,))
        wait_until(lambda: load_records(mirror).ended)
        (record,) = load_records(mirror).ended
        assert (record.from_node, record.state, record.regions[0].to_node) == (lost, MoveState.DONE, other)
        assert {"kind": "failover", "state": "Done"}.items() <= client.procedures()[0].items()


def test_the_regions_of_a_lost_node_stay_if_failover_is_not_enabled(tmp_path: Path) -> None:
    with two_datanodes(tmp_path, is_enabled=False) as (cluster, client, heartbeats, mirror):
        (region,) = RemoteCatalog(mirror, client.change).create_table(draft("t")).region_ids
        lost = place_of(mirror, region)[0]
        heartbeats[lost].stop()
        leader = cluster.leader().leading()
        wait_until(lambda: leader._supervisor.tick() == [lost])
        assert place_of(mirror, region) == (lost, False)
        ordered = client.command("failover", node_id=lost)["procedures"]
        wait_until(lambda: client.procedure(ordered[0])["state"] == "Done")
        assert place_of(mirror, region) == (3 - lost, False)


def test_an_operator_moves_a_region(tmp_path: Path) -> None:
    with two_datanodes(tmp_path, is_enabled=False) as (cluster, client, _, mirror):
        (region,) = RemoteCatalog(mirror, client.change).create_table(draft("t")).region_ids
        was = place_of(mirror, region)[0]
        for wrong in ({"region_id": 7, "from_node": 1, "to_node": 2}, {"region_id": region}, {"region_id": "x"}):
            with pytest.raises(InvalidArguments):
                client.command("migrate_region", **wrong)
        moved = client.command("migrate_region", region_id=region, from_node=was, to_node=3 - was)["procedure"]
        wait_until(lambda: client.procedure(moved)["state"] == "Done")
        mirror.wait_for(client.version(), 30)
        assert place_of(mirror, region) == (3 - was, False)
        assert [left for each in cluster.regions for left in each.left] == [(was, region, True)]
        ((node_id, (opening,)),) = [opened for each in cluster.regions for opened in each.opened]
        assert (node_id, opening.log_nodes) == (3 - was, ())


def test_the_procedure_of_a_move_that_failed_tells_why(tmp_path: Path) -> None:
    with two_datanodes(tmp_path, is_enabled=False) as (cluster, client, _, mirror):
        (region,) = RemoteCatalog(mirror, client.change).create_table(draft("t")).region_ids
        was = place_of(mirror, region)[0]
        for each in cluster.regions:
            each.refusal = RegionQuarantined(region_id=region, reason="entry 3 is lost")
        moved = client.command("migrate_region", region_id=region, from_node=was, to_node=3 - was)["procedure"]
        wait_until(lambda: client.procedure(moved)["state"] == "Failed")
        assert "entry 3 is lost" in client.procedure(moved)["error"]
        mirror.wait_for(client.version(), 30)
        assert place_of(mirror, region) == (was, False)


def test_the_next_leader_goes_on_with_a_move(tmp_path: Path) -> None:
    with two_datanodes(tmp_path, is_enabled=False) as (cluster, client, _, mirror):
        (region,) = RemoteCatalog(mirror, client.change).create_table(draft("t")).region_ids
        was = place_of(mirror, region)[0]
        leader = cluster.leader()
        leader.leading()._moves.plan_migration(region, was, 3 - was)
        cluster.remove(leader)
        wait_until(lambda: place_of(mirror, region) == (3 - was, False), 60)


def test_what_a_failover_could_not_read_is_told_until_it_is_handed_in(tmp_path: Path) -> None:
    entries: dict[str, int] = {}
    with two_datanodes(tmp_path, is_enabled=True, log="local", report=lambda: {"entries": dict(entries)}) as world:
        cluster, client, heartbeats, mirror = world
        (region,) = RemoteCatalog(mirror, client.change).create_table(draft("t")).region_ids
        lost = place_of(mirror, region)[0]
        entries[str(region)] = 25
        wait_until(lambda: all(each["report"].get("entries") for each in client.nodes()["nodes"]))
        heartbeats[lost].stop()
        wait_until(lambda: load_records(mirror).ended)
        (move,) = load_records(mirror).ended[0].regions
        assert (move.epoch, move.lost_from_entry, move.lost_to_entry, move.recovered_rows) == (1, 11, 25, None)
        opened = [each for reached in cluster.regions for _, openings in reached.opened for each in openings]
        assert [(each.log_nodes, each.may_lack_rows) for each in opened] == [((lost,), True)]
        # The node comes back, under another start: it is told of it until it has handed in what it has.
        back = datanode(lost, start_id="second", log="local")
        wait_until(lambda: client.register(back).lost == ((region, 1),))
        owner = client.owner_of(region)
        assert owner is not None
        assert (owner.peer.node_id, owner.is_moving) == (3 - lost, False)
        for _ in range(2):
            client.recovered(lost, region, {1: 15})
            mirror.wait_for(client.version(), 30)
            assert load_records(mirror).ended[0].regions[0].recovered_rows == 15
        assert client.register(back).lost == ()
        assert client.owner_of(RegionId(77 << 32)) is None


def test_regions_on_the_disk_of_a_lost_node_stay_and_that_is_said(tmp_path: Path) -> None:
    with two_datanodes(tmp_path, is_enabled=True, log="none") as (cluster, client, heartbeats, mirror):
        (region,) = RemoteCatalog(mirror, client.change).create_table(draft("t")).region_ids
        lost = place_of(mirror, region)[0]
        heartbeats[lost].stop()
        leader = cluster.leader().leading()
        wait_until(lambda: leader._supervisor.tick() == [lost])
        with pytest.raises(Unsupported, match="rows are only on its own disk"):
            client.command("failover", node_id=lost)
        assert place_of(mirror, region) == (lost, False)
        assert load_records(mirror).running == load_records(mirror).ended == []
