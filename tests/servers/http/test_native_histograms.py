"""Native histograms over HTTP: written by remote write, seen by SQL and PromQL, read back by remote read."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.ingest.native_histograms import STALE, request_of, whole
from tests.ingest.prometheus_messages import messages, read_request
from tests.servers.http.asgi_client import Answer
from tests.servers.http.test_prometheus_remote import EQ, V2, WRITE, World, metric, pack, unpack
from tsdb.database import Session
from tsdb.promql import parse_selector
from tsdb.promql.evaluation import STALE_BITS, SeriesSet
from tsdb.query.promql import Period, TableSeries, find_series, label_names, metric_names

NAMED = {"__name__": "latency", "job": "api"}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    yield world
    world.close()


def write(world: World, *histograms: Any, version: int = 1, **labels: str) -> Answer:
    request = request_of({**NAMED, **labels}, *histograms, version=version)
    return world.post(WRITE, pack(request), V2 if version == 2 else None)


def read(world: World, name: str = "latency") -> list[Any]:
    """The series of a metric as remote read answers."""
    answer = world.post("/v1/prometheus/read", pack(read_request((0, 100_000, [(EQ, "__name__", name)]))))
    assert answer.status == 200, answer.body
    (result,) = messages["ReadResponse"].FromString(unpack(answer.body)).results
    return list(result.timeseries)


def select(world: World, text: str) -> SeriesSet:
    services = world.database.services
    selector = parse_selector(text)
    return TableSeries(services.catalog, services.regions, "public").select(selector.matchers, 0, 100_000)


def column_names(world: World, table: str) -> list[str]:
    return [column.name for column in world.database.services.catalog.table("public", table).columns]


@pytest.mark.parametrize("has_metric_engine", [True, False])
@pytest.mark.parametrize("version", [1, 2])
def test_what_was_written_is_read_back(tmp_path: Path, has_metric_engine: bool, version: int) -> None:
    world = World(tmp_path, has_metric_engine=has_metric_engine)
    sent = [whole(1, 2, time=1000), whole(2, 3, time=2000)]
    assert write(world, *sent, version=version).status == 204
    (series,) = read(world)
    assert {label.name.decode(): label.value.decode() for label in series.labels} == NAMED
    assert list(series.histograms) == sent
    assert list(series.samples) == []
    world.close()


def test_version_2_is_told_how_many_histograms_were_written(world: World) -> None:
    answer = write(world, whole(1), whole(2, time=2000), version=2)
    assert answer.headers["x-prometheus-remote-write-samples-written"] == "0"
    assert answer.headers["x-prometheus-remote-write-histograms-written"] == "2"


def test_floats_and_histograms_of_one_request_and_of_one_series_are_all_there(world: World) -> None:
    for time in (1000, 2000):
        # The second time all series are known.
        floats = metric("m", 0.5, time, host="a")
        request = request_of(NAMED, whole(1, time=time), floats=floats)
        assert world.post(WRITE, pack(request)).status == 204
    assert world.write(metric("latency", 7.0, 3000, job="api")).status == 204
    (series,) = read(world)
    assert [histogram.timestamp for histogram in series.histograms] == [1000, 2000]
    assert [(sample.timestamp, sample.value) for sample in series.samples] == [(3000, 7.0)]
    assert world.values("m") == [0.5, 0.5]
    assert [row["tsdb_histogram"] is None for row in world.ask("SELECT * FROM latency ORDER BY tsdb_timestamp")] == [
        False,
        False,
        True,
    ]


def test_tables_get_the_column_with_their_first_histogram_and_others_never(world: World) -> None:
    assert world.write(metric("latency", job="api"), metric("m", host="a")).status == 204
    assert world.write(metric("latency", 2.0, 2000, job="api"), metric("m", 2.0, 2000, host="a")).status == 204
    assert "tsdb_histogram" not in column_names(world, "tsdb_physical_table")
    assert write(world, whole(1, time=3000)).status == 204
    assert column_names(world, "latency") == ["job", "tsdb_histogram", "tsdb_timestamp", "tsdb_value"]
    assert column_names(world, "m") == ["host", "tsdb_timestamp", "tsdb_value"]
    assert "tsdb_histogram" in column_names(world, "tsdb_physical_table")
    # What was known before the change goes on being written.
    assert world.write(metric("latency", 4.0, 4000, job="api"), metric("m", 4.0, 4000, host="a")).status == 204
    assert world.values("m") == [1.0, 2.0, 4.0]
    assert len(world.ask("SELECT * FROM latency")) == 4
    shown = world.ask(
        "SELECT table_name, data_type FROM information_schema.columns "
        "WHERE column_name = 'tsdb_histogram' ORDER BY table_name"
    )
    assert shown == [
        {"table_name": "latency", "data_type": "binary"},
        {"table_name": "tsdb_physical_table", "data_type": "binary"},
    ]


def test_histograms_outlive_a_crash_a_flush_and_another_start(tmp_path: Path) -> None:
    world = World(tmp_path)
    assert world.write(metric("latency", 0.5, 500, job="api")).status == 204
    assert write(world, whole(1, 2, time=1000)).status == 204
    world.crash()
    world = World(tmp_path)
    assert write(world, whole(2, 3, time=2000)).status == 204
    world.close()
    world = World(tmp_path)
    world.database.run("ADMIN flush_table('tsdb_physical_table')", Session())
    assert write(world, whole(3, 4, time=3000)).status == 204
    (series,) = read(world)
    assert list(series.histograms) == [whole(1, 2, time=1000), whole(2, 3, time=2000), whole(3, 4, time=3000)]
    assert [sample.value for sample in series.samples] == [0.5]
    world.close()


def test_a_refused_histogram_names_its_series_and_nothing_is_written(world: World) -> None:
    bad = whole(1, 2)
    bad.count_int = 1
    answer = world.post(WRITE, pack(request_of(NAMED, bad, floats=metric("m"))))
    assert answer.status == 400
    assert answer.json()["error"] == (
        'the request cannot be read: series 1: latency{job="api"}: '
        "the buckets of a native histogram hold 3 observations, its count is 1"
    )
    assert world.names() == []


def test_promql_reads_both_kinds_of_samples(world: World) -> None:
    assert world.write(metric("latency", 0.5, 500, job="api"), metric("latency", 1.5, 500, job="web")).status == 204
    assert write(world, whole(1, time=1000), whole(2, time=2000)).status == 204
    found = select(world, "latency")
    assert found.histograms is not None
    assert found.offsets.tolist() == [0, 3, 4]
    assert found.times.tolist() == [500, 1000, 2000, 500]
    assert [each is None for each in found.histograms.to_pylist()] == [True, False, False, True]
    assert np.isnan(found.values[1:3]).all()
    assert found.values[[0, 3]].tolist() == [0.5, 1.5]
    assert found.without_stale() is found


def test_promql_finds_no_histograms_where_there_are_none(world: World) -> None:
    assert write(world, whole(1)).status == 204
    assert world.write(metric("latency", job="web"), metric("m")).status == 204
    assert select(world, "m").histograms is None
    assert select(world, 'latency{job="web"}').histograms is None
    assert select(world, '{job="web"}').histograms is None


def test_promql_sees_a_histogram_that_ends_a_series_as_the_end(world: World) -> None:
    assert write(world, whole(1, time=1000), whole(time=2000, total=STALE), whole(3, time=3000)).status == 204
    (series,) = read(world)
    assert np.array([series.histograms[1].sum]).view(np.uint64)[0] == STALE_BITS
    found = select(world, "latency")
    assert found.histograms is not None
    assert [each is None for each in found.histograms.to_pylist()] == [False, True, False]
    assert (found.values.view(np.uint64) == STALE_BITS).tolist() == [False, True, False]
    rest = found.without_stale()
    assert rest.times.tolist() == [1000, 3000]
    assert rest.histograms is not None
    assert rest.histograms.null_count == 0


def test_promql_puts_histograms_of_equal_series_in_the_order_of_time(tmp_path: Path) -> None:
    world = World(tmp_path, has_metric_engine=False)
    world.database.run(
        "CREATE TABLE latency (tsdb_timestamp TIMESTAMP(3) TIME INDEX, tsdb_value DOUBLE, job STRING, zone STRING, "
        "tsdb_histogram VARBINARY, PRIMARY KEY (job, zone))",
        Session(),
    )
    # An empty label is none, so that two series of the table are one of PromQL.
    assert write(world, whole(2, time=2000)).status == 204
    (stored,) = [row["tsdb_histogram"] for row in world.ask("SELECT tsdb_histogram FROM latency")]
    world.database.run(
        "INSERT INTO latency (tsdb_timestamp, job, zone, tsdb_histogram, tsdb_value) "
        f"VALUES (1000, 'api', '', X'{stored.hex()}', NULL), (3000, 'api', '', NULL, 3)",
        Session(),
    )
    found = select(world, "latency")
    assert found.labels.rows == 1
    assert found.times.tolist() == [1000, 2000, 3000]
    assert found.histograms is not None
    assert found.histograms.to_pylist() == [stored, stored, None]
    world.close()


def test_sql_takes_and_gives_histograms_as_bytes(world: World) -> None:
    assert write(world, whole(1, 2)).status == 204
    (row,) = world.ask("SELECT job, tsdb_value, tsdb_histogram FROM latency")
    assert row["tsdb_value"] is None
    stored = row["tsdb_histogram"]
    world.database.run(
        f"INSERT INTO latency (job, tsdb_timestamp, tsdb_histogram) VALUES ('sql', 1000, X'{stored.hex()}')", Session()
    )
    assert [list(series.histograms) for series in read(world)] == [[whole(1, 2)], [whole(1, 2)]]
    world.database.run("INSERT INTO latency (job, tsdb_timestamp, tsdb_histogram) VALUES ('x', 1, X'00')", Session())
    answer = world.post("/v1/prometheus/read", pack(read_request((0, 100_000, [(EQ, "__name__", "latency")]))))
    assert answer.status == 400
    assert "a row of table latency has no native histogram in tsdb_histogram" in answer.json()["error"]


def test_show_create_table_of_tables_with_histograms_can_be_run_again(world: World) -> None:
    assert write(world, whole(1, 2)).status == 204
    statements = {}
    for name in ("tsdb_physical_table", "latency"):
        (row,) = world.ask(f"SHOW CREATE TABLE {name}")
        statements[name] = row["Create Table"]
    assert "`tsdb_histogram` VARBINARY NULL" in statements["latency"].replace('"', "`")
    world.database.run("DROP TABLE latency", Session())
    world.database.run("DROP TABLE tsdb_physical_table", Session())
    for statement in statements.values():
        world.database.run(statement, Session())
    assert write(world, whole(1, 2)).status == 204
    assert [list(series.histograms) for series in read(world)] == [[whole(1, 2)]]


def test_a_physical_table_gets_the_column_with_a_logical_one_that_sql_makes(world: World) -> None:
    run = world.database.run
    run(
        "CREATE TABLE phy (ts TIMESTAMP(3) TIME INDEX, val DOUBLE) ENGINE = metric WITH (physical_metric_table = '')",
        Session(),
    )
    options = "ENGINE = metric WITH (on_physical_table = 'phy')"
    run(f"CREATE TABLE a (ts TIMESTAMP(3) TIME INDEX, val DOUBLE, host STRING PRIMARY KEY) {options}", Session())
    run("INSERT INTO a (ts, val, host) VALUES (1, 1, 'x')", Session())
    run("ALTER TABLE a ADD COLUMN tsdb_histogram VARBINARY", Session())
    run("INSERT INTO a (ts, val, host, tsdb_histogram) VALUES (2, NULL, 'x', X'01')", Session())
    run(f"CREATE TABLE b (ts TIMESTAMP(3) TIME INDEX, val DOUBLE, tsdb_histogram VARBINARY) {options}", Session())
    assert [row["tsdb_histogram"] for row in world.ask("SELECT * FROM a ORDER BY ts")] == [None, b"\x01"]
    assert world.ask("SELECT * FROM b") == []
    assert [row["tsdb_histogram"] for row in world.ask("SELECT * FROM phy ORDER BY ts")] == [None, b"\x01"]


def test_a_label_cannot_have_the_name_of_the_column(world: World) -> None:
    answer = world.write(metric("m", tsdb_histogram="x"))
    assert answer.status == 400
    assert "a label cannot be called tsdb_histogram" in answer.json()["error"]
    assert world.names() == []


def test_a_dry_run_shows_what_histograms_would_do(world: World) -> None:
    answer = world.post(WRITE + "?dry_run=true", pack(request_of(NAMED, whole(1))))
    assert answer.status == 200
    assert world.names() == []


def test_writers_of_floats_and_of_histograms_do_not_lose_each_others_rows(world: World) -> None:
    metrics = ("a", "b", "c", "d")
    assert world.write(*(metric(name, 0.0, 1, job="x") for name in metrics)).status == 204
    refused: list[Answer] = []

    def work(number: int) -> None:
        for turn in range(8):
            time = 1000 * (number + 1) + turn
            name = metrics[(number + turn) % len(metrics)]
            floats = metric(metrics[turn % len(metrics)], 1.0, 100_000 + time, job="x")
            labels = {"__name__": name, "job": "x"}
            answer = world.post(WRITE, pack(request_of(labels, whole(1, time=time), floats=floats)))
            if answer.status != 204:
                refused.append(answer)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert refused == []
    found = [world.ask(f"SELECT tsdb_histogram IS NULL AS is_float FROM {name}") for name in metrics]
    kinds = [row["is_float"] for rows in found for row in rows]
    assert (kinds.count(False), kinds.count(True)) == (48, 48 + len(metrics))


@pytest.mark.parametrize("has_metric_engine", [True, False])
def test_a_metric_of_histograms_alone_is_found_by_name_and_labels(tmp_path: Path, has_metric_engine: bool) -> None:
    world = World(tmp_path, has_metric_engine=has_metric_engine)
    assert write(world, whole(1)).status == 204
    services = world.database.services
    source = TableSeries(services.catalog, services.regions, "public")
    assert metric_names(source) == ["latency"]
    assert label_names(source) == ["job"]
    selectors = [parse_selector('{job="api"}').matchers, parse_selector('latency{__field__="tsdb_histogram"}').matchers]
    for selector, count in zip(selectors, (1, 0), strict=True):
        assert find_series(source, [selector], Period(0, 10_000)).rows == count
    world.close()
