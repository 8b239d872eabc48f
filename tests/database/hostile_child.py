"""A process that runs hostile statements, so that a crash is seen as one: the process ends with a signal.

    python -m tests.database.hostile_child CHANNEL NAME…

Prints one JSON object per statement: its name before it runs, then the answer and how long it took.
"""

from __future__ import annotations

import json
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests import storage
from tests.database.cases import open_case_database
from tsdb.database import Affected, Channel, Database, Session, read_all
from tsdb.errors import TsdbError

MEMORY_BYTES_MAX = 6 << 30
"""What the process may allocate: a statement that wants more ends it, not the machine."""

SETUP = (
    "DROP TABLE IF EXISTS t, w",
    "CREATE TABLE t (k STRING PRIMARY KEY, ts TIMESTAMP TIME INDEX, v INT)",
    "INSERT INTO t VALUES ('a', 1, 1), ('b', 2, 29999)",
)

STATEMENTS: dict[str, Callable[[], str]] = {
    "parentheses": lambda: "SELECT " + "(" * 10_000 + "1" + ")" * 10_000,
    "open parentheses": lambda: "SELECT " + "(" * 10_000,
    "closed parentheses": lambda: "SELECT 1" + ")" * 10_000,
    "brackets": lambda: "SELECT " + "[" * 10_000 + "1" + "]" * 10_000,
    "calls": lambda: "SELECT " + "abs(" * 5_000 + "1" + ")" * 5_000,
    "cases": lambda: "SELECT " + "CASE WHEN true THEN " * 5_000 + "1" + " END" * 5_000,
    "minuses": lambda: "SELECT " + "- " * 20_000 + "1",
    "nots": lambda: "SELECT " + "NOT " * 20_000 + "true",
    "casts": lambda: "SELECT 1" + "::INT" * 10_000,
    "additions": lambda: "SELECT " + "1 + " * 100_000 + "1",
    "concatenations": lambda: "SELECT " + "'a' || " * 100_000 + "'a'",
    "conditions": lambda: "SELECT v FROM t WHERE " + " OR ".join(f"v = {n}" for n in range(20_000)),
    "and conditions": lambda: "SELECT v FROM t WHERE " + " AND ".join(f"v <> {n}" for n in range(20_000)),
    "subqueries": lambda: "SELECT * FROM " + "(SELECT * FROM " * 500 + "t" + ") AS x" * 500,
    "scalar subqueries": lambda: "SELECT " + "(SELECT " * 2_000 + "1" + ")" * 2_000,
    "nested ctes": lambda: "".join(f"WITH c{n} AS (" for n in range(500)) + "SELECT 1" + ") SELECT 1" * 500,
    "chained ctes": lambda: (
        "WITH c0 AS (SELECT 1 AS a)"
        + "".join(f", c{n} AS (SELECT a FROM c{n - 1})" for n in range(1, 500))
        + " SELECT * FROM c499"
    ),
    "unions": lambda: " UNION ALL ".join(["SELECT 1"] * 5_000),
    "joins": lambda: "SELECT count(*) FROM t" + "".join(f" JOIN t AS t{n} ON t.k = t{n}.k" for n in range(60)),
    "large in": lambda: f"SELECT v FROM t WHERE v IN ({', '.join(map(str, range(100_000)))})",
    "large like": lambda: "SELECT v FROM t WHERE k LIKE '" + "%a" * 100_000 + "'",
    "large regex": lambda: "SELECT 'a' ~ '" + "(a|b)*" * 20_000 + "'",
    "exploding regex": lambda: "SELECT 'a' ~ '(((a{100}){100}){100}){100}'",
    "large string": lambda: "SELECT length('" + "x" * 10_000_000 + "')",
    "large comment": lambda: "SELECT 1 /*" + "x" * 10_000_000 + "*/",
    "large name": lambda: "SELECT " + "x" * 10_000_000,
    "large number": lambda: "SELECT " + "9" * 1_000_000,
    "large column list": lambda: "SELECT " + ", ".join(f"1 AS c{n}" for n in range(2_000)),
    "many statements": lambda: "SELECT 1;" * 200,
    "nested comments": lambda: "/*" * 100_000 + " SELECT 1",
    "nested json": lambda: "SELECT parse_json('" + "[" * 100_000 + "]" * 100_000 + "')",
    "nested explain": lambda: "EXPLAIN " * 1_000 + "SELECT 1",
    "wide table": lambda: (
        "CREATE TABLE w (ts TIMESTAMP TIME INDEX" + "".join(f", c{n} INT" for n in range(10_000)) + ")"
    ),
    "deep default": lambda: "CREATE TABLE w (ts TIMESTAMP TIME INDEX, v INT DEFAULT " + "(" * 10_000 + ")",
    "deep partition": lambda: (
        "CREATE TABLE w (k INT PRIMARY KEY, ts TIMESTAMP TIME INDEX) PARTITION ON COLUMNS (k) ("
        + "(" * 10_000
        + "k < 1"
        + ")" * 10_000
        + ", k >= 1)"
    ),
    "many partitions": lambda: (
        "CREATE TABLE w (k INT PRIMARY KEY, ts TIMESTAMP TIME INDEX) PARTITION ON COLUMNS (k) (k < 0, "
        + ", ".join(f"k >= {n} AND k < {n + 1}" for n in range(50))
        + ", k >= 50)"
    ),
    "deep insert": lambda: "INSERT INTO t VALUES ('a', 1, " + "(" * 10_000 + "1" + ")" * 10_000 + ")",
    "insert rows": lambda: "INSERT INTO t VALUES " + ", ".join(f"('{n}', {n}, {n})" for n in range(100_000)),
    "insert expressions": lambda: "INSERT INTO t VALUES " + ", ".join(f"('{n}', {n}, {n} + 1)" for n in range(1_000)),
    "deep delete": lambda: "DELETE FROM t WHERE " + "(" * 10_000 + "v = 1" + ")" * 10_000,
    "deep range": lambda: "SELECT ts, " + "(" * 2_000 + "max(v)" + ")" * 2_000 + " RANGE '5s' FROM t ALIGN '5s'",
    "fine range": lambda: "SELECT ts, max(v) RANGE '1000y' FROM t ALIGN '1ms'",
    "long interval": lambda: "SELECT INTERVAL '" + "1h" * 100_000 + "'",
}


def answer(database: Database, text: str, session: Session) -> str:
    """Run a text to its end; the last answer in a few words."""
    said = ""
    try:
        for output in database.execute(text, session):
            said = f"affected {output.rows}" if isinstance(output, Affected) else f"rows {read_all(output).num_rows}"
    except TsdbError as error:
        return f"error {error.status.value} {str(error)[:200]}"
    return said


def main(channel: str, *names: str) -> None:
    """Run statements of `STATEMENTS`, each on a table of two rows."""
    if storage.IN_S3:
        storage.install()
        storage.shared_s3()
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES_MAX, MEMORY_BYTES_MAX))
    with tempfile.TemporaryDirectory() as directory:
        opened = open_case_database(Path(directory))
        session = Session(channel=Channel(channel))
        for name in names:
            for text in SETUP:
                answer(opened.database, text, session)
            print(json.dumps({"name": name}), flush=True)
            start = time.monotonic()
            said = answer(opened.database, STATEMENTS[name](), session)
            print(json.dumps({"name": name, "answer": said, "seconds": time.monotonic() - start}), flush=True)
        opened.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
