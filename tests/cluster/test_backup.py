"""Backups of a cluster of real processes, made while clients write and nodes fail; restored into others."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import tsdb
from tests.cluster.places import FAILOVER, QUICK_LOG, BackupPlace
from tests.cluster.running import WAIT_SECONDS_MAX, Cluster, Shape, running_cluster
from tests.cluster.writers import TABLE, Writers
from tests.kv.etcd_process import EtcdProcess
from tests.store.services import BUCKET, S3Server

pytestmark = pytest.mark.timeout(900)
slow = pytest.mark.skipif(os.environ.get("TSDB_CLUSTER") != "all", reason="run by `make failures`")

ROWS = "SELECT host, ts, v FROM cpu ORDER BY host, ts"


def test_a_directory_that_datanodes_do_not_share_is_refused(cluster: Cluster) -> None:
    """Each datanode of this cluster has files of its own; nothing is left behind, and no backup is listed."""
    # Its regions are on different datanodes: not only the one that makes the backup has files.
    cluster.sql(
        "CREATE TABLE backed_up (host STRING, ts TIMESTAMP TIME INDEX, v DOUBLE, PRIMARY KEY (host)) "
        "PARTITION ON COLUMNS (host) (host < 'h', host >= 'h')"
    )
    cluster.sql("INSERT INTO backed_up VALUES ('a', 1, 1)")
    try:
        error = _refused(cluster, "ADMIN backup('nightly')")
        assert "does not see the destination of the backup" in error
        assert "mounted on all datanodes" in error
        assert "writes no backups to /etc/nightly" in _refused(cluster, "ADMIN backup('/etc/nightly')")
        assert "no backup with the id" in _refused(cluster, "ADMIN backup_state('nonsense')")
        # Tables can be changed again at once.
        cluster.sql("ALTER TABLE backed_up ADD COLUMN w DOUBLE", frontend=1)
    finally:
        cluster.sql("DROP TABLE backed_up")


def _refused(cluster: Cluster, statement: str) -> str:
    response = httpx.post(f"{cluster.url}/v1/sql", data={"sql": statement}, timeout=WAIT_SECONDS_MAX)
    assert response.status_code != 200, response.text
    return str(response.json()["error"])


@pytest.fixture
def place(s3: S3Server, tmp_path: Path) -> BackupPlace:
    return BackupPlace(s3, tmp_path)


@pytest.fixture
def busy(tmp_path: Path, etcd: EtcdProcess, place: BackupPlace) -> Iterator[Cluster]:
    shape = Shape(metasrvs=2, datanodes=3, frontends=2, metasrv_environment=FAILOVER, datanode_environment=QUICK_LOG)
    with running_cluster(tmp_path, shape, etcd=etcd, s3=place.s3, root=place.root) as cluster:
        cluster.sql(TABLE)
        cluster.sql("CREATE TABLE other (ts TIMESTAMP TIME INDEX, v DOUBLE); INSERT INTO other VALUES (1, 1), (2, 2)")
        yield cluster


def _wait_backup(cluster: Cluster, job: str, frontend: int) -> dict[str, Any]:
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        ((answer,),) = cluster.sql(f"ADMIN backup_state('{job}')", frontend=frontend)
        state: dict[str, Any] = json.loads(answer)
        if state["state"] != "running":
            return state
        time.sleep(0.2)
    raise AssertionError("the backup does not end")


def _check(rows: list[Any], acknowledged: dict[str, int]) -> None:
    """Each row that was acknowledged before is there once, and of each host all up to a point."""
    for host, last in acknowledged.items():
        times = [row[1] for row in rows if row[0] == host]
        assert times == list(range(1, len(times) + 1)), host
        assert len(times) >= last, (host, last, len(times))


def _rows_of_server(home: Path) -> list[Any]:
    with tsdb.connect(home) as db:
        assert db.sql("SELECT count(*) FROM other").fetchall() == [(2,)]
        found = db.sql("SELECT host, CAST(ts AS BIGINT) AS at, v FROM cpu ORDER BY host, ts").fetchall()
        return [list(row) for row in found]


@slow
def test_a_backup_goes_on_while_a_region_moves_and_a_datanode_is_lost(busy: Cluster, place: BackupPlace) -> None:
    with Writers(busy) as writers:
        writers.wait_progress(5)
        region, node = next(iter(busy.place_of("cpu").items()))
        target = next(each for each in busy.datanodes if each != node)
        before = dict(writers.acknowledged)
        ((job,),) = busy.sql("ADMIN start_backup('nightly', 'moved')")
        with writers.trouble():
            busy.sql(f"ADMIN migrate_region({region}, {node}, {target}, 60)", frontend=1)
        state = _wait_backup(busy, job, frontend=1)
        assert state["state"] == "done", state
        # Now a datanode is lost that has regions, but does not make the backup; its regions are asked for elsewhere.
        maker = int(job.partition("-")[0])
        lost = next(each for each in busy.place_of("cpu").values() if each != maker)
        again = dict(writers.acknowledged)
        ((job,),) = busy.sql("ADMIN start_backup('nightly', 'lost')")
        with writers.trouble():
            busy.datanodes[lost].kill()
            state = _wait_backup(busy, job, frontend=1)
            assert state["state"] == "done", state
            writers.wait_progress(3)
    from_ = f"s3://{BUCKET}/{place.root}/backup/nightly"
    configuration = ["-c", str(place.configuration()), "--datanode"]
    listed = place.run("backup", "list", "--from", from_, *configuration)
    assert "moved" in listed
    assert "lost" in listed
    assert "ok: 2 backups" in place.run("backup", "verify", "--from", "default:nightly", *configuration, "-q")
    for name, acknowledged in (("moved", before), ("lost", again)):
        home = place.directory / f"server-{name}"
        # A server has its files in its own directory: the configuration of the cluster only names the bucket.
        file = place.directory / f"{name}.toml"
        provider = place.configuration("unused").read_text().partition("[[storage.providers]]")[2]
        file.write_text(f'[storage]\ndata_home = "{home}"\n[[storage.providers]]{provider}')
        place.run("restore", "--from", "old:nightly", "--backup", name, "-c", str(file), "-q")
        _check(_rows_of_server(home), acknowledged)


@slow
def test_a_backup_of_a_cluster_is_restored_into_another_cluster(
    busy: Cluster, place: BackupPlace, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with Writers(busy) as writers:
        writers.wait_progress(5)
        before = dict(writers.acknowledged)
        output = place.run("backup", "--to", "nightly", "--name", "first", "--url", busy.url, "-q")
        assert output.strip().endswith("backup/nightly: first")
    busy.sql("CREATE VIEW v AS SELECT count(*) AS n FROM other")
    expected = busy.sql(ROWS)
    _check(expected, before)
    assert '"done"' in busy.sql("ADMIN backup('default:nightly', 'second')")[0][0]
    other = EtcdProcess(tmp_path_factory.mktemp("etcd-of-the-other"))
    other.start()
    try:
        other.wait_ready()
        root = place.s3.new_root()
        addresses = f"127.0.0.1:{other.client_port}"
        command = ["restore", "--from", "old:nightly", "-c", str(place.configuration(root)), "-q"]
        output = place.run(*command, "--store-addrs", addresses, "--datanodes", "1,2,3")
        assert output == "the cluster: second\n"
        shape = Shape(metasrv_environment=FAILOVER, datanode_environment=QUICK_LOG)
        with running_cluster(tmp_path_factory.mktemp("other"), shape, etcd=other, s3=place.s3, root=root) as restored:
            restored.wait_until("SELECT n FROM v", [[2]])
            assert restored.sql(ROWS) == expected
            assert set(restored.place_of("cpu").values()) == {1, 2, 3}
            # It goes on from there.
            restored.sql("INSERT INTO cpu VALUES ('h0', 1, 2), ('new', 1, 1)")
            restored.sql("CREATE TABLE another (ts TIMESTAMP TIME INDEX, v DOUBLE)")
            restored.sql("ALTER TABLE cpu ADD COLUMN w DOUBLE")
            assert len(restored.sql(ROWS)) == len(expected) + 1
            region, node = next(iter(restored.place_of("cpu").items()))
            restored.sql(f"ADMIN migrate_region({region}, {node}, {node % 3 + 1}, 60)")
            assert len(restored.sql(ROWS)) == len(expected) + 1
    finally:
        other.kill()
