"""A region that is closed by the late request of a metadata server that no longer leads is served again."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster.running import Cluster, Shape, running_cluster
from tests.remote.world import FakeRoutes
from tests.store.services import S3Server
from tsdb.model import Peer, RegionId
from tsdb.remote import RemoteRegions


@pytest.mark.timeout(600)
@pytest.mark.parametrize("flush", [True, False])
def test_a_region_that_was_closed_by_mistake_is_opened_again(tmp_path: Path, s3: S3Server, flush: bool) -> None:
    with running_cluster(tmp_path, Shape(datanodes=1), s3=s3) as cluster:
        cluster.sql("CREATE TABLE t (ts TIMESTAMP TIME INDEX, v BIGINT)")
        cluster.sql("INSERT INTO t VALUES (1, 1), (2, 2)")
        (region,) = cluster.place_of("t")
        close(cluster, RegionId(region), flush=flush)
        cluster.wait_until("SELECT count(*), sum(v) FROM t", [[2, 3]])
        assert cluster.sql("INSERT INTO t VALUES (3, 3)") == 1
        assert cluster.sql("SELECT count(*), sum(v) FROM t") == [[3, 6]]
        assert not any("Traceback" in node.running.output for node in cluster.nodes)


def close(cluster: Cluster, region: RegionId, *, flush: bool) -> None:
    """Ask a datanode to close a region, as the leader does that moves it."""
    address = cluster.datanodes[1].environment["TSDB_DATANODE__RPC_ADDR"]
    regions = RemoteRegions(FakeRoutes(address))
    try:
        regions.close_region(Peer(1, address), region, flush=flush)
        assert region not in regions.region_ids(Peer(1, address))
    finally:
        regions.close()
