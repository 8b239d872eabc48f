"""Components started as processes and used from outside."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import time
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from tests.server_process import TSDB, ServerProcess, running, spawn
from tsdb.components._process import ClaimedDirectory, find_warnings
from tsdb.config import Component, load_config

CLUSTER_COMPONENTS = ["frontend", "datanode"]


def _address(server: ServerProcess) -> tuple[str, int]:
    parts = urlsplit(server.url)
    assert parts.hostname
    assert parts.port
    return parts.hostname, parts.port


def _exchange(server: ServerProcess, request: bytes) -> bytes:
    """Send raw bytes and return all that comes back until the server closes or falls silent."""
    with socket.create_connection(_address(server), timeout=5) as connection:
        connection.sendall(request)
        return connection.recv(65536)


def test_component_serves_its_operational_endpoints_and_stops_on_sigterm(tmp_path: Path) -> None:
    component = "standalone"
    with running(component, tmp_path) as server:
        assert server.get("/health").json() == {}
        assert httpx.post(server.url + "/health").status_code == 200
        assert server.get("/ready").status_code == 200
        status = server.get("/status").json()
        assert status["component"] == component
        assert {"commit", "branch", "rustc_version", "hostname", "version"} <= set(status)
        metrics = server.get("/metrics")
        assert metrics.headers["content-type"].startswith("text/plain; version=0.0.4")
        assert re.search(rf'^tsdb_app_version{{app="tsdb-{component}",.*}} 1.0$', metrics.text, flags=re.MULTILINE)
        assert 'addr = "127.0.0.1:0"  # environment TSDB_' in server.get("/config").text
        assert server.get("/nothing/here").status_code == 404
        assert server.stop() == 0
    assert f"tsdb {status['version']} {component} is ready" in server.output
    assert "Traceback" not in server.output


@pytest.mark.parametrize("component", CLUSTER_COMPONENTS)
def test_a_component_without_a_metadata_server_says_so(component: str, tmp_path: Path) -> None:
    nowhere = {
        f"TSDB_{component.upper()}__META_CLIENT__METASRV_ADDRS": "127.0.0.1:1",
        f"TSDB_{component.upper()}__META_CLIENT__TIMEOUT": "50ms",
    }
    server = spawn(component, tmp_path, environment=nowhere)
    assert server.process.wait(timeout=60) == 1
    assert "tsdb: no metadata server answers at 127.0.0.1:1" in server.output
    assert "Traceback" not in server.output


def test_data_home_option_chooses_the_directory(tmp_path: Path) -> None:
    with running("standalone", tmp_path, "--data-home", str(tmp_path / "chosen")) as server:
        assert re.search(rf"^  data +{tmp_path / 'chosen'}$", server.output, flags=re.MULTILINE)
    assert (tmp_path / "chosen" / "metadata.sqlite").exists()
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(
    ("directory", "is_warned"), [("/tmp/tsdb", True), ("/tmp", True), ("/var/lib/tsdb", False), ("/tmpfoo", False)]
)
def test_data_below_tmp_is_warned_about_with_the_way_out(directory: str, is_warned: bool) -> None:
    loaded = load_config(Component.STANDALONE, environment={})
    warnings = list(find_warnings(loaded, ClaimedDirectory(Path(directory), "storage.data_home")))
    assert bool(warnings) is is_warned
    if is_warned:
        assert f"stored in {directory}, below /tmp" in warnings[0]
        assert "--data-home DIR or storage.data_home" in warnings[0]


def test_the_dashboard_can_be_switched_off(tmp_path: Path) -> None:
    """Without a built page, which tests do not need, it says how to build one: 503."""
    with running("standalone", tmp_path) as server:
        assert server.get("/dashboard").status_code == 308
        assert server.get("/dashboard/").status_code in (200, 503)
        assert re.search(rf"^  dashboard +{server.url}/dashboard/$", server.output, flags=re.MULTILINE)
    with running("standalone", tmp_path, environment={"TSDB_STANDALONE__HTTP__DISABLE_DASHBOARD": "true"}) as server:
        assert server.get("/dashboard").status_code == 404
        assert server.get("/dashboard/").status_code == 404
        assert not re.search(r"^  dashboard ", server.output, flags=re.MULTILINE)


def test_protocols_can_be_switched_off(tmp_path: Path) -> None:
    off = {f"TSDB_STANDALONE__{name}__ENABLE": "false" for name in ("MYSQL", "POSTGRES", "OPENTSDB", "INFLUXDB")}
    off["TSDB_STANDALONE__PROM_STORE__ENABLE"] = "false"
    with running("standalone", tmp_path, environment=off) as server:
        summary = server.output
        assert not re.search(r"^  (MySQL|Postgres\w*|OpenTSDB) ", summary, flags=re.MULTILINE | re.IGNORECASE)
        for path in ("/v1/influxdb/ping", "/v1/prometheus/api/v1/labels", "/v1/opentsdb/api/version"):
            assert server.get(path).status_code == 404, path
        assert server.get("/v1/sql?sql=SELECT+1").status_code == 200


def test_config_command_and_endpoint_say_the_same(tmp_path: Path) -> None:
    with running("standalone", tmp_path, "--http-addr", "127.0.0.1:0") as server:
        shown = server.get("/config").text
        environment = dict(
            line.split("=", 1) for line in Path(f"/proc/{server.process.pid}/environ").read_text().split("\0") if line
        )
    command = [*TSDB, "standalone", "config", "--http-addr", "127.0.0.1:0"]
    assert subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout == shown


def test_sigint_ends_gracefully_too(tmp_path: Path) -> None:
    with running("standalone", tmp_path) as server:
        assert server.stop(signal.SIGINT) == 0


def test_body_over_the_limit_is_refused_before_it_is_sent(tmp_path: Path) -> None:
    with running("standalone", tmp_path, environment={"TSDB_STANDALONE__HTTP__BODY_LIMIT": "1KB"}) as server:
        head = b"POST /debug/log_level HTTP/1.1\r\nhost: x\r\ncontent-length: 1025\r\n\r\n"
        assert _exchange(server, head).startswith(b"HTTP/1.1 413 ")
        assert httpx.post(server.url + "/debug/log_level", content=b"info").status_code == 200


def test_request_over_the_timeout_is_answered_408(tmp_path: Path) -> None:
    with running("standalone", tmp_path, environment={"TSDB_STANDALONE__HTTP__TIMEOUT": "200ms"}) as server:
        started = time.monotonic()
        answer = _exchange(server, b"POST /debug/log_level HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\nin")
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert 0.1 < time.monotonic() - started < 15


def test_port_in_use_is_one_line_that_names_the_key(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"127.0.0.1:{other.getsockname()[1]}"
        result = _start(tmp_path, "--http-addr", address)
    assert result.returncode == 1
    assert result.stderr == (
        f"tsdb: http.addr: {address} is already in use; stop the other process or choose another address "
        "with --http-addr\n"
    )


def test_second_server_on_the_same_port_is_refused(tmp_path: Path) -> None:
    with running("standalone", tmp_path) as server:
        host, port = _address(server)
        result = _start(tmp_path / "second", "--http-addr", f"{host}:{port}")
    assert result.returncode == 1
    assert result.stderr.startswith(f"tsdb: http.addr: {host}:{port} is already in use;")


def test_locked_data_directory_is_one_line_that_names_the_key(tmp_path: Path) -> None:
    with running("standalone", tmp_path) as server:
        result = _start(tmp_path, "--http-addr", "127.0.0.1:0")
        assert result.returncode == 1
        assert re.fullmatch(
            rf"tsdb: storage\.data_home: \S+/data is in use by process {server.process.pid} \(since \S+\); "
            r"stop it or choose another directory\n",
            result.stderr,
        )


def test_data_directory_of_a_killed_process_is_free_again(tmp_path: Path) -> None:
    with running("standalone", tmp_path) as server:
        assert server.stop(signal.SIGKILL) == -signal.SIGKILL
    with running("standalone", tmp_path) as server:
        assert server.get("/ready").status_code == 200


def test_log_directory_that_cannot_be_used_names_its_key(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = _start(tmp_path, "--http-addr", "127.0.0.1:0", "--log-dir", str(tmp_path / "file"))
    assert result.returncode == 1
    assert result.stderr.startswith("tsdb: logging.dir: ")
    assert "Traceback" not in result.stderr + result.stdout


def test_logs_go_to_hourly_files_and_to_stdout(tmp_path: Path) -> None:
    with running("standalone", tmp_path) as server:
        server.stop()
    names = sorted(path.name for path in (tmp_path / "logs").iterdir())
    assert any(re.fullmatch(r"tsdb-standalone\.\d{4}-\d\d-\d\d-\d\d", name) for name in names)
    assert any(re.fullmatch(r"tsdb-standalone-err\.\d{4}-\d\d-\d\d-\d\d", name) for name in names)
    log = "".join(path.read_text() for path in (tmp_path / "logs").iterdir() if "-err" not in path.name)
    assert re.search(r"^\d{4}-\S+Z  INFO tsdb\.process: ready component=standalone version=", log, re.MULTILINE)
    assert "tsdb.process: ready" in server.output


def test_stdout_stays_free_of_logs_when_append_stdout_is_off(tmp_path: Path) -> None:
    with running("standalone", tmp_path, environment={"TSDB_STANDALONE__LOGGING__APPEND_STDOUT": "false"}) as server:
        server.stop()
    assert "INFO" not in server.output
    assert "standalone is ready" in server.output


def test_log_level_filters_and_can_be_changed_while_running(tmp_path: Path) -> None:
    with running("standalone", tmp_path, "--log-level", "error") as server:
        assert "INFO" not in server.output
        answer = httpx.post(server.url + "/debug/log_level", content=b"info")
        assert answer.text == "Log Level changed from error to info"
        assert httpx.post(server.url + "/debug/log_level", content=b"loud").status_code == 400
        server.stop()
    assert "INFO tsdb.process: stopped" in server.output


def test_secrets_stand_neither_in_logs_nor_in_config(tmp_path: Path) -> None:
    secret = "hunter2-is-the-password"
    environment = {
        "TSDB_STANDALONE__EXPORT_METRICS__REMOTE_WRITE__URL": f"http://me:{secret}@127.0.0.1:1/w",
        "TSDB_STANDALONE__EXPORT_METRICS__REMOTE_WRITE__HEADERS": f"Authorization={secret}",
    }
    provider = f"static_user_provider:cmd:me={secret}"
    with running(
        "standalone", tmp_path, "--log-level", "debug", "--user-provider", provider, environment=environment
    ) as server:
        httpx.post(server.url + "/debug/log_level", content=secret.encode())
        assert secret not in server.get("/config").text
        server.stop()
    assert secret not in server.output
    assert secret not in "".join(path.read_text() for path in (tmp_path / "logs").iterdir())


def test_configuration_error_is_told_without_a_traceback(tmp_path: Path) -> None:
    result = _start(tmp_path, "--http-addr", "nope")
    assert result.returncode == 1
    assert result.stderr == (
        "tsdb: the configuration has 1 problem:\n"
        "  http.addr: 'nope' is not an address, expected host:port such as 127.0.0.1:4000 (from option --http-addr)\n"
    )


def _start(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Start a standalone that is expected to give up."""
    environment = {
        **os.environ,
        "TSDB_STANDALONE__STORAGE__DATA_HOME": str(directory / "data"),
        "TSDB_STANDALONE__LOGGING__DIR": str(directory / "logs"),
    }
    return subprocess.run(
        [*TSDB, "standalone", "start", *arguments], env=environment, capture_output=True, text=True, timeout=30
    )
