"""Prometheus' HTTP API about all tables of a database: listings that agree with each other, federation, status."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from tests.servers.http.asgi_client import call
from tests.servers.http.test_prometheus_api import FORM, PREFIX, World
from tsdb.database import FederatedSample
from tsdb.database.prometheus.metadata import kind_of
from tsdb.errors import Status
from tsdb.model import MetricDescription
from tsdb.query.promql import Newest
from tsdb.servers._prometheus_errors import prometheus_error_body, prometheus_error_status
from tsdb.servers.http import COMPAT_PATHS
from tsdb.servers.http.prometheus._federate import encode_samples

PERIOD = {"start": "0", "end": "100"}
TABLES = (
    "CREATE TABLE cpu (ts TIMESTAMP(3) TIME INDEX, host STRING PRIMARY KEY, usage DOUBLE)",
    "INSERT INTO cpu VALUES (0, 'h', 7), (0, 'i', 8)",
    "CREATE TABLE words (ts TIMESTAMP(3) TIME INDEX, speaker STRING PRIMARY KEY, said STRING)",
    "INSERT INTO words VALUES (0, 's', 'x')",
)
"""Beside a metric `up` (job, zone) and a table `plain` (host) with the fields used and free."""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    world = World(Path(tmp_path_factory.mktemp("listings")))
    world.run(*TABLES)
    yield world
    world.close()


SELECTORS: list[list[str]] = [
    ["up"],
    ["cpu"],
    ["plain"],
    ["nothing"],
    ['{job="a"}'],
    ['{host="h"}'],
    ['{host="h", job=""}'],
    ['{host=~".+"}', "up"],
    ['{__name__=~"c.*|up"}'],
    ['{__name__=~"c.*|up", __name__!="cpu"}'],
    ['{__name__!="up", __name__=~".+"}'],
    ['{__name__!~"up|plain", host!="h", host=~".+"}'],
    ['{zone="x"}', '{host="i"}'],
    ['{__field__="used"}'],
    ['{__field__=~"us.*"}', '{job="b"}'],
    ['{__database__="public", host="h"}'],
    ['{__database__="elsewhere", __name__=~".+"}'],
]


@pytest.mark.parametrize("selectors", SELECTORS, ids=str)
def test_all_listings_are_about_the_same_series(world: World, selectors: list[str]) -> None:
    asked: dict[str, Any] = {**PERIOD, "match[]": selectors}
    series = world.data("series", **asked)
    names = {name for each in series for name in each}
    assert set(world.data("labels", **asked)) == {"__name__"} | names
    for name in ("__name__", "job", "zone", "host", "none"):
        assert world.data(f"label/{name}/values", **asked) == sorted({each[name] for each in series if name in each})
    answers = [each for text in selectors for each in world.data("query", query=text, time="0")["result"]]
    found = {tuple(sorted(each["metric"].items())) for each in answers}
    told = {tuple(sorted(each.items())) for each in series}
    assert {tuple(pair for pair in each if pair[0] != "__field__") for each in found} == told


def test_all_tables_with_numbers_are_metrics(world: World) -> None:
    assert world.data("label/__name__/values") == ["cpu", "plain", "up"]
    assert world.data("label/__name__/values", limit="2") == ["cpu", "plain"]
    assert set(world.data("metadata")) == {"cpu", "plain", "up"}
    assert world.data("labels") == ["__name__", "host", "job", "zone"]
    assert world.data("label/host/values", **PERIOD) == ["h", "i"]
    assert world.data("label/__field__/values") == ["free", "tsdb_value", "usage", "used"]
    assert world.data("label/__field__/values", **{"match[]": "cpu"}) == ["usage"]
    assert world.data("label/__database__/values", **{"match[]": "nothing"}) == []


def test_federation_gives_the_newest_sample_of_each_series(world: World) -> None:
    now_ms = world.promql.clock.now_ns() // 1_000_000
    world.run(
        "CREATE TABLE fresh (ts TIMESTAMP(3) TIME INDEX, job STRING, instance STRING, v DOUBLE, "
        "PRIMARY KEY (job, instance))",
        f"INSERT INTO fresh VALUES ({now_ms - 60_000}, 'a', 'i', 1), ({now_ms - 2_000}, 'a', 'i', 2.5), "
        f"({now_ms - 400_000}, 'old', 'i', 3), ({now_ms - 1_000}, 'say \"hi\"\\n', NULL, 4)",
        "CREATE TABLE wide (ts TIMESTAMP(3) TIME INDEX, job STRING PRIMARY KEY, used BIGINT, free DOUBLE)",
        f"INSERT INTO wide VALUES ({now_ms - 3_000}, 'a', 5, 6)",
    )
    answer = asyncio.run(
        call(world._app, "GET", "/v1/prometheus/federate?match[]=fresh&match[]=%7Bjob%3D%22a%22%7D&match[]=nothing")
    )
    assert answer.status == 200
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert answer.body.decode().splitlines() == [
        "# TYPE fresh untyped",
        f'fresh{{instance="i",job="a"}} 2.5 {now_ms - 2_000}',
        f'fresh{{instance="",job="say \\"hi\\"\\\\n"}} 4 {now_ms - 1_000}',
        "# TYPE wide untyped",
        f'wide{{instance="",__field__="free",job="a"}} 6 {now_ms - 3_000}',
        f'wide{{instance="",__field__="used",job="a"}} 5 {now_ms - 3_000}',
    ]
    answer = asyncio.run(call(world._app, "GET", "/v1/prometheus/federate?match[]=sum(fresh)"))
    assert (answer.status, answer.json()["errorType"]) == (400, "bad_data")
    assert asyncio.run(call(world._app, "GET", "/v1/prometheus/federate")).body == b""


def test_the_status_of_the_server_is_told(world: World) -> None:
    assert world.data("status/config") == {"yaml": '{\n  "http": {\n    "addr": "here"\n  }\n}'}
    flags = world.data("status/flags")
    assert flags["http.addr"] == "here"
    assert flags["query.lookback-delta"] == "5m"
    assert all(isinstance(value, str) for value in flags.values())
    runtime = world.data("status/runtimeinfo")
    assert runtime["startTime"] <= runtime["serverTime"]
    world.run("CREATE DATABASE IF NOT EXISTS counted", "CREATE TABLE IF NOT EXISTS counted.m "
              "(ts TIMESTAMP(3) TIME INDEX, a STRING, b STRING, v DOUBLE, PRIMARY KEY (a, b))",
              "INSERT INTO counted.m VALUES (0, 'x', '1', 1), (0, 'x', '22', 1), (0, 'y', '1', 1)")  # fmt: skip
    counted = world.data("status/tsdb", db="counted", limit="2")
    assert counted["headStats"] == {"numSeries": 3, "numLabelPairs": 5}
    assert counted["seriesCountByMetricName"] == [{"name": "m", "value": 3}]
    assert counted["labelValueCountByLabelName"] == [{"name": "a", "value": 2}, {"name": "b", "value": 2}]
    assert counted["memoryInBytesByLabelName"] == [{"name": "b", "value": 3}, {"name": "a", "value": 2}]
    assert counted["seriesCountByLabelValuePair"] == [{"name": "__name__=m", "value": 3}, {"name": "a=x", "value": 2}]


def test_all_metrics_are_counted_page_by_page(world: World) -> None:
    """Also more than one answer lists, and each once: those with equally many series are sorted by their name."""
    world.run("CREATE DATABASE paged")
    for number in range(7):
        world.run(f"CREATE TABLE paged.m{number} (ts TIMESTAMP(3) TIME INDEX, a STRING, v DOUBLE, PRIMARY KEY (a))",
                  f"INSERT INTO paged.m{number} VALUES (0, 'x', 1)")  # fmt: skip
    world.run("INSERT INTO paged.m5 VALUES (0, 'y', 1)")
    pages = [world.data("status/tsdb", db="paged", limit="3", offset=str(offset)) for offset in (0, 3, 6, 9)]
    listed = [[entry["name"] for entry in page["seriesCountByMetricName"]] for page in pages]
    assert listed == [["m5", "m0", "m1"], ["m2", "m3", "m4"], ["m6"], []]
    assert {page["headStats"]["numSeries"] for page in pages} == {8}
    assert world.data("status/tsdb", db="paged", limit="3") == pages[0]
    assert world.get("status/tsdb", db="paged", offset="-1").status == 400


def test_every_status_has_a_type_of_error_that_prometheus_or_http_knows() -> None:
    types = {
        "bad_data": 400, "execution": 422, "timeout": 503, "canceled": 499, "unavailable": 503, "internal": 500,
        "unauthorized": 401, "forbidden": 403,
    }  # fmt: skip
    for status in Status:
        body = prometheus_error_body(status, "m", 0).decode()
        kind = body.split('"errorType":"')[1].split('"')[0]
        assert prometheus_error_status(status) == types[kind], status
    assert b'"timeout"' in prometheus_error_body(Status.DEADLINE_EXCEEDED, "m", 0)


def test_paths_of_prometheus_stand_for_ours_and_own_paths_win(world: World) -> None:
    app = world._app
    app.add_aliases(COMPAT_PATHS)
    app.add_aliases([("/v1/promql", "/v1/prometheus/federate")])
    for alias in ("/api/v1/query?query=1", "/api/v1/label/job/values", "/api/v1/status/buildinfo", "/federate"):
        assert asyncio.run(call(app, "GET", alias)).status == 200, alias
    assert asyncio.run(call(app, "GET", "/api/v1/none")).status == 404
    assert asyncio.run(call(app, "PUT", "/api/v1/query")).status == 405
    assert asyncio.run(call(app, "GET", "/v1/promql")).status == 400
    assert app._router.resolve("/api/v1/label/x/values") == "/v1/prometheus/api/v1/label/x/values"
    assert app._router.resolve("/api/v2/label/x/values") == "/api/v2/label/x/values"


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("(" * 5000 + "1" + ")" * 5000, (400, "bad_data")),
        ("-" * 5000 + "1", (400, "bad_data")),
        ("abs(" * 500 + "up" + ")" * 500, (400, "bad_data")),
        ("2^" * 2000 + "2", (400, "bad_data")),
        ("up[" + "5m+" * 2000 + "5m]", (400, "bad_data")),
        ("up[" + "(" * 2000 + "5m" + ")" * 2000 + "]", (400, "bad_data")),
        ("up offset " + "-" * 2000 + "5m", (400, "bad_data")),
        ('up{job=~"((a{1000}){1000}){1000}"}', (400, "bad_data")),
        ('up{job=~"' + "(a|b)?" * 20_000 + '"}', (400, "bad_data")),
        ("up @ 9223372036854775", (400, "bad_data")),
        ("count_over_time(vector(1)[30y:1ms])", (422, "execution")),
        ("count_over_time(up[100y:1ms])", (422, "execution")),
        ('label_replace(up, "x", "$1", "job", "((a{1000}){1000}){1000}")', (422, "execution")),
        ("label_join(" * 60 + "up" + ', "x", "", "x", "x", "job")' * 60, (422, "execution")),
        ("topk(1e300, up)", (422, "execution")),
        ("sum by (job) (up) * on() group_left up", (422, "execution")),
    ],
    ids=lambda value: value[:30] if isinstance(value, str) else "",
)
def test_queries_that_ask_for_too_much_end_with_a_precise_error(
    world: World, query: str, expected: tuple[int, str]
) -> None:
    body = urlencode({"query": query, "time": "0"}).encode()
    answer = world.raw("POST", f"{PREFIX}query", body, FORM)
    assert (answer.status, answer.json()["errorType"]) == expected
    assert len(answer.json()["error"]) < 1200


@pytest.mark.parametrize(("start", "end", "step"), [("0", "1e12", "0.001"), ("0", "1e9", "1"), ("0", "11000", "1")])
def test_ranges_of_too_many_steps_are_refused(world: World, start: str, end: str, step: str) -> None:
    answer = world.get("query_range", query="1", start=start, end=end, step=step)
    assert (answer.status, answer.json()["errorType"]) == (400, "bad_data")
    assert "11,000 points" in answer.json()["error"]


def test_the_type_of_a_described_metric_is_told_to_federation() -> None:
    known = {
        "hits_total": [MetricDescription("counter", "", "Hits.")],
        "misses": [MetricDescription("counter", "", "Misses.")],
        "level": [MetricDescription("gauge", "", "")],
        "latency": [MetricDescription("histogram", "", "")],
        "odd": [MetricDescription("stateset", "", "")],
    }
    names = ("a.b", "hits_total", "latency", "level", "misses_total", "odd")
    samples = [Newest({"__name__": name, "x.y": "1"}, 5, math.inf) for name in names]
    text = encode_samples([FederatedSample(each, kind_of(each.labels["__name__"], known)) for each in samples]).decode()
    types = [line.split()[2:] for line in text.splitlines() if line.startswith("#")]
    assert types == [
        ["a_b", "untyped"], ["hits_total", "counter"], ["latency", "untyped"], ["level", "gauge"],
        ["misses_total", "counter"], ["odd", "untyped"],
    ]  # fmt: skip
    assert 'a_b{instance="",x_y="1"} +Inf 5' in text.splitlines()
