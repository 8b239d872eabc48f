"""Case files and PromQL over a connection: the same answers. `TSDB_LOOPBACK=all` takes all case files."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.database.cases import CaseRunner, read_cases
from tests.loopback.test_sql_cases import (
    test_aggregates_over_regions_answer_what_the_planner_answers as check_aggregates,
)
from tests.query.promql.test_series_index import db, select, source  # noqa: F401
from tests.remote.flight_regions import FlightRegions, use_flight
from tsdb.embedded import Connection
from tsdb.query.promql._series_index import SeriesIndexes
from tsdb.remote import RemoteReader

DIRECTORY = Path(__file__).parents[1] / "cases" / "sql"
FEW = ("alter_table", "delete", "explain", "metric", "partitions", "tql")
CASES = [
    path
    for path in sorted(DIRECTORY.glob("*.case"))
    if path.stem in FEW or (os.environ.get("TSDB_LOOPBACK") == "all" and path.stem != "known_misses")
]


@pytest.fixture(autouse=True, scope="module")
def _flight() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        use_flight(patch)
        yield


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_a_case_file_is_answered_as_it_says(path: Path, tmp_path: Path) -> None:
    before = FlightRegions.calls.total()
    runner = CaseRunner(tmp_path)
    try:
        misses = [miss for case in read_cases(path) if (miss := runner.check(case)) is not None]
    finally:
        runner.close()
    assert not misses, "\n\n".join(misses)
    assert path.stem not in FEW or FlightRegions.calls.total() > before


def test_aggregates_answer_what_the_planner_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    verbs: Counter[str] = Counter()
    verbatim = RemoteReader._ask

    def count(self: RemoteReader, op: str, *args: object, **named: object) -> object:
        verbs[op] += 1
        verbs["evaluate"] += named.get("evaluate") is not None
        return verbatim(self, op, *args, **named)  # type: ignore[arg-type]

    scan = RemoteReader.scan

    def count_scan(self: RemoteReader, request: object) -> object:
        verbs["scan"] += 1
        return scan(self, request)  # type: ignore[arg-type]

    monkeypatch.setattr(RemoteReader, "_ask", count)
    monkeypatch.setattr(RemoteReader, "scan", count_scan)
    check_aggregates(tmp_path, verbs)


def test_promql_finds_series_as_they_come(db: Connection) -> None:  # noqa: F811
    series = source(db, SeriesIndexes())
    for _ in range(3):
        assert select(series, 'cpu{host="a"}') == {"a": [2]}
    db.sql("INSERT INTO cpu VALUES ('d', 'x', 0, 7)")
    assert select(series, 'cpu{host="d"}') == {"d": [7]}
