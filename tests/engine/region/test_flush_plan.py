"""Which files a flush makes of rows, however far apart they are."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engine.harness import REGION, SCHEMA, create, open_engine, put, read, scan
from tests.engine.scan.regions import Region, row
from tests.engine.scan.regions import put as written
from tsdb.engine.region.flush_plan import FILES_MAX, join_windows, stored_schema
from tsdb.engine.rows.run import Run

DAY_MS = 86_400_000


def run_of(rows: int) -> Run:
    (run,) = Region([written(*(row("a", time) for time in range(rows)))]).sources()
    return run


@given(sizes=st.lists(st.integers(1, 5), min_size=1, max_size=30), count_max=st.integers(1, 8))
def test_windows_are_joined_with_their_neighbours_until_there_are_few_enough(sizes: list[int], count_max: int) -> None:
    windows = [[run_of(size)] for size in sizes]
    joined = join_windows(windows, count_max)
    assert [run for part in joined for run in part] == [run for window in windows for run in window]
    assert all(joined)
    assert len(joined) <= count_max
    if len(windows) <= count_max:
        assert joined == windows


def test_joined_windows_have_about_the_same_number_of_rows() -> None:
    sizes = [100, 1, 1, 1, 1, 1, 1, 100, 50, 50]
    joined = join_windows([[run_of(size)] for size in sizes], 4)
    rows = [sum(run.facts.rows for run in part) for part in joined]
    assert len(rows) <= 4
    assert max(rows) <= 206


def test_rows_of_thousands_of_days_become_a_bounded_number_of_files_and_stay_exact(tmp_path: Path) -> None:
    engine = open_engine(tmp_path)
    create(engine)
    rows = [{"host": "h", "dc": "d", "ts": day * DAY_MS, "a": float(day), "b": day} for day in range(3000)]
    put(engine, rows)
    engine.flush(REGION).result(60)
    files = engine.files(REGION)
    assert len(files) == FILES_MAX
    assert all(one.time_range.end <= two.time_range.start for one, two in itertools.pairwise(files))
    assert sum(file.rows for file in files) == len(rows)
    assert sorted(row["ts"] for row in scan(engine)) == [row["ts"] for row in rows]
    assert len(read(engine)) == len(rows)
    engine.close()


@pytest.mark.parametrize("days", [1, 5])
def test_rows_of_a_few_days_are_in_files_of_their_own(tmp_path: Path, days: int) -> None:
    engine = open_engine(tmp_path)
    create(engine)
    put(engine, [{"host": "h", "dc": "d", "ts": day * DAY_MS, "a": 1.0, "b": 1} for day in range(days)])
    engine.flush(REGION).result(60)
    assert len(engine.files(REGION)) == days
    assert stored_schema(SCHEMA, SCHEMA) is SCHEMA
    engine.close()
