"""The case files: every statement of the dialect and every error code, answered by a real database."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.database.cases import Case, CaseRunner, read_cases
from tests.query.workers.shared import use_shared_workers
from tests.standalone_only import is_different
from tests.storage import IN_CLUSTER, IS_PARTITIONED
from tsdb.store import ObjectStore

KNOWN_MISSES = "known_misses"
CASES = sorted(
    path for path in (Path(__file__).parents[1] / "cases" / "sql").glob("*.case") if path.stem != KNOWN_MISSES
)


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_a_case_file_is_answered_as_it_says(path: Path, tmp_path: Path) -> None:
    check_cases(path, tmp_path)


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_a_case_file_is_answered_the_same_by_workers(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_shared_workers(monkeypatch, for_all=True)
    check_cases(path, tmp_path, workers=2)


def check_cases(path: Path, directory: Path, *, workers: int = 0, store: ObjectStore | None = None) -> None:
    runner = CaseRunner(directory, workers=workers, store=store)
    try:
        misses = [
            miss
            for case in read_cases(path)
            if (miss := runner.check(case)) is not None and not _is_different(path, case)
        ]
    finally:
        runner.close()
    assert not misses, "\n\n".join(misses)


def _is_different(path: Path, case: Case) -> bool:
    return IN_CLUSTER and is_different(path.stem, case.text, is_partitioned=IS_PARTITIONED)


REACHABLE = (1001, 1002, 1004, 1008, 2000, 3000, 3001, 4000, 4001, 4002, 4003, 4004, 5000, 6000, 8001)
"""The codes a single session can be answered with; a cancelled statement (1005) takes two."""


@pytest.mark.parametrize("code", REACHABLE)
def test_a_code_that_sql_can_reach_has_its_place_among_the_errors(code: int) -> None:
    codes = {
        line.split()[1]
        for case in read_cases(CASES[0].with_name("errors.case"))
        for line in case.expected
        if line.startswith("error ")
    }
    assert str(code) in codes
