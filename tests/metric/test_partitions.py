"""A physical table that is partitioned by a label: rows of logical tables go to the region of their label."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.database.cases import CaseRunner
from tests.servers.http.test_prometheus_remote import World, metric
from tsdb.database import Session

PHYSICAL = (
    "CREATE TABLE phy (ts TIMESTAMP TIME INDEX, val DOUBLE, host STRING PRIMARY KEY)"
    " PARTITION ON COLUMNS (host) (host < 'm', host >= 'm') ENGINE=metric WITH (physical_metric_table = '')"
)
LOGICAL = (
    "CREATE TABLE {} (ts TIMESTAMP TIME INDEX, val DOUBLE, {} STRING PRIMARY KEY)"
    " ENGINE=metric WITH (on_physical_table = 'phy')"
)


@pytest.fixture
def runner(tmp_path: Path) -> Iterator[CaseRunner]:
    opened = CaseRunner(tmp_path)
    assert opened.answer(PHYSICAL) == ["ok 0"]
    yield opened
    opened.close()


def region_rows(runner: CaseRunner) -> list[str]:
    text = "SELECT r.region_rows FROM information_schema.region_statistics r ORDER BY r.region_number"
    return runner.answer(text)[1:]


def test_rows_are_written_read_and_deleted_in_the_region_of_their_label(runner: CaseRunner) -> None:
    assert runner.answer(LOGICAL.format("m1", "host")) == ["ok 0"]
    assert runner.answer(LOGICAL.format("m2", "other")) == ["ok 0"]
    assert runner.answer("INSERT INTO m1 (ts, val, host) VALUES (1, 1, 'a'), (1, 2, 'z'), (2, 3, 'z')") == ["ok 3"]
    assert runner.answer("INSERT INTO m2 (ts, val, other) VALUES (1, 9, 'q')") == ["ok 1"]
    assert sorted(region_rows(runner)) == ["2", "2"]
    for flushed in (False, True):
        if flushed:
            runner.answer("ADMIN flush_table('phy')")
        assert runner.answer("SELECT host, val FROM m1 ORDER BY val")[1:] == ["a | 1.0", "z | 2.0", "z | 3.0"]
        assert runner.answer("SELECT host, sum(val) AS s FROM m1 GROUP BY host ORDER BY host")[1:] == [
            "a | 1.0",
            "z | 5.0",
        ]
        assert runner.answer("SELECT other, val FROM m2")[1:] == ["q | 9.0"]
        assert runner.answer("SELECT count(*) AS n, sum(val) AS s FROM phy")[1:] == ["4 | 15.0"]
        assert len(runner.answer("TQL EVAL (0.01, 0.01, '1s') sum by (host) (m1)")) == 3
    assert runner.answer("DELETE FROM m1 WHERE host = 'z' AND ts = 1") == ["ok 1"]
    assert runner.answer("SELECT host, val FROM m1 ORDER BY val")[1:] == ["a | 1.0", "z | 3.0"]


def test_what_cannot_be_partitioned_is_refused(runner: CaseRunner) -> None:
    by_value = PHYSICAL.replace("phy ", "p2 ", 1).replace(
        "(host) (host < 'm', host >= 'm')", "(val) (val < 1, val >= 1)"
    )
    assert "labels" in runner.answer(by_value)[0]
    logical = LOGICAL.format("m", "host").replace(
        " ENGINE", " PARTITION ON COLUMNS (host) (host < 'm', host >= 'm') ENGINE"
    )
    assert "no partitions" in runner.answer(logical)[0]


def test_samples_of_remote_write_are_divided(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.database.run(
        "CREATE TABLE tsdb_physical_table (tsdb_timestamp TIMESTAMP TIME INDEX, tsdb_value DOUBLE,"
        " host STRING PRIMARY KEY) PARTITION ON COLUMNS (host) (host < 'm', host >= 'm')"
        " ENGINE=metric WITH (physical_metric_table = '')",
        Session(),
    )
    for time in (1000, 2000):
        series = [metric(name, 1.0, time, host=host) for name in ("up", "load") for host in ("a", "b", "z")]
        assert world.write(*series, metric("bare", 5.0, time)).status == 204
    counted = world.ask("SELECT host, count(*) AS n FROM up GROUP BY host ORDER BY host")
    assert [(row["host"], row["n"]) for row in counted] == [("a", 2), ("b", 2), ("z", 2)]
    assert world.values("bare") == [5.0, 5.0]
    rows = world.ask("SELECT region_id, region_rows FROM information_schema.region_statistics")
    by_region = sorted(row["region_rows"] for row in rows)
    assert sum(by_region) == 14
    assert by_region[0] > 0, "both regions have rows"
    assert len(world.read((0, "__name__", "up"))) == 3
    world.close()
