"""A datanode that reaches the object store and frontends, but no metadata server: it is replaced, and comes back."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cluster.owners import check_all
from tests.cluster.places import FAILOVER, QUICK_LOG
from tests.cluster.running import Cluster, Shape, metric, running_cluster
from tests.cluster.writers import TABLE, Writers
from tests.kv.etcd_process import EtcdProcess
from tests.remote.world import FakeRoutes
from tests.store.services import S3Server
from tsdb.errors import TsdbError
from tsdb.model import RegionId
from tsdb.remote import RemoteRegions
from tsdb.store import ObjectStore

pytestmark = [
    pytest.mark.timeout(900),
    pytest.mark.skipif(os.environ.get("TSDB_CLUSTER") != "all", reason="run by `make failures`"),
]

PROOFS = "tsdb_datanode_ownership_proofs_total"
SECONDS_MAX = 240.0
"""One that answers when it is called is left alone for a minute."""


@pytest.fixture
def root(s3: S3Server) -> str:
    return s3.new_root()


@pytest.fixture
def bucket(s3: S3Server, root: str) -> ObjectStore:
    return s3.store(root)


@pytest.fixture
def cluster(tmp_path: Path, etcd: EtcdProcess, s3: S3Server, root: str) -> Iterator[Cluster]:
    # On a slow machine a write waits for more than 30 s, and the table of slow queries would be created meanwhile.
    shape = Shape(
        metasrv_environment=FAILOVER,
        datanode_environment=QUICK_LOG,
        frontend_environment={"TSDB_FRONTEND__SLOW_QUERY__ENABLE": "false"},
        has_proxies=True,
    )
    with running_cluster(tmp_path, shape, etcd=etcd, s3=s3, root=root) as cluster:
        cluster.sql(TABLE)
        yield cluster


def wait_long(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while not holds():
        assert time.monotonic() < deadline, "it does not hold in time"
        time.sleep(0.5)


def reads(regions: RemoteRegions, region: int) -> bool:
    """Whether a datanode answers a query of a region."""
    reader = regions.open_reader(RegionId(region))
    try:
        reader.bounds(None)
    except TsdbError:
        return False
    finally:
        reader.release()
    return True


def test_a_datanode_that_reaches_no_metadata_server_is_replaced_and_comes_back(
    cluster: Cluster, etcd: EtcdProcess, bucket: ObjectStore
) -> None:
    region, lost = next(iter(cluster.place_of("cpu").items()))
    address = cluster.sql(f"SELECT peer_addr FROM information_schema.cluster_info WHERE peer_id = {lost}")[0][0]
    direct = RemoteRegions(FakeRoutes(address))
    with Writers(cluster) as writers:
        writers.wait_progress(5)
        for each in cluster.to_metasrv[lost]:
            each.refuse()
        # Its lease runs out. It goes on by proofs of ownership, as long as nobody has taken its regions.
        wait_long(lambda: metric(cluster.datanodes[lost], PROOFS) > 0)
        with writers.trouble():
            writers.wait_progress(3)
            wait_long(lambda: cluster.place_of("cpu")[region] != lost)
            # The first write or proof after that finds the fence: from then on it serves nothing.
            wait_long(lambda: not reads(direct, region))
            writers.wait_progress(3)
        writers.wait_answers(3)
        assert not reads(direct, region)
        for each in cluster.to_metasrv[lost]:
            each.heal()
        owner = cluster.place_of("cpu")[region]
        wait_long(lambda: is_alive(cluster, lost))
        with writers.trouble():
            wait_long(lambda: is_moved(cluster, region, owner, lost))
            writers.wait_progress(3)
    check_all(cluster, writers, etcd, bucket)
    assert reads(direct, region)
    direct.close()


def is_alive(cluster: Cluster, node: int) -> bool:
    found = cluster.sql(f"SELECT node_status FROM information_schema.cluster_info WHERE peer_id = {node}")
    return '"is_alive": true' in found[0][0]


def is_moved(cluster: Cluster, region: int, owner: int, node: int) -> bool:
    """Move a region to a node that is back: it may not have opened its engine yet."""
    if cluster.place_of("cpu")[region] != node:
        try:
            cluster.sql(f"ADMIN migrate_region({region}, {owner}, {node}, 60)")
        except AssertionError:
            return False
    return cluster.place_of("cpu")[region] == node
