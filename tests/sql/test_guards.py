"""No text can hurt the parser: it answers or refuses, in a time that grows with the text alone."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tsdb.errors import InvalidSyntax, TsdbError, Unsupported
from tsdb.sql import Dialect, check_query_limits, parse, tokenize
from tsdb.sql.parser import QUERY_NESTING_MAX, QUERY_OPERATORS_MAX
from tsdb.sql.parser._limits import QUERY_BRANCHES_MAX
from tsdb.sql.parser._parse import STATEMENTS_MAX

_WORDS = """
SELECT INSERT INTO VALUES CREATE TABLE DATABASE VIEW FLOW ALTER DROP TRUNCATE COMMENT ON DELETE FROM COPY TO SHOW
COLUMNS DESC USE SET ADMIN KILL PREPARE EXECUTE USING DEALLOCATE DECLARE CURSOR FOR FETCH CLOSE EXPLAIN ANALYZE TQL
EVAL AS IF NOT EXISTS TIME INDEX PRIMARY KEY DEFAULT NULL ADD COLUMN MODIFY RENAME UNSET WITH LIKE WHERE INT
TIMESTAMP STRING PARTITION COLUMNS ENGINE FULLTEXT SINK EXPIRE AFTER INTERVAL BEGIN LOCK NAMES ZONE LIMIT CONNECTION
FORMAT a t 'x' "q" `k` 1 2.5 0x1f
( ) , ; = . :: @@ @ - + * [ ] { } ? $ # -- /* */ ' "
"""


@given(st.lists(st.sampled_from(_WORDS.split()), max_size=25).map(" ".join), st.sampled_from(Dialect))
def test_shuffled_words_parse_or_are_refused(text: str, dialect: Dialect) -> None:
    _parse_or_refuse(text, dialect)


@given(st.text(max_size=60), st.sampled_from(Dialect))
def test_any_text_parses_or_is_refused(text: str, dialect: Dialect) -> None:
    _parse_or_refuse(text, dialect)


@given(st.binary(max_size=60), st.sampled_from(Dialect))
def test_any_bytes_parse_or_are_refused(data: bytes, dialect: Dialect) -> None:
    _parse_or_refuse(data.decode("utf-8", "surrogateescape"), dialect)


def _parse_or_refuse(text: str, dialect: Dialect) -> None:
    try:
        found = parse(text, dialect)
    except TsdbError:
        return
    assert all(parsed.text in text for parsed in found)


_HARD: dict[str, Callable[[int], str]] = {
    "open comments": lambda n: "/*x " * n,
    "open strings": lambda n: "SELECT " + "'a''" * n,
    "nested parentheses": lambda n: "DELETE FROM t WHERE " + "(" * n,
    "nested rows": lambda n: "INSERT INTO t VALUES " + "(" * n,
    "chained operators": lambda n: "DELETE FROM t WHERE " + "a = 1 OR " * n + "b",
    "digits": lambda n: "INSERT INTO t VALUES (" + "1" * n + "a)",
    "dotted names": lambda n: "DROP TABLE a" + ".a" * n,
    "settings": lambda n: "SET a = 1" + ", b = 2" * n,
    "values of a setting": lambda n: "SET a = 1" + ", b" * n,
    "inserts": lambda n: "INSERT INTO t VALUES (1);" * (n // 10),
    "cut off rows": lambda n: "INSERT INTO t VALUES " + "('a;b')," * n,
    "doubled quotes": lambda n: "INSERT INTO t VALUES " + "('a''b')," * n + "('')",
    "aliases of tql": lambda n: "TQL EVAL (0, 1, '5s') " + "as " * n,
    "strings of tql": lambda n: "TQL EVAL (0, 1, '5s') " + '"a' * n,
    "explains": lambda n: "EXPLAIN " * n,
    "backslashes": lambda n: "TQL EVAL (0, 1, '5s') '" + "\\" * n,
}


@pytest.mark.parametrize("name", _HARD)
@pytest.mark.parametrize("dialect", [Dialect.GENERIC, Dialect.MYSQL])
def test_time_grows_with_the_length_of_the_text(name: str, dialect: Dialect) -> None:
    def seconds(count: int) -> float:
        text = _HARD[name](count)
        start = time.thread_time()
        _parse_or_refuse(text, dialect)
        return time.thread_time() - start

    # Sixteen times the text may take sixteen times as long, with a quadratic reader it is 256 times. The best of
    # several: the collector of garbage may have all objects of the process to look at.
    small = min(seconds(2_000) for _ in range(3))
    assert min(seconds(32_000) for _ in range(3)) < 80 * max(small, 0.002)


@pytest.mark.parametrize("make", [lambda rows: rows, lambda rows: rows.replace("'a'", "'it''s'")])
def test_a_statement_of_megabytes_is_read(make: Callable[[str], str]) -> None:
    rows = make(",".join(["('a', 1, 2.5, NULL)"] * 50_000))
    [parsed] = parse(f"INSERT INTO t VALUES {rows}")
    assert parsed.statement.values.rows == 50_000  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "text", ["DELETE FROM t WHERE {}", "INSERT INTO t VALUES ({})", "TRUNCATE t FILE RANGE ({}, 1)"]
)
def test_parentheses_nest_up_to_a_limit(text: str) -> None:
    assert parse(text.format("(" * 150 + "1" + ")" * 150))
    with pytest.raises(InvalidSyntax, match="deeper than 200"):
        parse(text.format("(" * 10_000 + "1" + ")" * 10_000))


def test_a_text_has_a_limit_of_statements() -> None:
    assert len(parse("USE a;" * 100)) == 100
    with pytest.raises(Unsupported, match="statements"):
        parse("USE a;" * (STATEMENTS_MAX + 1))


def _check(text: str) -> None:
    check_query_limits(text, tokenize(text))


@pytest.mark.parametrize(
    "text",
    [
        "SELECT " + "1 + " * (QUERY_OPERATORS_MAX - 1) + "1",
        "SELECT " + ", ".join(["1 + 1"] * 10_000),
        "SELECT a IN (" + ", ".join(["-1"] * 10_000) + ")",
        "VALUES " + ", ".join(["(-1, 2 + 3)"] * 10_000),
        "SELECT " + "(" * QUERY_NESTING_MAX + "1" + ")" * QUERY_NESTING_MAX,
        "SELECT " + "f(a + b) + " * 600 + "1",
        "SELECT 1" + " UNION SELECT 1" * QUERY_BRANCHES_MAX,
    ],
)
def test_queries_within_the_limits_pass(text: str) -> None:
    _check(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SELECT " + "1 + " * 100_000 + "1", "operators"),
        ("SELECT 1 WHERE " + "a AND " * 3000 + "b", "operators"),
        ("SELECT 1" + "::INT" * 3000, "operators"),
        ("SELECT " + "(1 + " * 40 + "1 + " * 1990 + "1" + ")" * 40, "operators"),
        ("SELECT (" + "1 + " * 1500 + "1) + " + "1 + " * 1500 + "1", "operators"),
        ("SELECT (" + "1 + " * 1500 + "1, 2) + " + "1 + " * 1500 + "1", "operators"),
        ("SELECT " + "(" * 10_000 + "1" + ")" * 10_000, "parentheses"),
        ("SELECT " + "[" * 60 + "1" + "]" * 60, "parentheses"),
        ("SELECT 1" + " UNION ALL SELECT 1" * 1000, "set operations"),
    ],
)
def test_queries_that_would_exhaust_the_planner_are_refused(text: str, message: str) -> None:
    with pytest.raises(InvalidSyntax, match=message):
        _check(text)


def test_callers_do_not_share_what_they_may_change() -> None:
    first, second = parse("INSERT INTO t VALUES (1)"), parse("INSERT INTO t VALUES (1)")
    assert first[0].statement.values.columns[0] is not second[0].statement.values.columns[0]  # type: ignore[union-attr]
    listed = parse("USE a")
    listed.clear()
    assert len(parse("USE a")) == 1
