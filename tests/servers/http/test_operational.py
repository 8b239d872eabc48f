import platform
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers.http.asgi_client import call
from tsdb.servers.http import HttpApp, operational_routes
from tsdb.telemetry import LogSetup, setup_logging
from tsdb.units import Duration


@pytest.fixture
def log_setup(tmp_path: Path) -> Iterator[LogSetup]:
    setup = setup_logging(app="tsdb-standalone", directory=tmp_path, level="info", append_stdout=False)
    yield setup
    setup.close()


class Process:
    """A component as its routes see it."""

    def __init__(self, log_setup: LogSetup, *, has_v1_health: bool = False) -> None:
        self.readiness: bool | str = True
        self.app = HttpApp(body_limit=0, timeout=Duration(0))
        operational_routes(
            self.app,
            component="standalone",
            version="1.2.3",
            commit="abcdef",
            branch="main",
            is_ready=lambda: self.readiness,
            effective_config=lambda: 'mode = "standalone"\n',
            log_setup=log_setup,
            has_v1_health=has_v1_health,
        )


@pytest.fixture
def process(log_setup: LogSetup) -> Process:
    return Process(log_setup)


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_health_is_good_as_long_as_the_process_lives(process: Process, method: str) -> None:
    process.readiness = "replaying the log"
    answer = await call(process.app, method, "/health")
    assert (answer.status, answer.body) == (200, b"{}")


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize(
    ("readiness", "status", "body"),
    [
        (True, 200, b"{}"),
        ("replaying the log", 503, b'{"state":"replaying the log"}'),
        (False, 503, b'{"state":"starting"}'),
    ],
)
async def test_ready_says_what_is_missing(
    process: Process, method: str, readiness: bool | str, status: int, body: bytes
) -> None:
    process.readiness = readiness
    answer = await call(process.app, method, "/ready")
    assert (answer.status, answer.body) == (status, body)


@pytest.mark.parametrize("is_asked_for", [True, False])
async def test_v1_health_exists_only_when_asked_for(log_setup: LogSetup, is_asked_for: bool) -> None:
    process = Process(log_setup, has_v1_health=is_asked_for)
    assert (await call(process.app, "GET", "/v1/health")).status == (200 if is_asked_for else 404)


async def test_status_says_what_runs_where(process: Process) -> None:
    assert (await call(process.app, "GET", "/status")).json() == {
        "commit": "abcdef",
        "branch": "main",
        "rustc_version": f"Python {platform.python_version()}",
        "python_version": platform.python_version(),
        "hostname": socket.gethostname(),
        "version": "1.2.3",
        "component": "standalone",
    }


async def test_metrics_are_in_the_text_format_of_prometheus(process: Process) -> None:
    answer = await call(process.app, "GET", "/metrics")
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert b"# TYPE tsdb_servers_http_requests_total counter" in answer.body


async def test_config_is_the_effective_configuration_as_toml(process: Process) -> None:
    answer = await call(process.app, "GET", "/config")
    assert answer.headers["content-type"] == "application/toml; charset=utf-8"
    assert answer.body == b'mode = "standalone"\n'


async def test_the_log_level_can_be_changed(process: Process, log_setup: LogSetup) -> None:
    answer = await call(process.app, "POST", "/debug/log_level", body=b"warn,tsdb.http=debug")
    assert answer.status == 200
    assert answer.body == b"Log Level changed from info to warn,tsdb.http=debug"
    assert log_setup.level == "warn,tsdb.http=debug"


@pytest.mark.parametrize("body", [b"loud", b"", b"\xff"])
async def test_a_bad_log_level_is_400_and_changes_nothing(process: Process, log_setup: LogSetup, body: bytes) -> None:
    answer = await call(process.app, "POST", "/debug/log_level", body=body)
    assert answer.status == 400
    assert log_setup.level == "info"


async def test_the_index_links_to_pages_that_exist(process: Process) -> None:
    import re

    answer = await call(process.app, "GET", "/")
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    links = re.findall(r'href="([^"]+)"', answer.body.decode())
    assert "/metrics" in links
    for link in links:
        assert (await call(process.app, "GET", link)).status == 200
