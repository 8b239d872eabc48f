"""The size of a query after expansion, told from its text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tsdb.errors import InvalidSyntax, TsdbError
from tsdb.sql.expansion import QuerySize, measure
from tsdb.sql.lexer import tokenize
from tsdb.sql.rewrite import TokenLayout
from tsdb.sql.statements import Dialect

VIEWS = {("v",): QuerySize(100, 10), ("w",): QuerySize(1500, 10)}


def size(text: str, dialect: Dialect = Dialect.GENERIC) -> QuerySize:
    return measure(TokenLayout(text, tokenize(text, dialect)), dialect, VIEWS.get)


def doubling(levels: int, step: str = "SELECT * FROM {0} UNION ALL SELECT * FROM {0}") -> str:
    parts = ["a0 AS (SELECT 1 AS a)"]
    parts += [f"a{n} AS ({step.format(f'a{n - 1}')})" for n in range(1, levels + 1)]
    return f"WITH {', '.join(parts)} SELECT * FROM a{levels}"


def stacked(levels: int, item: str, bottom: str = "SELECT 'x' AS a", where: str = "") -> str:
    text = bottom
    for number in range(levels):
        text = f"SELECT {item} FROM ({text}) AS t{number}{where}"
    return text


@pytest.mark.parametrize(
    ("text", "relations"),
    [
        ("SELECT 1", 1),
        ("SELECT * FROM t", 2),
        ("SELECT * FROM t, u AS x JOIN s.w ON t.a = w.a", 4),
        ("SELECT * FROM (SELECT * FROM t) AS x", 3),
        ("SELECT * FROM (t CROSS JOIN u)", 3),
        ("SELECT * FROM ((SELECT * FROM t))", 3),
        ("SELECT 1 UNION SELECT 2 UNION ALL (SELECT 3 UNION SELECT 4)", 4),
        ("SELECT (SELECT max(v) FROM t) FROM u WHERE EXISTS (SELECT 1 FROM t)", 6),
        ("WITH c AS (SELECT * FROM t) SELECT * FROM c, c AS d", 5),
        ('WITH "C" AS (SELECT * FROM t) SELECT * FROM c, "C"', 4),
        ("WITH c (x) AS MATERIALIZED (SELECT * FROM t) SELECT x FROM c", 3),
        ("WITH RECURSIVE c AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM c) SELECT * FROM c", 4),
        ("SELECT * FROM (WITH t AS (SELECT 1) SELECT * FROM t) AS x, t", 4),
        ("SELECT * FROM v JOIN v AS x ON v.a = x.a", 201),
        ("WITH v AS (SELECT 1) SELECT * FROM v", 2),
        ("SELECT v FROM generate_series(1, 5) AS v", 2),
        ("VALUES (1), (2)", 1),
        (doubling(3), 23),
    ],
)
def test_relations_are_counted_where_they_are_named(text: str, relations: int) -> None:
    assert size(text).relations == relations


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (doubling(20), "2000 tables and subqueries"),
        (doubling(20, "SELECT x.a FROM {0} AS x JOIN {0} AS y ON x.a = y.a"), "2000 tables and subqueries"),
        (doubling(20, "SELECT x.a FROM ({0} AS x CROSS JOIN {0} AS y)"), "2000 tables and subqueries"),
        (doubling(20, "SELECT a FROM {0} WHERE a IN (SELECT a FROM {0})"), "2000 tables and subqueries"),
        (doubling(20, "SELECT (SELECT max(a) FROM {0}) AS a FROM {0}"), "2000 tables and subqueries"),
        (doubling(20, "(SELECT * FROM {0}) UNION (SELECT * FROM {0})"), "2000 tables and subqueries"),
        ("SELECT * FROM w, w AS x", "2000 tables and subqueries"),
        (stacked(30, "a + a AS a", where=" WHERE a > 1"), "200000 tokens"),
        (stacked(30, "CASE WHEN a > 1 THEN a ELSE a END a"), "200000 tokens"),
        (doubling(30, "SELECT a + a AS a FROM {0}"), "200000 tokens"),
        (doubling(30, "SELECT x.b + b AS a FROM {0} AS x (b)"), "200000 tokens"),
        (doubling(30, "SELECT * FROM (SELECT a + a AS a FROM {0}) AS x"), "200000 tokens"),
        (stacked(2, f"a{' + 1' * 1500} AS a"), "2000 operators"),
        (stacked(10, "a || a AS a", "SELECT repeat('x', 100000) AS a"), "100000000 bytes"),
        ("SELECT " + ", ".join(["range(1, 5000000)"] * 3), "100000000 bytes"),
        ("SELECT repeat(repeat('x', 100000), 100000)", "100000000 bytes"),
        ("SELECT lpad('x', 200000000)", "100000000 bytes"),
        ("SELECT repeat(repeat(repeat('x', v), v), v) FROM t", "100000000 bytes"),
        ("SELECT array_repeat(range(1, 100000), 1000)", "100000000 bytes"),
        (stacked(20, f"replace(a, 'x', '{'x' * 20}') AS a", "SELECT rpad('x', 9) AS a"), "100000000 bytes"),
        ("SELECT count(*) FROM generate_series(1, 1000000) a, generate_series(1, 1000000) b", "pairs of rows"),
        ("SELECT 1 FROM generate_series(1, 1e6) a JOIN range(1000000) b ON a.value < b.value", "pairs of rows"),
        (
            "SELECT count(*) FROM (SELECT unnest(range(1, 1000000))) a, (SELECT unnest(range(0, 1000000))) b",
            "pairs of rows",
        ),
        (
            "WITH a AS (SELECT * FROM generate_series(1, 1000000)) SELECT count(*) FROM a, a AS b, a AS c",
            "pairs of rows",
        ),
    ],
)
def test_a_query_that_becomes_too_large_is_refused_with_its_limit(text: str, message: str) -> None:
    with pytest.raises(InvalidSyntax, match=message):
        size(text)


@pytest.mark.parametrize(
    "text",
    [
        " UNION ALL ".join(["SELECT a FROM t"] * 400),
        f"SELECT * FROM t WHERE {' OR '.join(f'a = {n}' for n in range(1000))}",
        f"SELECT * FROM t WHERE a IN ({', '.join(map(str, range(150_000)))})",
        "SELECT count(*) FROM generate_series(1, 1000000) a JOIN generate_series(1, 1000000) b ON a.value = b.value",
        "SELECT * FROM generate_series(1, 1000000) a, generate_series(1, 1000000) b LIMIT 10",
        "SELECT sum(value) FROM generate_series(1, 100000000000)",
        doubling(8),
        stacked(40, "a"),
        stacked(40, "a + 1 AS a"),
        "SELECT " + ", ".join(["repeat('x', 9)"] * 100),
        f"SELECT concat({', '.join('lpad(a, 20)' for _ in range(50))}) FROM t",
        "SELECT unnest(range(1, 10000000))",
        "SELECT repeat('x', n), replace(replace(k, 'a', 'bc'), 'b', 'cd') FROM t",
    ],
)
def test_a_query_that_stays_small_is_let_through(text: str) -> None:
    assert size(text).relations


_WORDS = """
SELECT FROM WHERE WITH AS UNION JOIN ON VALUES LIMIT RECURSIVE IN EXISTS CASE a b t v ( ( ) ) , . * + = 'x' 1 unnest
range generate_series repeat LATERAL TABLE [ ]
"""


@given(st.lists(st.sampled_from(_WORDS.split()), max_size=30).map(" ".join), st.sampled_from(Dialect))
def test_any_text_is_measured_or_refused(text: str, dialect: Dialect) -> None:
    try:
        tokens = tokenize(text, dialect)
    except TsdbError:
        return
    try:
        measure(TokenLayout(text, tokens), dialect, VIEWS.get)
    except InvalidSyntax:
        return
