"""Columns written into a logical table: labels that it lacks are added, fields are not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from tests.database.cases import CaseRunner
from tsdb.database import Session
from tsdb.errors import InvalidArguments, Unsupported


@pytest.fixture
def runner(tmp_path: Path) -> Iterator[CaseRunner]:
    opened = CaseRunner(tmp_path)
    for text in (
        "CREATE TABLE phy (ts TIMESTAMP TIME INDEX, val DOUBLE) ENGINE=metric WITH (physical_metric_table = '')",
        "CREATE TABLE m (ts TIMESTAMP TIME INDEX, val DOUBLE, host STRING PRIMARY KEY)"
        " ENGINE=metric WITH (on_physical_table = 'phy')",
    ):
        assert opened.answer(text) == ["ok 0"]
    yield opened
    opened.close()


def frame(**columns: pa.Array) -> pa.Table:
    return pa.table({"ts": pa.array([1, 2], pa.timestamp("ms")), "val": pa.array([1.0, 2.0]), **columns})


def test_a_label_that_the_table_lacks_is_added(runner: CaseRunner) -> None:
    rows = frame(host=pa.array(["a", "b"]), az=pa.array(["x", None], pa.string()))
    assert runner._open.database.write("public", "m", rows, Session(), tags=["host", "az"], time="ts") == 2
    assert runner.answer("SELECT az, host, val FROM m ORDER BY host") == [
        "az | host | val",
        "x | a | 1.0",
        "NULL | b | 2.0",
    ]


def test_another_field_is_refused(runner: CaseRunner) -> None:
    with pytest.raises(InvalidArguments, match="field column extra"):
        runner._open.database.write("public", "m", frame(extra=pa.array([1.0, 2.0])), Session(), tags=[], time="ts")


def test_a_physical_table_takes_no_rows(runner: CaseRunner) -> None:
    with pytest.raises(Unsupported):
        runner._open.database.write("public", "phy", frame(), Session(), tags=[], time="ts")
