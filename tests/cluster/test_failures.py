"""What a cluster survives, with real etcd and S3: after each failure every acknowledged row is there, once."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.running import Cluster, Shape, running_cluster, wait_for
from tests.cluster.writers import TABLE, Writers, check_rows
from tests.kv.etcd_process import EtcdProcess
from tests.store.services import S3Server

pytestmark = pytest.mark.timeout(600)
slow = pytest.mark.skipif(os.environ.get("TSDB_CLUSTER") != "all", reason="run by `make failures`")

FAILOVER = {"TSDB_METASRV__ENABLE_REGION_FAILOVER": "true"}
QUICK_LOG = {"TSDB_DATANODE__WAL__SHARED__INTERVAL": "20ms", "TSDB_DATANODE__STORAGE__CACHE_CAPACITY": "0"}


@pytest.fixture
def cluster(tmp_path: Path, etcd: EtcdProcess, s3: S3Server) -> Iterator[Cluster]:
    shape = Shape(metasrvs=2, datanodes=3, metasrv_environment=FAILOVER, datanode_environment=QUICK_LOG)
    with running_cluster(tmp_path, shape, etcd=etcd, s3=s3) as cluster:
        cluster.sql(TABLE)
        yield cluster


def test_a_datanode_that_is_lost_is_replaced_by_others(cluster: Cluster) -> None:
    with Writers(cluster) as writers:
        writers.wait_progress(5)
        (lost,) = {cluster.place_of("cpu")[region] for region in list(cluster.place_of("cpu"))[:1]}
        cluster.datanodes[lost].kill()
        writers.wait_progress(5)
        assert lost not in cluster.place_of("cpu").values()
    check_rows(cluster, writers)
    failovers = cluster.sql("SELECT from_peer_id, state FROM information_schema.region_failovers")
    assert [lost, "Done"] in failovers
    # It comes back with an empty hand: its regions are elsewhere.
    cluster.datanodes[lost].start()
    check_rows(cluster, writers)


@slow
def test_a_datanode_that_comes_back_has_its_rows(cluster: Cluster) -> None:
    with Writers(cluster) as writers:
        writers.wait_progress(5)
        node = cluster.datanodes[next(iter(cluster.place_of("cpu").values()))]
        node.kill()
        node.start()
        writers.wait_progress(5)
    check_rows(cluster, writers)


@slow
def test_writes_and_queries_go_on_without_metadata_servers_and_etcd(cluster: Cluster, etcd: EtcdProcess) -> None:
    with Writers(cluster) as writers:
        writers.wait_progress(3)
        etcd.kill()
        writers.wait_progress(5)
        for each in cluster.metasrvs:
            each.kill()
        writers.wait_progress(5)
        check = cluster.sql("SELECT count(*) > 0 FROM cpu")
        assert check == [[True]]
    check_rows(cluster, writers)
    etcd.start()
    etcd.wait_ready()
    for each in cluster.metasrvs:
        each.start()
    cluster.wait_until("CREATE TABLE IF NOT EXISTS later (ts TIMESTAMP TIME INDEX, v DOUBLE)", 0)
    assert cluster.sql("SHOW TABLES LIKE 'later'") == [["later"]]


@slow
def test_a_datanode_that_stops_hands_its_regions_over(cluster: Cluster) -> None:
    with Writers(cluster) as writers:
        writers.wait_progress(3)
        leaving = next(iter(cluster.place_of("cpu").values()))
        assert cluster.datanodes[leaving].stop() == 0
        writers.wait_progress(3)
        assert leaving not in cluster.place_of("cpu").values()
    check_rows(cluster, writers)
    reasons = cluster.sql("SELECT DISTINCT reason FROM information_schema.region_failovers")
    assert reasons == [["it was stopped"]]


@slow
def test_a_region_moves_by_order(cluster: Cluster) -> None:
    with Writers(cluster) as writers:
        writers.wait_progress(3)
        region, node = next(iter(cluster.place_of("cpu").items()))
        target = next(each for each in cluster.datanodes if each != node)
        ((procedure,),) = cluster.sql(f"ADMIN migrate_region({region}, {node}, {target}, 60)")
        ((state,),) = cluster.sql(f"ADMIN procedure_state('{procedure}')")
        assert '"Done"' in state
        assert cluster.place_of("cpu")[region] == target
        writers.wait_progress(3)
    check_rows(cluster, writers)


@slow
def test_a_node_that_wakes_up_after_its_regions_were_taken(cluster: Cluster) -> None:
    with Writers(cluster) as writers:
        writers.wait_progress(3)
        lost = next(iter(cluster.place_of("cpu").values()))
        cluster.datanodes[lost].pause()
        wait_for(lambda: lost not in cluster.place_of("cpu").values())
        writers.wait_progress(3)
        cluster.datanodes[lost].resume()
        writers.wait_progress(3)
    check_rows(cluster, writers)
