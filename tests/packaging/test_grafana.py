"""The Grafana files: dashboards of metrics that exist, in PromQL that the server answers; data sources that connect."""

from __future__ import annotations

import json
import re
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import psycopg
import pymysql
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from deploy.grafana.generate import DASHBOARDS, generated_files
from deploy.grafana.panels import SCHEMA_VERSION
from tests.packaging.programs import DEPLOY, ROOT
from tests.server_process import ServerProcess, running
from tests.telemetry.test_metrics import documented
from tsdb.config import Component, StandaloneConfig, load_config
from tsdb.promql import VectorSelector, parse_promql, walk

pytestmark = pytest.mark.timeout(300)

WAIT_SECONDS_MAX = 60.0
GRID_WIDTH = 24
FILES = sorted((DEPLOY / "grafana" / "dashboards").glob("*.json"))
ADDED_LABELS = {"instance"}
"""Labels that a scraper adds."""


def dashboards() -> list[dict[str, Any]]:
    return [json.loads(path.read_text(encoding="utf-8")) for path in FILES]


def expressions() -> list[str]:
    """All expressions, with the variables of Grafana replaced as Grafana does for all servers."""
    texts = [
        target["expr"]
        for dashboard in dashboards()
        for panel in dashboard["panels"]
        for target in panel.get("targets", [])
    ]
    assert len(texts) > 80
    return [text.replace("$instance", ".*").replace("$__rate_interval", "1m") for text in texts]


def selectors() -> Iterator[VectorSelector]:
    for text in expressions():
        yield from (node for node in walk(parse_promql(text)) if isinstance(node, VectorSelector))


def family_of(name: str) -> str:
    """The name under which a metric is documented: that of its histogram, if it is a part of one."""
    return re.sub(r"_(bucket|sum|count)$", "", name)


@pytest.mark.parametrize(("name", "text"), generated_files().items(), ids=list(generated_files()))
def test_a_dashboard_is_what_its_tables_say(name: str, text: str) -> None:
    assert (ROOT / name).read_text(encoding="utf-8") == text, f"{name} is out of date: run `make generate`"


def test_there_are_no_other_dashboards() -> None:
    assert {path.stem for path in FILES} == {each.uid for each in DASHBOARDS}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_dashboard_is_one_that_grafana_can_show(path: Path) -> None:
    dashboard = json.loads(path.read_text(encoding="utf-8"))
    assert dashboard["schemaVersion"] == SCHEMA_VERSION
    assert "id" not in dashboard, "an id belongs to one installation"
    panels = dashboard["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    titles = [panel["title"] for panel in panels]
    assert all(titles)
    cells: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= GRID_WIDTH
        taken = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert taken.isdisjoint(cells), f"{panel['title']} lies on another panel"
        cells |= taken
        targets = panel.get("targets", [])
        assert bool(targets) == (panel["type"] != "row")
        assert len({target["refId"] for target in targets}) == len(targets)
        assert all(target["datasource"]["uid"] == "${datasource}" for target in targets)
    variables = {variable["name"] for variable in dashboard["templating"]["list"]}
    assert variables == {"datasource", "instance"}
    assert set(re.findall(r"\$\{?(\w+)", path.read_text(encoding="utf-8"))) - {"__rate_interval", "__all"} <= variables


def test_every_metric_and_label_is_documented() -> None:
    known = documented()
    for selector in selectors():
        assert selector.name is not None
        family = family_of(selector.name) if family_of(selector.name) in known else selector.name
        assert family in known, f"docs/metrics.md does not have {selector.name}"
        labels = {*known[family][1], *ADDED_LABELS, "__name__"}
        assert {matcher.name for matcher in selector.matchers} <= labels, selector.name


def test_every_grouping_label_is_one_of_the_metric() -> None:
    """Each `by (…)` stands before the one metric that it groups."""
    known = documented()
    for text in expressions():
        for labels, name in re.findall(r"by \(([^)]*)\) \((?:rate\()?(\w+)\{", text):
            family = family_of(name) if family_of(name) in known else name
            extra = {"le"} if name.endswith("_bucket") else set()
            assert set(labels.split(", ")) <= {*known[family][1], *extra}, text


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server that has imported its own metrics at least twice, so that there are rates."""
    environment = {
        "TSDB_STANDALONE__EXPORT_METRICS__ENABLE": "true",
        "TSDB_STANDALONE__EXPORT_METRICS__WRITE_INTERVAL": "1s",
    }
    environment["TSDB_STANDALONE__EXPORT_METRICS__SELF_IMPORT__DB"] = "information_schema"
    with running("standalone", tmp_path_factory.mktemp("grafana"), environment=environment) as started:
        deadline = time.monotonic() + WAIT_SECONDS_MAX
        while _exports(started) < 2:
            assert time.monotonic() < deadline, started.output
            time.sleep(0.1)
        yield started


def _exports(server: ServerProcess) -> float:
    found = re.search(
        r'^tsdb_export_metrics_exports_total\{outcome="ok"\} (\S+)$', server.get("/metrics").text, re.MULTILINE
    )
    return float(found[1]) if found else 0.0


@pytest.fixture(scope="module")
def shown(server: ServerProcess, tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The families that `/metrics` of a standalone server or of a metadata server shows."""
    memory = ("--use-memory-store", "--bind-addr", "127.0.0.1:0")
    with running("metasrv", tmp_path_factory.mktemp("metasrv"), *memory) as metasrv:
        texts = [each.get("/metrics").text for each in (server, metasrv)]
    families = [family for text in texts for family in text_string_to_metric_families(text)]
    return {family.name + ("_total" if family.type == "counter" else "") for family in families}


def test_every_metric_is_shown_by_a_live_server(shown: set[str]) -> None:
    names = {selector.name for selector in selectors() if selector.name is not None}
    assert {name for name in names if name not in shown and family_of(name) not in shown} == set()


def test_the_server_answers_every_expression(server: ServerProcess) -> None:
    now = time.time()
    answered = 0
    with httpx.Client(base_url=server.url, timeout=WAIT_SECONDS_MAX) as client:
        for text in expressions():
            parameters = {"query": text, "start": now - 60, "end": now, "step": 5, "db": "tsdb_metrics"}
            answer = client.post("/v1/prometheus/api/v1/query_range", data=parameters)
            assert answer.status_code == 200, f"{text}: {answer.text}"
            assert answer.json()["status"] == "success", text
            answered += bool(answer.json()["data"]["result"])
    assert answered > 20, "most panels of a server that has just started show something"


def test_the_variable_lists_servers(server: ServerProcess) -> None:
    """The label `instance` is there also without a scraper, which would add it."""
    parameters = {"match[]": "tsdb_app_version", "db": "tsdb_metrics"}
    answer = server.get(f"/v1/prometheus/api/v1/label/instance/values?{httpx.QueryParams(parameters)}")
    assert (answer.status_code, answer.json()["data"]) == (200, [f"{socket.gethostname()}:0"])


def sources() -> dict[str, dict[str, Any]]:
    text = (DEPLOY / "grafana" / "provisioning" / "datasources" / "tsdb.yaml").read_text(encoding="utf-8")
    return {each["uid"]: each for each in yaml.safe_load(text)["datasources"]}


def test_data_sources_have_the_default_addresses() -> None:
    config = load_config(Component.STANDALONE, environment={}).config
    assert isinstance(config, StandaloneConfig)
    found = sources()
    for uid in ("tsdb", "tsdb-self"):
        assert urlsplit(found[uid]["url"]).netloc == str(config.http.addr)
    assert found["tsdb-mysql"]["url"] == str(config.mysql.addr)
    assert found["tsdb-postgres"]["url"] == str(config.postgres.addr)
    assert len({each["name"] for each in found.values()}) == len(found)


def test_data_sources_connect(server: ServerProcess) -> None:
    found = sources()
    for uid in ("tsdb", "tsdb-self"):
        path = urlsplit(found[uid]["url"]).path
        query = found[uid]["jsonData"].get("customQueryParameters", "")
        answer = httpx.post(
            f"{server.url}{path}/api/v1/query?{query}", data={"query": "tsdb_app_version"}, timeout=WAIT_SECONDS_MAX
        )
        assert len(answer.json()["data"]["result"]) == (uid == "tsdb-self")
    mysql, postgres = found["tsdb-mysql"], found["tsdb-postgres"]
    with (
        pymysql.connect(
            host="127.0.0.1", port=server.port_of("MySQL"), user=mysql["user"], database=mysql["jsonData"]["database"]
        ) as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute("SELECT 1")
        assert list(cursor.fetchall()) == [(1,)]
    with psycopg.connect(
        host="127.0.0.1", port=server.port_of("Postgres"), user=postgres["user"],
        dbname=postgres["jsonData"]["database"], sslmode=postgres["jsonData"]["sslmode"],
    ) as client:  # fmt: skip
        assert client.execute("SELECT 1").fetchall() == [(1,)]
