"""Prometheus' HTTP API, in front of a real database."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import pytest

from tests.kernels.histogram_reference import Hist
from tests.servers.http.asgi_client import Answer, call
from tsdb.components._local import LocalOptions, open_directory
from tsdb.database import DatabaseGate, Session
from tsdb.query.promql import PromqlEngine
from tsdb.servers._inline import InlineLimits, InlinePolicy
from tsdb.servers.http import HttpApp, ServerFacts, prometheus_api_routes
from tsdb.units import Duration

PREFIX = "/v1/prometheus/api/v1/"
HISTOGRAM = Hist(4, 5, {1: 3.0, 2: 1.0}).encode().hex()
FORM = {"content-type": "application/x-www-form-urlencoded"}
SETUP = (
    "CREATE TABLE phy (ts TIMESTAMP(3) TIME INDEX, tsdb_value DOUBLE) "
    "ENGINE=metric WITH (physical_metric_table='true')",
    "CREATE TABLE up (ts TIMESTAMP(3) TIME INDEX, tsdb_value DOUBLE, job STRING, zone STRING, PRIMARY KEY (job, zone)) "
    "ENGINE=metric WITH (on_physical_table='phy')",
    "INSERT INTO up (ts, tsdb_value, job, zone) VALUES (0, 1, 'a', 'x'), (10000, 2, 'a', 'x'), (0, 0.5, 'b', NULL)",
    "CREATE TABLE plain (ts TIMESTAMP TIME INDEX, host STRING PRIMARY KEY, used DOUBLE, free DOUBLE)",
    "INSERT INTO plain VALUES (0, 'h', 1, 2)",
)


WITH_HISTOGRAMS = (
    "CREATE TABLE latency (ts TIMESTAMP(3) TIME INDEX, tsdb_value DOUBLE, tsdb_histogram VARBINARY, "
    "job STRING PRIMARY KEY)",
    "INSERT INTO latency (ts, tsdb_value, job) VALUES (0, 7, 'a')",
    f"INSERT INTO latency (ts, tsdb_histogram, job) VALUES (10000, X'{HISTOGRAM}', 'a')",
    "INSERT INTO latency (ts, tsdb_histogram, job) VALUES (10000, X'00', 'broken')",
)


class World:
    """A database and the API in front of it."""

    def __init__(self, directory: Path) -> None:
        self._opened = open_directory(directory, options=LocalOptions(has_housekeeping=False))
        self._app = HttpApp(body_limit=1 << 20, timeout=Duration.of_seconds(30))
        self.inline = InlinePolicy()
        self._routes = prometheus_api_routes(
            self._app,
            DatabaseGate(self._opened.database),
            ServerFacts({"version": "1"}, lambda: {"http": {"addr": "here"}}),
            inline=self.inline,
        )
        self.run(*SETUP)

    @property
    def promql(self) -> PromqlEngine:
        return self._opened.database.promql

    def run(self, *statements: str) -> None:
        for text in statements:
            for _ in self._opened.database.execute(text, Session()):
                pass

    def get(self, path: str, **params: Any) -> Answer:
        target = f"{PREFIX}{path}?{urlencode(params, doseq=True)}"
        return asyncio.run(call(self._app, "GET", target))

    def data(self, path: str, **params: Any) -> Any:
        answer = self.get(path, **params)
        assert answer.status == 200, answer.body
        body = answer.json()
        assert body["status"] == "success"
        return body["data"]

    def raw(self, method: str, target: str, body: bytes = b"", headers: dict[str, str] | None = None) -> Answer:
        return asyncio.run(call(self._app, method, target, headers=headers or {}, body=body))

    def close(self) -> None:
        self._routes.close()
        self._opened.close()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    yield world
    world.close()


def test_an_instant_query_gives_a_vector(world: World) -> None:
    data = world.data("query", query="up", time="10")
    assert data["resultType"] == "vector"
    assert {"metric": {"__name__": "up", "job": "a", "zone": "x"}, "value": [10, "2"]} in data["result"]
    assert {"metric": {"__name__": "up", "job": "b"}, "value": [10, "0.5"]} in data["result"]


def test_a_range_query_gives_a_matrix_in_the_order_of_labels(world: World) -> None:
    data = world.data("query_range", query="up", start="0", end="10", step="5s")
    assert data["resultType"] == "matrix"
    assert [each["metric"]["job"] for each in data["result"]] == ["a", "b"]
    assert data["result"][0]["values"] == [[0, "1"], [5, "1"], [10, "2"]]


def test_numbers_strings_and_samples_have_their_own_types(world: World) -> None:
    assert world.data("query", query="1/0", time="1.5") == {"resultType": "scalar", "result": [1.5, "+Inf"]}
    assert world.data("query", query='"x"', time="0") == {"resultType": "string", "result": [0, "x"]}
    data = world.data("query", query='up{job="a"}[1m]', time="10")
    assert data["resultType"] == "matrix"
    assert data["result"][0]["values"] == [[0, "1"], [10, "2"]]


def test_native_histograms_come_beside_numbers(world: World) -> None:
    world.run(*WITH_HISTOGRAMS)
    shown = {"count": "4", "sum": "5", "buckets": [[0, "1", "2", "3"], [0, "2", "4", "1"]]}
    (found,) = world.data("query", query='latency{job="a"}', time="10")["result"]
    assert found == {"metric": {"__name__": "latency", "job": "a"}, "histogram": [10, shown]}
    (found,) = world.data("query_range", query='latency{job="a"}', start=0, end=10, step=10)["result"]
    assert (found["values"], found["histograms"]) == ([[0, "7"]], [[10, shown]])
    (found,) = world.data("query", query='latency{job="a"}[1m]', time="10")["result"]
    assert (found["values"], found["histograms"]) == ([[0, "7"]], [[10, shown]])
    (found,) = world.data("query", query='histogram_quantile(0.75, latency{job="a"})', time="10")["result"]
    assert found["value"] == [10, "2"]


def test_native_histograms_are_text_in_tables(world: World) -> None:
    world.run(*WITH_HISTOGRAMS)
    text = quote('latency{job="a"}')
    answer = world.raw("GET", f"/v1/promql?query={text}&start=0&end=10&step=10s")
    rows = answer.json()["output"][0]["records"]["rows"]
    assert [row[1] for row in rows] == ["7", "{count:4, sum:5, (1,2]:3, (2,4]:1}"]


def test_bytes_that_are_no_histogram_are_the_fault_of_the_query(world: World) -> None:
    world.run(*WITH_HISTOGRAMS)
    answer = world.get("query", query='latency{job="broken"}', time="10")
    assert answer.status == 422
    assert "no native histogram" in answer.json()["error"]


def test_parameters_may_come_as_a_form(world: World) -> None:
    body = urlencode({"query": "sum(up)", "time": "1970-01-01T00:00:10Z"}).encode()
    answer = world.raw("POST", PREFIX + "query", body, FORM)
    assert answer.json()["data"]["result"] == [{"metric": {}, "value": [10, "2.5"]}]


def test_what_there_is_not_is_an_empty_answer(world: World) -> None:
    assert world.data("query", query="nothing")["result"] == []
    assert world.data("query", query="up", db="nowhere")["result"] == []
    assert world.data("label/nothing/values") == []
    assert world.data("query_exemplars") == []


def test_remarks_come_with_the_answer(world: World) -> None:
    body = world.get("query", query="rate(up[5m])", time="10").json()
    assert "might not be a counter" in body["infos"][0]


@pytest.mark.parametrize(
    ("path", "params", "kind"),
    [
        ("query", {"query": "up{"}, "bad_data"),
        ("query", {}, "bad_data"),
        ("query", {"query": "up", "time": "x"}, "bad_data"),
        ("query_range", {"query": "up", "start": "0", "end": "100000", "step": "1"}, "bad_data"),
        ("query_range", {"query": "up", "start": "1", "end": "0", "step": "1"}, "bad_data"),
        ("query_range", {"query": "up", "start": "0", "end": "1", "step": "0"}, "bad_data"),
        ("query_range", {"query": "up[5m]", "start": "0", "end": "1", "step": "1"}, "execution"),
        ("series", {}, "bad_data"),
        ("labels", {"match[]": "sum(up)"}, "bad_data"),
        ("labels", {"limit": "x"}, "bad_data"),
    ],
)
def test_wrong_requests_are_refused_in_the_form_of_the_api(world: World, path: str, params: Any, kind: str) -> None:
    answer = world.get(path, **params)
    assert answer.status == {"bad_data": 400, "execution": 422}[kind]
    body = answer.json()
    assert list(body) == ["status", "errorType", "error"]
    assert (body["status"], body["errorType"]) == ("error", kind)


def test_series_and_their_labels_can_be_browsed(world: World) -> None:
    period = {"start": "0", "end": "100"}
    assert world.data("labels") == ["__name__", "host", "job", "zone"]
    assert world.data("labels", **period, **{"match[]": "up"}) == ["__name__", "job", "zone"]
    assert world.data("label/__name__/values") == ["plain", "up"]
    assert world.data("label/job/values", **period) == ["a", "b"]
    assert world.data("label/job/values", **period, **{"match[]": 'up{zone="x"}'}) == ["a"]
    assert world.data("label/job/values", start="1000", end="2000") == []
    assert world.data("label/U__job/values", **period) == ["a", "b"]
    assert world.data("label/__field__/values", **{"match[]": "plain"}) == ["free", "used"]
    assert world.data("label/__database__/values", **{"match[]": "up"}) == ["public"]
    series = world.data("series", **period, **{"match[]": ['up{job="b"}', "plain"]})
    assert series == [{"__name__": "plain", "host": "h"}, {"__name__": "up", "job": "b"}]


def test_fields_of_a_table_are_told_apart_by_a_label(world: World) -> None:
    found = world.data("query", query="plain", time="0")["result"]
    assert {(each["metric"]["__field__"], each["value"][1]) for each in found} == {("used", "1"), ("free", "2")}


def test_queries_can_be_laid_out_and_looked_into(world: World) -> None:
    assert world.data("format_query", query="foo/bar") == "foo / bar"
    assert world.data("parse_query", query="foo")["type"] == "vectorSelector"
    assert world.data("metadata", metric="up") == {"up": [{"type": "gauge", "unit": "", "help": ""}]}
    build = world.data("status/buildinfo")
    assert (build["version"].split(".")[0], build["tsdb_version"]) == ("3", "1")
    assert world.raw("GET", "/v1/prometheus/").status == 200


def test_promql_is_also_answered_like_sql(world: World) -> None:
    text = quote('up{job="a"}')
    answer = world.raw("GET", f"/v1/promql?query={text}&start=0&end=10&step=10s")
    records = answer.json()["output"][0]["records"]
    assert [column["name"] for column in records["schema"]["column_schemas"]] == ["tsdb_value", "job", "zone", "ts"]
    assert records["rows"] == [[1.0, "a", "x", 0], [2.0, "a", "x", 10000]]
    assert (
        world.raw("GET", "/v1/promql?query=1&start=0&end=0&step=1&format=csv").body
        == b"1970-01-01 00:00:00.000,1.0\r\n"
    )
    assert world.raw("GET", "/v1/promql?query=1").status == 400


def test_too_many_queries_at_the_same_time_may_be_tried_again(world: World, caplog: pytest.LogCaptureFixture) -> None:
    budget = world.promql._budget
    budget.take(budget.samples_max)
    with caplog.at_level("INFO"):
        answer = world.get("query", query="up", time=10)
    budget.give(budget.samples_max)
    assert (answer.status, answer.headers["retry-after"]) == (503, "1")
    assert "at the same time would hold more than" in answer.json()["error"]
    assert not caplog.records, "it is no fault of the server"
    assert world.get("query", query="up", time=10).status == 200


def test_a_fast_query_is_answered_on_the_event_loop(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.inline.limits = InlineLimits(fast_seconds=60.0, soft_deadline_seconds=60.0)
    threads = []
    run = world.promql.run

    def recorded(*arguments: Any) -> Any:
        threads.append(threading.current_thread())
        return run(*arguments)

    monkeypatch.setattr(world.promql, "run", recorded)
    answers = [world.data("query", query=f"up + {number}", time=10) for number in range(5)]
    assert len({len(answer["result"]) for answer in answers}) == 1
    main = threading.current_thread()
    assert [thread is main for thread in threads] == [False, False, False, True, True]
    world.data("query_range", query="up + 1", start=0, end=10, step=5)
    assert threads[-1] is not main, "another span is another query"
    world.inline.limits = InlineLimits(fast_seconds=60.0, soft_deadline_seconds=-1.0)
    threads.clear()
    assert world.data("query", query="up + 7", time=10)["result"]
    assert [thread is main for thread in threads] == [True, False], "abandoned, and run again on a thread"
