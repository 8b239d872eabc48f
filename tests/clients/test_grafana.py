"""The statements of Grafana's data sources for MySQL, PostgreSQL and Prometheus, with its macros replaced.

Grafana itself is in none of the package registries that `tests/clients/install` uses.
"""

from __future__ import annotations

from typing import Any

import httpx
import psycopg
import pymysql
import pytest

from tests.server_process import ServerProcess

START = 1_704_067_200  # 2024-01-01
END = START + 3600
# Macro, the text that MySQL's data source puts in its place, and that of PostgreSQL's.
MACROS = {
    "$__timeGroup": ("UNIX_TIMESTAMP(ts) DIV 300 * 300", "floor(extract(epoch from ts)/300)*300"),
    "$__timeFilter": (
        f"ts BETWEEN FROM_UNIXTIME({START}) AND FROM_UNIXTIME({END})",
        "ts BETWEEN '2024-01-01T00:00:00Z' AND '2024-01-01T01:00:00Z'",
    ),
    "$__time": ("UNIX_TIMESTAMP(ts) as time_sec", 'ts AS "time"'),
    "$__timeFrom": (f"FROM_UNIXTIME({START})", "'2024-01-01T00:00:00Z'"),
    "$__unixEpochFilter": (f"epoch >= {START} AND epoch <= {END}",) * 2,
    "$__unixEpochGroup": ("epoch DIV 300 * 300", "floor((epoch)/300)*300"),
}


@pytest.fixture(scope="module")
def filled(server: ServerProcess) -> ServerProcess:
    rows = ", ".join(
        f"('{host}', {at}, {start}, {start * 1000})"
        for host in ("a", "b")
        for at, start in enumerate(range(START, START + 900, 60))
    )
    for text in (
        "CREATE TABLE panels (host STRING PRIMARY KEY, v DOUBLE, epoch BIGINT, ts TIMESTAMP TIME INDEX)",
        f"INSERT INTO panels VALUES {rows}",
    ):
        assert httpx.post(f"{server.url}/v1/sql", data={"sql": text}, timeout=10).status_code == 200
    return server


@pytest.fixture(params=["MySQL", "Postgres"])
def source(filled: ServerProcess, request: pytest.FixtureRequest) -> Any:
    """A function that sends a statement, its macros replaced, and returns names and rows."""
    kind, port = int(request.param == "Postgres"), filled.port_of(request.param)
    if kind:
        connection: Any = psycopg.connect(host="127.0.0.1", port=port, user="grafana", dbname="public", autocommit=True)
    else:
        connection = pymysql.connect(host="127.0.0.1", port=port, user="grafana", database="public")

    def send(text: str) -> tuple[list[str], list[tuple[Any, ...]]]:
        for macro in sorted(MACROS, key=len, reverse=True):
            text = text.replace(macro, MACROS[macro][kind])
        with connection.cursor() as cursor:
            cursor.execute(text)
            return [each[0] for each in cursor.description], [tuple(map(_plain, row)) for row in cursor.fetchall()]

    yield send
    connection.close()


def _plain(value: Any) -> Any:
    return value if isinstance(value, str) else float(value) if isinstance(value, int | float) else str(value)


def test_a_time_series_is_grouped_and_filtered(source: Any) -> None:
    text = (
        'SELECT $__timeGroup AS "time", host AS metric, avg(v) AS "value" FROM panels WHERE $__timeFilter'
        " GROUP BY 1, host ORDER BY 1, host"
    )
    names, rows = source(text)
    assert names == ["time", "metric", "value"]
    assert rows == [(START + 300.0 * i, host, 2.0 + 5 * i) for i in range(3) for host in ("a", "b")]
    text = 'SELECT $__unixEpochGroup AS "time", sum(v) FROM panels WHERE $__unixEpochFilter GROUP BY 1 ORDER BY 1'
    assert [row[1] for row in source(text)[1]] == [20.0, 70.0, 120.0]
    assert len(source("SELECT $__time, v FROM panels WHERE ts >= $__timeFrom AND host IN ('a') ORDER BY ts")[1]) == 15


def test_variables_and_annotations_are_asked_for(source: Any) -> None:
    assert source("SELECT DISTINCT host FROM panels ORDER BY host")[1] == [("a",), ("b",)]
    text = "SELECT $__time, host AS text, host AS tags FROM panels WHERE $__timeFilter ORDER BY ts LIMIT 100"
    names, rows = source(text)
    assert names[1:] == ["text", "tags"]
    assert len(rows) == 30


def test_the_builder_lists_databases_tables_and_columns(source: Any) -> None:
    text = (
        "SELECT DISTINCT TABLE_SCHEMA from information_schema.TABLES where TABLE_TYPE != 'SYSTEM VIEW'"
        " ORDER BY TABLE_SCHEMA"
    )
    assert ("public",) in source(text)[1]
    text = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public' ORDER BY table_name"
    assert ("panels",) in source(text)[1]
    text = (
        "SELECT column_name, data_type FROM information_schema.columns WHERE table_schema = 'public'"
        " AND table_name = 'panels' ORDER BY column_name"
    )
    assert [row[0] for row in source(text)[1]] == ["epoch", "host", "ts", "v"]


def test_the_data_source_of_prometheus_is_answered(filled: ServerProcess) -> None:
    url = f"{filled.url}/v1/prometheus/api/v1"
    assert httpx.get(f"{url}/status/buildinfo", timeout=10).json()["status"] == "success"
    form = {"start": str(START), "end": str(START + 600), "step": "300", "query": "sum by (host) (panel_metric)"}
    lines = "\n".join(f"panel_metric,host={host} v=2 {START + 300 * i}" for host in ("a", "b") for i in range(3))
    httpx.post(f"{filled.url}/v1/influxdb/write?precision=s", content=lines, timeout=10).raise_for_status()
    found = httpx.post(f"{url}/query_range", data=form, timeout=10).json()["data"]["result"]
    assert [(each["metric"]["host"], len(each["values"])) for each in found] == [("a", 3), ("b", 3)]
    names = httpx.get(f"{url}/label/__name__/values", params={"start": str(START), "end": str(END)}, timeout=10).json()
    assert "panel_metric" in names["data"]
    series = httpx.post(f"{url}/series", data={"match[]": "panel_metric", **form}, timeout=10).json()["data"]
    assert sorted(each["host"] for each in series) == ["a", "b"]
    assert httpx.get(f"{url}/metadata", timeout=10).json()["status"] == "success"
