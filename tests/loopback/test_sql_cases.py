"""Case files over readers that encode everything."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest

from tests.database.cases import CaseRunner, read_cases

DIRECTORY = Path(__file__).parents[1] / "cases" / "sql"
READING = (
    "alter_table",
    "append_mode",
    "delete",
    "explain",
    "fulltext",
    "information_schema",
    "merge_modes",
    "metric",
    "native_histograms",
    "partitions",
    "queries",
    "range",
    "tag_types",
    "tql",
)
"""Files that are mostly about reading. `TSDB_LOOPBACK=all` takes all."""
CASES = [
    path
    for path in sorted(DIRECTORY.glob("*.case"))
    if path.stem in READING or (os.environ.get("TSDB_LOOPBACK") == "all" and path.stem != "known_misses")
]


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_a_case_file_is_answered_as_it_says(path: Path, tmp_path: Path) -> None:
    runner = CaseRunner(tmp_path)
    try:
        misses = [miss for case in read_cases(path) if (miss := runner.check(case)) is not None]
    finally:
        runner.close()
    assert not misses, "\n\n".join(misses)


AGGREGATES = [
    "SELECT host, max(v), avg(v) FROM t GROUP BY host ORDER BY host",
    "SELECT upper(host) AS h, count(*) FROM t WHERE length(host) > 1 GROUP BY h ORDER BY h",
    "SELECT date_bin(INTERVAL '1 minute', ts) AS m, sum(v) FROM t GROUP BY m ORDER BY m DESC LIMIT 2",
    "SELECT host, last_value(v ORDER BY ts) FROM t GROUP BY host ORDER BY host",
    "SELECT median(v) FROM t WHERE host IN ('ab', 'zz')",
]


def test_aggregates_over_regions_answer_what_the_planner_answers(tmp_path: Path, verbs: Counter[str]) -> None:
    runner = CaseRunner(tmp_path)
    try:
        runner.answer(
            "CREATE TABLE t (host STRING, ts TIMESTAMP(3) TIME INDEX, v DOUBLE, PRIMARY KEY (host)) "
            "PARTITION ON COLUMNS (host) (host < 'm', host >= 'm')"
        )
        rows = ", ".join(f"('{host}', {time * 20_000}, {time})" for host in ("ab", "b", "zz") for time in range(9))
        assert runner.answer(f"INSERT INTO t VALUES {rows}") == ["ok 27"]
        newest = runner.answer("SELECT host, v FROM t WHERE v < 8 ORDER BY ts DESC LIMIT 3")
        assert sorted(newest[1:]) == ["ab | 7.0", "b | 7.0", "zz | 7.0"]
        found = [runner.answer(text) for text in AGGREGATES]
        before = verbs["cells"]
        runner.answer("SET series_aggregate = 'off'")
        assert [runner.answer(text) for text in AGGREGATES] == found
        assert (before > 0, verbs["cells"]) == (True, before)
    finally:
        runner.close()
    assert {"plan_scan", "scan", "plan_cells", "cells", "evaluate", "bounds"} <= verbs.keys()
