"""A server with little memory takes the same rows, and its processes together stay near their limit."""

from __future__ import annotations

from pathlib import Path

import httpx

from tests.server_process import ServerProcess, running
from tests.soak.crowd import resident_mb

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
