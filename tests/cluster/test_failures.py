"""What a cluster survives, with real etcd and S3, while clients write and query.

No answer is older than what was known before. After each failure every acknowledged row is there once, and every region
has one owner.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import httpx
import pytest

from tests.cluster.owners import check_all
from tests.cluster.places import FAILOVER, QUICK_LOG
from tests.cluster.running import Cluster, Node, Shape, metric, running_cluster, wait_for
from tests.cluster.writers import TABLE, Writers, check_rows
from tests.kv.etcd_process import EtcdProcess
from tests.store.services import S3Server
from tsdb.store import ObjectStore

pytestmark = pytest.mark.timeout(900)
RUNS_ALL = os.environ.get("TSDB_CLUSTER") == "all"
slow = pytest.mark.skipif(not RUNS_ALL, reason="run by `make failures`")

PROOFS = "tsdb_datanode_ownership_proofs_total"
BRAKED = "tsdb_meta_failover_braked"
FAILOVERS = "SELECT count(*) FROM information_schema.region_failovers"
TWO_LEASES_SECONDS = 25.0
"""Longer than two leases of datanodes, and than that of a leader."""


@pytest.fixture
def root(s3: S3Server) -> str:
    return s3.new_root()


@pytest.fixture
def bucket(s3: S3Server, root: str) -> ObjectStore:
    return s3.store(root)


@pytest.fixture
def cluster(tmp_path: Path, etcd: EtcdProcess, s3: S3Server, root: str) -> Iterator[Cluster]:
    """The one test that always runs needs one frontend only."""
    frontends = 2 if RUNS_ALL else 1
    shape = Shape(
        metasrvs=2,
        datanodes=3,
        frontends=frontends,
        metasrv_environment=FAILOVER,
        datanode_environment=QUICK_LOG,
    )
    with running_cluster(tmp_path, shape, etcd=etcd, s3=s3, root=root) as cluster:
        cluster.sql(TABLE)
        yield cluster


def owner_of_first(cluster: Cluster) -> int:
    """The node of the first region."""
    return next(iter(cluster.place_of("cpu").values()))


def test_a_datanode_that_is_lost_is_replaced_by_others(
    cluster: Cluster, etcd: EtcdProcess, bucket: ObjectStore
) -> None:
    with Writers(cluster) as writers:
        writers.wait_progress(5)
        lost = owner_of_first(cluster)
        with writers.trouble():
            cluster.datanodes[lost].kill()
            writers.wait_progress(5)
        assert lost not in cluster.place_of("cpu").values()
        writers.wait_answers(2)
    check_all(cluster, writers, etcd, bucket)
    failovers = cluster.sql("SELECT from_peer_id, state FROM information_schema.region_failovers")
    assert [lost, "Done"] in failovers
    # It comes back with an empty hand: its regions are elsewhere.
    cluster.datanodes[lost].start()
    check_all(cluster, writers, etcd, bucket)


@slow
def test_a_datanode_that_comes_back_has_its_rows(cluster: Cluster, etcd: EtcdProcess, bucket: ObjectStore) -> None:
    with Writers(cluster) as writers:
        writers.wait_progress(5)
        node = cluster.datanodes[owner_of_first(cluster)]
        with writers.trouble():
            node.kill()
            node.start()
            writers.wait_progress(5)
    check_all(cluster, writers, etcd, bucket)


@slow
def test_datanodes_that_vanish_at_once_are_not_replaced(
    cluster: Cluster, etcd: EtcdProcess, bucket: ObjectStore
) -> None:
    """More than a third of them: rather the network than they are the reason. Nothing is moved, however long it is."""
    places = cluster.place_of("cpu")
    vanished = [cluster.datanodes[number] for number in sorted(set(places.values()))[:2]]
    with Writers(cluster) as writers:
        for vanish, come_back in ((Node.pause, wake), (Node.kill, start_again)):
            writers.wait_progress(3)
            with writers.trouble():
                for node in vanished:
                    vanish(node)
                wait_for(lambda: any(metric(each, BRAKED) for each in cluster.metasrvs))
                deadline = time.monotonic() + TWO_LEASES_SECONDS
                while time.monotonic() < deadline:
                    assert cluster.sql(FAILOVERS) == [[0]]
                    time.sleep(1)
                come_back(cluster, vanished)
                writers.wait_progress(3)
            assert cluster.sql(FAILOVERS) == [[0]]
            assert cluster.place_of("cpu") == places
    check_all(cluster, writers, etcd, bucket)


def wake(_cluster: Cluster, nodes: Sequence[Node]) -> None:
    for node in nodes:
        node.resume()


def start_again(cluster: Cluster, nodes: Sequence[Node]) -> None:
    """In maintenance mode: a busy machine needs longer for their starts than the last one is waited for."""
    for action in ("enable", "disable"):
        for node in cluster.metasrvs:
            httpx.post(f"{node.url}/admin/maintenance/{action}", timeout=60)
        for node in nodes if action == "enable" else ():
            node.start(wait=False)
        for node in nodes:
            node.wait_ready()


@slow
def test_writes_and_queries_go_on_without_metadata_servers_and_etcd(
    cluster: Cluster, etcd: EtcdProcess, bucket: ObjectStore
) -> None:
    """Leases run out. From then on each answer is backed by a proof that no other node has the log."""
    with Writers(cluster) as writers:
        writers.wait_progress(3)
        etcd.kill()
        for each in cluster.metasrvs:
            each.kill()
        check_proofs(cluster, writers)
    check_rows(cluster, writers, frontend=1)
    etcd.start()
    etcd.wait_ready()
    for each in cluster.metasrvs:
        each.start()
    check_changes(cluster)
    check_all(cluster, writers, etcd, bucket)


@slow
def test_writes_and_queries_go_on_without_etcd_while_metadata_servers_live(
    cluster: Cluster, etcd: EtcdProcess, bucket: ObjectStore
) -> None:
    """The leader loses its lease: nobody leads, and nobody extends the leases of datanodes."""
    with Writers(cluster) as writers:
        writers.wait_progress(3)
        etcd.kill()
        check_proofs(cluster, writers)
        etcd.start()
        etcd.wait_ready()
        writers.wait_progress(3)
        check_changes(cluster)
        writers.wait_answers(2)
    assert cluster.sql(FAILOVERS) == [[0]]
    check_all(cluster, writers, etcd, bucket)


def check_proofs(cluster: Cluster, writers: Writers) -> None:
    """Longer than two leases writes and queries are answered, all of them, and then by proofs."""
    failures = len(writers.failures)
    nodes = [cluster.datanodes[number] for number in set(cluster.place_of("cpu").values())]
    began = time.monotonic()
    while time.monotonic() < began + TWO_LEASES_SECONDS:
        writers.wait_progress(2)
        writers.wait_answers(1)
    wait_for(lambda: all(metric(node, PROOFS) > 0 for node in nodes))
    proofs = [metric(node, PROOFS) for node in nodes]
    writers.wait_progress(3)
    writers.wait_answers(3)
    assert all(metric(node, PROOFS) > before for node, before in zip(nodes, proofs, strict=True))
    assert len(writers.failures) == failures, writers.failures[failures:]
    assert writers.readers.errors == 0


def check_changes(cluster: Cluster) -> None:
    """The metadata can be changed again."""
    cluster.wait_until("CREATE TABLE IF NOT EXISTS later (ts TIMESTAMP TIME INDEX, v DOUBLE)", 0)
    assert cluster.sql("SHOW TABLES LIKE 'later'") == [["later"]]


@slow
def test_a_datanode_that_stops_hands_its_regions_over(cluster: Cluster, etcd: EtcdProcess, bucket: ObjectStore) -> None:
    with Writers(cluster) as writers:
        writers.wait_progress(3)
        leaving = owner_of_first(cluster)
        with writers.trouble():
            assert cluster.datanodes[leaving].stop() == 0
            writers.wait_progress(3)
        assert leaving not in cluster.place_of("cpu").values()
    check_all(cluster, writers, etcd, bucket)
    reasons = cluster.sql("SELECT DISTINCT reason FROM information_schema.region_failovers")
    assert reasons == [["it was stopped"]]


@slow
def test_a_region_moves_by_order(cluster: Cluster, etcd: EtcdProcess, bucket: ObjectStore) -> None:
    with Writers(cluster) as writers:
        writers.wait_progress(3)
        region, node = next(iter(cluster.place_of("cpu").items()))
        target = next(each for each in cluster.datanodes if each != node)
        with writers.trouble():
            ((procedure,),) = cluster.sql(f"ADMIN migrate_region({region}, {node}, {target}, 60)")
            ((state,),) = cluster.sql(f"ADMIN procedure_state('{procedure}')")
            assert '"Done"' in state
        assert cluster.place_of("cpu")[region] == target
        writers.wait_progress(3)
    check_all(cluster, writers, etcd, bucket)


@slow
def test_a_node_that_wakes_up_after_its_regions_were_taken(
    cluster: Cluster, etcd: EtcdProcess, bucket: ObjectStore
) -> None:
    with Writers(cluster) as writers:
        writers.wait_progress(3)
        lost = owner_of_first(cluster)
        with writers.trouble():
            cluster.datanodes[lost].pause()
            wait_for(lambda: lost not in cluster.place_of("cpu").values())
            writers.wait_progress(3)
        writers.wait_answers(2)
        # A query of this node returns no old rows now, and queries of others do not fail.
        cluster.datanodes[lost].resume()
        writers.wait_progress(3)
        writers.wait_answers(5)
    check_all(cluster, writers, etcd, bucket)


@slow
def test_a_frontend_that_is_killed_has_lost_nothing_and_clients_go_on_with_another(
    cluster: Cluster, etcd: EtcdProcess, bucket: ObjectStore
) -> None:
    with Writers(cluster) as writers:
        for killed in (0, 1):
            writers.wait_progress(5)
            with writers.trouble():
                cluster.frontends[killed].kill()
                acknowledged = dict(writers.acknowledged)
                rows = "SELECT host, count(*), count(DISTINCT ts) FROM cpu GROUP BY host"
                found = {host: counts for host, *counts in cluster.sql(rows, frontend=1 - killed)}
                assert {host: last for host, last in acknowledged.items() if found[host][0] < last} == {}
                assert all(count == times for count, times in found.values())
                # Each client comes to the other frontend, again and again.
                writers.wait_progress(5)
                writers.wait_answers(2)
                cluster.frontends[killed].start()
        writers.wait_answers(2)
    for frontend in (0, 1):
        check_rows(cluster, writers, frontend=frontend)
    check_all(cluster, writers, etcd, bucket)
