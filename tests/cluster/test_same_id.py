"""A datanode that stands still beyond its lease, another one that is started with its id meanwhile, and wakes up.

The second one has sealed the log of the first: what the first had acknowledged is there, and it acknowledges nothing
more, shows nothing old, and gets nothing back as long as the second one lives.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.owners import check_all
from tests.cluster.places import FAILOVER, QUICK_LOG
from tests.cluster.running import Cluster, Node, Shape, running_cluster, wait_for
from tests.cluster.test_nodes import another
from tests.cluster.test_partition import is_alive, reads
from tests.cluster.writers import TABLE, Writers
from tests.kv.etcd_process import EtcdProcess
from tests.remote.world import FakeRoutes
from tests.store.services import S3Server
from tsdb.errors import TsdbError
from tsdb.model import Peer
from tsdb.remote import RemoteRegions
from tsdb.store import ObjectStore

pytestmark = [
    pytest.mark.timeout(900),
    pytest.mark.skipif(os.environ.get("TSDB_CLUSTER") != "all", reason="run by `make failures`"),
]


@pytest.fixture
def root(s3: S3Server) -> str:
    return s3.new_root()


@pytest.fixture
def bucket(s3: S3Server, root: str) -> ObjectStore:
    return s3.store(root)


@pytest.fixture(params=[{}, FAILOVER], ids=["its regions wait for it", "its regions are taken over"])
def cluster(
    request: pytest.FixtureRequest, tmp_path: Path, etcd: EtcdProcess, s3: S3Server, root: str
) -> Iterator[Cluster]:
    shape = Shape(metasrv_environment=request.param, datanode_environment=QUICK_LOG)
    with running_cluster(tmp_path, shape, etcd=etcd, s3=s3, root=root) as cluster:
        cluster.sql(TABLE)
        yield cluster


def open_regions(node: Node) -> list[int]:
    """What a process has open, whatever others think of it."""
    address = node.environment["TSDB_DATANODE__RPC_ADDR"]
    regions = RemoteRegions(FakeRoutes(address))
    try:
        return [int(each) for each in regions.region_ids(Peer(1, address))]
    except TsdbError:
        return []
    finally:
        regions.close()


def test_the_first_of_two_datanodes_with_one_id_is_sealed(
    cluster: Cluster, etcd: EtcdProcess, bucket: ObjectStore, tmp_path: Path
) -> None:
    has_failover = FAILOVER.items() <= cluster.metasrvs[0].environment.items()
    region, number = next(iter(cluster.place_of("cpu").items()))
    first = cluster.datanodes[number]
    second = another(cluster, tmp_path / "second", number, WAL__DIR=str(tmp_path / "second" / "wal"))
    direct = RemoteRegions(FakeRoutes(first.environment["TSDB_DATANODE__RPC_ADDR"]))
    try:
        with Writers(cluster) as writers:
            writers.wait_progress(5)
            with writers.trouble():
                first.pause()
                wait_for(lambda: not is_alive(cluster, number))
                second.start()
                cluster.datanodes[number] = second
                writers.wait_progress(3)
            writers.wait_answers(2)
            first.resume()
            # It is asked by one who has not heard of that.
            assert not reads(direct, region)
            wait_for(lambda: "the log was taken over" in first.running.output)
            wait_for(lambda: "belongs to a datanode that is alive" in first.running.output)
            assert open_regions(first) == []
            assert not reads(direct, region)
            writers.wait_progress(3)
            writers.wait_answers(3)
            if not has_failover:
                assert cluster.place_of("cpu")[region] == number
                # Once the second one is lost, the id is free again.
                with writers.trouble():
                    second.kill()
                    cluster.datanodes[number] = first
                    writers.wait_progress(3)
                assert reads(direct, region)
        check_all(cluster, writers, etcd, bucket)
    finally:
        direct.close()
        second.end()
