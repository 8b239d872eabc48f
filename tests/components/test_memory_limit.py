"""What a server holds that has nothing to do; and one with little memory takes the same rows, near its limit."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

import httpx

from tests.server_process import ServerProcess, running
from tests.soak.crowd import resident_mb

IDLE_MB_MAX = 200
"""Measured: 140, of which 128 are not pages of files, with two query workers."""
IDLE_SECONDS_MAX = 30.0
LIMIT_MB = 256
SLACK_MB = 128
"""What is there for a moment: a flush, a body that is being parsed, and memory that is not given back yet."""
REQUESTS, ROWS = 40, 20_000
WIDE = "SELECT l.host, sum(l.a * r.a) FROM m l JOIN m r ON l.tsdb_timestamp = r.tsdb_timestamp GROUP BY 1 LIMIT 3"


def _sql(server: ServerProcess, text: str) -> httpx.Response:
    return httpx.post(f"{server.url}/v1/sql", data={"sql": text}, timeout=60)


def _rows(server: ServerProcess, text: str) -> list[list[object]]:
    answer = _sql(server, text)
    assert answer.status_code == 200, answer.text
    rows: list[list[object]] = answer.json()["output"][0]["records"]["rows"]
    return rows


def _lines(request: int) -> str:
    start = 1_700_000_000_000 + request * ROWS
    return "\n".join(
        f"m,host=h{row % 500} a={row}.25,b={request * row}i,c={row * 0.1} {start + row}" for row in range(ROWS)
    )


def test_a_server_keeps_to_its_memory_limit(tmp_path: Path) -> None:
    with running("standalone", tmp_path, environment={"TSDB_STANDALONE__MEMORY__LIMIT": f"{LIMIT_MB}MB"}) as server:
        most = resident_mb(server.process.pid)
        for request in range(REQUESTS):
            body = _lines(request)
            answer = httpx.post(f"{server.url}/v1/influxdb/write?precision=ms", content=body, timeout=60)
            assert answer.status_code == 204, answer.text
            most = max(most, resident_mb(server.process.pid))
        assert _rows(server, "SELECT count(*) FROM m") == [[REQUESTS * ROWS]]
        for _ in range(5):
            wide = _sql(server, WIDE)
            assert wide.status_code == 200 or wide.json()["code"] == 6000, wide.text
            most = max(most, resident_mb(server.process.pid))
        known = {str(row[0]): row[1:] for row in _rows(server, "SELECT * FROM information_schema.memory_usage")}
        assert known["all_processes"][1] == LIMIT_MB << 20
        assert {"write_buffer", "vector_cache", "merges", "query_workers", "request_bodies", "other"} <= known.keys()
        assert "Traceback" not in server.output
    assert most <= LIMIT_MB + SLACK_MB


def test_a_server_that_does_nothing_holds_little(tmp_path: Path) -> None:
    with running("standalone", tmp_path, environment={"TSDB_STANDALONE__QUERY__WORKERS": "2"}) as server:
        deadline = time.monotonic() + IDLE_SECONDS_MAX
        while len(_processes(server)) < 4 or _shared_once_mb(server) > IDLE_MB_MAX:
            assert time.monotonic() < deadline, (_processes(server), _shared_once_mb(server))
            time.sleep(0.2)


def _processes(server: ServerProcess) -> list[int]:
    """The server, the process that others are forked from, and the workers."""
    found = [server.process.pid]
    for each in found:
        with suppress(OSError):
            for path in Path(f"/proc/{each}/task").glob("*/children"):
                found += map(int, path.read_text().split())
    return found


def _shared_once_mb(server: ServerProcess) -> int:
    """All that is in memory, pages of files too; what processes share counts once."""
    total = 0
    for each in _processes(server):
        with suppress(OSError):
            lines = Path(f"/proc/{each}/smaps_rollup").read_text().splitlines()
            total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return total >> 10
