"""The case files of ingestion: what every protocol writes and refuses, in front of a real database."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.ingest.cases import IngestRunner, read_ingest_cases

CASES = sorted((Path(__file__).parents[1] / "cases" / "ingest").glob("*.case"))


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_a_case_file_is_answered_as_it_says(path: Path, tmp_path: Path) -> None:
    runner = IngestRunner(tmp_path)
    try:
        problems = [problem for case in read_ingest_cases(path) if (problem := runner.check_any(case))]
    finally:
        runner.close()
    assert not problems, "\n\n".join(problems)
