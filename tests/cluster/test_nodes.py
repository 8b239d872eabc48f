"""What a datanode says of itself, and what happens when two say the same."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import httpx
import pytest

from tests.cluster.running import WAIT_SECONDS_MAX, Cluster, Node, wait_for
from tests.kv.etcd_process import free_port

pytestmark = pytest.mark.timeout(600)


def another(cluster: Cluster, directory: Path, node_id: int, **variables: str) -> Node:
    """A further datanode of the cluster, not started yet."""
    like = cluster.datanodes[1]
    changes = {"NODE_ID": str(node_id), "RPC_ADDR": f"127.0.0.1:{free_port()}", **variables}
    environment = {**like.environment, **{f"TSDB_DATANODE__{name}": value for name, value in changes.items()}}
    return Node("datanode", f"datanode-{node_id}-more", directory, environment)


def test_a_second_datanode_with_the_id_of_a_live_one_does_not_start(cluster: Cluster, tmp_path: Path) -> None:
    node = another(cluster, tmp_path, 1)
    node.start(wait=False)
    try:
        assert node.running.process.wait(timeout=60) != 0
        assert "the node id 1 belongs to a datanode that is alive" in node.running.output
    finally:
        node.end()


def test_a_datanode_listens_where_its_configuration_says(cluster: Cluster) -> None:
    rows = cluster.sql("SELECT peer_id, peer_addr FROM information_schema.cluster_info WHERE peer_id IN (1, 2, 3)")
    assert dict(rows) == {
        number: node.environment["TSDB_DATANODE__RPC_ADDR"] for number, node in cluster.datanodes.items()
    }
    for address in dict(rows).values():
        host, _, port = address.rpartition(":")
        socket.create_connection((host, int(port)), timeout=30).close()


def test_others_reach_a_datanode_by_its_host_name(cluster: Cluster, tmp_path: Path) -> None:
    node = another(cluster, tmp_path, 7, RPC_HOSTNAME="localhost", RPC_RUNTIME_SIZE="2")
    try:
        node.start()
        rows = cluster.sql("SELECT peer_addr FROM information_schema.cluster_info WHERE peer_id = 7")
        assert rows[0][0].startswith("localhost:")
        assert node.stop() == 0
        down = "SELECT count(*) FROM information_schema.cluster_info WHERE peer_id = 7 AND node_status LIKE '%false%'"
        wait_for(lambda: cluster.sql(down) == [[1]])
    finally:
        node.end()


def test_regions_with_files_on_the_disk_of_their_datanode_are_not_moved(cluster: Cluster) -> None:
    cluster.sql("CREATE TABLE stays (ts TIMESTAMP TIME INDEX, v DOUBLE)")
    cluster.sql("INSERT INTO stays VALUES (1, 1)")
    ((region, node),) = cluster.place_of("stays").items()
    target = next(number for number in cluster.datanodes if number != node)
    statement = f"ADMIN migrate_region({region}, {node}, {target})"
    refused = httpx.post(f"{cluster.url}/v1/sql", data={"sql": statement}, timeout=WAIT_SECONDS_MAX).json()
    assert refused["code"] == 1001
    assert f"datanode {node} has its data files on its own disk" in refused["error"]
    assert cluster.sql("SELECT v FROM stays") == [[1.0]]
    assert cluster.place_of("stays") == {region: node}
    cluster.sql("DROP TABLE stays")


def test_datanodes_tell_with_their_heartbeats_how_far_their_logs_are_behind(cluster: Cluster) -> None:
    def told() -> list[dict[str, float]]:
        rows = cluster.sql("SELECT node_status FROM information_schema.cluster_info WHERE peer_id IN (1, 2, 3)")
        return [json.loads(status) for (status,) in rows]

    # These have no shared log: nothing waits to be shipped.
    behind = {"log_lag_seconds": 0.0, "log_unshipped_bytes": 0}
    wait_for(lambda: [behind.items() <= each.items() for each in told()] == [True, True, True])


def test_segments_files_and_regions_are_shown_with_the_node_they_are_on(cluster: Cluster) -> None:
    cluster.sql(
        "CREATE TABLE placed (host STRING, ts TIMESTAMP TIME INDEX, v DOUBLE, PRIMARY KEY (host)) "
        "PARTITION ON COLUMNS (host) (host < 'h', host >= 'h' AND host < 'q', host >= 'q')"
    )
    cluster.sql("INSERT INTO placed VALUES ('a', 1, 1), ('k', 2, 2), ('z', 3, 3)")
    cluster.sql("ADMIN flush_table('placed')")
    places = cluster.place_of("placed")
    for table in ("region_info", "ssts_manifest"):
        regions = ", ".join(map(str, places))
        found = cluster.sql(
            f"SELECT DISTINCT region_id, node_id FROM information_schema.{table} WHERE region_id IN ({regions})"
        )
        assert {int(region): int(node) for region, node in found} == places, table
    segments = cluster.sql("SELECT DISTINCT node_id FROM information_schema.wal_segments ORDER BY node_id")
    assert segments == [[number] for number in cluster.datanodes]
    cluster.sql("DROP TABLE placed")
