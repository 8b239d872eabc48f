"""EXPLAIN: plans, what an analysed query counted, and the forms that do not exist."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.query.harness import World, cpu, world
from tsdb.errors import Status, TsdbError
from tsdb.query import Session, read_all
from tsdb.sql import parse
from tsdb.sql.statements import Dialect, Explain


@pytest.fixture
def made(tmp_path: Path) -> Iterator[World]:
    with world(tmp_path) as opened:
        table = cpu(opened)
        opened.flush(table)
        opened.put(table, [{"host": "c", "ts": 10_000, "usage": 1.0, "n": 9, "up": True}])
        yield opened


def explain(made: World, text: str, session: Session | None = None) -> list[dict[str, Any]]:
    (parsed,) = parse(text, Dialect.GENERIC)
    assert isinstance(parsed.statement, Explain)
    records = made.queries.explain(parsed.statement, parsed.text, session or Session())
    rows: list[dict[str, Any]] = read_all(records).to_pylist()
    return rows


def test_a_plan_has_a_logical_and_a_physical_part(made: World) -> None:
    rows = explain(made, "EXPLAIN SELECT host || 'x' FROM cpu WHERE ts > 1000")
    assert [row["plan_type"] for row in rows] == ["logical_plan", "physical_plan", "planner"]
    assert "TableScan: cpu" in rows[0]["plan"]
    assert rows[2]["plan"] == "Planner: it computes with its columns or literals"


def test_a_fast_path_is_explained_by_what_it_does(made: World) -> None:
    (row,) = explain(made, "EXPLAIN SELECT host, n FROM cpu WHERE ts > 1000 ORDER BY ts DESC LIMIT 3")
    assert row["plan_type"] == "scan"
    assert row["plan"].startswith("Scan: tsdb.public.cpu, columns=[host, n], order=ts DESC, limit=3, regions=1")
    assert row["plan"].endswith("Reason: it selects columns of one table")
    (row,) = explain(made, "EXPLAIN SELECT max(n) FROM cpu")
    assert row["plan_type"] == "series_aggregate"
    (row,) = explain(made, "EXPLAIN SELECT max(n) + 1 FROM cpu")
    assert (row["plan_type"], "a query over its cells" in row["plan"]) == ("series_aggregate", True)
    first, *rest = explain(made, "EXPLAIN SELECT ts, max(n) RANGE '2s' FROM cpu ALIGN '1s'")
    assert first["plan_type"] == "range"
    assert first["plan"].startswith("Range: align=1s, aggregates=[max(n) RANGE 2s]")
    assert [row["plan_type"] for row in rest] == ["series_aggregate"]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT host, n FROM cpu WHERE ts > 1000",
        "SELECT max(n) FROM cpu",
        "SELECT max(n) + 1 FROM cpu",
        "SELECT ts, max(n) RANGE '2s' FROM cpu ALIGN '1s'",
    ],
)
def test_with_fast_paths_off_every_query_is_planned(made: World, text: str) -> None:
    session = Session()
    session.variables["series_aggregate"] = "off"
    rows = explain(made, f"EXPLAIN {text}", session)
    assert [row["plan_type"] for row in rows][-3:] == ["logical_plan", "physical_plan", "planner"]
    assert rows[-1]["plan"] == "Planner: series_aggregate is off in this session"
    rows = explain(made, f"EXPLAIN ANALYZE {text}", session)
    assert any(str(row["plan"]).endswith("Planner: series_aggregate is off in this session") for row in rows)


def test_an_analysed_scan_tells_what_it_read(made: World) -> None:
    first, scan, last = explain(made, "EXPLAIN ANALYZE SELECT host FROM cpu WHERE host = 'a' AND ts < 9000")
    assert first["plan"].startswith("Scan: tsdb.public.cpu, columns=[host], regions=1, sources=2")
    assert "series=1 of 2" in scan["plan"]
    assert "rows_returned=3" in scan["plan"]
    assert last["plan"] == "Total rows: 3"


def test_fast_paths_are_printed_in_every_format(made: World) -> None:
    for text, node in (("SELECT host FROM cpu", "Scan"), ("SELECT max(n) FROM cpu", "SeriesAggregate")):
        for prefix in ("EXPLAIN FORMAT JSON", "EXPLAIN ANALYZE FORMAT JSON"):
            row = explain(made, f"{prefix} {text}")[0]
            assert json.loads(row["plan"])[0]["Plan"]["Node Type"] == node
        assert explain(made, f"EXPLAIN FORMAT GRAPHVIZ {text}")[0]["plan"].startswith("digraph")
        assert explain(made, f"EXPLAIN FORMAT TREE {text}")[0]["plan"].startswith(node)


def test_an_analysed_query_tells_what_its_scans_did_and_how_many_rows_it_gave(made: World) -> None:
    rows = explain(made, "EXPLAIN ANALYZE SELECT host, count(*) FROM cpu WHERE host = 'a' AND ts < 9000 GROUP BY host")
    assert [(row["stage"], row["node"]) for row in rows] == [(0, 0), (1, 0), (None, None)]
    assert rows[0]["plan"].startswith("SeriesAggregate: tsdb.public.cpu, by=[host], aggregates=[count(*)]")
    scan = rows[1]["plan"]
    assert scan.startswith("TableScan: tsdb.public.cpu, regions=1, ")
    assert "1 by time" in scan
    assert "series=1 of 2" in scan
    assert "rows_read=3, rows_returned=3, columns=" in scan
    assert rows[2]["plan"] == "Total rows: 1"


def test_an_analysed_join_has_a_row_for_each_table(made: World) -> None:
    rows = explain(made, "EXPLAIN ANALYZE SELECT * FROM cpu, information_schema.engines")
    assert [row["stage"] for row in rows] == [0, 1, None]


def test_plans_come_as_json(made: World) -> None:
    (row,) = explain(made, "EXPLAIN FORMAT JSON SELECT host FROM cpu")
    assert json.loads(row["plan"])[0]["Plan"]
    first, scan, last = explain(made, "EXPLAIN ANALYZE FORMAT JSON SELECT host FROM cpu")
    assert json.loads(first["plan"])[0]["Plan"]
    assert json.loads(scan["plan"])["rows_returned"] == 7
    assert last["plan"] == "Total rows: 7"


def test_verbose_tells_more(made: World) -> None:
    assert len(explain(made, "EXPLAIN VERBOSE SELECT n + 1 FROM cpu")) > 3
    assert "start_timestamp" in explain(made, "EXPLAIN ANALYZE VERBOSE SELECT max(n + 1) FROM cpu")[0]["plan"]


def test_range_queries_are_explained_by_what_they_aggregate(made: World) -> None:
    rows = explain(made, "EXPLAIN ANALYZE SELECT ts, max(n) RANGE '1s' FROM cpu ALIGN '1s'")
    assert rows[0]["plan"].startswith("Range: align=1s, aggregates=[max(n) RANGE 1s]")
    assert rows[1]["plan"].startswith("SeriesAggregate: tsdb.public.cpu")
    assert rows[2]["plan"].startswith("TableScan: tsdb.public.cpu")


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("EXPLAIN VERBOSE FORMAT JSON SELECT 1", Status.PLAN_QUERY),
        ("EXPLAIN ANALYZE FORMAT TREE SELECT 1", Status.UNSUPPORTED),
        ("EXPLAIN SELECT * FROM nothing", Status.TABLE_NOT_FOUND),
        ("EXPLAIN ANALYZE SELECT 'x'::INT", Status.ENGINE_EXECUTE_QUERY),
    ],
)
def test_what_cannot_be_explained_says_why(made: World, text: str, status: Status) -> None:
    with pytest.raises(TsdbError) as caught:
        explain(made, text)
    assert caught.value.status is status
