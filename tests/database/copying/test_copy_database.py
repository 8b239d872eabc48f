"""COPY DATABASE as a backup: what was written is restored into an empty server, under any name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.database.cases import CaseRunner

DEFINE = [
    "CREATE DATABASE shop WITH (ttl = '100000d')",
    "USE shop",
    "CREATE TABLE cpu (host STRING, dc STRING DEFAULT 'x', ts TIMESTAMP(9) TIME INDEX,"
    " usage DOUBLE NULL COMMENT 'percent', n INT UNSIGNED NOT NULL DEFAULT 7, PRIMARY KEY (host, dc))"
    " PARTITION ON COLUMNS (host) (host < 'm', host >= 'm') WITH ('compaction.twcs.time_window' = '1d')",
    "CREATE TABLE events (ts TIMESTAMP TIME INDEX, body JSON, d DECIMAL(9,2), b BINARY, o BOOLEAN, day DATE)"
    " WITH (append_mode = 'true')",
    'CREATE TABLE "odd:na-m.e" (ts TIMESTAMP TIME INDEX, "Va lue" BIGINT)',
    "CREATE TABLE phy (ts TIMESTAMP TIME INDEX, val DOUBLE) ENGINE=metric WITH (physical_metric_table = '')",
    "CREATE TABLE m1 (ts TIMESTAMP TIME INDEX, val DOUBLE, host STRING PRIMARY KEY) ENGINE=metric"
    " WITH (on_physical_table = 'phy')",
    "CREATE VIEW busy AS SELECT host, max(usage) AS top FROM cpu GROUP BY host",
    "CREATE VIEW very_busy AS SELECT * FROM busy WHERE top > 1",
    "INSERT INTO cpu (host, ts, usage) VALUES ('a', 1, 0.5), ('z', 2, 1.5), ('z', 3, NULL)",
    "INSERT INTO events VALUES (1000, '{\"a\": [1, 2]}', 12.34, X'00ff', true, '2024-02-29'),"
    " (1000, NULL, NULL, NULL, NULL, NULL)",
    'INSERT INTO "odd:na-m.e" VALUES (5, 6)',
    "INSERT INTO m1 (ts, val, host) VALUES (1000, 2.5, 'h')",
]
QUESTIONS = [
    "SHOW CREATE TABLE cpu",
    "SHOW CREATE TABLE events",
    "SHOW CREATE TABLE m1",
    "SELECT host, dc, ts, usage, n FROM cpu ORDER BY ts",
    "SELECT ts, json_to_string(body), d, b, o, day FROM events ORDER BY d",
    'SELECT * FROM "odd:na-m.e"',
    "SELECT * FROM m1",
    "SELECT * FROM very_busy",
    "SHOW TABLES",
]


@pytest.fixture
def runner(tmp_path: Path) -> Iterator[CaseRunner]:
    opened = CaseRunner(tmp_path)
    yield opened
    opened.close()


def run(runner: CaseRunner, *texts: str) -> list[list[str]]:
    answers = [runner.answer(text) for text in texts]
    failed = [(text, answer) for text, answer in zip(texts, answers, strict=True) if answer[0].startswith("error")]
    assert not failed
    return answers


@pytest.mark.parametrize("format", ["parquet", "csv", "json"])
def test_a_dropped_database_is_restored_with_its_definitions(runner: CaseRunner, format: str) -> None:
    run(runner, *DEFINE)
    before = run(runner, *QUESTIONS)
    run(runner, f"COPY DATABASE shop TO 'backup/' WITH (format = '{format}')", "USE public", "DROP DATABASE shop")
    assert run(runner, f"COPY DATABASE shop FROM 'backup/' WITH (format = '{format}')") == [["ok 7"]]
    assert run(runner, "USE shop", *QUESTIONS)[1:] == before
    assert "ttl" in str(run(runner, "SHOW CREATE DATABASE shop"))


@pytest.mark.parametrize("written_in", ["UTC", "Europe/Berlin"])
@pytest.mark.parametrize("format", ["parquet", "csv", "json"])
def test_a_backup_holds_the_same_instants_in_every_zone(runner: CaseRunner, format: str, written_in: str) -> None:
    run(runner, "CREATE DATABASE shop", "USE shop", "CREATE TABLE t (ts TIMESTAMP(9) TIME INDEX, seen TIMESTAMP(0))")
    # Both instants are 02:30 in Berlin, on the night on which summer time ends.
    run(runner, "INSERT INTO t VALUES ('2024-10-27 00:30:00Z', '2024-07-01'), ('2024-10-27 01:30:00Z', NULL)")
    before = run(runner, "SELECT * FROM t ORDER BY ts")
    runner.direct(f"zone {written_in}")
    run(runner, f"COPY DATABASE shop TO 'backup/' WITH (format = '{format}')")
    for zone in ("UTC", "Europe/Berlin", "Asia/Tokyo"):
        runner.direct(f"zone {zone}")
        run(runner, "TRUNCATE t", f"COPY DATABASE shop FROM 'backup/' WITH (format = '{format}')")
        assert run(runner, "SELECT * FROM t ORDER BY ts") == before


def test_a_backup_is_restored_under_another_name_beside_the_first(runner: CaseRunner) -> None:
    run(runner, *DEFINE)
    before = run(runner, *QUESTIONS)
    run(runner, "COPY DATABASE shop TO 'backup/'", "COPY DATABASE copied FROM 'backup/'")
    run(runner, "DELETE FROM shop.cpu WHERE host = 'z'", "USE copied")
    after = run(runner, *QUESTIONS)
    assert [[line.replace("copied", "shop") for line in answer] for answer in after] == before


def test_what_exists_is_kept_and_what_is_missing_created(runner: CaseRunner) -> None:
    run(runner, *DEFINE, "COPY DATABASE shop TO 'backup/'")
    run(runner, "DROP TABLE events", "ALTER TABLE cpu ADD COLUMN extra BIGINT", "DELETE FROM cpu WHERE host = 'a'")
    assert run(runner, "COPY DATABASE shop FROM 'backup/'") == [["ok 7"]]
    assert run(runner, "SELECT count(*), count(extra) FROM cpu")[0][1].split() == ["3", "|", "0"]
    assert run(runner, "SELECT count(*) FROM events")[0][1] == "2"


def test_a_directory_that_is_not_there_is_an_error_and_creates_nothing(runner: CaseRunner) -> None:
    assert runner.answer("COPY DATABASE other FROM 'nowhere/'")[0].startswith("error")
    assert "other" not in str(run(runner, "SHOW DATABASES"))


def test_definitions_may_only_create(runner: CaseRunner, tmp_path: Path) -> None:
    run(runner, *DEFINE, "COPY DATABASE shop TO 'backup/'")
    (path,) = tmp_path.rglob("schema.sql")
    path.write_text("DROP TABLE cpu;")
    assert runner.answer("COPY DATABASE shop FROM 'backup/'")[0].startswith("error")
    assert run(runner, "SELECT count(*) FROM cpu")[0][1] == "3"
