"""Two metadata servers that both take themselves for the leader: the first one stands still in the middle of a change
until another leads and has gone on, then it wakes up. The change is done or undone, and every region has one owner.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from tests.cluster.owners import METADATA_PREFIX, check_all
from tests.cluster.places import FAILOVER, QUICK_LOG
from tests.cluster.running import Cluster, Node, Shape, running_cluster, wait_for
from tests.cluster.test_leader_killed import IS_GONE, IS_THERE, leader, let_lead, try_statement, wait_tidy
from tests.cluster.writers import TABLE, Writers
from tests.kv.etcd_process import EtcdProcess, connect
from tests.store.services import S3Server
from tsdb.meta._moves import CRASH_POINTS as MOVE_POINTS
from tsdb.store import ObjectStore

pytestmark = [
    pytest.mark.timeout(900),
    pytest.mark.skipif(os.environ.get("TSDB_CLUSTER") != "all", reason="run by `make failures`"),
]

OTHER = TABLE.replace(" cpu ", " other ")
HAS_COLUMN = "SELECT count(*) = 1 FROM information_schema.columns WHERE table_name = 'other' AND column_name = 'w'"
CHANGES = {
    "create": ((), OTHER, IS_THERE.format("other"), "catalog.create.after_region:2"),
    "alter": ((OTHER,), "ALTER TABLE other ADD COLUMN w DOUBLE", HAS_COLUMN, "catalog.alter.after_region:2"),
    "drop": ((OTHER,), "DROP TABLE other", IS_GONE.format("other"), "catalog.drop.after_tombstones"),
}


@pytest.fixture
def root(s3: S3Server) -> str:
    return s3.new_root()


@pytest.fixture
def bucket(s3: S3Server, root: str) -> ObjectStore:
    return s3.store(root)


@pytest.fixture
def cluster(tmp_path: Path, etcd: EtcdProcess, s3: S3Server, root: str) -> Iterator[Cluster]:
    shape = Shape(
        metasrvs=2,
        metasrv_environment=FAILOVER,
        datanode_environment=QUICK_LOG,
        frontend_environment={"TSDB_FRONTEND__META_CLIENT__DDL_TIMEOUT": "40s"},
    )
    with running_cluster(tmp_path, shape, etcd=etcd, s3=s3, root=root) as cluster:
        cluster.sql(TABLE)
        yield cluster


def is_stopped(node: Node) -> bool:
    state = Path(f"/proc/{node.running.process.pid}/stat").read_text().rpartition(") ")[2][0]
    return state in "Tt"


def stop_in(cluster: Cluster, statement: str, point: str) -> Node:
    """Run a statement whose leader stops at a place; return it when another one leads."""
    stopped = let_lead(cluster, point, "TSDB_STOP_POINT")
    is_over = threading.Event()

    def run() -> None:
        # A leader that has just begun refuses to move regions to datanodes that it has not heard of.
        while not is_over.is_set() and not is_stopped(stopped):
            try_statement(cluster, statement)

    running = threading.Thread(target=run, daemon=True)
    running.start()
    try:
        wait_for(lambda: is_stopped(stopped))
        wait_for(lambda: other_leads(cluster, stopped))
    finally:
        is_over.set()
    running.join(150)
    return stopped


def other_leads(cluster: Cluster, stopped: Node) -> bool:
    (other,) = [node for node in cluster.metasrvs if node is not stopped]
    with suppress(httpx.HTTPError):
        found = httpx.get(f"{other.url}/admin/leader", timeout=10).text
        return other.environment["TSDB_METASRV__SERVER_ADDR"] in found
    return False


def wake(cluster: Cluster, stopped: Node) -> None:
    """Let the old leader go on with what it was doing, until it knows that it does not lead."""
    stopped.resume()
    wait_for(lambda: leader(cluster) not in (None, stopped))
    wait_for(lambda: httpx.get(f"{stopped.url}/health", timeout=10).status_code == 200)


@pytest.mark.parametrize("point", MOVE_POINTS)
def test_a_region_whose_move_has_two_leaders_has_one_owner(
    cluster: Cluster, etcd: EtcdProcess, bucket: ObjectStore, point: str
) -> None:
    with Writers(cluster) as writers:
        writers.wait_progress(3)
        region, node = next(iter(cluster.place_of("cpu").items()))
        target = next(each for each in cluster.datanodes if each != node)
        with writers.trouble():
            stopped = stop_in(cluster, f"ADMIN migrate_region({region}, {node}, {target}, 60)", point)
            writers.wait_progress(3)
            wake(cluster, stopped)
            writers.wait_progress(3)
    store = connect(etcd.url, prefix=METADATA_PREFIX)
    wait_tidy(cluster, store)
    store.close()
    assert cluster.place_of("cpu")[region] in (node, target)
    check_all(cluster, writers, etcd, bucket)


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_that_has_two_leaders_is_done_or_undone(
    cluster: Cluster, etcd: EtcdProcess, bucket: ObjectStore, change: str
) -> None:
    before, statement, query, point = CHANGES[change]
    with Writers(cluster) as writers:
        for each in before:
            cluster.sql(each)
        writers.wait_progress(3)
        stopped = stop_in(cluster, statement, point)
        writers.wait_progress(3)
        wake(cluster, stopped)
        writers.wait_progress(3)
        store = connect(etcd.url, prefix=METADATA_PREFIX)
        wait_tidy(cluster, store)
        store.close()
        # What was undone can be done.
        if cluster.sql(query) != [[True]]:
            cluster.sql(statement)
        assert cluster.sql(query) == [[True]]
        if change != "drop":
            assert cluster.sql("INSERT INTO other (host, ts, v) VALUES ('h0', 1, 1), ('h1', 1, 1), ('h2', 1, 1)") == 3
            assert cluster.sql("SELECT count(*) FROM other") == [[3]]
    check_all(cluster, writers, etcd, bucket)
