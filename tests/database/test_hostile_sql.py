"""Text that means harm: every one gets an answer or an error with a code, soon, and the process lives on."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.database.cases import open_case_database
from tests.database.hostile_child import SETUP, STATEMENTS, answer
from tsdb.components._local import LocalDatabase
from tsdb.database import Channel, Session

SECONDS_MAX = 30.0
"""One statement, on a busy machine; alone each takes less than four."""

CHANNELS = [Channel.HTTP, Channel.MYSQL, Channel.POSTGRES]
SLOW = frozenset(
    {
        *("large in", "insert rows", "wide table", "insert expressions", "joins", "many partitions", "additions"),
        *(
            "large like",
            "large string",
            "large comment",
            "large name",
            "large column list",
            "many statements",
            "conditions",
        ),
    }
)
"""What is not about the dialect is tried in one of them."""


def run_hostile(channel: Channel, names: list[str]) -> dict[str, dict[str, Any]]:
    """Run statements in a process of their own; fails with the name of the one that ended it."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.database.hostile_child", channel.value, *names],
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0, f"{lines[-1:]} ended the process with {done.returncode}:\n{done.stderr[-2000:]}"
    return {line["name"]: line for line in lines if "answer" in line}


@pytest.mark.parametrize("channel", CHANNELS)
def test_a_hostile_statement_is_answered_soon_and_the_process_lives_on(channel: Channel) -> None:
    names = [name for name in STATEMENTS if channel is Channel.HTTP or name not in SLOW]
    answers = run_hostile(channel, names)
    assert list(answers) == names
    for name, line in answers.items():
        assert line["answer"], name
        assert not line["answer"].startswith(("error 1000", "error 1003")), line
        assert line["seconds"] < SECONDS_MAX, line
    if channel is Channel.HTTP:
        # What is only large, and asks for nothing strange, works.
        works = {"large in": "rows 2", "insert rows": "affected 100000", "chained ctes": "rows 1", "joins": "rows 1"}
        assert {name: answers[name]["answer"] for name in works} == works


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalDatabase]:
    database = open_case_database(tmp_path_factory.mktemp("hostile"))
    for text in SETUP:
        answer(database.database, text, Session())
    yield database
    database.close()


def test_a_large_in_list_does_not_hold_up_other_threads(opened: LocalDatabase) -> None:
    text, said = STATEMENTS["large in"](), list[str]()
    running = Thread(target=lambda: said.append(answer(opened.database, text, Session())))
    running.start()
    start = last = time.monotonic()
    pause_max = 0.0
    while running.is_alive():
        running.join(0.001)
        pause_max, last = max(pause_max, time.monotonic() - last), time.monotonic()
    assert said == ["rows 2"]
    assert pause_max < (last - start) / 2


def check_answered(opened: LocalDatabase, text: str, channel: Channel) -> str:
    """Whatever the text, the answer is one; what is not a TsdbError passes through and fails the test."""
    said = answer(opened.database, text, Session(channel=channel))
    assert not said.startswith(("error 1000", "error 1003")), (text, said)
    return said


UNTERMINATED = (
    *(
        "SELECT 'a",
        'SELECT "a',
        "SELECT `a",
        "SELECT /* a",
        "SELECT (1",
        "SELECT [1",
        "SELECT CASE WHEN 1",
        "SELECT X'0",
    ),
    *("SELECT 1 FROM", "SELECT * FROM t WHERE", "SELECT * FROM t GROUP BY", "SELECT * FROM t ORDER BY", "SELECT 1 +"),
    *("WITH a AS (", "WITH a AS (SELECT 1", "WITH a AS (SELECT 1)", "SELECT count(* FROM t", "SELECT v IN ( FROM t"),
    *("INSERT INTO t", "INSERT INTO t VALUES", "INSERT INTO t VALUES (", "INSERT INTO t VALUES ('a", "INSERT INTO t ("),
    *("INSERT INTO t VALUES ('a', 1", "INSERT INTO t VALUES ('a', 1, 1),", "INSERT INTO t VALUES ('a', 1, {", "INSERT"),
    *(
        "CREATE",
        "CREATE TABLE",
        "CREATE TABLE u",
        "CREATE TABLE u (",
        "CREATE TABLE u (ts",
        "CREATE TABLE u (ts TIMESTAMP",
    ),
    *("CREATE TABLE u (ts TIMESTAMP TIME", "CREATE TABLE u (ts TIMESTAMP TIME INDEX", "CREATE TABLE u (ts TIMESTAMP("),
    *("CREATE TABLE u (ts TIMESTAMP TIME INDEX) WITH (", "CREATE TABLE u (ts TIMESTAMP TIME INDEX) WITH (ttl ="),
    *("CREATE TABLE u (ts TIMESTAMP TIME INDEX) PARTITION ON", "CREATE TABLE u (ts TIMESTAMP TIME INDEX) ENGINE"),
    *(
        "CREATE VIEW v AS",
        "CREATE VIEW v (a",
        "CREATE DATABASE",
        "CREATE DATABASE d WITH",
        "CREATE OR",
        "CREATE FLOW f",
    ),
    *("ALTER", "ALTER TABLE", "ALTER TABLE t", "ALTER TABLE t ADD", "ALTER TABLE t ADD COLUMN", "ALTER TABLE t MODIFY"),
    *("ALTER TABLE t RENAME", "ALTER TABLE t SET", "ALTER DATABASE public", "DROP", "DROP TABLE", "DROP TABLE t,"),
    *(
        "DELETE",
        "DELETE FROM",
        "DELETE FROM t WHERE",
        "TRUNCATE",
        "COMMENT ON",
        "COMMENT ON TABLE t IS",
        "SHOW",
        "SHOW FULL",
    ),
    *(
        "SHOW CREATE",
        "SHOW TABLES LIKE",
        "SHOW TABLES WHERE",
        "SHOW COLUMNS FROM",
        "DESC",
        "USE",
        "SET",
        "SET a",
        "SET a =",
    ),
    *(
        "ADMIN",
        "ADMIN flush_table",
        "ADMIN flush_table(",
        "ADMIN flush_table('t'",
        "KILL",
        "KILL QUERY",
        "COPY",
        "COPY t",
    ),
    *(
        "COPY t TO",
        "COPY (SELECT 1",
        "COPY t TO 'x' WITH (",
        "COPY DATABASE",
        "EXPLAIN",
        "EXPLAIN ANALYZE",
        "PREPARE",
        "EXECUTE",
    ),
    *(
        "PREPARE p FROM '",
        "DEALLOCATE",
        "DECLARE c CURSOR FOR",
        "FETCH",
        "CLOSE",
        "TQL",
        "TQL EVAL (0, 1, '1s')",
        "BEGIN x",
    ),
    *(
        "SELECT ts, max(v) RANGE FROM t ALIGN",
        "SELECT ts, max(v) RANGE '5s' FROM t ALIGN",
        "SELECT max(v) RANGE '5s' FILL FROM t",
    ),
)


@pytest.mark.parametrize("channel", CHANNELS)
def test_a_statement_without_its_end_is_an_error(channel: Channel, opened: LocalDatabase) -> None:
    answered = {text: check_answered(opened, text, channel) for text in UNTERMINATED}
    assert {text: said for text, said in answered.items() if not said.startswith("error")} == {}


WORDS = (
    *(
        "SELECT",
        "FROM",
        "WHERE",
        "GROUP BY",
        "ORDER BY",
        "LIMIT",
        "JOIN",
        "ON",
        "AS",
        "WITH",
        "UNION",
        "VALUES",
        "INSERT INTO",
    ),
    *(
        "DELETE FROM",
        "CREATE TABLE",
        "ALTER TABLE",
        "SHOW",
        "DESC",
        "EXPLAIN",
        "IF NOT EXISTS",
        "TIME INDEX",
        "PRIMARY KEY",
    ),
    *(
        "RANGE",
        "ALIGN",
        "FILL",
        "BY",
        "TO",
        "PREV",
        "INTERVAL",
        "CAST",
        "CASE",
        "WHEN",
        "THEN",
        "ELSE",
        "END",
        "NULL",
        "NOT",
    ),
    *(
        "IN",
        "LIKE",
        "BETWEEN",
        "AND",
        "OR",
        "OVER",
        "PARTITION",
        "DISTINCT",
        "TIMESTAMP",
        "INT",
        "STRING",
        "JSON",
        "DEFAULT",
    ),
    *(
        "t",
        "k",
        "ts",
        "v",
        "x",
        "count",
        "max",
        "now",
        "'a'",
        "'1d'",
        "''",
        '"k"',
        "`k`",
        "1",
        "0",
        "-1",
        "1e9",
        "0x1F",
        "X'0'",
    ),
    *(
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        ",",
        ";",
        ".",
        "*",
        "+",
        "-",
        "/",
        "%",
        "=",
        "<",
        ">=",
        "<>",
        "::",
        "||",
        "@@",
        "@",
        "$1",
    ),
    *("?", ":", "\\", "'", '"', "`", "--", "/*", "*/", "#", "\n", "\t", "\x00", "ü", "\u2028", "🜨"),
)
soup = st.lists(st.sampled_from(WORDS), max_size=25).map(" ".join)
relaxed = settings(
    max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


@relaxed
@given(
    text=st.one_of(
        soup, soup.map(lambda tail: f"SELECT {tail}"), soup.map(lambda tail: f"SELECT v FROM t WHERE {tail}")
    )
)
def test_a_soup_of_tokens_is_answered_in_every_dialect(opened: LocalDatabase, text: str) -> None:
    for channel in CHANNELS:
        check_answered(opened, text, channel)


@relaxed
@given(data=st.binary(max_size=200))
def test_random_bytes_are_answered(opened: LocalDatabase, data: bytes) -> None:
    for channel in CHANNELS:
        check_answered(opened, data.decode("latin-1"), channel)


@relaxed
@given(
    text=st.sampled_from(sorted(UNTERMINATED)),
    noise=st.text(max_size=10),
    at=st.integers(0, 60),
    tail=soup,
)
def test_a_statement_with_noise_in_it_is_answered(
    opened: LocalDatabase, text: str, noise: str, at: int, tail: str
) -> None:
    noisy = f"{text[:at]}{noise}{text[at:]} {tail}"
    if "COPY" not in noisy.upper():  # which would leave files
        check_answered(opened, noisy, Channel.HTTP)


def test_the_database_still_answers_after_all_of_it(tmp_path: Path, opened: LocalDatabase) -> None:
    assert answer(opened.database, "SELECT 1", Session()) == "rows 1"
