"""Objects of the shared log that are damaged, or deleted by somebody else: only the regions that lost rows are not
served, with the reason, until an operator gives the object up. Clients go on writing meanwhile.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.owners import check_all
from tests.cluster.places import FAILOVER, QUICK_LOG
from tests.cluster.running import Cluster, Shape, running_cluster, wait_for
from tests.cluster.writers import TABLE, Writers
from tests.kv.etcd_process import EtcdProcess
from tests.store.services import S3Server
from tsdb.store import ObjectStore

pytestmark = [
    pytest.mark.timeout(900),
    pytest.mark.skipif(os.environ.get("TSDB_CLUSTER") != "all", reason="run by `make failures`"),
]

SINGLE = "CREATE TABLE {} (host STRING PRIMARY KEY, ts TIMESTAMP TIME INDEX, v DOUBLE)"
ERRORS = "SELECT last_error FROM information_schema.region_failovers WHERE region_id = {} AND state = 'Failed'"
LOST_ROW = 3


@pytest.fixture
def root(s3: S3Server) -> str:
    return s3.new_root()


@pytest.fixture
def bucket(s3: S3Server, root: str) -> ObjectStore:
    return s3.store(root)


@pytest.fixture(params=[FAILOVER])
def cluster(
    request: pytest.FixtureRequest, tmp_path: Path, etcd: EtcdProcess, s3: S3Server, root: str
) -> Iterator[Cluster]:
    shape = Shape(metasrvs=2, metasrv_environment=request.param, datanode_environment=QUICK_LOG)
    with running_cluster(tmp_path, shape, etcd=etcd, s3=s3, root=root) as cluster:
        cluster.sql(TABLE)
        for name in ("damaged", "sound"):
            cluster.sql(SINGLE.format(name))
        yield cluster


@dataclass(frozen=True)
class Scene:
    """Two tables on one datanode, which has no others."""

    node: int
    region: int
    """That of the table which loses a row."""
    path: str
    """The object with that row, in the middle of the log."""


def move(cluster: Cluster, region: int, source: int, target: int) -> None:
    state = try_move(cluster, region, source, target)
    assert state == {"status": "Done", "error": None}


def try_move(cluster: Cluster, region: int, source: int, target: int) -> dict[str, Any]:
    """Move a region; return how that ended."""
    ((procedure,),) = cluster.sql(f"ADMIN migrate_region({region}, {source}, {target}, 60)")
    ((state,),) = cluster.sql(f"ADMIN procedure_state('{procedure}')")
    found: dict[str, Any] = json.loads(state)
    return found


def prepare(cluster: Cluster, bucket: ObjectStore) -> Scene:
    ((region, node),) = cluster.place_of("damaged").items()
    ((other, place),) = cluster.place_of("sound").items()
    if place != node:
        move(cluster, other, place, node)
    for each, place in cluster.place_of("cpu").items():
        if place == node:
            move(cluster, each, node, node % 3 + 1)
    path = ""
    for at in range(1, 6):
        before = objects(bucket, node)
        assert cluster.sql(f"INSERT INTO damaged VALUES ('a', {at}, {at})") == 1
        if at == LOST_ROW:
            (path,) = objects(bucket, node) - before
    assert cluster.sql("INSERT INTO sound VALUES ('a', 1, 1)") == 1
    return Scene(node, region, path)


def objects(bucket: ObjectStore, node: int) -> set[str]:
    return {each.path for each in bucket.list(f"wal/{node}") if each.path.endswith(".log")}


def sealed_terms(bucket: ObjectStore, node: int) -> set[str]:
    return {each.path for each in bucket.list(f"wal/{node}") if "/sealed/" in each.path}


def last_error(cluster: Cluster, region: int) -> str:
    """Why the failover of a region was given up; waits until it is."""
    wait_for(lambda: bool(cluster.sql(ERRORS.format(region))))
    return str(cluster.sql(ERRORS.format(region))[-1][0])


def check_given_up(cluster: Cluster, scene: Scene) -> None:
    """All rows but the lost one are there; what was given up is told; new rows are taken."""
    expected = [[at] for at in range(1, 6) if at != LOST_ROW]
    cluster.wait_until("SELECT CAST(ts AS BIGINT) FROM damaged ORDER BY ts", expected)
    assert cluster.sql("SELECT count(*) FROM sound") == [[1]]
    told = cluster.sql("SELECT file_path, reason, node_id FROM information_schema.wal_segments WHERE state = 'skipped'")
    assert [(path.endswith(scene.path), node) for path, _, node in told] == [(True, scene.node)]
    assert "its entries are lost" in told[0][1]
    cluster.sql(f"INSERT INTO damaged VALUES ('a', {LOST_ROW}, 7)")
    assert cluster.sql("SELECT count(*), sum(v) FROM damaged") == [[5, 1 + 2 + 7 + 4 + 5]]


@pytest.mark.parametrize("is_deleted", [False, True], ids=["an empty object", "an object that a rule has deleted"])
def test_others_are_taken_over_from_a_log_that_is_damaged_and_the_operator_decides(
    cluster: Cluster, etcd: EtcdProcess, bucket: ObjectStore, is_deleted: bool
) -> None:
    with Writers(cluster) as writers:
        with writers.trouble():
            scene = prepare(cluster, bucket)
            writers.wait_progress(1)
        cluster.datanodes[scene.node].kill()
        bucket.delete(scene.path)
        if not is_deleted:
            bucket.put(scene.path, b"")
        wait_for(lambda: scene.node not in cluster.place_of("sound").values())
        assert cluster.sql("SELECT count(*) FROM sound") == [[1]]
        error = last_error(cluster, scene.region)
        assert f"entry {LOST_ROW} is lost" in error, error
        assert scene.path in error, error
        assert ("a lifecycle rule of the bucket perhaps" if is_deleted else "it has 0 bytes") in error, error
        assert "ADMIN skip_log_object" in error, error
        writers.wait_progress(3)
        ((found,),) = cluster.sql(f"ADMIN skip_log_object('{scene.path}')")
        assert found.startswith(scene.path), found
        move(cluster, scene.region, scene.node, scene.node % 3 + 1)
        check_given_up(cluster, scene)
        # The node that was lost comes back, and takes nothing for its own.
        cluster.datanodes[scene.node].start()
        writers.wait_progress(3)
    assert cluster.sql("SELECT count(*), sum(v) FROM damaged") == [[5, 1 + 2 + 7 + 4 + 5]]
    check_all(cluster, writers, etcd, bucket)


@pytest.mark.parametrize("cluster", [{}], ids=["without failover"], indirect=True)
def test_a_datanode_starts_with_a_log_that_is_damaged(cluster: Cluster, etcd: EtcdProcess, bucket: ObjectStore) -> None:
    with Writers(cluster) as writers:
        with writers.trouble():
            scene = prepare(cluster, bucket)
            writers.wait_progress(1)
        node = cluster.datanodes[scene.node]
        node.kill()
        bucket.put(scene.path, bucket.get(scene.path)[:-20])
        node.start()
        cluster.wait_until("SELECT count(*) FROM sound", [[1]])
        with pytest.raises(AssertionError, match="the region is not served") as refused:
            cluster.sql("SELECT count(*) FROM damaged")
        assert scene.path in str(refused.value)
        # Another node would have to seal the log of a node that lives, and could not read the row either.
        before = sealed_terms(bucket, scene.node)
        state = try_move(cluster, scene.region, scene.node, scene.node % 3 + 1)
        assert state["status"] == "Failed", state
        assert scene.path in state["error"], state
        assert sealed_terms(bucket, scene.node) == before
        cluster.sql(f"ADMIN skip_log_object('{scene.path}')")
        node.kill()
        node.start()
        check_given_up(cluster, scene)
        writers.wait_progress(3)
    check_all(cluster, writers, etcd, bucket)
