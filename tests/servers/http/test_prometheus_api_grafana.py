"""What dashboards ask of the Prometheus API beside queries, and how queries end before they are answered."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from tests.engine.lives import wait_until
from tests.servers.http.asgi_client import Answer, call
from tests.servers.http.test_prometheus_api import FORM, PREFIX, SETUP, World
from tsdb.components._local import LocalOptions, open_directory
from tsdb.database import Database, DatabaseGate, Session
from tsdb.errors import Cancelled
from tsdb.query import TableRecords
from tsdb.servers.http import HttpApp, prometheus_api_routes
from tsdb.units import Duration


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    yield world
    world.close()


def _post(world: World, path: str, **params: Any) -> Any:
    body = urlencode(params, doseq=True).encode()
    answer = world.raw("POST", PREFIX + path, body, FORM)
    assert answer.status == 200, answer.body
    return answer.json()["data"]


def test_a_data_source_is_checked_with_a_sum(world: World) -> None:
    assert _post(world, "query", query="1+1", time="4") == {"resultType": "scalar", "result": [4, "2"]}
    assert "version" in world.data("status/buildinfo")


def test_what_there_never_is_is_empty(world: World) -> None:
    assert world.data("rules") == {"groups": []}
    assert world.data("alerts") == {"alerts": []}
    assert world.data("targets") == {"activeTargets": [], "droppedTargets": []}
    assert world.data("query_exemplars", query="up", start="0", end="1") == []
    assert _post(world, "query_exemplars", query="up", start="0", end="1") == []


def test_labels_are_browsed_with_forms_several_selectors_and_times(world: World) -> None:
    period = {"start": "0", "end": "100"}
    assert _post(world, "labels", **period) == ["__name__", "host", "job", "zone"]
    assert _post(world, "labels", **period, **{"match[]": ["up", "plain"]}) == ["__name__", "host", "job", "zone"]
    assert world.data("labels", start="1000", end="2000", **{"match[]": "up"}) == ["__name__"]
    assert _post(world, "label/job/values", **period, **{"match[]": "up"}) == ["a", "b"]
    found = _post(world, "series", **period, **{"match[]": ['up{job="a"}', 'up{job="b"}', "up"]})
    assert found == [{"__name__": "up", "job": "a", "zone": "x"}, {"__name__": "up", "job": "b"}]
    assert len(world.data("series", limit="1", **period, **{"match[]": "up"})) == 1
    assert world.data("labels", limit="2") == ["__name__", "host"]
    assert world.data("labels", limit="0") == ["__name__", "host", "job", "zone"]
    assert world.data("label/job/values", limit="1", **period) == ["a"]


def test_series_of_an_answer_can_be_limited(world: World) -> None:
    body = world.get("query", query="up", time="10", limit="1").json()
    assert len(body["data"]["result"]) == 1
    assert body["warnings"] == ["results truncated due to limit"]
    body = world.get("query_range", query="up", start="0", end="10", step="10", limit="1").json()
    assert [each["metric"]["job"] for each in body["data"]["result"]] == ["a"]
    assert len(world.data("query", query="up[1m]", time="10", limit="1")["result"]) == 1
    assert "warnings" not in world.get("query", query="up", time="10", limit="2").json()


def test_how_far_a_selector_looks_back_can_be_chosen(world: World) -> None:
    for name in ("lookback", "lookback_delta"):
        assert world.data("query", query="up", time="60", **{name: "30s"})["result"] == []
        assert len(world.data("query", query="up", time="60", **{name: "100"})["result"]) == 2


def test_an_answer_tells_its_cost_when_asked(world: World) -> None:
    stats = world.data("query", query="up", time="10", stats="all")["stats"]
    assert stats["samples"]["totalQueryableSamples"] == 3
    assert stats["timings"]["evalTotalTime"] > 0
    assert "stats" not in world.data("query", query="up", time="10")


def test_a_query_may_take_no_longer_than_it_says(world: World) -> None:
    query = " + ".join(["up"] * 4000)
    answer = world.raw("POST", PREFIX + "query", urlencode({"query": query, "timeout": "1ms"}).encode(), FORM)
    assert answer.status == 503
    assert answer.json()["errorType"] == "timeout"
    assert world.get("query", query="up", timeout="never").status == 400
    assert world.get("query", query="up", timeout="10s").status == 200


class _Endless:
    """Evaluates until it is told to stop."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.is_running = threading.Event()
        self.stopped_by: BaseException | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database.promql, name)

    def run(self, text: str, session: Session, span: object, check: Callable[[], None]) -> object:
        self.is_running.set()
        deadline = time.monotonic() + 10
        try:
            while time.monotonic() < deadline:
                check()
        except Cancelled as error:
            self.stopped_by = error
            raise
        raise AssertionError("nobody stopped the query")


class _EndlessDatabase:
    """The database, with an evaluation that does not end."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.promql = _Endless(database)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database, name)


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    opened = open_directory(tmp_path, options=LocalOptions(has_housekeeping=False))
    for text in SETUP:
        list(opened.database.execute(text, Session()))
    yield opened.database
    opened.close()


def _ask(database: Database, text: str) -> list[dict[str, Any]]:
    output = database.run(text, Session())
    return [row for batch in output for row in batch.to_pylist()]  # type: ignore[union-attr]


def test_queries_are_in_the_process_list_and_can_be_killed(database: Database) -> None:
    endless = _EndlessDatabase(database)
    app = HttpApp(body_limit=1 << 20, timeout=Duration.of_seconds(30))
    routes = prometheus_api_routes(app, DatabaseGate(endless))  # type: ignore[arg-type]
    answers: list[Answer] = []
    target = f"{PREFIX}query?{urlencode({'query': 'sum(up)'})}"
    thread = threading.Thread(target=lambda: answers.append(asyncio.run(call(app, "GET", target))))
    thread.start()
    assert endless.promql.is_running.wait(10)
    running = _ask(database, "SELECT id, query, client FROM information_schema.process_list WHERE query = 'sum(up)'")
    assert [row["client"] for row in running] == ["127.0.0.1"]
    list(database.execute(f"KILL '{running[0]['id']}'", Session()))
    thread.join(10)
    routes.close()
    assert answers[0].status == 499
    assert answers[0].json()["errorType"] == "canceled"
    assert _ask(database, "SELECT id FROM information_schema.process_list WHERE query = 'sum(up)'") == []


def test_a_query_stops_when_the_time_of_its_request_is_up(database: Database) -> None:
    endless = _EndlessDatabase(database)
    app = HttpApp(body_limit=1 << 20, timeout=Duration.of_seconds(0.05))
    routes = prometheus_api_routes(app, DatabaseGate(endless))  # type: ignore[arg-type]
    answer = asyncio.run(call(app, "GET", f"{PREFIX}query?query=up"))
    routes.close()
    wait_until(lambda: endless.promql.stopped_by is not None)
    assert answer.status == 503
    assert answer.json()["errorType"] == "timeout"
    assert isinstance(endless.promql.stopped_by, Cancelled)


def test_tql_is_in_the_process_list(database: Database) -> None:
    output = database.run("TQL EVAL (0, 10, '5s') up", Session())
    assert not isinstance(output, TableRecords)
    running = _ask(database, "SELECT query FROM information_schema.process_list WHERE query LIKE 'TQL%'")
    assert [row["query"] for row in running] == ["TQL EVAL (0, 10, '5s') up"]
    output.close()  # type: ignore[union-attr]
    assert _ask(database, "SELECT query FROM information_schema.process_list WHERE query LIKE 'TQL%'") == []


def test_queries_are_counted(world: World) -> None:
    before = _counts(world)
    world.get("query", query="up")
    world.get("query_range", query="up", start="0", end="1", step="1")
    world.raw("GET", "/v1/promql?query=up&start=0&end=1&step=1")
    world.get("query", query="up{")
    after = _counts(world)
    assert {outcome: after[outcome] - before[outcome] for outcome in after} == {"ok": 3, "error": 1}


def _counts(world: World) -> dict[str, float]:
    from tsdb.database.database import _STATEMENTS

    return {outcome: _STATEMENTS.labels("Promql", outcome)._value.get() for outcome in ("ok", "error")}
