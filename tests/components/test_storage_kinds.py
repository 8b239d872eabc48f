"""A server on every kind of object storage: the life of a table from its creation to its end, with kills between."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.server_process import ServerProcess, running
from tests.store.kinds import KINDS, SECRET, Service, running_service

# Four starts of a server take seconds: `make test` is content with one kind.
CHOSEN = KINDS if os.environ.get("TSDB_OBJECTS") == "all" else ("Gcs",)
WITHOUT_CACHE = {"TSDB_STANDALONE__STORAGE__CACHE_CAPACITY": "0"}
HOSTS, ROUNDS = 50, 3
pytestmark = pytest.mark.timeout(300)
"""Each test starts several servers beside the service: 20 s of CPU, for which a busy machine takes minutes."""
COUNTED = "SELECT count(*), sum(v), count(DISTINCT host) FROM cpu"


def rows(server: ServerProcess, text: str) -> Any:
    answer = httpx.post(f"{server.url}/v1/sql", data={"sql": text}, timeout=60).json()
    assert "output" in answer, (text, answer)
    output = answer["output"][0]
    return output["records"]["rows"] if "records" in output else output["affectedrows"]


def values(start_ms: int) -> str:
    return ", ".join(f"('h{number}', {start_ms + number}, {number})" for number in range(HOSTS))


@contextmanager
def serving(service: Service, directory: Path, environment: Mapping[str, str] | None = None) -> Iterator[ServerProcess]:
    """Run a server; it has written no traceback and no secret."""
    storage = service.environment("one/root", directory / "wal")
    with running("standalone", directory, environment={**storage, **(environment or {})}) as server:
        yield server
        if server.process.poll() is None:
            assert server.stop() == 0
    assert SECRET not in server.output
    assert "Traceback" not in server.output


@pytest.mark.parametrize("kind", CHOSEN)
def test_a_table_lives_through_kills_compaction_and_deletion(kind: str, tmp_path: Path) -> None:
    with running_service(kind, tmp_path) as service:
        store = service.store("one/root")
        with serving(service, tmp_path) as server:
            rows(server, "CREATE TABLE cpu (host STRING, ts TIMESTAMP TIME INDEX, v DOUBLE, PRIMARY KEY(host))")
            for number in range(ROUNDS):
                assert rows(server, f"INSERT INTO cpu VALUES {values(number * 1000)}") == HOSTS
                rows(server, "ADMIN FLUSH_TABLE('cpu')")
            assert rows(server, f"INSERT INTO cpu VALUES {values(ROUNDS * 1000)}") == HOSTS
            assert server.stop(signal.SIGKILL) != 0
        files = [meta.path for meta in store.list("data") if meta.path.endswith(".parquet")]
        assert len(files) == ROUNDS
        assert not list((tmp_path / "data").glob("data/**/*.parquet"))
        # Every read is a request now.
        with serving(service, tmp_path, WITHOUT_CACHE) as server:
            total = HOSTS * (ROUNDS + 1)
            assert rows(server, COUNTED) == [[total, sum(range(HOSTS)) * (ROUNDS + 1), HOSTS]]
            rows(server, "ADMIN FLUSH_TABLE('cpu')")
            ((before,),) = rows(server, "ADMIN VERIFY_TABLE('cpu')")
            rows(server, "ADMIN COMPACT_TABLE('cpu')")
            assert rows(server, "SELECT count(*) FROM information_schema.ssts_manifest") == [[1]]
            ((after,),) = rows(server, "ADMIN VERIFY_TABLE('cpu')")
            content = f"{total} rows, 0 damaged, {total} visible rows with checksum "
            assert (before.partition(content)[0], after.partition(content)[0]) == (
                f"ok: {ROUNDS + 1} files, ",
                "ok: 1 files, ",
            )
            assert before.partition(content)[2] == after.partition(content)[2] != ""
            assert rows(server, "DELETE FROM cpu WHERE host = 'h7'") == ROUNDS + 1
            rows(server, "ADMIN FLUSH_TABLE('cpu')")
            assert server.stop(signal.SIGKILL) != 0
        # The file cache has files of the first start, which are compacted since.
        with serving(service, tmp_path) as server:
            left = total - (ROUNDS + 1)
            assert rows(server, COUNTED) == [[left, (sum(range(HOSTS)) - 7) * (ROUNDS + 1), HOSTS - 1]]
            assert rows(server, "SELECT count(*) FROM cpu WHERE host = 'h7'") == [[0]]
            assert rows(server, "SELECT host, max(v) FROM cpu WHERE host = 'h8' GROUP BY host") == [["h8", 8.0]]
            rows(server, "DROP TABLE cpu")
        with serving(service, tmp_path) as server:
            assert rows(server, "SHOW TABLES") == [["numbers"]]
        assert list(store.list("data")) == []
