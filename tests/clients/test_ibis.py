"""ibis, with its backends for PostgreSQL and MySQL: tables, expressions, frames, tables of its own."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from tests.clients.programs import HERE, find_driver, run_program
from tests.server_process import ServerProcess

TABLES = (
    "CREATE TABLE IF NOT EXISTS ibis_cpu (host STRING PRIMARY KEY, usage DOUBLE, n BIGINT, up BOOLEAN, day DATE,"
    " ts TIMESTAMP(3) TIME INDEX)",
    "CREATE TABLE IF NOT EXISTS ibis_hosts (host STRING PRIMARY KEY, rack STRING, ts TIMESTAMP TIME INDEX)",
    "INSERT INTO ibis_cpu VALUES ('a', 0.5, 1, true, '2024-01-01', '2024-01-01 00:00:00'),"
    " ('a', 1.5, 2, false, '2024-01-02', '2024-01-02 03:04:05.678'), ('b', NULL, 3, NULL, NULL, '2024-01-03')",
    "INSERT INTO ibis_hosts VALUES ('a', 'r1', 0), ('b', 'r2', 0)",
)
KINDS = {"host": "string", "usage": "float64", "n": "int64", "day": "date"}
FOUND: dict[str, Any] = {
    "version": True,
    "databases": True,
    "tables": ["ibis_cpu", "ibis_hosts"],
    "like": ["ibis_cpu"],
    "elsewhere": True,
    "rows": [
        ["a", 0.5, 1, "2024-01-01 00:00:00"],
        ["a", 1.5, 2, "2024-01-02 00:00:00"],
        ["b", None, 3, None],
    ],
    "arrow": 3,
    "polars": [1, 2, 3],
    "batches": 3,
    "filter": [[2], [3]],
    "in": [[1], [2]],
    "groups": [["a", 1.0, 2, 2, 3], ["b", None, 1, 3, 3]],
    "hours": [["2024-01-01T00:00:00", 1], ["2024-01-02T03:00:00", 1], ["2024-01-03T00:00:00", 1]],
    "dates": [["2024-01-01", 0], ["2024-01-02", 678], ["2024-01-03", 0]],
    "join": [["a", "r1", 1], ["a", "r1", 2], ["b", "r2", 3]],
    "anti": 1,
    "window": [[0, None], [1, 1.0], [0, 2.0]],
    "strings": [["A", "a", True], ["A", "a", True], ["B", "b", False]],
    "sql": [["a", 2], ["b", 1]],
    "made": [["a", 0.5], ["a", 1.5], ["b", 0.0]],
    "view": 2,
    "gone": False,
    "database": True,
}


@pytest.fixture(scope="module")
def filled(server: ServerProcess) -> ServerProcess:
    for text in TABLES:
        assert httpx.post(f"{server.url}/v1/sql", data={"sql": text}, timeout=10).status_code == 200
    return server


def _tour(server: ServerProcess, backend: str, protocol: str) -> dict[str, Any]:
    python = str(find_driver("ibis/bin/python"))
    # The environment of ibis must not see this project's: its libraries are of other versions.
    said = run_program(
        python, "-I", str(HERE / "ibis" / "tour.py"), backend, str(server.port_of(protocol)), environment={"TZ": "UTC"}
    )
    return dict(json.loads(line) for line in said.splitlines())


def test_the_backend_for_postgresql_works(filled: ServerProcess) -> None:
    found = _tour(filled, "postgres", "Postgres")
    assert found.pop("schema") == {**KINDS, "up": "boolean", "ts": "!timestamp(6)"}
    assert found.pop("times") == ["2024-01-01T00:00:00", "2024-01-02T03:04:05.678000", "2024-01-03T00:00:00"]
    assert found.pop("buckets") == ["2024-01-01T00:00:00", "2024-01-02T03:00:00", "2024-01-03T00:00:00"]
    assert found.pop("median") == [[1.0, True, 36]]
    assert found.pop("no table") == ["TableNotFound", True]
    assert found.pop("no column") == ["UndefinedColumn", True]
    assert found == FOUND


def test_the_backend_for_mysql_works(filled: ServerProcess) -> None:
    found = _tour(filled, "mysql", "MySQL")
    # MySQL has no booleans, and its TIMESTAMP is an instant.
    assert found.pop("schema") == {**KINDS, "up": "int8", "ts": "!timestamp('UTC', 3)"}
    assert found.pop("times") == [
        "2024-01-01T00:00:00+00:00",
        "2024-01-02T03:04:05.678000+00:00",
        "2024-01-03T00:00:00+00:00",
    ]
    assert found.pop("no table") == ["TableNotFound", True]
    assert found.pop("no column") == ["OperationalError", True]
    assert found == FOUND
