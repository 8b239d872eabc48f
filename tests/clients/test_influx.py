"""The clients of InfluxDB 2, InfluxDB 3 and QuestDB write lines."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.clients.programs import snippet, wait_rows
from tests.server_process import ServerProcess


def _run(text: str) -> str:
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("heading", "table", "behind", "printed"),
    [
        ("InfluxDB clients", "from_python", "", ""),
        ("InfluxDB 3 clients", "from_v3", "print(frame[['host', 'usage']].values.tolist())", "[['a', 0.5]]\n"),
    ],
)
def test_what_the_influxdb_clients_write_is_in_the_server(
    server: ServerProcess, heading: str, table: str, behind: str, printed: str
) -> None:
    text = snippet(heading, server, "python").replace("from_python", table)
    assert _run(text + behind) == printed
    rows = wait_rows(server, f"SELECT host, usage, tsdb_timestamp FROM {table}")
    assert rows == [["a", 0.5, 1_700_000_000_000_000_000]]


def test_what_the_questdb_client_writes_is_in_the_server(server: ServerProcess) -> None:
    _run(snippet("QuestDB clients", server, "python"))
    rows = wait_rows(
        server, "SELECT host, usage FROM from_questdb WHERE tsdb_timestamp > now() - INTERVAL '10 minutes'"
    )
    assert rows == [["a", 0.5]]
