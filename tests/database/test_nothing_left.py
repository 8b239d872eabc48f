"""What ended statements leave behind: no plan, no snapshot, no rows."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress

import pytest

import tsdb
from tsdb.errors import TsdbError

RUNS = 20
KINDS = ("Process", "QueryLife", "TableSource", "TableDataset", "Snapshot", "TableRecords", "QueryRecords", "Job")


@pytest.fixture(scope="module")
def db() -> Iterator[tsdb.Connection]:
    with tsdb.connect() as connection:
        connection.sql("CREATE TABLE t (k STRING PRIMARY KEY, ts TIMESTAMP TIME INDEX, v BIGINT)")
        connection.sql("INSERT INTO t VALUES ('a', 1000, 1), ('b', 2000, 2)")
        connection.sql("CREATE VIEW w AS SELECT k, v FROM t WHERE v > 0")
        yield connection


def run(db: tsdb.Connection, text: str, times: int) -> None:
    for _ in range(times):
        with suppress(TsdbError):
            len(db.sql(text))


def alive() -> Counter[str]:
    gc.collect()
    return Counter(name for each in gc.get_objects() if (name := type(each).__name__) in KINDS)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM t",
        "SELECT a.k FROM t a JOIN t b ON a.ts = b.ts",
        "SELECT abs(v) FROM t WHERE v + 1 > 0 ORDER BY v * 2",
        "SELECT k, max(v) FROM w GROUP BY k",
        "SELECT ts, k, max(v) RANGE '1s' FILL PREV FROM t ALIGN '100ms' BY (k)",
        "EXPLAIN ANALYZE SELECT a.k FROM t a JOIN t b ON a.ts = b.ts",
        "SELECT no_such_function(v) FROM t",
        "SELECT v / 0 FROM t",
        "TQL EVAL (0, 10, '1s') sum(t)",
        "WITH q AS (TQL EVAL (0, 10, '1s') t) SELECT count(*) FROM q",
        "SELECT table_name FROM information_schema.tables",
    ],
)
def test_a_statement_leaves_nothing_behind(db: tsdb.Connection, text: str) -> None:
    run(db, text, 3)
    before = alive()
    run(db, text, RUNS)
    more = alive() - before
    assert all(count < RUNS // 2 for count in more.values()), more


@pytest.mark.parametrize("text", ["SELECT * FROM t", "SELECT k, max(v) FROM t GROUP BY k"])
def test_an_ended_statement_does_not_wait_for_the_garbage_collector(db: tsdb.Connection, text: str) -> None:
    run(db, text, 3)
    before = alive()
    gc.disable()
    try:
        run(db, text, RUNS)
        after = Counter(type(each).__name__ for each in gc.get_objects())
    finally:
        gc.enable()
    assert after["Process"] - before["Process"] < RUNS // 2
