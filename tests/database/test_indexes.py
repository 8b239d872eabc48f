"""Inverted indexes as statements use them: answers as without, and EXPLAIN ANALYZE tells what they excluded."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tsdb.components._local import LocalDatabase, LocalOptions, open_directory
from tsdb.database import Affected, Session, read_all
from tsdb.engine import EngineOptions, WalSettings
from tsdb.engine.tuning import EngineTuning, IndexTuning
from tsdb.query import QueryEngineOptions
from tsdb.units import Size

HOSTS = 2000
EXCLUDED = re.compile(r"inverted indexes of (\d+) files excluded (\d+) series")


def open_database(directory: Path, *, on_query: bool, workers: int = 0) -> LocalDatabase:
    tuning = EngineTuning(index=IndexTuning(series_min=100, page_series=64, page_values=64))
    options = LocalOptions(
        engine=EngineOptions(
            num_workers=1,
            max_background_jobs=1,
            sst_meta_cache_size=Size(0),
            index_on_query=on_query,
            tuning=tuning,
        ),
        wal=WalSettings(ballast_bytes=Size(0)),
        query=QueryEngineOptions(spill_dir=directory / "spill", workers=workers),
        has_housekeeping=False,
    )
    return open_directory(directory, options=options)


@pytest.fixture(scope="module")
def databases(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LocalDatabase, LocalDatabase]]:
    """The same table in two databases, of which the second ignores indexes."""
    opened = []
    for name, on_query in (("with", True), ("without", False)):
        local = open_database(tmp_path_factory.mktemp(name), on_query=on_query)
        centres = ["NULL", *(f"'dc{number}'" for number in range(1, 7))]
        rows = ", ".join(
            f"('h{number:04}', {centres[number % 7]}, {second * 1000}, {number + second})"
            for number in range(HOSTS)
            for second in range(2)
        )
        for text in (
            "CREATE TABLE cpu (host STRING, dc STRING, ts TIMESTAMP TIME INDEX, v DOUBLE, PRIMARY KEY (host, dc))",
            f"INSERT INTO cpu VALUES {rows}",
            "ADMIN flush_table('cpu')",
        ):
            for output in local.database.execute(text, Session()):
                if not isinstance(output, Affected):
                    read_all(output)
        opened.append(local)
    yield opened[0], opened[1]
    for local in opened:
        local.close()


def ask(local: LocalDatabase, text: str) -> list[dict[str, Any]]:
    (output,) = list(local.database.execute(text, Session()))
    assert not isinstance(output, Affected)
    rows: list[dict[str, Any]] = read_all(output).to_pylist()
    return sorted(rows, key=str)


STATEMENTS = {
    "=": "SELECT * FROM cpu WHERE host = 'h0777' ORDER BY ts",
    "in": "SELECT * FROM cpu WHERE host IN ('h0001', 'h1234', 'x') ORDER BY host, ts",
    "range": "SELECT * FROM cpu WHERE host >= 'h1990' AND host < 'h1993' ORDER BY host, ts",
    "between": "SELECT count(*), sum(v) FROM cpu WHERE host BETWEEN 'h0100' AND 'h0103'",
    "like": "SELECT * FROM cpu WHERE host LIKE 'h012%'",
    "like anywhere": "SELECT count(*), sum(v) FROM cpu WHERE host LIKE '%1777'",
    "regex": "SELECT count(*), sum(v) FROM cpu WHERE host ~ '^h099[0-3]$'",
    "aggregate": "SELECT host, max(v) FROM cpu WHERE host = 'h0777' GROUP BY host",
    "aggregate of a pattern": "SELECT host, max(v) FROM cpu WHERE host LIKE 'h012%' GROUP BY host ORDER BY host",
    "two tags": "SELECT count(*), sum(v) FROM cpu WHERE host IN ('h0007', 'h0008') AND dc = 'dc1'",
    "field": "SELECT count(*) FROM cpu WHERE host = 'h0777' AND v > 777.5",
    "nowhere": "SELECT count(*) FROM cpu WHERE host = 'x'",
}


@pytest.mark.parametrize("text", STATEMENTS.values(), ids=STATEMENTS.keys())
def test_statements_on_few_series_use_the_index(text: str, databases: tuple[LocalDatabase, LocalDatabase]) -> None:
    indexed, plain = databases
    assert ask(indexed, text) == ask(plain, text)
    told = " ".join(str(value) for row in ask(indexed, f"EXPLAIN ANALYZE {text}") for value in row.values())
    found = EXCLUDED.search(told)
    assert found is not None, told
    assert found[1] == "1"
    assert int(found[2]) > HOSTS * 0.9
    told = " ".join(str(value) for row in ask(plain, f"EXPLAIN ANALYZE {text}") for value in row.values())
    assert EXCLUDED.search(told) is None


OTHERS = {
    "null": "SELECT count(*), sum(v) FROM cpu WHERE dc IS NULL",
    "not": "SELECT count(*), sum(v) FROM cpu WHERE host <> 'h0777'",
    "either": "SELECT count(*), sum(v) FROM cpu WHERE host = 'h0777' OR v < 5",
    "common": "SELECT count(*), sum(v) FROM cpu WHERE dc = 'dc3'",
    "everything": "SELECT count(*), sum(v) FROM cpu",
}


@pytest.mark.parametrize("text", OTHERS.values(), ids=OTHERS.keys())
def test_other_statements_have_the_same_answers(text: str, databases: tuple[LocalDatabase, LocalDatabase]) -> None:
    indexed, plain = databases
    assert ask(indexed, text) == ask(plain, text)


SELECTORS = [
    'cpu{host="h0777"}',
    'cpu{host=~"h0777|h0778"}',
    'cpu{host=~"h077.+"}',
    'cpu{host=~".*777"}',
    'cpu{host="h0778",dc!=""}',
    'cpu{dc=""}',
    'sum(cpu{host!="h0777"})',
]


@pytest.mark.parametrize("selector", SELECTORS)
def test_selectors_have_the_same_samples(selector: str, databases: tuple[LocalDatabase, LocalDatabase]) -> None:
    indexed, plain = databases
    text = f"TQL EVAL (0, 2, '1s') {selector}"

    def samples(local: LocalDatabase) -> list[Any]:
        return sorted(tuple(map(str, row.values())) for row in ask(local, text))

    assert samples(indexed) == samples(plain)
    assert samples(indexed)


SKIPPED = re.compile(r"skipping indexes excluded (\d+) rows")
ROWS = 20_000


def run(local: LocalDatabase, *texts: str) -> None:
    for text in texts:
        for output in local.database.execute(text, Session()):
            if not isinstance(output, Affected):
                read_all(output)


def excluded_rows(local: LocalDatabase, text: str) -> int:
    told = " ".join(str(value) for row in ask(local, f"EXPLAIN ANALYZE {text}") for value in row.values())
    found = SKIPPED.search(told)
    return 0 if found is None else int(found[1])


def insert_requests(local: LocalDatabase, table: str) -> None:
    rows = ", ".join(
        f"('h', {number}, 'request-{number * 7919 % 1_000_003:07}', {number // 2500})" for number in range(ROWS)
    )
    run(local, f"INSERT INTO {table} VALUES {rows}", f"ADMIN flush_table('{table}')")


def test_skipping_indexes_are_declared_changed_and_used(tmp_path: Path) -> None:
    local = open_database(tmp_path, on_query=True)
    columns = "host STRING PRIMARY KEY, ts TIMESTAMP TIME INDEX"
    run(
        local,
        f"CREATE TABLE a ({columns}, id STRING SKIPPING INDEX WITH (granularity = 1000), code BIGINT)",
        f"CREATE TABLE b ({columns}, id STRING, code BIGINT)",
    )
    wanted = f"request-{12_345 * 7919 % 1_000_003:07}"
    for table in ("a", "b"):
        insert_requests(local, table)
    for where in (f"id = '{wanted}'", f"id IN ('{wanted}', 'none')", f"id = '{wanted}' AND code = 4"):
        texts = [f"SELECT host, ts, code FROM {table} WHERE {where}" for table in ("a", "b")]
        assert len(ask(local, texts[0])) == 1
        assert ask(local, texts[0]) == ask(local, texts[1])
        assert excluded_rows(local, texts[0]) >= ROWS * 0.9
        assert excluded_rows(local, texts[1]) == 0
        counts = [f"SELECT count(*) AS n, max(code) AS m FROM {table} WHERE {where}" for table in ("a", "b")]
        assert ask(local, counts[0]) == ask(local, counts[1])
        assert excluded_rows(local, counts[0]) >= ROWS * 0.9
    # A file has the indexes that were declared when it was written.
    run(
        local,
        "ALTER TABLE a MODIFY COLUMN id UNSET SKIPPING INDEX",
        "ALTER TABLE b MODIFY COLUMN id SET INVERTED INDEX",
    )
    assert excluded_rows(local, f"SELECT ts FROM a WHERE id = '{wanted}'") > 0
    run(local, "TRUNCATE a", "TRUNCATE b")
    for table in ("a", "b"):
        insert_requests(local, table)
        assert len(ask(local, f"SELECT ts FROM {table} WHERE id = '{wanted}'")) == 1
    assert excluded_rows(local, f"SELECT ts FROM a WHERE id = '{wanted}'") == 0
    assert excluded_rows(local, f"SELECT ts FROM b WHERE id = '{wanted}'") > 0
    # Newer rows of the same keys hide those that the index would find.
    run(local, "INSERT INTO b SELECT host, ts, 'other', code FROM b", "ADMIN flush_table('b')")
    assert ask(local, f"SELECT ts FROM b WHERE id = '{wanted}'") == []
    local.close()
    # The declaration outlives a restart.
    local = open_database(tmp_path, on_query=True)
    run(local, "TRUNCATE b")
    insert_requests(local, "b")
    assert excluded_rows(local, f"SELECT ts FROM b WHERE id = '{wanted}'") > 0
    local.close()
