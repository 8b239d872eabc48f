"""Hostile shapes: very many buckets, nothing at all, the limits of types, numbers that are none."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest

from tests.query.harness import BIGINT, DOUBLE, STRING, World, world
from tests.query.series_aggregate.test_differential import answer, check_same, rows_of
from tsdb.errors import TsdbError
from tsdb.model import DataType, Kind, TableInfo
from tsdb.query import Session
from tsdb.query.series_aggregate import AggregateRecords

NANOS = DataType(Kind.TIMESTAMP_NANOSECOND)
SECONDS = DataType(Kind.TIMESTAMP_SECOND)
LONGEST = 2**63 - 1
EDGES = (-LONGEST, -LONGEST + 1, -1, 0, 1, LONGEST - 1, LONGEST)
MANY = 50_000
_SPECIAL = [float("nan"), float("inf"), float("-inf"), -0.0, 0.0, 1.7976931348623157e308, 5e-324]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with world(tmp_path_factory.mktemp("hostile")) as found:
        _edges(found, found.create("edges", [("ts", NANOS), ("host", STRING), ("n", BIGINT)], tags=["host"]))
        _edges(found, found.create("slow", [("ts", SECONDS), ("host", STRING), ("n", BIGINT)], tags=["host"]))
        unsigned = DataType(Kind.UINT64)
        columns = [("ts", NANOS), ("host", STRING), ("f", DOUBLE), ("n", BIGINT), ("u", unsigned)]
        numbers = found.create("numbers_none", columns, tags=["host"])
        for at, value in enumerate(_SPECIAL):
            whole = {"n": LONGEST if at % 2 else -LONGEST - 1, "u": 2**64 - 1}
            found.put(numbers, [{"host": str(at), "ts": 1, "f": value, **whole}])
            found.put(numbers, [{"host": "all", "ts": at, "f": value, "n": LONGEST, "u": 2**64 - 1}])
        found.create("empty", columns, tags=["host"])
        buckets = found.create("buckets", columns, tags=["host"])
        rows = [{"host": "a", "ts": at * 60_000_000_000, "f": 1.0, "n": at, "u": at} for at in range(MANY)]
        found.put(buckets, rows)
        found.flush(buckets)
        yield found


def _edges(made: World, table: TableInfo) -> None:
    made.put(table, [{"host": "a", "ts": at, "n": 1} for at in EDGES])
    made.put(table, [{"host": "b", "ts": at, "n": LONGEST} for at in EDGES])


@pytest.mark.parametrize("table", ["edges", "slow"])
@pytest.mark.parametrize(
    "text",
    [
        "SELECT min(ts), max(ts), count(*), sum(n) FROM {}",
        "SELECT date_trunc('day', ts), count(*) FROM {} GROUP BY 1",
        "SELECT date_trunc('week', ts), count(*) FROM {} WHERE ts >= 0 GROUP BY 1",
        "SELECT date_bin(INTERVAL '7 hours', ts), host, count(*) FROM {} WHERE ts > -5 AND ts < 5 GROUP BY 1, 2",
        "SELECT date_bin(INTERVAL '1 second', ts, TIMESTAMP '2262-04-11 00:00:00'), count(*) FROM {} GROUP BY 1",
        "SELECT host, last_value(ts ORDER BY ts), first_value(n ORDER BY ts) FROM {} GROUP BY host",
        "SELECT count(*) FROM {} WHERE ts = 9223372036854775807",
        "SELECT count(*) FROM {} WHERE ts <= -9223372036854775807",
        "SELECT count(*) FROM {} WHERE ts > 9223372036854775807",
        "SELECT count(*) FROM {} WHERE ts > 9223372036854775808",
        "SELECT count(*), max(n) FROM {} WHERE ts > 5 AND ts < 5",
        "SELECT host, max(n) FROM {} WHERE ts >= 5 AND ts < -5 GROUP BY host",
        "SELECT ts, host, count(*) RANGE '1h' FROM {} ALIGN '1h'",
        "SELECT ts, sum(n) RANGE '2h' FROM {} WHERE ts > -100 AND ts < 100 ALIGN '1h' BY ()",
        "SELECT date_trunc('hour', ts) AS b, max(n) FROM {} GROUP BY b ORDER BY b DESC LIMIT 2",
        "SELECT date_trunc('hour', ts) AS b, max(n) FROM {} GROUP BY b ORDER BY b LIMIT 2",
    ],
)
def test_times_at_the_limits_of_their_type(made: World, table: str, text: str) -> None:
    check_same(made, text.format(table), is_ordered=False)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT host, sum(f), avg(f), count(f) FROM numbers_none GROUP BY host",
        "SELECT host, min(n), max(n), sum(n), avg(n), min(u), max(u), sum(u), avg(u) FROM numbers_none GROUP BY host",
        "SELECT sum(n), sum(u), avg(n) FROM numbers_none",
        "SELECT sum(n) + 1, sum(u) / 2 FROM numbers_none",
        "SELECT host, last_value(f ORDER BY ts) FROM numbers_none WHERE host <> 'all' GROUP BY host",
        "SELECT host, max(f) FROM numbers_none WHERE host IN ('3', '4', '5', '6') GROUP BY host",
        "SELECT host, median(f) FROM numbers_none GROUP BY host",
        "SELECT count(*) FROM numbers_none WHERE f = f",
        "SELECT host, count(*) FROM numbers_none WHERE f > 1 GROUP BY host",
        "SELECT host, count(*) FROM numbers_none WHERE n < 0 AND u > 5 GROUP BY host",
        "SELECT ts, host, last_value(u) RANGE '1h' FILL LINEAR, max(n) RANGE '2h' FROM numbers_none ALIGN '1h'",
        "SELECT ts, sum(n) RANGE '1h', avg(u) RANGE '1h' FROM numbers_none ALIGN '1h' BY ()",
    ],
)
def test_numbers_that_are_none_and_sums_that_overflow(made: World, text: str) -> None:
    check_same(made, text, is_ordered=False)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT count(*), count(f), sum(n), min(ts), max(f), avg(u), stddev(f) FROM empty",
        "SELECT host, max(f) FROM empty GROUP BY host",
        "SELECT date_trunc('hour', ts) AS b, max(f) FROM empty GROUP BY b ORDER BY b DESC LIMIT 3",
        "SELECT max(f) + 1, count(*) FROM empty HAVING count(*) = 0",
        "SELECT upper(host), max(f) FROM empty WHERE host ~* 'a' GROUP BY 1",
        "SELECT host, last_value(f ORDER BY ts) FROM empty GROUP BY host",
        "SELECT max(f) FROM empty WHERE host ~ '('",
        "SELECT host ~ '(', max(f) FROM empty GROUP BY 1",
        "SELECT max(f) + 1 FROM edges WHERE host ~ '(' AND ts > 5 AND ts < 5",
        "SELECT ts, max(f) RANGE '1h' FILL 1 FROM empty ALIGN '1h' BY ()",
    ],
)
def test_nothing_at_all(made: World, text: str) -> None:
    check_same(made, text, is_ordered=False)


def test_very_many_buckets_are_answered_from_runs(made: World) -> None:
    text = "SELECT date_trunc('minute', ts) AS b, host, sum(n), max(f) FROM buckets GROUP BY b, host ORDER BY b"
    records = made.queries.query(text, Session())
    assert isinstance(records, AggregateRecords)
    assert sum(batch.num_rows for batch in records) == MANY
    check_same(made, text, is_ordered=True)


@pytest.mark.parametrize("width", ["1 nanosecond", "1 microsecond"])
def test_buckets_narrower_than_any_distance_of_rows(made: World, width: str) -> None:
    text = f"SELECT date_bin(INTERVAL '{width}', ts) AS b, count(*) FROM buckets WHERE n < 1000 GROUP BY b ORDER BY b"
    check_same(made, text, is_ordered=True)


def test_the_least_and_greatest_of_numbers_that_are_none(made: World) -> None:
    """NaN is the greatest, and infinities are what they are, in whichever order rows come."""
    text = "SELECT host, min(f), max(f) FROM numbers_none GROUP BY host ORDER BY host"
    found = answer(made, text, is_on=True)
    assert not isinstance(found, TsdbError)
    of_host = {host: (least, greatest) for host, least, greatest in rows_of(found)}
    assert math.isnan(of_host["0"][0])
    assert math.isnan(of_host["0"][1])
    assert of_host["1"] == (math.inf, math.inf)
    assert of_host["2"] == (-math.inf, -math.inf)
    assert of_host["all"][0] == -math.inf
    assert math.isnan(of_host["all"][1])
