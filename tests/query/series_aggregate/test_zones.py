"""Aggregates by calendar buckets in a zone: from runs where these are of one width, else by the planner."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import pytest

import tsdb

ZONES = ["Europe/Berlin", "Australia/Lord_Howe", "-05:30"]
BUCKETS = [
    "date_trunc('hour', ts)",
    "date_trunc('day', ts)",
    "date_trunc('week', ts)",
    "date_bin(INTERVAL '2 days', ts, TIMESTAMP '2024-01-02 06:00:00')",
    "date_bin(INTERVAL '5 hours', ts)",
    "date_bin(INTERVAL '5 hours', ts, TIMESTAMP '2024-01-01 00:15:00')",
]
RANGES = [
    "",
    "WHERE ts >= '2024-03-30' AND ts < '2024-04-01'",  # the clock of Berlin is set forward
    "WHERE ts >= '2024-10-26' AND ts < '2024-10-28'",  # and back
    "WHERE ts >= '2024-06-01' AND ts < '2024-06-08'",
    "WHERE ts BETWEEN TIMESTAMP '2024-04-06 00:00:00' AND TIMESTAMP '2024-04-07 12:00:00' AND host = 'a'",
]


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tsdb.Connection]:
    with tsdb.connect(tmp_path_factory.mktemp("zones")) as made:
        made.sql("CREATE TABLE t (ts TIMESTAMP TIME INDEX, host STRING PRIMARY KEY, v DOUBLE)")
        start_ms, step_ms = 1_704_060_000_000, 187 * 60_000
        rows = ", ".join(f"({start_ms + each * step_ms}, '{'ab'[each % 2]}', {each})" for each in range(2_600))
        made.sql(f"INSERT INTO t VALUES {rows}")
        yield made


def rows_of(connection: tsdb.Connection, text: str) -> list[dict[str, object]]:
    return connection.sql(text).arrow().to_pylist()  # type: ignore[no-any-return]


@pytest.mark.parametrize("zone", ZONES)
def test_runs_and_the_planner_agree(connection: tsdb.Connection, zone: str) -> None:
    connection.sql(f"SET time_zone = '{zone}'")
    for bucket, where in product(BUCKETS, RANGES):
        text = (
            f"SELECT {bucket} AS k, host, count(*) AS n, sum(v) AS s FROM t {where} GROUP BY k, host ORDER BY k, host"
        )
        connection.sql("SET series_aggregate = off")
        wanted = rows_of(connection, text)
        connection.sql("SET series_aggregate = on")
        assert wanted
        assert rows_of(connection, text) == wanted, text
        # Asked again, it is a statement whose shape was seen before, with other literals.
        assert rows_of(connection, text) == wanted, text


@pytest.mark.parametrize(
    ("zone", "bucket", "where", "is_used"),
    [
        ("UTC", "date_trunc('day', ts)", "", True),
        ("+05:30", "date_trunc('day', ts)", "", True),
        ("Europe/Berlin", "date_bin(INTERVAL '6 hours', ts)", "", True),
        ("Europe/Berlin", "date_trunc('second', ts)", "", True),
        ("Europe/Berlin", "date_trunc('hour', ts)", "WHERE ts >= '2024-01-01' AND ts < '2025-01-01'", True),
        ("Europe/Berlin", "date_trunc('day', ts)", "WHERE ts >= '2024-06-01' AND ts < '2024-06-08'", True),
        ("Europe/Berlin", "date_trunc('day', ts)", "WHERE ts >= '2024-03-30' AND ts < '2024-04-01'", False),
        ("Europe/Berlin", "date_trunc('day', ts)", "", False),
        ("Australia/Lord_Howe", "date_trunc('hour', ts)", "WHERE ts >= '2024-01-01' AND ts < '2025-01-01'", False),
    ],
)
def test_runs_answer_where_buckets_are_of_one_width(
    connection: tsdb.Connection, zone: str, bucket: str, where: str, is_used: bool
) -> None:
    connection.sql(f"SET time_zone = '{zone}'")
    plan = rows_of(connection, f"EXPLAIN ANALYZE SELECT {bucket} AS k, count(*) FROM t {where} GROUP BY k")
    text = "\n".join(str(row["plan"]) for row in plan)
    assert ("SeriesAggregate: " in text) == is_used, text
    assert ("\nPlanner: " in text) != is_used, text
