"""A datanode that is added to a cluster gets regions, and gives them back before it goes."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.running import Cluster, Shape, running_cluster, wait_for
from tests.cluster.test_nodes import another
from tests.store.services import S3Server

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.skipif(os.environ.get("TSDB_CLUSTER") != "all", reason="run by `make failures`"),
]


@pytest.fixture
def cluster(tmp_path: Path, s3: S3Server) -> Iterator[Cluster]:
    """Two datanodes with one bucket."""
    with running_cluster(tmp_path / "cluster", Shape(datanodes=2), s3=s3) as cluster:
        yield cluster


def test_a_further_datanode_gets_its_share_of_the_regions_and_gives_it_back(cluster: Cluster, tmp_path: Path) -> None:
    node = another(cluster, tmp_path, 8)
    for number in range(5):
        cluster.sql(
            f"CREATE TABLE share{number} (host STRING, ts TIMESTAMP TIME INDEX, v DOUBLE, PRIMARY KEY (host)) "
            "PARTITION ON COLUMNS (host) (host < 'h', host >= 'h')"
        )
        cluster.sql(f"INSERT INTO share{number} VALUES ('a', 1, 1), ('z', 2, 2)")
    counts = "SELECT count(*) FROM information_schema.region_peers WHERE status = 'ALIVE' GROUP BY peer_id"

    def is_balanced() -> bool:
        begun = cluster.sql("ADMIN balance_regions()")[0][0]
        running = "SELECT count(*) FROM information_schema.procedure_info WHERE status IN ('Waiting', 'Running')"
        wait_for(lambda: cluster.sql(running) == [[0]])
        return bool(begun == 0)

    try:
        node.start()
        wait_for(is_balanced)
        found = [int(count) for (count,) in cluster.sql(counts)]
        assert len(found) == len(cluster.datanodes) + 1
        assert max(found) - min(found) <= 1
        for number in range(5):
            assert cluster.sql(f"SELECT count(*), sum(v) FROM share{number}") == [[2, 3.0]]
        here = cluster.sql("SELECT region_id FROM information_schema.region_peers WHERE peer_id = 8")
        for (region,) in here:
            ended = cluster.sql(f"ADMIN migrate_region({region}, 8, 1, 120)")[0][0]
            assert json.loads(cluster.sql(f"ADMIN procedure_state('{ended}')")[0][0])["status"] == "Done"
        for number in range(5):
            assert cluster.sql(f"SELECT count(*) FROM share{number}") == [[2]]
            cluster.sql(f"DROP TABLE share{number}")
        requests = "SELECT DISTINCT node_id, state FROM information_schema.storage_requests ORDER BY node_id"
        assert cluster.sql(requests) == [[number, "ok"] for number in (1, 2, 8)]
        assert node.stop() == 0
        # One that is down hides no other.
        wait_for(lambda: cluster.sql(requests) == [[1, "ok"], [2, "ok"]])
    finally:
        node.end()
