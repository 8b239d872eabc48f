"""Users of a running server: told at the start, asked for on every port, never shown."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.server_process import TSDB, ServerProcess, running

SECRET = "hunter2-is-the-password"
PORTS = {f"TSDB_STANDALONE__{name}__ADDR": "127.0.0.1:0" for name in ("OPENTSDB", "MYSQL", "POSTGRES", "GRPC")}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    directory = tmp_path_factory.mktemp("users")
    provider = f"catalog_user_provider:cmd:root={SECRET},r:ro={SECRET}"
    options = ("--log-level", "debug", "--user-provider", provider)
    with running("standalone", directory, *options, environment=PORTS) as started:
        yield started


def _sql(server: ServerProcess, text: str, auth: tuple[str, str] | None, **params: str) -> tuple[int, Any]:
    answer = httpx.post(f"{server.url}/v1/sql", params=params, data={"sql": text}, auth=auth, timeout=10)
    return answer.status_code, answer.json()


def test_the_probes_of_authentication(server: ServerProcess) -> None:
    create = "CREATE TABLE IF NOT EXISTS probed (ts TIMESTAMP TIME INDEX, v DOUBLE)"
    for auth, expected in (
        (None, (401, 7003)),
        (("root", "wrong"), (401, 7002)),
        (("nobody", "wrong"), (401, 7002)),
        (("r", SECRET), (403, 7006)),
        (("root", SECRET), (200, None)),
    ):
        status, body = _sql(server, create, auth)
        assert (status, body.get("code")) == expected
    assert _sql(server, "SELECT 1", ("r", SECRET))[0] == 200
    for path in ("/health", "/ready", "/metrics", "/status", "/v1/influxdb/ping", "/v1/influxdb/health"):
        assert server.get(path).status_code in (200, 204), path


def test_a_user_made_in_sql_logs_in_with_the_rights_given_and_after_a_restart(tmp_path: Path) -> None:
    root = ("root", SECRET)
    provider = f"catalog_user_provider:cmd:root={SECRET}"
    with running("standalone", tmp_path, "--user-provider", provider, environment=PORTS) as server:
        for text in (
            "CREATE DATABASE d",
            "CREATE USER ann IDENTIFIED BY 'a-password'",
            "GRANT ALL ON d.* TO ann",
        ):
            assert _sql(server, text, root)[0] == 200
        assert server.stop() == 0
    with running("standalone", tmp_path, "--user-provider", provider, environment=PORTS) as server:
        ann = ("ann", "a-password")
        lines = httpx.post(f"{server.url}/v1/influxdb/write?db=d", content="m v=1 1", auth=ann, timeout=10)
        assert lines.status_code == 204
        refused = httpx.post(f"{server.url}/v1/influxdb/write?db=public", content="m v=1 1", auth=ann, timeout=10)
        assert (refused.status_code, refused.headers["x-tsdb-err-code"]) == (403, "7005")
        assert _sql(server, "SELECT v FROM m", ann, db="d")[1]["output"][0]["records"]["rows"] == [[1.0]]
        databases = httpx.get(f"{server.url}/v1/prometheus/api/v1/label/__database__/values?db=d", auth=ann, timeout=10)
        assert databases.json()["data"] == ["d"]
        metadata = httpx.get(f"{server.url}/v1/prometheus/api/v1/metadata?db=public", auth=ann, timeout=10)
        assert metadata.status_code == 403


def test_telnet_takes_nothing_where_users_log_in(server: ServerProcess) -> None:
    address = next(line.split()[-1] for line in server.output.splitlines() if "OpenTSDB" in line)
    host, _, port = address.rpartition("/")[2].rpartition(":")
    with socket.create_connection((host, int(port)), timeout=10) as client:
        client.sendall(b"put telnet.metric 1667898896 1 host=a\n")
        assert client.recv(1000).startswith(b"Internal error: 7006")
    status, body = _sql(server, 'SELECT * FROM "telnet.metric"', ("root", SECRET))
    assert (status, body["code"]) == (400, 4001)


def test_logins_are_counted_and_no_secret_is_logged(server: ServerProcess) -> None:
    _sql(server, "SELECT 1", ("r", "tried-and-wrong"))
    _sql(server, "CREATE USER logged IDENTIFIED BY 'sql-password'", ("root", SECRET))
    _sql(server, "CREATE USER logged IDENTIFIED BY 'sql-password' 'sql-password'", ("root", SECRET))
    _sql(server, "DROP USER logged", ("root", SECRET))
    metrics = server.get("/metrics").text
    assert 'tsdb_auth_logins_total{method="password",outcome="failed"}' in metrics
    assert 'tsdb_auth_logins_total{method="password",outcome="ok"}' in metrics
    for secret in (SECRET, "tried-and-wrong", "sql-password"):
        assert secret not in server.output
        assert secret not in server.get("/config").text
    assert "a login failed" in server.output


@pytest.mark.parametrize(
    ("provider", "reason"),
    [
        ("nope:x", "user_provider: unknown user provider"),
        ("static_user_provider:cmd:u", "user_provider: user 1: expected exactly one ="),
        ("static_user_provider:file:/nope/users", "user_provider: the user file cannot be read"),
        ("watch_file_user_provider:/nope/users", "user_provider: the user file cannot be read"),
        ("catalog_user_provider", "user_provider: there is no administrator yet"),
    ],
)
def test_a_provider_that_cannot_be_used_ends_the_start_with_one_line(
    tmp_path: Path, provider: str, reason: str
) -> None:
    environment = {
        **os.environ,
        "TSDB_STANDALONE__LOGGING__DIR": str(tmp_path / "logs"),
        "TSDB_STANDALONE__HTTP__ADDR": "127.0.0.1:0",
        "TSDB_STANDALONE__STORAGE__DATA_HOME": str(tmp_path / "data"),
        **PORTS,
    }
    result = subprocess.run(
        [*TSDB, "standalone", "start", "--user-provider", provider],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert result.returncode == 1
    told = [line for line in result.stderr.splitlines() if line.startswith("tsdb: ")]
    assert len(told) == 1
    assert told[0].startswith(f"tsdb: {reason}")
    assert "Traceback" not in result.stderr
