"""curl sends what other programs made: lines through gzip, points of OpenTSDB, statements; inside of TLS too."""

from __future__ import annotations

import subprocess
from pathlib import Path

import trustme

from tests.clients.programs import find_program, snippet, wait_rows
from tests.server_process import ServerProcess, running


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


def test_curl_trusts_the_certificate_of_the_server_and_shows_its_own(tmp_path: Path) -> None:
    find_program("curl")
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    for name, issued in (("server", authority.issue_cert("127.0.0.1")), ("me", authority.issue_cert("me@example.org"))):
        issued.private_key_pem.write_to_path(tmp_path / f"{name}.key")
        issued.cert_chain_pems[0].write_to_path(tmp_path / f"{name}.pem")
    environment = {
        "TSDB_STANDALONE__HTTP__TLS__MODE": "verify_ca",
        "TSDB_STANDALONE__HTTP__TLS__CERT_PATH": str(tmp_path / "server.pem"),
        "TSDB_STANDALONE__HTTP__TLS__KEY_PATH": str(tmp_path / "server.key"),
        "TSDB_STANDALONE__HTTP__TLS__CA_CERT_PATH": str(tmp_path / "ca.pem"),
    }
    with running("standalone", tmp_path, environment=environment) as server:
        ask = f"curl -sS --max-time 20 --cacert {tmp_path}/ca.pem {server.url}/v1/sql -d 'sql=SELECT 1'"
        assert '"rows":[[1]]' in _shell(f"{ask} --cert {tmp_path}/me.pem --key {tmp_path}/me.key")
        refused = subprocess.run(["sh", "-c", ask], capture_output=True, text=True, timeout=60, check=False)
        assert refused.returncode != 0
        assert "certificate required" in refused.stderr
        plain = f"curl -sS --max-time 20 -w '%{{http_code}}' {server.url.replace('https', 'http')}/v1/sql"
        assert _shell(plain) == "this port speaks TLS only.\n400"
