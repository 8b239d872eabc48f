"""curl sends what other programs made: line protocol through gzip, points of OpenTSDB, statements."""

from __future__ import annotations

import subprocess

from tests.clients.programs import find_program, snippet, wait_rows
from tests.server_process import ServerProcess


def _shell(text: str) -> str:
    done = subprocess.run(["sh", "-euc", text], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def test_lines_through_gzip_are_in_the_server(server: ServerProcess) -> None:
    find_program("gzip")
    find_program("curl")
    assert _shell(snippet("curl", server)).count("204") == 2
    text = "SELECT host, usage, tsdb_timestamp FROM piped ORDER BY host"
    time = 1_700_000_000 * 10**9
    assert wait_rows(server, text) == [["a", 0.5, time], ["b", 0.25, time]]


def test_a_statement_through_curl_is_answered(server: ServerProcess) -> None:
    said = _shell(f"curl -sS {server.url}/v1/sql --data-urlencode 'sql=SELECT 1 AS one' -d format=csvwithnames")
    assert said.split() == ["one", "1"]
