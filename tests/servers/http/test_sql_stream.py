"""Large answers of a real server: a million rows in bounded memory, and a client that leaves ends its query."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.server_process import ServerProcess, running

ROWS = 1_000_000
GROWTH_BYTES_MAX = 200 << 20
"""How much the server may grow while it sends the rows; as JSON they are about 30 MB, in memory a multiple of it."""

ENDLESS = "SELECT sum(value % 7) AS s FROM generate_series(1, 100000000000)"
"""Takes longer than any client waits."""

pytestmark = pytest.mark.timeout(120)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    directory: Path = tmp_path_factory.mktemp("stream")
    with running("standalone", directory) as started:
        run(started, "CREATE TABLE many (k STRING PRIMARY KEY, ts TIMESTAMP TIME INDEX, v BIGINT)")
        run(
            started,
            f"INSERT INTO many SELECT 'k' || (value % 10), value, value % 100 FROM generate_series(1, {ROWS})",
        )
        yield started


def run(server: ServerProcess, text: str) -> Any:
    response = httpx.post(f"{server.url}/v1/sql", data={"sql": text}, timeout=60, trust_env=False)
    assert response.status_code == 200, response.text[:500]
    return response.json()["output"][0]


def resident_bytes(server: ServerProcess) -> int:
    for line in Path(f"/proc/{server.process.pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("the process has no memory")


def running_queries(server: ServerProcess) -> list[str]:
    rows = run(server, "SELECT query FROM information_schema.process_list WHERE query NOT LIKE '%process_list%'")
    return [row[0] for row in rows["records"]["rows"]]


def wait_until_idle(server: ServerProcess) -> float:
    """Wait until nothing runs any more; how long it took."""
    start = time.monotonic()
    while left := running_queries(server):
        assert time.monotonic() - start < 20, left
        time.sleep(0.05)
    return time.monotonic() - start


@pytest.mark.parametrize("kind", ["tsdb_v1", "csv", "arrow"])
def test_a_million_rows_pass_through_bounded_memory(server: ServerProcess, kind: str) -> None:
    run(server, "SELECT count(*) FROM many")
    before, most, size, lines = resident_bytes(server), 0, 0, 0
    asked = {"sql": "SELECT k, ts, v FROM many", "format": kind}
    with httpx.stream("POST", f"{server.url}/v1/sql", data=asked, timeout=60, trust_env=False) as response:
        assert response.status_code == 200
        for number, piece in enumerate(response.iter_bytes(1 << 16)):
            size += len(piece)
            lines += piece.count(b"\n") if kind == "csv" else piece.count(b'["k') + piece.count(b"[k")
            if number % 16 == 0:
                most = max(most, resident_bytes(server))
    assert size > 10_000_000
    if kind == "csv":
        assert lines == ROWS
    assert most - before < GROWTH_BYTES_MAX, f"{(most - before) >> 20} MiB"
    assert running_queries(server) == []


def test_a_client_that_leaves_in_the_middle_of_an_answer_cancels_its_query(server: ServerProcess) -> None:
    asked = {"sql": "SELECT a.k, b.ts, a.v FROM many AS a CROSS JOIN many AS b", "format": "csv"}
    with httpx.stream("POST", f"{server.url}/v1/sql", data=asked, timeout=60, trust_env=False) as response:
        pieces = response.iter_bytes(1 << 16)
        assert next(pieces)
        assert len(running_queries(server)) == 1
    wait_until_idle(server)


def test_a_client_that_leaves_before_the_first_row_cancels_its_query(server: ServerProcess) -> None:
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(f"{server.url}/v1/sql", data={"sql": ENDLESS}, timeout=1.0, trust_env=False)
    wait_until_idle(server)
    assert run(server, "SELECT 1 AS one")["records"]["rows"] == [[1]]


def test_a_query_that_is_killed_ends_with_its_own_code(server: ServerProcess) -> None:
    asked = {"sql": "SELECT a.k, b.ts, a.v FROM many AS a CROSS JOIN many AS b", "format": "csv"}
    with httpx.stream("POST", f"{server.url}/v1/sql", data=asked, timeout=60, trust_env=False) as response:
        pieces = response.iter_bytes(1 << 16)
        assert next(pieces)
        (row,) = run(server, "SELECT id FROM information_schema.process_list WHERE query NOT LIKE '%process_list%'")[
            "records"
        ]["rows"]
        assert run(server, f"KILL '{row[0]}'")["affectedrows"] == 1
        # Rows are on the way already, so the answer can only break off.
        with pytest.raises(httpx.RemoteProtocolError):
            for _ in pieces:
                pass
    wait_until_idle(server)
