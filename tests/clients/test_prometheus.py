"""Prometheus scrapes the server, writes to it and reads from it; promtool asks it."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.clients.programs import find_program, free_port, program, snippet, wait_json, wait_rows
from tests.server_process import ServerProcess, running

# What a test cannot wait for: Prometheus scrapes every minute and describes metrics every minute.
_HURRY = "global:\n  scrape_interval: 1s\n"


@pytest.fixture(scope="module")
def prometheus(server: ServerProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """A running Prometheus: its URL and what it says."""
    directory = tmp_path_factory.mktemp("prometheus")
    config = directory / "prometheus.yml"
    text = snippet("Prometheus", server)
    assert "send_interval: 1m" in text
    config.write_text(_HURRY + text.replace("send_interval: 1m", "send_interval: 1s"))
    address = f"127.0.0.1:{free_port()}"
    arguments = (f"--config.file={config}", f"--storage.tsdb.path={directory}", f"--web.listen-address={address}")
    with program(directory, "prometheus", *arguments) as output:
        yield f"http://{address}", output


def test_what_prometheus_scrapes_of_the_server_is_in_the_server(
    server: ServerProcess, prometheus: tuple[str, Path]
) -> None:
    _, output = prometheus
    text = "SELECT instance, job, tsdb_value FROM up WHERE tsdb_value = 1 LIMIT 1"
    assert wait_rows(server, text, output=output) == [[server.url.removeprefix("http://"), "tsdb", 1.0]]
    rows = wait_rows(server, "SELECT count(*) FROM tsdb_servers_http_requests_total HAVING count(*) > 1", output=output)
    assert rows[0][0] > 1


def test_what_prometheus_knows_about_metrics_is_kept(server: ServerProcess, prometheus: tuple[str, Path]) -> None:
    found = wait_json(
        f"{server.url}/v1/prometheus/api/v1/metadata",
        {"metric": "tsdb_export_metrics_exports_total"},
        ("data", "tsdb_export_metrics_exports_total"),
    )
    # Only a sender says what a metric is for.
    wanted = {"type": "counter", "unit": "", "help": "Exports of the process's own metrics; outcome is ok or error."}
    deadline = time.monotonic() + 30
    while found != [wanted]:
        assert time.monotonic() < deadline, found
        time.sleep(0.1)
        answer = httpx.get(f"{server.url}/v1/prometheus/api/v1/metadata", timeout=10).json()
        found = answer["data"].get("tsdb_export_metrics_exports_total")


def test_prometheus_answers_with_what_only_the_server_holds(
    server: ServerProcess, prometheus: tuple[str, Path]
) -> None:
    url, _ = prometheus
    hour_ago = int(time.time()) - 3600
    lines = "\n".join(f"only_here,host={host} used={value} {hour_ago}" for host, value in (("a", 1.5), ("b", 2)))
    answer = httpx.post(f"{server.url}/v1/influxdb/write?precision=s", content=lines, timeout=10)
    assert answer.status_code == 204
    asked = {"query": "only_here", "time": str(hour_ago + 1)}
    result = wait_json(f"{url}/api/v1/query", asked, ("data", "result"))
    found = sorted((each["metric"]["host"], each["value"][1]) for each in result)
    assert found == [("a", "1.5"), ("b", "2")]
    asked = {"query": 'sum(only_here{host=~"a|b"})', "time": str(hour_ago + 1)}
    result = wait_json(f"{url}/api/v1/query", asked, ("data", "result"))
    assert result[0]["value"][1] == "3.5"


def test_promtool_asks_the_server_itself(server: ServerProcess, prometheus: tuple[str, Path]) -> None:
    wait_rows(server, "SELECT * FROM up WHERE tsdb_value = 1 LIMIT 1", output=prometheus[1])
    asked = [
        find_program("promtool"),
        "query",
        "instant",
        "-o",
        "json",
        f"{server.url}/v1/prometheus",
        'up{job="tsdb"}',
    ]
    said = subprocess.run(asked, capture_output=True, text=True, timeout=30, check=True).stdout
    (found,) = json.loads(said)
    assert found["metric"]["__name__"] == "up"
    assert found["value"][1] == "1"
    asked = [find_program("promtool"), "query", "labels", f"{server.url}/v1/prometheus", "job"]
    assert "tsdb" in subprocess.run(asked, capture_output=True, text=True, timeout=30, check=True).stdout.split()


def test_promtool_finds_the_server_where_it_expects_a_prometheus(
    server: ServerProcess, prometheus: tuple[str, Path]
) -> None:
    wait_rows(server, "SELECT * FROM up WHERE tsdb_value = 1 LIMIT 1", output=prometheus[1])
    for question, wanted in (
        (("instant", server.url, "count(up)"), "=> 1 @"),
        (("labels", server.url, "job"), "tsdb"),
        (("series", "--match=up", server.url), '__name__="up"'),
    ):
        asked = [find_program("promtool"), "query", *question]
        assert wanted in subprocess.run(asked, capture_output=True, text=True, timeout=30, check=True).stdout


def test_prometheus_federates_and_writes_under_paths_of_its_own(server: ServerProcess, tmp_path: Path) -> None:
    """The newest samples of the server reach another Prometheus with their times, and come back by remote write."""
    # Prometheus forwards only samples that are newer than its start: there is one for every second to come.
    moments = range(int(time.time()), int(time.time()) + 120)
    lines = "\n".join(
        f"federated,host=a,instance=far used=1.5 {at}000000000\nfederated,host=b used=2 {at}000000000" for at in moments
    )
    assert httpx.post(f"{server.url}/v1/influxdb/write", content=lines, timeout=10).status_code == 204
    httpx.post(f"{server.url}/v1/sql", data={"sql": "CREATE DATABASE mirror"}, timeout=10)
    config = tmp_path / "prometheus.yml"
    config.write_text(
        "global:\n  scrape_interval: 1s\nscrape_configs:\n- job_name: federate\n  honor_labels: true\n"
        "  metrics_path: /federate\n  params:\n    'match[]': ['federated']\n  static_configs:\n"
        f"  - targets: ['{server.url.removeprefix('http://')}']\n"
        f"remote_write:\n- url: {server.url}/api/v1/write?db=mirror\n"
    )
    own = f"127.0.0.1:{free_port()}"
    arguments = (f"--config.file={config}", f"--storage.tsdb.path={tmp_path}", f"--web.listen-address={own}")
    with program(tmp_path, "prometheus", *arguments) as output:
        both = "SELECT count(DISTINCT host) FROM mirror.federated HAVING count(DISTINCT host) = 2"
        wait_rows(server, both, output=output)
        text = "SELECT host, instance, max(tsdb_value) FROM mirror.federated GROUP BY host, instance"
        found = wait_rows(server, text, output=output)
    told = {(host, instance or "", value) for host, instance, value in found}
    # Without an instance of its own, a series must not get the one of the server it came from.
    assert told == {("a", "far", 1.5), ("b", "", 2.0)}


def test_prometheus_goes_on_where_it_was_after_the_server_was_away(tmp_path: Path) -> None:
    port = free_port()
    environment = {"TSDB_STANDALONE__HTTP__ADDR": f"127.0.0.1:{port}"}
    config = tmp_path / "prometheus.yml"
    config.write_text(
        "global:\n  scrape_interval: 1s\nscrape_configs:\n- job_name: itself\n  static_configs:\n"
        f"  - targets: ['127.0.0.1:{(own := free_port())}']\n"
        f"remote_write:\n- url: http://127.0.0.1:{port}/v1/prometheus/write\n"
    )
    arguments = (f"--config.file={config}", f"--storage.tsdb.path={tmp_path}", f"--web.listen-address=127.0.0.1:{own}")
    counted = "SELECT count(*), max(tsdb_timestamp) - min(tsdb_timestamp) FROM up WHERE job = 'itself'"
    with program(tmp_path, "prometheus", *arguments) as output:
        with running("standalone", tmp_path, environment=environment) as first:
            ((before, _),) = wait_rows(first, f"{counted} HAVING count(*) > 2", output=output)
        # It was killed; what was acknowledged is there, and what came meanwhile is sent again.
        with running("standalone", tmp_path, environment=environment) as second:
            ((after, span_ms),) = wait_rows(second, f"{counted} HAVING count(*) > {before + 5}", output=output)
            # A scrape every second, without a hole where the server was away.
            assert after >= span_ms / 1000 - 1
            assert second.stop() == 0
