"""node's `pg` and `mysql2`: pools, values, prepared statements, errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.clients.programs import find_driver, port_of, run_program, wait_gone
from tests.server_process import ServerProcess

_SCRIPTS = Path(__file__).parent / "node"


def _run(script: str, port: str) -> dict[str, Any]:
    modules = find_driver(f"node/node_modules/{script}").parent
    said = run_program("node", str(_SCRIPTS / f"{script}.js"), port, environment={"NODE_PATH": str(modules)})
    return dict(json.loads(line) for line in said.splitlines())


def test_pg_works(server: ServerProcess) -> None:
    assert _run("pg", port_of(server, "Postgres")) == {
        "inserted": ["INSERT", 2],
        "rows": [{"host": "it's", "v": 1.5, "n": "7", "up": True, "ts": 1700000000123}],
        "again": [],
        "many": [1, 2, 3, 4, 5],
        "refused": "42P01",
        "misread": "42601",
        "tables": [{"tablename": "node_pg"}],
        "fields": [["host", 1043], ["v", 701], ["n", 20], ["up", 16], ["ts", 1114]],
        "hour": 7,
        "left": "Connection terminated unexpectedly",
    }
    wait_gone(server, "/* left by pg */")


def test_mysql2_works(server: ServerProcess) -> None:
    assert _run("mysql2", port_of(server, "MySQL")) == {
        "inserted": 1,
        "prepared": 1,
        "rows": [
            {"host": "it's", "v": 1.5, "n": 7, "up": 1, "ts": "2023-11-14T22:13:20.123Z"},
            {"host": "b", "v": None, "n": 8, "up": 0, "ts": "2023-11-14T22:13:21.000Z"},
        ],
        "texts": [
            {"host": "it's", "ts": "2023-11-14T22:13:20.123Z"},
            {"host": "b", "ts": "2023-11-14T22:13:21.000Z"},
        ],
        "many": [1, 2, 3, 4, 5],
        "refused": [1146, "42S02"],
        "misread": 1064,
        "tables": ["node_mysql2"],
        "fields": ["host", "n", "ts"],
        "alive": 1,
        "hour": 7,
        "streamed": "number",
    }
    wait_gone(server, "/* left */")
