"""The disk of the local log runs full: writes to its datanode are refused with the reason, and go on by themselves."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.cluster.owners import check_all
from tests.cluster.places import QUICK_LOG
from tests.cluster.running import Cluster, Shape, running_cluster
from tests.cluster.writers import TABLE, Writers
from tests.kv.etcd_process import EtcdProcess
from tests.store.services import S3Server

pytestmark = [
    pytest.mark.timeout(900),
    pytest.mark.skipif(os.environ.get("TSDB_CLUSTER") != "all", reason="run by `make failures`"),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a disk"),
]

LOCAL = {
    **QUICK_LOG,
    "TSDB_DATANODE__WAL__SHARED__ACKNOWLEDGE": "local",
    "TSDB_DATANODE__WAL__FILE_SIZE": "4MB",
}
DISK_MIB = 24


@contextmanager
def small_disk(directory: Path) -> Iterator[None]:
    """Let a directory be on a disk of its own, with what is in it."""
    kept = directory.with_name("kept")
    shutil.copytree(directory, kept)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_MIB}m", "tmpfs", str(directory)], check=True)
    try:
        shutil.copytree(kept, directory, dirs_exist_ok=True)
        yield
    finally:
        # Even if a process of a test that has failed is still there.
        subprocess.run(["umount", "--lazy", str(directory)], check=True)


def fill(disk: Path) -> Path:
    """Leave no space on a disk; return the file that takes it."""
    path = disk / "full"
    with path.open("wb", buffering=0) as sink:
        block = bytes(64 << 10)
        try:
            while True:
                block = block[: sink.write(block) or 1]
        except OSError:
            return path


def test_rows_are_refused_while_the_disk_of_the_log_is_full_and_taken_when_there_is_space(
    tmp_path: Path, etcd: EtcdProcess, s3: S3Server
) -> None:
    root = s3.new_root()
    shape = Shape(datanodes=2, datanode_environment=LOCAL)
    with running_cluster(tmp_path, shape, etcd=etcd, s3=s3, root=root) as cluster:
        cluster.sql(TABLE)
        places = cluster.place_of("cpu")
        number = places[max(places)]
        node = cluster.datanodes[number]
        assert node.stop() == 0
        disk = node.directory / "wal"
        with small_disk(disk):
            node.start()
            with Writers(cluster, timeout_seconds=60) as writers:
                writers.wait_progress(3)
                for _ in range(2):
                    check_while_full(cluster, writers, disk)
                    writers.wait_progress(3)
                # Killed while the disk is full, it has every row when it is back.
                ballast = fill(disk)
                writers.wait_failure({"h2"})
                with writers.trouble():
                    node.kill()
                    ballast.unlink()
                    node.start()
                    writers.wait_progress(3)
            check_all(cluster, writers, etcd, s3.store(root))
            node.kill()


def check_while_full(cluster: Cluster, writers: Writers, disk: Path) -> None:
    ballast = fill(disk)
    writers.wait_failure({"h2", "h3"})
    answer = httpx.post(f"{cluster.url}/v1/sql", data={"sql": "INSERT INTO cpu VALUES ('h2', -1, 1)"}, timeout=60)
    assert answer.status_code != 200, answer.text
    assert "there is no space for the log" in answer.text, answer.text
    assert cluster.sql("SELECT count(*) > 0 FROM cpu WHERE host = 'h2' AND ts > 0") == [[True]]
    ballast.unlink()
