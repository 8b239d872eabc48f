"""A server with its data in a bucket: everything that is done with a table, restarts, and several storages."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.engine.lives import wait_until
from tests.server_process import ServerProcess, running, spawn
from tests.store.services import BUCKET, S3Server, running_s3


def ask(server: ServerProcess, text: str) -> Any:
    return httpx.post(f"{server.url}/v1/sql", data={"sql": text}, timeout=60).json()


def rows(server: ServerProcess, text: str) -> Any:
    answer = ask(server, text)
    assert "output" in answer, (text, answer)
    output = answer["output"][0]
    return output["records"]["rows"] if "records" in output else output["affectedrows"]


@contextmanager
def serving(s3: S3Server, root: str, tmp_path: Path, **more: str) -> Iterator[ServerProcess]:
    # Without a file cache, every read of a file is a request.
    without = {"TSDB_STANDALONE__STORAGE__CACHE_CAPACITY": "0"}
    environment = {**s3.environment(root, tmp_path / "wal"), **without, **more}
    with running("standalone", tmp_path, environment=environment) as server:
        yield server


CPU = "CREATE TABLE cpu (host STRING, ts TIMESTAMP TIME INDEX, v DOUBLE, PRIMARY KEY(host))"


def test_rows_survive_everything_that_is_done_with_a_table(s3_server: S3Server, tmp_path: Path) -> None:
    root = s3_server.new_root()
    store = s3_server.store(root)
    with serving(s3_server, root, tmp_path) as server:
        rows(server, CPU)
        for start in range(3):
            values = ", ".join(f"('h{number}', {start * 10_000 + number}, {number})" for number in range(100))
            assert rows(server, f"INSERT INTO cpu VALUES {values}") == 100
            rows(server, "ADMIN FLUSH_TABLE('cpu')")
        rows(server, "ADMIN COMPACT_TABLE('cpu')")
        assert rows(server, "SELECT count(*), sum(v), max(v) FROM cpu") == [[300, 14850.0, 99.0]]
        # Kinds of queries that other processes answer when files are local.
        assert rows(server, "SELECT host, max(v) FROM cpu WHERE host = 'h7' GROUP BY host") == [["h7", 7.0]]
        joined = "SELECT count(*) FROM cpu a JOIN cpu b ON a.host = b.host AND a.ts = b.ts"
        assert rows(server, joined) == [[300]]
        rows(server, "ALTER TABLE cpu ADD COLUMN w DOUBLE")
        assert rows(server, "INSERT INTO cpu (host, ts, v, w) VALUES ('new', 99999, 1, 2)") == 1
        assert server.stop(signal.SIGKILL) != 0
        assert "top-secret-key" not in server.output
    assert [meta for meta in store.list("data") if meta.path.endswith(".parquet")]
    assert not list((tmp_path / "data").glob("data/**/*.parquet"))
    with serving(s3_server, root, tmp_path) as server:
        assert rows(server, "SELECT count(*), sum(v), sum(w) FROM cpu") == [[301, 14851.0, 2.0]]
        assert "top-secret-key" not in server.get("/config").text
        metrics = server.get("/metrics").text
        assert 'tsdb_store_requests_total{operation="get",purpose="query",store="default"}' in metrics
        rows(server, "DROP TABLE cpu")
        assert ask(server, "SELECT * FROM cpu")["code"] == 4001
        assert server.stop() == 0
    logs = "".join(path.read_text() for path in (tmp_path / "logs").glob("*"))
    assert "top-secret-key" not in logs
    with serving(s3_server, root, tmp_path) as server:
        assert rows(server, "SHOW TABLES") == [["numbers"]]
    assert [meta.path for meta in store.list("data/tsdb/public/1024")] == []


def test_a_server_without_its_bucket_refuses_to_start(s3_server: S3Server, tmp_path: Path) -> None:
    environment = s3_server.environment("r", tmp_path / "wal")
    environment["TSDB_STANDALONE__STORAGE__BUCKET"] = "nowhere"
    server = spawn("standalone", tmp_path, environment=environment)
    assert server.process.wait(timeout=60) == 1
    assert "storage default: cannot write to s3://nowhere/r: the bucket or container does not exist" in server.output
    assert "Traceback" not in server.output


def test_a_store_that_does_not_answer_fills_no_log(tmp_path: Path) -> None:
    with running_s3() as s3, serving(s3, "root", tmp_path) as server:
        rows(server, CPU)
        rows(server, "INSERT INTO cpu VALUES ('a', 1, 1)")
        rows(server, "ADMIN FLUSH_TABLE('cpu')")
        s3.process.kill()
        s3.process.wait()
        for number in range(20):
            failed = httpx.post(
                f"{server.url}/v1/sql", data={"sql": f"SELECT max(v) + {number} FROM cpu WHERE v > 0"}, timeout=120
            )
            assert (failed.status_code, failed.json()["code"]) == (503, 5000), failed.text
        assert rows(server, "INSERT INTO cpu VALUES ('b', 2, 2)") == 1
        condition = "SELECT DISTINCT state, reason = last_error, since > now() - INTERVAL '1 hour', node_id"
        assert rows(server, f"{condition} FROM information_schema.storage_requests") == [["down", True, True, 0]]
        server.stop(signal.SIGKILL)
    lines = [line for path in (tmp_path / "logs").glob("*") for line in path.read_text().splitlines()]
    told = [line for line in lines if "requests fail: an object store does not answer" in line]
    assert 0 < len(told) < 20
    assert not [line for line in lines if "Traceback" in line]


def test_what_is_past_its_time_to_live_leaves_the_bucket(s3_server: S3Server, tmp_path: Path) -> None:
    root = s3_server.new_root()
    store = s3_server.store(root)

    def objects(suffix: str) -> int:
        return sum(meta.path.endswith(suffix) for meta in store.list("data"))

    with serving(s3_server, root, tmp_path) as server:
        rows(server, CPU)
        for moment in ("1000", "now()"):
            rows(server, f"INSERT INTO cpu VALUES ('a', {moment}, 1), ('b', {moment}, 2)")
            rows(server, "ADMIN FLUSH_TABLE('cpu')")
        assert (objects(".parquet"), rows(server, "SELECT count(*) FROM cpu")) == (2, [[4]])
        rows(server, "ALTER TABLE cpu SET 'ttl' = '1h'")
        assert rows(server, "SELECT count(*), max(v) FROM cpu") == [[2, 2.0]]
        rows(server, "ADMIN COMPACT_TABLE('cpu')")
        wait_until(lambda: (objects(".parquet"), objects(".idx")) == (1, 1))
        ((told,),) = rows(server, "ADMIN VERIFY_TABLE('cpu')")
        assert told.startswith("ok: 1 files, 2 rows, 0 damaged, 2 visible rows")
        assert server.stop(signal.SIGKILL) != 0
    with serving(s3_server, root, tmp_path) as server:
        assert rows(server, "SELECT count(*), max(v) FROM cpu") == [[2, 2.0]]


def test_requests_are_counted_with_their_estimated_cost(s3_server: S3Server, tmp_path: Path) -> None:
    prices = {
        "TSDB_STANDALONE__STORAGE__PRICE_PER_THOUSAND_WRITES": "5",
        "TSDB_STANDALONE__STORAGE__PRICE_PER_THOUSAND_READS": "0.5",
    }
    with serving(s3_server, s3_server.new_root(), tmp_path, **prices) as server:
        rows(server, CPU)
        rows(server, "INSERT INTO cpu VALUES ('a', 1, 1)")
        rows(server, "ADMIN FLUSH_TABLE('cpu')")
        counted = "SELECT operation, requests, errors, estimated_cost FROM information_schema.storage_requests"
        assert rows(server, f"{counted} WHERE store = 'default' AND purpose = 'flush' ORDER BY operation") == [
            ["get", 1, 0, 0.0005],
            ["put", 2, 0, 0.01],
        ]
        condition = "SELECT DISTINCT state, reason, last_error, node_id FROM information_schema.storage_requests"
        assert rows(server, condition) == [["ok", None, None, 0]]
        assert rows(server, f"{counted} WHERE purpose = 'start' AND operation = 'delete'") == [["delete", 1, 0, 0.0]]


def providers(s3: S3Server, root: str, tmp_path: Path) -> dict[str, str]:
    prefix = "TSDB_STANDALONE__STORAGE__PROVIDERS__"
    return {
        f"{prefix}0__TYPE": "S3",
        f"{prefix}0__NAME": "cold",
        f"{prefix}0__BUCKET": BUCKET,
        f"{prefix}0__ROOT": root,
        f"{prefix}0__ENDPOINT": s3.endpoint,
        f"{prefix}0__ACCESS_KEY_ID": "key",
        f"{prefix}0__SECRET_ACCESS_KEY": "secret",
        f"{prefix}1__TYPE": "File",
        f"{prefix}1__DATA_HOME": str(tmp_path / "second"),
    }


def test_a_table_chooses_its_storage(s3_server: S3Server, tmp_path: Path) -> None:
    root = s3_server.new_root()
    store = s3_server.store(root)
    environment = providers(s3_server, root, tmp_path)
    with running("standalone", tmp_path, environment=environment) as server:
        refused = ask(server, CPU.replace("cpu", "lost") + " WITH (storage = 'lukewarm')")
        assert refused["code"] == 1004
        assert "lukewarm" in refused["error"]
        assert "there are: cold, file" in refused["error"]
        for name, option in (("here", ""), ("cold", " WITH (storage = 'cold')"), ("other", " WITH (storage = 'File')")):
            rows(server, CPU.replace("cpu", name) + option)
            rows(server, f"INSERT INTO {name} VALUES ('a', 1, 1), ('b', 2, 2)")
            rows(server, f"ADMIN FLUSH_TABLE('{name}')")
            assert rows(server, f"SELECT host, sum(v) FROM {name} GROUP BY host ORDER BY host") == [["a", 1], ["b", 2]]
        assert "storage = 'cold'" in rows(server, "SHOW CREATE TABLE cold")[0][1]
        assert server.stop() == 0
    assert len([meta for meta in store.list("data") if meta.path.endswith(".parquet")]) == 1
    assert len(list((tmp_path / "second").glob("data/**/*.parquet"))) == 1
    assert len(list((tmp_path / "data").glob("data/**/*.parquet"))) == 1
    # Without its provider a table is not available; the server and the other tables are.
    with running("standalone", tmp_path) as server:
        assert rows(server, "SELECT count(*) FROM here") == [[2]]
        for name, storage in (("cold", "cold"), ("other", "file")):
            missing = ask(server, f"SELECT count(*) FROM {name}")
            assert f"the storage '{storage}' is not configured" in missing["error"]
        assert server.stop() == 0
    with running("standalone", tmp_path, environment=environment) as server:
        for name in ("here", "cold", "other"):
            assert rows(server, f"SELECT count(*) FROM {name}") == [[2]]
        assert "storage = 'cold'" in rows(server, "SHOW CREATE TABLE cold")[0][1]
        rows(server, "DROP TABLE cold")
        rows(server, "ALTER TABLE other ADD COLUMN w DOUBLE")
        assert server.stop() == 0
    with running("standalone", tmp_path, environment=environment):
        pass
    assert list(store.list("data")) == []


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"0__NAME": "FILE"}, "storage.providers[1].name: 'File' is the name of storage.providers[0] too"),
        ({"0__NAME": "a/b"}, "storage.providers[0].name: 'a/b' is not a name of a storage"),
    ],
)
def test_names_of_storages_are_checked(
    s3_server: S3Server, tmp_path: Path, changes: dict[str, str], problem: str
) -> None:
    changed = {f"TSDB_STANDALONE__STORAGE__PROVIDERS__{key}": value for key, value in changes.items()}
    server = spawn("standalone", tmp_path, environment={**providers(s3_server, "r", tmp_path), **changed})
    assert server.process.wait(timeout=60) != 0
    assert problem in server.output
