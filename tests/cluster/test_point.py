"""A cluster of real processes is restored to a point in time: a region moved and a datanode was killed before it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tsdb
from tests.cluster.places import FAILOVER, QUICK_LOG, BackupPlace
from tests.cluster.running import Cluster, Shape, running_cluster
from tests.cluster.writers import TABLE, Writers
from tests.kv.etcd_process import EtcdProcess
from tests.store.services import S3Server
from tsdb.backup import format_time

pytestmark = [
    pytest.mark.timeout(900),
    pytest.mark.skipif(os.environ.get("TSDB_CLUSTER") != "all", reason="run by `make failures`"),
]

KEPT = {**QUICK_LOG, "TSDB_DATANODE__WAL__SHARED__RETENTION": "1d"}
ROWS = "SELECT host, CAST(ts AS BIGINT) AS at, v FROM cpu ORDER BY host, ts"


@pytest.fixture
def place(s3: S3Server, tmp_path: Path) -> BackupPlace:
    return BackupPlace(s3, tmp_path)


@pytest.fixture
def busy(tmp_path: Path, etcd: EtcdProcess, place: BackupPlace) -> Iterator[Cluster]:
    shape = Shape(metasrvs=2, datanodes=3, frontends=2, metasrv_environment=FAILOVER, datanode_environment=KEPT)
    with running_cluster(tmp_path, shape, etcd=etcd, s3=place.s3, root=place.root) as cluster:
        cluster.sql(TABLE)
        cluster.sql("CREATE TABLE other (ts TIMESTAMP TIME INDEX, v DOUBLE); INSERT INTO other VALUES (1, 1), (2, 2)")
        yield cluster


def _check(rows: list[list[Any]], acknowledged: dict[str, int], begun: dict[str, int]) -> None:
    """Of each host there is every row that was acknowledged before the time, and none that was begun later."""
    for host, last in acknowledged.items():
        found = [row for row in rows if row[0] == host]
        assert found == [[host, number, float(number)] for number in range(1, len(found) + 1)], host
        assert last <= len(found) <= begun[host], (host, last, len(found), begun[host])
    assert {row[0] for row in rows} <= set(acknowledged)


def test_a_cluster_is_restored_to_a_time_after_a_move_and_the_loss_of_a_datanode(
    busy: Cluster, place: BackupPlace, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with Writers(busy) as writers:
        writers.wait_progress(5)
        busy.sql("ADMIN backup('nightly', 'first')", timeout=300)
        writers.wait_progress(3)
        region, node = next(iter(busy.place_of("cpu").items()))
        target = next(each for each in busy.datanodes if each != node)
        with writers.trouble():
            busy.sql(f"ADMIN migrate_region({region}, {node}, {target}, 60)", frontend=1)
        writers.wait_progress(3)
        busy.sql("ALTER TABLE other ADD COLUMN w DOUBLE; INSERT INTO other VALUES (3, 3, 3)")
        with writers.trouble():
            busy.datanodes[target].kill()
            # Every region is served again, and rows went to the logs of its next node.
            writers.wait_progress(5)
        before = dict(writers.acknowledged)
        to_time = format_time(time.time_ns())
        # The next row may be under way; the one behind it is begun later.
        begun = {host: last + 1 for host, last in writers.acknowledged.items()}
        writers.wait_progress(3)
    rows = busy.sql(f"ADMIN restore_table('nightly', 'latest', 'public.cpu', 'cpu_then', '{to_time}')", timeout=300)
    then = busy.sql(ROWS.replace("FROM cpu", "FROM cpu_then"), frontend=1)
    assert rows == [[len(then)]]
    _check(then, before, begun)
    assert len(busy.place_of("cpu_then")) == 3
    busy.sql("DROP TABLE other; TRUNCATE TABLE cpu; CREATE DATABASE later")
    listed = place.run("backup", "list", "--from", "default:nightly", "-c", str(place.configuration()), "--datanode")
    [line] = [line for line in listed.splitlines() if line.startswith("first")]
    # The last two words are when it can be rolled forward to.
    assert " ".join(line.split()[-2:]) >= to_time[:19].replace("T", " "), listed
    # Both ways lead to the same rows.
    assert _restore_server(place, to_time) == then
    _restore_cluster(place, to_time, before, begun, tmp_path_factory)


def _restore_server(place: BackupPlace, to_time: str) -> list[list[Any]]:
    home = place.directory / "server"
    file = place.restoring("server", f'data_home = "{home}"')
    place.run("restore", "--from", "old:backup/nightly", "--to-time", to_time, "-c", str(file), "-q")
    with tsdb.connect(home) as db:
        assert db.sql("SELECT v, w FROM other ORDER BY ts").fetchall() == [(1.0, None), (2.0, None), (3.0, 3.0)]
        assert ("later",) not in db.sql("SHOW DATABASES").fetchall()
        return [list(row) for row in db.sql(ROWS).fetchall()]


def _restore_cluster(
    place: BackupPlace,
    to_time: str,
    before: dict[str, int],
    begun: dict[str, int],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    other = EtcdProcess(tmp_path_factory.mktemp("etcd-of-the-other"))
    other.start()
    try:
        other.wait_ready()
        root = place.s3.new_root()
        command = ["restore", "--from", "old:backup/nightly", "--to-time", to_time]
        command += ["-c", str(place.restoring("cluster", place.storage(root))), "-q"]
        place.run(*command, "--store-addrs", f"127.0.0.1:{other.client_port}", "--datanodes", "1,2,3")
        shape = Shape(metasrv_environment=FAILOVER, datanode_environment=KEPT)
        with running_cluster(tmp_path_factory.mktemp("other"), shape, etcd=other, s3=place.s3, root=root) as restored:
            restored.wait_until("SELECT count(*) FROM other", [[3]])
            _check(restored.sql(ROWS), before, begun)
            # It goes on from there.
            restored.sql("INSERT INTO cpu VALUES ('new', 1, 1)")
            restored.sql("ALTER TABLE cpu ADD COLUMN w DOUBLE")
            assert restored.sql("SELECT host FROM cpu WHERE host = 'new'") == [["new"]]
    finally:
        other.kill()
