"""What a cluster survives when disks are lost, or the object store is cut off, slow, or loses its replies.

Clients write all the time. Afterwards every acknowledged row is there once, and every region has one owner.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.cluster.owners import check_all
from tests.cluster.places import FAILOVER, QUICK_LOG
from tests.cluster.running import Cluster, Shape, running_cluster, wait_for
from tests.cluster.writers import TABLE, Writers
from tests.kv.etcd_process import EtcdProcess
from tests.store.faulty_s3 import FaultyS3, faulty_s3
from tests.store.services import S3Server
from tsdb.store import ObjectStore

pytestmark = [
    pytest.mark.timeout(900),
    pytest.mark.skipif(os.environ.get("TSDB_CLUSTER") != "all", reason="run by `make failures`"),
]

LOCAL = {**QUICK_LOG, "TSDB_DATANODE__WAL__SHARED__ACKNOWLEDGE": "local", "TSDB_DATANODE__MEMORY__LIMIT": "256MB"}
FLUSHES_MAX = 40
SHORT_DEADLINE = {"TSDB_FRONTEND__HTTP__TIMEOUT": "4s"}
CLIENT_SECONDS = 30.0
"""How long clients wait: longer than the server, so that it is the server which says what happened."""
PATIENT = {"x-tsdb-timeout": "60s"}
"""For queries: only writes are to fail soon."""
FAILOVERS = "SELECT count(*) FROM information_schema.region_failovers"
RETRYABLE = (408, 503)


@pytest.fixture
def root(s3: S3Server) -> str:
    return s3.new_root()


@pytest.fixture
def bucket(s3: S3Server, root: str) -> ObjectStore:
    return s3.store(root)


def shape(datanode_environment: dict[str, str], *, has_proxies: bool = False) -> Shape:
    return Shape(
        metasrvs=2,
        metasrv_environment=FAILOVER,
        datanode_environment=datanode_environment,
        frontend_environment=SHORT_DEADLINE,
        has_proxies=has_proxies,
    )


@pytest.fixture
def cluster(tmp_path: Path, etcd: EtcdProcess, s3: S3Server, root: str) -> Iterator[Cluster]:
    """Each datanode reaches the store by a proxy of its own."""
    with running_cluster(tmp_path, shape(QUICK_LOG, has_proxies=True), etcd=etcd, s3=s3, root=root) as cluster:
        cluster.sql(TABLE)
        yield cluster


@pytest.fixture
def writers(cluster: Cluster) -> Writers:
    return Writers(cluster, timeout_seconds=CLIENT_SECONDS, query_headers=PATIENT)


def hosts_on(cluster: Cluster, node: int) -> set[str]:
    """The hosts whose rows are on a datanode; the regions are those of h0, of h1, and of all others."""
    places = [number for _, number in sorted(cluster.place_of("cpu").items())]
    by_host = zip(("h0", "h1", "h2", "h3"), (*places, places[-1]), strict=True)
    return {host for host, number in by_host if number == node}


def test_a_datanode_that_is_lost_with_its_disk_is_replaced_by_others(
    cluster: Cluster, writers: Writers, etcd: EtcdProcess, bucket: ObjectStore
) -> None:
    with writers:
        writers.wait_progress(5)
        lost = next(iter(cluster.place_of("cpu").values()))
        with writers.trouble():
            cluster.datanodes[lost].kill()
            cluster.datanodes[lost].lose_disk()
            writers.wait_progress(5)
        assert lost not in cluster.place_of("cpu").values()
        # A new machine with the same id begins with nothing.
        cluster.datanodes[lost].start()
        writers.wait_progress(3)
    check_all(cluster, writers, etcd, bucket)


def test_all_datanodes_that_are_lost_with_their_disks_come_back_with_every_row(
    cluster: Cluster, writers: Writers, etcd: EtcdProcess, bucket: ObjectStore
) -> None:
    with writers:
        writers.wait_progress(5)
        with writers.trouble():
            for node in cluster.datanodes.values():
                node.kill()
            for node in cluster.datanodes.values():
                node.lose_disk()
                node.start(wait=False)
            for node in cluster.datanodes.values():
                node.wait_ready()
            writers.wait_progress(3)
    check_all(cluster, writers, etcd, bucket)


def test_a_datanode_that_does_not_reach_the_store_refuses_writes_and_others_go_on(
    cluster: Cluster, writers: Writers, etcd: EtcdProcess, bucket: ObjectStore
) -> None:
    cut = cluster.place_of("cpu")[max(cluster.place_of("cpu"))]
    concerned = hosts_on(cluster, cut)
    others = set(writers.acknowledged) - concerned
    with writers:
        writers.wait_progress(3)
        cluster.to_store[cut].refuse()
        writers.wait_failure(concerned)
        # From here on none of its writes is acknowledged; a retry later is right.
        before = {host: writers.acknowledged[host] for host in concerned}
        answer = insert(cluster, "h3", 1_000_000)
        assert answer.status_code in RETRYABLE, answer.text
        assert "took longer than" in answer.text or "did not take" in answer.text, answer.text
        writers.wait_failure(concerned)
        assert {host: writers.acknowledged[host] for host in concerned} == before
        if others:
            writers.wait_progress(3, hosts=others)
        # What is in memory can be read, and nothing is moved: the node lives.
        assert cluster.sql("SELECT count(*) > 0 FROM cpu WHERE host = 'h3'") == [[True]]
        assert cluster.sql(FAILOVERS) == [[0]]
        wait_for(lambda: unshipped_bytes(cluster, cut) > 0)
        cluster.to_store[cut].heal()
        writers.wait_progress(3)
    # The row of this test may have been stored, as its answer has said.
    cluster.sql("DELETE FROM cpu WHERE host = 'h3' AND ts = 1000000")
    check_all(cluster, writers, etcd, bucket)


def test_an_outage_of_the_store_moves_nothing_and_memory_is_still_read(
    cluster: Cluster, writers: Writers, etcd: EtcdProcess, bucket: ObjectStore
) -> None:
    places = cluster.place_of("cpu")
    with writers:
        writers.wait_progress(3)
        for each in cluster.to_store.values():
            each.refuse()
        # Heartbeats go on meanwhile, far longer than a lease.
        for _ in range(4):
            writers.wait_failure()
            least = sum(writers.acknowledged.values())
            assert cluster.sql("SELECT count(*) FROM cpu")[0][0] >= least
        assert cluster.sql(FAILOVERS) == [[0]]
        assert cluster.place_of("cpu") == places
        for each in cluster.to_store.values():
            each.heal()
        writers.wait_progress(3)
    assert cluster.place_of("cpu") == places
    check_all(cluster, writers, etcd, bucket)


def test_with_a_local_log_writes_go_on_in_an_outage_of_the_store_until_their_bound(
    tmp_path: Path, etcd: EtcdProcess, s3: S3Server, root: str, bucket: ObjectStore
) -> None:
    with running_cluster(tmp_path, shape(LOCAL, has_proxies=True), etcd=etcd, s3=s3, root=root) as cluster:
        cluster.sql(TABLE)
        cluster.sql("CREATE TABLE large (host STRING PRIMARY KEY, ts TIMESTAMP TIME INDEX, v DOUBLE)")
        (node,) = cluster.place_of("large").values()
        with Writers(cluster, timeout_seconds=CLIENT_SECONDS, query_headers=PATIENT) as writers:
            writers.wait_progress(3)
            for each in cluster.to_store.values():
                each.refuse()
            failures = len(writers.failures)
            writers.wait_progress(20)
            assert len(writers.failures) == failures, writers.failures[failures:]
            # What is not shipped is bounded: then writes to this node wait, until their deadline. Memory is short, too.
            with writers.trouble():
                blocks = fill(cluster)
                assert unshipped_bytes(cluster, node) > 1 << 20
                for each in cluster.to_store.values():
                    each.heal()
                writers.wait_progress(3)
        assert cluster.sql(FAILOVERS) == [[0]]
        assert cluster.sql("SELECT count(*) FROM large")[0][0] >= blocks * BLOCK
        assert cluster.sql("SELECT count(*) - count(DISTINCT ts) FROM large") == [[0]]
        check_all(cluster, writers, etcd, bucket)


BLOCK, BLOCKS_MAX = 50_000, 400


def fill(cluster: Cluster) -> int:
    """Write blocks of rows until one is not acknowledged in time; return how many were."""
    for block in range(BLOCKS_MAX):
        rows = f"SELECT 'a', {block * BLOCK} + value, random() FROM generate_series(1, {BLOCK}) AS t (value)"
        answer = httpx.post(
            f"{cluster.url}/v1/sql", data={"sql": f"INSERT INTO large {rows}"}, timeout=2 * CLIENT_SECONDS
        )
        if answer.status_code != 200:
            assert answer.status_code in RETRYABLE, answer.text
            assert block > 0, answer.text
            return block
    raise AssertionError(f"{BLOCKS_MAX} blocks were acknowledged without the store")


def test_objects_whose_replies_are_lost_are_stored_once(
    cluster: Cluster, writers: Writers, etcd: EtcdProcess, bucket: ObjectStore
) -> None:
    with writers:
        for _ in range(3):
            for each in cluster.to_store.values():
                writers.wait_progress(2)
                each.lose_replies()
                assert each.wait_lost(60), "nothing was asked of the store"
                each.heal()
        writers.wait_progress(3)
    assert cluster.sql(FAILOVERS) == [[0]]
    check_all(cluster, writers, etcd, bucket)


def test_a_datanode_whose_replies_are_lost_when_it_dies_has_stored_each_row_once(
    cluster: Cluster, writers: Writers, etcd: EtcdProcess, bucket: ObjectStore
) -> None:
    with writers:
        writers.wait_progress(3)
        lost = next(iter(cluster.place_of("cpu").values()))
        cluster.to_store[lost].lose_replies()
        assert cluster.to_store[lost].wait_lost(60), "nothing was asked of the store"
        with writers.trouble():
            cluster.datanodes[lost].kill()
            writers.wait_progress(3)
        assert lost not in cluster.place_of("cpu").values()
    check_all(cluster, writers, etcd, bucket)


def test_the_log_is_deleted_behind_flushes_while_another_node_seals_it(
    cluster: Cluster, writers: Writers, etcd: EtcdProcess, bucket: ObjectStore
) -> None:
    is_over = threading.Event()

    def flush() -> None:
        while not is_over.is_set():
            for table in ("cpu", "other"):
                httpx.post(f"{cluster.url}/v1/sql", data={"sql": f"ADMIN flush_table('{table}')"}, timeout=60)

    cluster.sql("CREATE TABLE other (host STRING PRIMARY KEY, ts TIMESTAMP TIME INDEX, v DOUBLE)")
    flushing = threading.Thread(target=flush, daemon=True)
    flushing.start()
    try:
        with writers:
            writers.wait_progress(5)
            lost = next(iter(cluster.place_of("cpu").values()))
            # It stands in the middle of its purges, and goes on with them when its log is sealed.
            with writers.trouble():
                cluster.datanodes[lost].pause()
                wait_for(lambda: lost not in cluster.place_of("cpu").values())
                cluster.datanodes[lost].resume()
                writers.wait_progress(5)
            second = next(iter(cluster.place_of("cpu").values()))
            with writers.trouble():
                cluster.datanodes[second].kill()
                writers.wait_progress(3)
    finally:
        is_over.set()
        flushing.join(120)
    check_all(cluster, writers, etcd, bucket)
    # Purges have happened: of one node at least the first objects are gone.
    floors = [each.path for each in bucket.list("wal") if "/floor/" in each.path]
    assert floors


@pytest.fixture
def faults(s3: S3Server) -> Iterator[tuple[FaultyS3, S3Server]]:
    with faulty_s3(s3) as found:
        yield found


def test_writes_survive_a_store_that_asks_to_slow_down(
    tmp_path: Path, etcd: EtcdProcess, faults: tuple[FaultyS3, S3Server], root: str, bucket: ObjectStore
) -> None:
    service, s3 = faults
    with running_cluster(tmp_path, shape(QUICK_LOG), etcd=etcd, s3=s3, root=root) as cluster:
        cluster.sql(TABLE)
        with Writers(cluster, timeout_seconds=CLIENT_SECONDS, query_headers=PATIENT) as writers:
            writers.wait_progress(3)
            service.slow_down_share = 0.5
            writers.wait_progress(10)
            # From here on there are data files, which queries cannot read meanwhile.
            with writers.trouble():
                assert any(flush(cluster) for _ in range(FLUSHES_MAX))
                # Everything is refused for a while: the pauses grow, so it is not asked all the time.
                service.slow_down_share = 1.0
                before = service.refused
                writers.wait_failure()
                storm = service.refused - before
                service.slow_down_share = 0.0
                writers.wait_progress(5)
        assert 0 < storm < 2000, "requests are repeated with pauses"
        assert cluster.sql(FAILOVERS) == [[0]]
        check_all(cluster, writers, etcd, bucket)


def test_a_datanode_refuses_a_store_that_creates_objects_twice(
    tmp_path: Path, etcd: EtcdProcess, faults: tuple[FaultyS3, S3Server], root: str
) -> None:
    service, s3 = faults
    with running_cluster(tmp_path, Shape(datanodes=1), etcd=etcd, s3=s3, root=root) as cluster:
        node = cluster.datanodes[1]
        assert node.stop() == 0
        service.ignores_conditions = True
        node.start(wait=False)
        assert node.running.process.wait(timeout=60) != 0
        assert "needs a store that creates an object only once" in node.running.output
        service.ignores_conditions = False
        node.start()


def flush(cluster: Cluster) -> bool:
    """Try to flush: each request is repeated four times, and a flush with half of them refused often fails."""
    statement = "ADMIN flush_table('cpu')"
    answer = httpx.post(f"{cluster.url}/v1/sql", data={"sql": statement}, timeout=120)
    assert answer.status_code == 200 or answer.json()["code"] == 5000, answer.text
    return answer.status_code == 200


def insert(cluster: Cluster, host: str, at: int) -> httpx.Response:
    statement = f"INSERT INTO cpu VALUES ('{host}', {at}, 1)"
    return httpx.post(f"{cluster.url}/v1/sql", data={"sql": statement}, timeout=CLIENT_SECONDS)


def unshipped_bytes(cluster: Cluster, node: int) -> int:
    """What the last heartbeat of a datanode has told of rows that the store does not have."""
    query = f"SELECT node_status FROM information_schema.cluster_info WHERE peer_id = {node}"
    status = json.loads(cluster.sql(query)[0][0])
    return int(status.get("log_unshipped_bytes", 0))
