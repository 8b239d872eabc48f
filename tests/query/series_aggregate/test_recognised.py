"""What runs answer, what they leave to the planner, and what EXPLAIN says about it."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from tests.query.harness import BIGINT, DOUBLE, STRING, World, world
from tsdb.errors import Cancelled, TsdbError
from tsdb.model import DataType, Kind
from tsdb.query import Session, read_all
from tsdb.query.series_aggregate import AggregateRecords, OuterRecords
from tsdb.sql.statements import Explain, Query, Slice

NANOS = DataType(Kind.TIMESTAMP_NANOSECOND)
HOUR = 3_600_000_000_000


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with world(tmp_path_factory.mktemp("recognised")) as found:
        columns = [("ts", NANOS), ("host", STRING), ("dc", STRING), ("f", DOUBLE), ("n", BIGINT), ("s", STRING)]
        table = found.create("t", columns, tags=["host", "dc"])
        for part in range(2):
            found.put(
                table,
                [
                    {
                        "host": f"h{at % 3}",
                        "dc": "x",
                        "ts": (at + 40 * part) * HOUR // 4,
                        "f": at / 4,
                        "n": at,
                        "s": f"s{at}",
                    }
                    for at in range(40)
                ],
            )
            if not part:
                found.flush(table)
        yield found


def both(made: World, text: str) -> tuple[pa.Table, pa.Table]:
    off = Session()
    off.variables["series_aggregate"] = "off"
    found = made.queries.query(text, Session())
    assert isinstance(found, AggregateRecords | OuterRecords), text
    planned = made.queries.query(text, off)
    assert not isinstance(planned, AggregateRecords | OuterRecords)
    return read_all(found), read_all(planned)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT count(*) FROM t",
        "SELECT count(1), max(f), min(ts), avg(n), sum(f) FROM t WHERE ts > 99 AND host IN ('h0', 'h2', 'h3', 'h4')",
        "SELECT date_trunc('hour', ts) AS bucket, host, avg(f) AS f FROM t GROUP BY 1, 2 ORDER BY 1, 2",
        "SELECT host h, date_trunc('day', ts) b, max(n) m FROM t WHERE t.host <> 'h1' GROUP BY b, h ORDER BY b, h",
        "SELECT date_bin(INTERVAL '30 minutes', ts) AS b, sum(n) FROM t GROUP BY b ORDER BY b DESC LIMIT 3",
        "SELECT date_bin(INTERVAL '30' MINUTE, ts) AS b, sum(n) FROM t GROUP BY b ORDER BY b DESC LIMIT 3",
        "SELECT date_bin(INTERVAL 30 MINUTE, ts), sum(n) FROM t GROUP BY 1 ORDER BY 1",
        "SELECT date_trunc('minute', ts) AS b, max(f) FROM t WHERE ts < TIMESTAMP '1970-01-01 12:00:00' "
        "GROUP BY 1 ORDER BY 1 DESC LIMIT 5 OFFSET 1",
        "SELECT date_trunc('hour', ts) AS b, count(*) FROM public.t GROUP BY b ORDER BY b LIMIT 2",
        "SELECT host, last_value(f ORDER BY ts), first_value(s ORDER BY ts DESC) FROM t GROUP BY host ORDER BY host",
        "SELECT host, first_value(ts ORDER BY ts) FROM t WHERE f > 3 GROUP BY host ORDER BY 2 DESC",
        "SELECT dc, last_value(n ORDER BY ts), last_value(ts ORDER BY ts) FROM t GROUP BY dc",
        "SELECT first_value(s ORDER BY ts), first_value(ts ORDER BY ts) FROM t WHERE host <> 'h0'",
        "SELECT host, last_value(s ORDER BY ts) FROM t WHERE ts < 18000000000000 GROUP BY host ORDER BY host",
        "SELECT host, last_value(f ORDER BY ts) FROM t WHERE ts >= 30000000000000 GROUP BY host ORDER BY host",
        "SELECT host, first_value(f ORDER BY ts) FROM t WHERE ts >= 9000000000000 GROUP BY host ORDER BY host",
        "SELECT host, last_value(f ORDER BY ts), count(*) FROM t GROUP BY host ORDER BY host",
        "SELECT host, dc FROM t GROUP BY host, dc ORDER BY host",
        "SELECT stddev(n), var_pop(n), mean(f) FROM t WHERE host = 'h1'",
        "SELECT max(n) AS m, host FROM t GROUP BY host ORDER BY m DESC",
        "SELECT count(f) FROM t WHERE host = 'nobody'",
        "SELECT max(f) FROM t WHERE host LIKE 'h%' AND host NOT LIKE '%1'",
        "SELECT max(f), min(n) FROM t WHERE host ~ '^h[01]$' AND host !~ '1' AND s LIKE 's1%'",
        "SELECT date_bin(INTERVAL '1 hour', ts, TIMESTAMP '2001-01-01 00:20:00') AS b, max(f) FROM t "
        "GROUP BY b ORDER BY b",
        "SELECT host, count(f) FROM t WHERE host = 'nobody' GROUP BY host",
        "SELECT upper(host) AS u, dc, max(f) FROM t WHERE host ILIKE 'H%' AND ts > 5 GROUP BY u, dc ORDER BY u",
        "SELECT host = 'h1', count(*) FROM t WHERE host ~* 'H[12]' OR dc = 'y' GROUP BY 1 ORDER BY 1 DESC",
        "SELECT CASE WHEN host = 'h1' THEN 1 ELSE 2 END AS c, avg(n) FROM t GROUP BY c ORDER BY c",
        "SELECT count(*) FROM t WHERE length(host) + length(dc) = 3 AND f > 3 AND n BETWEEN 2 AND 30",
        "SELECT max(f) FROM t WHERE host ~ 'h\\d' AND host LIKE 'h\\_%' OR dc > 'a'",
        "SELECT host, median(f), max(f) FROM t GROUP BY host ORDER BY host",
        "SELECT date_trunc('hour', ts) AS b, dc, median(f) FROM t WHERE n > 3 GROUP BY b, dc ORDER BY b",
        "SELECT median(f) FROM t WHERE host = 'nobody'",
        "SELECT dc, median(n), median(f) FROM t GROUP BY dc ORDER BY dc",
        "SELECT substr(host, 2)::int AS k, max(n) FROM t GROUP BY k ORDER BY k DESC LIMIT 2",
    ],
)
def test_runs_answer_aggregates_by_tags_and_time(made: World, text: str) -> None:
    found, planned = both(made, text)
    assert found.schema.equals(planned.schema, check_metadata=True)
    assert found.to_pylist() == planned.to_pylist()


@pytest.mark.parametrize(
    "text",
    [
        "SELECT max(f) + 1 FROM t",
        "SELECT host FROM t GROUP BY host HAVING max(f) > 9.5 ORDER BY host",
        "SELECT host AS h, count(*) AS c FROM t GROUP BY host HAVING count(*) > 26 AND min(n) < 2 ORDER BY h",
        "SELECT date_trunc('hour', ts) AS b, round(avg(f) * 100) / 100 AS r FROM t WHERE host = 'h1' "
        "GROUP BY b HAVING count(*) > 0 ORDER BY b LIMIT 3 OFFSET 1",
        "SELECT upper(host) AS u, sum(n)::double / count(n) FROM t GROUP BY host ORDER BY host",
        "SELECT host, CASE WHEN max(n) > 38 THEN 'hi' ELSE 'lo' END AS x FROM t GROUP BY 1 ORDER BY 1",
        "SELECT host, max(f) FROM t GROUP BY host ORDER BY max(f) - min(f) DESC, host",
        "SELECT host || '-' || dc AS k, count(*) FROM t GROUP BY host, dc ORDER BY k",
        "SELECT coalesce(max(f), 0), max(f) IS NULL FROM t WHERE host = 'nobody'",
        "SELECT 1 AS one, max(f) FROM t HAVING max(f) > 100",
    ],
)
def test_what_is_computed_with_aggregates_is_computed_with_cells(made: World, text: str) -> None:
    found, planned = both(made, text)
    assert found.schema.equals(planned.schema, check_metadata=True)
    assert found.to_pylist() == planned.to_pylist()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("SELECT max(f) FROM t GROUP BY n", "grouped by n, which is no tag"),
        ("SELECT count(DISTINCT f) FROM t", "DISTINCT"),
        ("SELECT max(f) + n FROM t GROUP BY n", "no tag"),
        ("SELECT max(f) FILTER (WHERE n > 1) FROM t", "FILTER"),
        ("SELECT max(f) OVER () FROM t", "OVER"),
        ("SELECT date_trunc('month', ts), max(f) FROM t GROUP BY 1", "a fixed width"),
        ("SELECT host, max(f) FROM t GROUP BY host HAVING max(s) > 'a'", "HAVING"),
        ("SELECT max(s) FROM t", "type String"),
        ("SELECT last_value(f) FROM t", "no order"),
        ("SELECT last_value(f ORDER BY n) FROM t", "ordered by something else than time"),
        ("SELECT max(f) FROM t WHERE s ILIKE 'h%'", "compares a column with literals"),
        ("SELECT max(f) FROM t WHERE upper(host) = s", "computes with its columns"),
        ("SELECT max(f) FROM t WHERE s ~ 'h\\d'", "literal of another type"),
        ("SELECT date_bin(INTERVAL '1 hour', ts, now()), max(f) FROM t GROUP BY 1", "no TIMESTAMP where one"),
        ("SELECT max(f) FROM t WHERE f > n", "other than a plain literal"),
        ("SELECT max(f) FROM t WHERE n = 1.5", "literal of another type"),
        ("SELECT max(t.f) FROM t JOIN t AS y ON t.ts = y.ts", "JOIN"),
        ("SELECT approx_median(f) FROM t", "approx_median is not an aggregate"),
        ("SELECT max(number) FROM numbers", "not read exactly one table"),
    ],
)
def test_everything_else_is_the_planners_and_explain_analyze_says_why(made: World, text: str, reason: str) -> None:
    records = made.queries.query(text, Session())
    assert not isinstance(records, AggregateRecords | OuterRecords)
    records.close()
    (plan, *_) = explain(made, text, is_analyze=True).column("plan").to_pylist()
    assert reason in plan.rsplit("\nPlanner: ")[-1]


def explain(made: World, text: str, *, is_analyze: bool) -> pa.Table:
    statement = Explain(Query(Slice(text, 0)), is_analyze=is_analyze)
    return read_all(made.queries.explain(statement, text, Session()))


def test_explain_shows_the_aggregate_and_no_plan_that_does_not_run(made: World) -> None:
    (row,) = explain(made, "SELECT host, max(f) FROM t GROUP BY host", is_analyze=False).to_pylist()
    assert row["plan_type"] == "series_aggregate"
    assert row["plan"].startswith(
        "SeriesAggregate: tsdb.public.t, by=[host], aggregates=[max(f)], regions=1, sources=2, series=6"
    )


def test_explain_analyze_counts_series_runs_and_cells(made: World) -> None:
    text = "SELECT host, date_trunc('day', ts), max(f) FROM t GROUP BY 1, 2"
    plans = explain(made, text, is_analyze=True).column("plan").to_pylist()
    assert "series=6, runs=6, cells=3" in plans[0]
    for stage in ("plan_ms=", "run_ms=", "rows_ms="):
        assert stage in plans[0]
    assert "bytes_read=" in plans[1]
    assert "rows_read=80" in plans[1]
    assert plans[-1] == "Total rows: 3"


def test_a_closed_answer_lets_go_of_its_snapshot(made: World) -> None:
    records = made.queries.query("SELECT max(f) FROM t", Session())
    records.close()
    with pytest.raises(Cancelled):
        list(records)


def test_a_closed_query_over_cells_lets_go_of_its_snapshot(made: World) -> None:
    records = made.queries.query("SELECT max(f) + 1 FROM t", Session())
    records.close()
    with pytest.raises(Cancelled):
        list(records)


def test_a_query_over_too_many_cells_is_left_to_the_planner(made: World, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "SELECT date_trunc('minute', ts) AS b, max(f) + 1 AS m FROM t GROUP BY b ORDER BY b"
    monkeypatch.setattr("tsdb.engine.scan.readers.pieces.RUNS_MAX", 10)
    found, planned = both(made, text)
    assert found.num_rows == 80
    assert found.equals(planned)


def test_explain_analyze_of_a_query_over_cells_tells_of_both(made: World) -> None:
    plans = explain(made, "SELECT host, max(f) + 1 FROM t GROUP BY host", is_analyze=True).column("plan").to_pylist()
    assert "cells=3" in plans[0]
    assert "a query over its cells\n  Reason: it computes with aggregates" in plans[0]
    assert plans[-1] == "Total rows: 3"


def test_sums_of_integers_do_not_wrap_around(tmp_path_factory: pytest.TempPathFactory) -> None:
    with world(tmp_path_factory.mktemp("wrap")) as found:
        table = found.create("w", [("ts", NANOS), ("host", STRING), ("n", BIGINT)], tags=["host"])
        found.put(table, [{"host": "a", "ts": at, "n": 2**63 - 1} for at in range(3)])
        found.put(table, [{"host": "b", "ts": 9, "n": 2**63 - 1}])
        off = Session()
        off.variables["series_aggregate"] = "off"
        for session in (Session(), off):
            with pytest.raises(TsdbError, match="out of range"):
                read_all(found.queries.query("SELECT host, sum(n) FROM w GROUP BY host", session))
        got, planned = both(found, "SELECT sum(n), avg(n), min(n) FROM w WHERE host = 'b'")
        assert got.to_pylist() == planned.to_pylist()


def test_times_at_the_limits_of_their_type_are_answered_as_the_planner_does(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    with world(tmp_path_factory.mktemp("limits")) as found:
        table = found.create("e", [("ts", NANOS), ("host", STRING), ("n", BIGINT)], tags=["host"])
        found.put(table, [{"host": "a", "ts": at, "n": 1} for at in (-(2**63) + 1, 0, 2**63 - 1)])
        for text in (
            "SELECT min(ts), max(ts), count(*) FROM e",
            "SELECT date_trunc('day', ts), count(*) FROM e GROUP BY 1",
        ):
            off = Session()
            off.variables["series_aggregate"] = "off"
            answers = []
            for session in (Session(), off):
                try:
                    answers.append(sorted(map(str, read_all(found.queries.query(text, session)).to_pylist())))
                except TsdbError as error:
                    answers.append([type(error).__name__])
            assert answers[0] == answers[1]


def test_more_buckets_than_are_held_are_left_to_the_planner(made: World, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "SELECT date_trunc('minute', ts) AS b, max(f) FROM t GROUP BY b ORDER BY b"
    monkeypatch.setattr("tsdb.engine.scan.readers.pieces.RUNS_MAX", 10)
    found, planned = both(made, text)
    assert found.num_rows == 80
    assert found.equals(planned)


def test_explain_analyze_says_when_a_fast_path_fell_back(made: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tsdb.engine.scan.readers.pieces.RUNS_MAX", 10)
    for item in ("max(f)", "max(f) + 1"):
        text = f"SELECT date_trunc('minute', ts) AS b, {item} FROM t GROUP BY b"
        plans = explain(made, text, is_analyze=True).column("plan").to_pylist()
        assert "left to the planner: there are too many groups or values to hold" in plans[0]
        assert plans[-1] == "Total rows: 80"


def test_queries_of_one_shape_have_the_same_columns(made: World) -> None:
    first = read_all(made.queries.query("SELECT max(f) FROM t", Session()))
    again = read_all(made.queries.query("SELECT max(f) FROM t WHERE host = 'h1'", Session()))
    assert first.schema.equals(again.schema)
    assert first.schema.names == ["max(t.f)"]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT host, max(f) + 1 AS m FROM t WHERE n > {} GROUP BY host HAVING count(*) > 1 ORDER BY host",
        "SELECT upper(host) || '!' AS u, max(n) - 1 FROM t WHERE n >= {} AND host ILIKE 'H%' GROUP BY 1 ORDER BY 1",
    ],
)
def test_a_query_over_cells_that_differs_in_conditions_is_not_taken_apart_again(
    made: World, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    both(made, text.format(3))

    def fail(*_: object) -> None:
        raise AssertionError("it was taken apart again")

    monkeypatch.setattr("tsdb.query.choose.take_apart", fail)
    found, planned = both(made, text.format(20))
    assert found.num_rows == 3
    assert found.schema.equals(planned.schema, check_metadata=True)
    assert found.to_pylist() == planned.to_pylist()


def test_the_middle_of_more_values_than_are_held_is_the_planners(made: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tsdb.engine.scan.queries.aggregate.GATHERED_MAX", 10)
    found, planned = both(made, "SELECT host, median(f) FROM t GROUP BY host ORDER BY host")
    assert found.equals(planned)
