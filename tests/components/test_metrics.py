"""What happens in a server is seen at `/metrics`."""

from __future__ import annotations

import time
from collections.abc import Iterator

import httpx
import psycopg
import pymysql
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.server_process import ServerProcess, running

SECONDS_MAX = 20.0


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with running("standalone", tmp_path_factory.mktemp("metrics")) as started:
        yield started


def metric(server: ServerProcess, name: str, **labels: str) -> float:
    """The sum of a metric over all labels but the given ones."""
    return sum(
        sample.value
        for family in text_string_to_metric_families(server.get("/metrics").text)
        for sample in family.samples
        if sample.name == name and sample.labels.items() >= labels.items()
    )


def wait_metric(server: ServerProcess, name: str, wanted: float) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while (found := metric(server, name)) != wanted:
        assert time.monotonic() < deadline, f"{name} is {found}, not {wanted}"
        time.sleep(0.02)


def sql(server: ServerProcess, text: str) -> None:
    answer = httpx.post(f"{server.url}/v1/sql", data={"sql": text}, timeout=SECONDS_MAX)
    assert answer.status_code == 200, answer.text


def test_a_repeated_query_is_answered_by_caches(server: ServerProcess) -> None:
    sql(server, "CREATE TABLE cached (host STRING PRIMARY KEY, ts TIMESTAMP TIME INDEX, v DOUBLE)")
    sql(server, "INSERT INTO cached VALUES ('a', 1000, 1), ('b', 2000, 2)")
    sql(server, "ADMIN flush_table('cached')")
    query = "SELECT host, v FROM cached WHERE v > 1"
    misses = metric(server, "tsdb_engine_cache_misses_total")
    sql(server, query)
    assert metric(server, "tsdb_engine_cache_misses_total") > misses
    hits = metric(server, "tsdb_engine_cache_hits_total")
    sql(server, query)
    assert metric(server, "tsdb_engine_cache_hits_total") > hits
    assert metric(server, "tsdb_engine_cache_bytes") > 0


def test_a_compaction_is_counted_and_timed(server: ServerProcess) -> None:
    names = {
        "tsdb_engine_compaction_elapsed_seconds_count": 1,
        "tsdb_engine_compaction_files_total": 2,
        "tsdb_engine_compaction_rows_total": 2,
    }
    sql(server, "CREATE TABLE compacted (ts TIMESTAMP TIME INDEX, v DOUBLE)")
    before = {name: metric(server, name) for name in names}
    seconds = metric(server, "tsdb_engine_compaction_elapsed_seconds_sum")
    done = metric(server, "tsdb_engine_compactions_total", result="success")
    for number in range(2):
        sql(server, f"INSERT INTO compacted VALUES ({number}, {number})")
        sql(server, "ADMIN flush_table('compacted')")
    sql(server, "ADMIN compact_table('compacted')")
    assert {name: metric(server, name) - before[name] for name in names} == names
    assert metric(server, "tsdb_engine_compaction_elapsed_seconds_sum") > seconds
    assert metric(server, "tsdb_engine_compactions_total", result="success") == done + 1


def test_open_connections_are_counted_until_they_are_closed(server: ServerProcess) -> None:
    http, mysql, postgres = (f"tsdb_servers_{each}_connections" for each in ("http", "mysql", "postgres"))
    # The request that reads the metrics is a connection itself.
    for name, without in ((http, 1), (mysql, 0), (postgres, 0)):
        wait_metric(server, name, without)
    with httpx.Client(base_url=server.url) as first, httpx.Client(base_url=server.url) as second:
        assert {each.get("/health").status_code for each in (first, second)} == {200}
        assert metric(server, http) == 3
    wait_metric(server, http, 1)
    address = {"host": "127.0.0.1", "user": "me"}
    with pymysql.connect(port=server.port_of("MySQL"), **address) as connection:
        connection.ping()
        assert (metric(server, mysql), metric(server, postgres)) == (1, 0)
    with psycopg.connect(port=server.port_of("Postgres"), dbname="public", **address) as client:
        client.execute("SELECT 1")
        assert metric(server, postgres) == 1
    for name in (mysql, postgres):
        wait_metric(server, name, 0)
