"""Servers whose log is in a bucket: killed, without their disk, and two at a time."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from tests.server_process import ServerProcess, running
from tests.store.services import S3Server

SHARED = "TSDB_STANDALONE__WAL__SHARED__"
CPU = "CREATE TABLE cpu (host STRING, ts TIMESTAMP TIME INDEX, v DOUBLE, PRIMARY KEY(host))"


def ask(server: ServerProcess, text: str) -> Any:
    return httpx.post(f"{server.url}/v1/sql", data={"sql": text}, timeout=60).json()


def rows(server: ServerProcess, text: str) -> Any:
    answer = ask(server, text)
    assert "output" in answer, (text, answer)
    output = answer["output"][0]
    return output["records"]["rows"] if "records" in output else output["affectedrows"]


def environment(s3: S3Server, root: str, wal: Path) -> dict[str, str]:
    return {
        **s3.environment(root, wal),
        "TSDB_STANDALONE__STORAGE__CACHE_CAPACITY": "0",
        f"{SHARED}ENABLE": "true",
        f"{SHARED}ACKNOWLEDGE": "store",
        f"{SHARED}INTERVAL": "20ms",
        f"{SHARED}MAX_BATCH": "1MB",
        f"{SHARED}IN_FLIGHT": "3",
    }


@contextmanager
def serving(s3: S3Server, root: str, tmp_path: Path) -> Iterator[ServerProcess]:
    with running("standalone", tmp_path, environment=environment(s3, root, tmp_path / "wal")) as server:
        yield server


class Writers:
    """Threads that insert rows one by one, and remember which were acknowledged."""

    def __init__(self, server: ServerProcess, count: int) -> None:
        self._server = server
        self._lock = threading.Lock()
        self.acknowledged: set[tuple[str, int]] = set()
        self.has_enough = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(f"h{number}",)) for number in range(count)]
        for thread in self._threads:
            thread.start()

    def _run(self, host: str) -> None:
        with httpx.Client(timeout=30) as client:
            for at in range(10_000):
                sql = f"INSERT INTO cpu VALUES ('{host}', {at}, 1)"
                try:
                    answer = client.post(f"{self._server.url}/v1/sql", data={"sql": sql})
                except httpx.HTTPError:
                    return
                if answer.status_code != 200:
                    return
                with self._lock:
                    self.acknowledged.add((host, at))
                    if len(self.acknowledged) >= 60:
                        self.has_enough.set()

    def join(self) -> None:
        for thread in self._threads:
            thread.join(60)
            assert not thread.is_alive()


def found(server: ServerProcess, table: str = "cpu") -> set[tuple[str, int]]:
    return {(host, at) for host, at in rows(server, f"SELECT host, CAST(ts AS BIGINT) FROM {table}")}


def test_every_acknowledged_row_survives_the_loss_of_the_log_directory(s3_server: S3Server, tmp_path: Path) -> None:
    root = s3_server.new_root()
    acknowledged: set[tuple[str, int]] = set()
    with serving(s3_server, root, tmp_path) as server:
        rows(server, CPU)
        writers = Writers(server, 4)
        assert writers.has_enough.wait(60)
        server.process.kill()
        server.process.wait()
        writers.join()
        acknowledged |= writers.acknowledged
    assert not list((tmp_path / "wal").glob("*.wal")), "nothing is written to a local log"
    shutil.rmtree(tmp_path / "wal")
    with serving(s3_server, root, tmp_path) as server:
        assert acknowledged <= found(server)
        states = rows(server, "SELECT DISTINCT state FROM information_schema.wal_segments")
        assert states == [["pinned"]]
        shown = rows(server, "SELECT file_path FROM information_schema.wal_segments LIMIT 1")
        assert shown[0][0].startswith(f"s3://tests/{root}/wal/0/00000001/")
        counted = "SELECT requests > 0 FROM information_schema.storage_requests WHERE purpose = 'log'"
        assert rows(server, f"{counted} AND operation = 'get'") == [[True]]
        metrics = server.get("/metrics").text
        assert "tsdb_wal_shared_unshipped_bytes 0.0" in metrics
        # What is flushed is deleted from the store when the server stops, and only fences stay.
        assert server.stop() == 0
    left = [meta.path for meta in s3_server.store(root).list("wal") if meta.path.endswith(".log")]
    assert len(left) == 2


def test_a_log_is_shipped_to_a_storage_of_its_own_and_recovered_from_there(s3_server: S3Server, tmp_path: Path) -> None:
    """The data files stay on the local disk; `wal.shared.storage` names where the log goes."""
    root = s3_server.new_root()
    provider = "TSDB_STANDALONE__STORAGE__PROVIDERS__0__"
    bucket = {
        name.replace("TSDB_STANDALONE__STORAGE__", provider): value
        for name, value in s3_server.environment(root, tmp_path).items()
        if "__STORAGE__" in name
    }
    chosen = {f"{provider}NAME": "logs", f"{SHARED}ENABLE": "true", f"{SHARED}STORAGE": "logs"}
    environment = {**bucket, **chosen, f"{SHARED}INTERVAL": "20ms"}
    with running("standalone", tmp_path, environment=environment) as server:
        rows(server, CPU)
        assert rows(server, "INSERT INTO cpu VALUES ('flushed', 1, 1)") == 1
        rows(server, "ADMIN flush_table('cpu')")
        assert rows(server, "INSERT INTO cpu VALUES ('shipped', 2, 2)") == 1
        (shown, *_) = rows(server, "SELECT DISTINCT file_path FROM information_schema.wal_segments")
        assert shown[0].startswith(f"s3://tests/{root}/wal/0/")
        server.process.kill()
        server.process.wait()
    shutil.rmtree(tmp_path / "data" / "wal")
    assert list((tmp_path / "data").glob("data/**/*.parquet")), "data files are local"
    assert {meta.path.partition("/")[0] for meta in s3_server.store(root).list("")} == {"wal"}
    with running("standalone", tmp_path, environment=environment) as server:
        assert found(server) == {("flushed", 1), ("shipped", 2)}
        assert server.stop() == 0


def test_a_server_starts_with_a_damaged_log_and_an_operator_gives_the_object_up(
    s3_server: S3Server, tmp_path: Path
) -> None:
    root = s3_server.new_root()
    bucket = s3_server.store(root)
    with serving(s3_server, root, tmp_path) as server:
        for table in ("cpu", "other"):
            rows(server, CPU.replace(" cpu ", f" {table} "))
        for at in (1, 2, 3):
            rows(server, f"INSERT INTO cpu VALUES ('a', {at}, 1)")
        rows(server, "INSERT INTO other VALUES ('a', 1, 1)")
        server.process.kill()
        server.process.wait()
    path = [each.path for each in bucket.list("wal") if each.path.endswith(".log")][1]
    bucket.put(path, b"")
    with serving(s3_server, root, tmp_path) as server:
        assert found(server, "other") == {("a", 1)}
        refused = ask(server, "SELECT * FROM cpu")["error"]
        assert "the region is not served" in refused, refused
        assert path in refused, refused
        sound = path.replace("1.log", "0.log")
        assert "can be read" in ask(server, f"ADMIN skip_log_object('{sound}')")["error"]
        assert "expected the path" in ask(server, "ADMIN skip_log_object(7)")["error"]
        assert rows(server, f"ADMIN skip_log_object('s3://tests/{root}/{path}')")[0][0].startswith(f"{path}: ")
        server.process.kill()
        server.process.wait()
    with serving(s3_server, root, tmp_path) as server:
        assert found(server) == {("a", 1), ("a", 3)}
        assert found(server, "other") == {("a", 1)}
        shown = rows(server, "SELECT file_path FROM information_schema.wal_segments WHERE state = 'skipped'")
        assert shown == [[f"s3://tests/{root}/{path}"]]
        assert rows(server, "INSERT INTO cpu VALUES ('a', 4, 1)") == 1
        assert server.stop() == 0


def test_a_server_that_was_replaced_acknowledges_nothing_more(s3_server: S3Server, tmp_path: Path) -> None:
    root = s3_server.new_root()
    first_home, second_home = tmp_path / "first", tmp_path / "second"
    first_home.mkdir()
    with serving(s3_server, root, first_home) as first:
        rows(first, CPU)
        assert rows(first, "INSERT INTO cpu VALUES ('a', 1, 1)") == 1
        # A copy of the metadata is all that the successor has.
        shutil.copytree(first_home / "data", second_home / "data", ignore=shutil.ignore_patterns("LOCK", "spill"))
        with serving(s3_server, root, second_home) as second:
            assert found(second) == {("a", 1)}
            answer = ask(first, "INSERT INTO cpu VALUES ('a', 2, 1)")
            assert "the shared log has another owner" in answer["error"], answer
            assert rows(second, "INSERT INTO cpu VALUES ('a', 3, 1)") == 1
            assert found(second) == {("a", 1), ("a", 3)}
            assert first.get("/ready").status_code == 503
            first.process.kill()
            first.process.wait()
