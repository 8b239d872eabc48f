"""As many conditions in a row as the limits allow work wherever conditions are read; one more is refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.database.cases import open_case_database
from tests.database.hostile_child import SETUP, answer
from tsdb.database import Database, Session
from tsdb.sql.parser import QUERY_OPERATORS_MAX

# `v = 1 OR v = 2` has three operators; a query over a view, or with RANGE, adds a few of its own.
COUNT = (QUERY_OPERATORS_MAX - 10) // 2

CONDITIONS = {
    "or": " OR ".join(f"v = {n}" for n in range(COUNT)),
    "and": " AND ".join(f"v <> {n + 2}" for n in range(COUNT)),
    "tags": " OR ".join(f"k = '{n}'" for n in range(COUNT)) + " OR k = 'a'",
}
STATEMENTS = {
    "selection": "SELECT v FROM t WHERE {}",
    "aggregate": "SELECT k, max(v) FROM t WHERE {} GROUP BY k",
    "planned": "SELECT a.v FROM (SELECT * FROM t WHERE {}) AS a JOIN t AS b ON a.k = b.k",
    "view": "SELECT v FROM seen WHERE {}",
    "case": "SELECT CASE WHEN {} THEN 1 ELSE 2.5 END FROM t",
    "range": "SELECT ts, max(v) RANGE '5s' FROM t WHERE {} ALIGN '5s'",
    "delete": "DELETE FROM t WHERE {}",
    "insert": "INSERT INTO t SELECT k, ts, v FROM t WHERE {}",
}


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    opened = open_case_database(Path(tmp_path_factory.mktemp("conditions")))
    for text in (*SETUP, "CREATE VIEW seen AS SELECT * FROM t"):
        answer(opened.database, text, Session())
    yield opened.database
    opened.close()


@pytest.mark.parametrize("form", STATEMENTS)
@pytest.mark.parametrize("kind", CONDITIONS)
def test_conditions_up_to_the_limit_work_everywhere(database: Database, form: str, kind: str) -> None:
    answer(database, SETUP[-1], Session())
    said = answer(database, STATEMENTS[form].format(CONDITIONS[kind]), Session())
    assert said.split()[0] in ("rows", "affected"), said
    if form == "selection":
        assert said != "rows 0"


@pytest.mark.parametrize("form", STATEMENTS)
def test_conditions_beyond_the_limit_are_refused_or_need_no_planner(database: Database, form: str) -> None:
    condition = " OR ".join(f"v = {n}" for n in range(QUERY_OPERATORS_MAX))
    said = answer(database, STATEMENTS[form].format(condition), Session())
    refused = said.startswith("error 2000") and str(QUERY_OPERATORS_MAX) in said
    assert refused or said.split()[0] in ("rows", "affected"), said
