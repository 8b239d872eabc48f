"""Rows that a lost datanode had acknowledged by its local log alone come back with it, and newer ones stay."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.owners import check_all, check_owners
from tests.cluster.places import FAILOVER
from tests.cluster.running import Cluster, Shape, running_cluster, wait_for
from tests.cluster.writers import TABLE as PARTITIONED
from tests.cluster.writers import Writers
from tests.kv.etcd_process import EtcdProcess
from tests.store.services import S3Server
from tsdb.meta.client import MetaClient
from tsdb.store import ObjectStore

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.skipif(os.environ.get("TSDB_CLUSTER") != "all", reason="run by `make failures`"),
]

LOCAL = {
    "TSDB_DATANODE__WAL__SHARED__INTERVAL": "20ms",
    "TSDB_DATANODE__WAL__SHARED__ACKNOWLEDGE": "local",
    "TSDB_DATANODE__STORAGE__CACHE_CAPACITY": "0",
}
TABLE = "CREATE TABLE cpu (host STRING, ts TIMESTAMP TIME INDEX, v DOUBLE, PRIMARY KEY (host))"
BUSY = PARTITIONED.replace(" cpu ", " busy ")
LOSSES = "SELECT lost_from_entry, lost_to_entry, recovered_rows FROM information_schema.region_failovers "
LOSSES += "WHERE region_id = {}"
MISSING = "SELECT count(*) FROM information_schema.region_failovers WHERE recovered_rows IS NULL"
SHIPPED, LATE = 10, 20


@pytest.fixture
def root(s3: S3Server) -> str:
    return s3.new_root()


@pytest.fixture
def bucket(s3: S3Server, root: str) -> ObjectStore:
    return s3.store(root)


@pytest.fixture
def cluster(tmp_path: Path, etcd: EtcdProcess, s3: S3Server, root: str) -> Iterator[Cluster]:
    shape = Shape(metasrv_environment=FAILOVER, datanode_environment=LOCAL, has_proxies=True)
    with running_cluster(tmp_path, shape, etcd=etcd, s3=s3, root=root) as cluster:
        cluster.sql(TABLE)
        cluster.sql(BUSY)
        yield cluster


def insert(cluster: Cluster, *times: int, value: float) -> None:
    for at in times:
        assert cluster.sql(f"INSERT INTO cpu VALUES ('h', {at}, {value})") == 1


def reported_entry(meta: MetaClient, node_id: int, region: int) -> int:
    (node,) = [each for each in meta.nodes()["nodes"] if each["node_id"] == node_id and each["role"] == "DATANODE"]
    return int(node["report"].get("entries", {}).get(str(region), 0))


def test_rows_that_were_not_shipped_come_back_with_their_node(
    cluster: Cluster, etcd: EtcdProcess, bucket: ObjectStore
) -> None:
    """Of the clients that write all the time, rows are missing until the node is back, and no longer."""
    ((region, lost),) = cluster.place_of("cpu").items()
    losses = LOSSES.format(region)
    insert(cluster, *range(1, SHIPPED + 1), value=1.0)
    unshipped = "SELECT count(*) FROM information_schema.wal_segments WHERE state = 'unshipped'"
    cluster.wait_until(unshipped, [[0]])
    with Writers(cluster, table="busy") as writers:
        writers.wait_progress(5)
        cluster.to_store[lost].refuse()
        insert(cluster, *range(SHIPPED + 1, SHIPPED + LATE + 1), value=2.0)
        writers.wait_progress(3)
        meta = MetaClient([each.url.removeprefix("http://") for each in cluster.to_metasrv[lost]])
        wait_for(lambda: reported_entry(meta, lost, region) == SHIPPED + LATE)
        writers.readers.lossy.update(writers.acknowledged)
        with writers.trouble():
            cluster.datanodes[lost].kill()
            wait_for(lambda: cluster.place_of("cpu")[region] != lost)
            writers.wait_progress(3)
        # What the failover has lost is told, as long as it is lost.
        cluster.wait_until(losses, [[SHIPPED + 1, SHIPPED + LATE, None]])
        assert cluster.sql("SELECT count(*), max(ts) FROM cpu") == [[SHIPPED, SHIPPED]]
        insert(cluster, 15, 16, 100, value=3.0)
        assert cluster.sql("DELETE FROM cpu WHERE host = 'h' AND ts = 16") == 1
        cluster.to_store[lost].heal()
        cluster.datanodes[lost].start()
        cluster.wait_until(losses, [[SHIPPED + 1, SHIPPED + LATE, LATE]])
        cluster.wait_until(MISSING, [[0]])
        writers.readers.lossy.clear()
        writers.wait_progress(3)
        writers.wait_answers(3)
    check_rows(cluster)
    check_all(cluster, writers, etcd, bucket)
    # Nothing comes a second time, wherever the region is, whatever starts.
    cluster.datanodes[lost].kill()
    cluster.datanodes[lost].start()
    check_rows(cluster)
    check_owners(cluster, etcd, bucket)
    meta.close()


def check_rows(cluster: Cluster) -> None:
    found = dict(cluster.sql("SELECT ts, v FROM cpu"))
    expected = {at: 1.0 if at <= SHIPPED else 2.0 for at in range(1, SHIPPED + LATE + 1)}
    del expected[16]
    assert found == {**expected, 15: 3.0, 100: 3.0}
    assert cluster.sql("SELECT count(*) FROM cpu") == [[len(found)]]


def test_rows_on_the_disk_of_a_lost_datanode_are_down_until_it_is_back(tmp_path: Path) -> None:
    """With files of its own, nobody else opens its regions: they are down, and that is said."""
    with running_cluster(tmp_path, Shape(metasrv_environment=FAILOVER)) as cluster:
        cluster.sql(TABLE)
        ((_, lost),) = cluster.place_of("cpu").items()
        insert(cluster, 1, 2, value=1.0)
        cluster.datanodes[lost].kill()
        told = "SELECT count(*) FROM information_schema.region_peers WHERE table_name = 'cpu' AND status = 'DOWN' AND "
        told += f"peer_id = {lost} AND reason LIKE '%rows are only on its own disk%'"
        cluster.wait_until(told, [[1]])
        wait_for(lambda: "down until it is back" in cluster.metasrvs[0].running.output)
        assert cluster.sql("SELECT count(*) FROM information_schema.region_failovers") == [[0]]
        assert set(cluster.place_of("cpu").values()) == {lost}
        cluster.datanodes[lost].start()
        cluster.wait_until("SELECT count(*) FROM cpu", [[2]])
