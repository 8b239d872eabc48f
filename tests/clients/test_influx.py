"""The client of InfluxDB 2 writes lines."""

from __future__ import annotations

import subprocess
import sys

from tests.clients.programs import snippet, wait_rows
from tests.server_process import ServerProcess


def test_what_the_influxdb_client_writes_is_in_the_server(server: ServerProcess) -> None:
    text = snippet("InfluxDB clients", server, "python")
    subprocess.run([sys.executable, "-c", text], timeout=60, check=True)
    rows = wait_rows(server, "SELECT host, usage, tsdb_timestamp FROM from_python")
    assert rows == [["a", 0.5, 1_700_000_000_000_000_000]]
