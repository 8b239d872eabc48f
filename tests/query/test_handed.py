"""Which conditions of a query are handed to its table beside the filter of the planner."""

from __future__ import annotations

import pytest

from tests.query.test_choose import _TABLES
from tsdb.engine.reading import TextAll, TextAny, TextHolds, TextNode
from tsdb.query._handed import find_handed, read_once
from tsdb.query.tables import Handed
from tsdb.sql.lexer import tokenize
from tsdb.sql.statements import Dialect

WORD = TextHolds("disk", starts_word=True, ends_word=True)
PART, OTHER = TextHolds("disk"), TextHolds("full")


def handed(text: str, dialect: Dialect = Dialect.GENERIC) -> Handed | None:
    tokens = tokenize(text, dialect)
    found = read_once(text, tokens, dialect)
    table = None if found is None else _TABLES.get(found[0])
    return None if found is None or table is None else find_handed(tokens, dialect, "UTC", table, found[1])


def texts(where: str, dialect: Dialect = Dialect.GENERIC) -> list[tuple[str, TextNode]]:
    found = handed(f"SELECT sqrt(f) FROM t WHERE {where}", dialect)
    return [] if found is None else [(each.column, each.wanted) for each in found.texts]


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("matches_term(s, 'disk')", [("s", WORD)]),
        ("matches(s, 'disk')", [("s", PART)]),
        ("s @@ 'disk'", [("s", WORD)]),
        ("t.s @@ 'disk' ORDER BY ts LIMIT 5", [("s", WORD)]),
        ("\"s\" @@ 'disk'", [("s", WORD)]),
        ("n = 1 AND (s @@ 'disk') AND sqrt(f) > 3", [("s", WORD)]),
        ("matches(s, 'disk') AND matches(host, 'full')", [("s", PART), ("host", OTHER)]),
        ("s LIKE '%disk%'", [("s", TextAll((PART,)))]),
        ("matches(s, 'disk') OR matches(s, 'full')", [("s", TextAny((TextAll((PART,)), TextAll((OTHER,)))))]),
        (
            "(n = 1 AND matches(s, 'disk')) OR (matches(s, 'full') AND f > 2)",
            [("s", TextAny((TextAll((PART,)), TextAll((OTHER,)))))],
        ),
        ("matches(s, 'it''s')", [("s", TextHolds("it's"))]),
        ("matches(s, 'disk') OR n = 1", []),
        ("matches(s, 'disk') OR matches(host, 'disk')", []),
        ("NOT matches(s, 'disk')", []),
        ("matches(s, 'disk') AND n = 1 XOR n = 2", []),
        ("matches(s, 'disk') IS NULL", []),
        ("matches(s, 'disk') = (n = 1)", []),
        ("matches(s, s)", []),
        ("matches(lower(s), 'disk')", []),
        ("matches(x.s, 'disk')", []),
        ("matches('disk', s)", []),
        ("matches(n, 'disk')", []),
        ("matches(nothing, 'disk')", []),
        ("matches(s, 'disk' || 'x')", []),
        ("matches(s, E'di\\x73k')", []),
        ("matches(s, '-disk')", []),
        ("matches(s, '(disk')", []),
        ("s @@ ''", []),
        ("CASE WHEN n = 1 AND matches(s, 'disk') THEN true ELSE false END", []),
        ("s LIKE 'a\\%'", []),
        ("s LIKE '%'", []),
    ],
)
def test_conditions_on_texts(where: str, expected: list[tuple[str, TextNode]]) -> None:
    assert texts(where) == expected


def test_escapes_that_a_dialect_reads_in_another_way_are_left_alone() -> None:
    assert texts("matches(s, 'a\\\\b')", Dialect.MYSQL) == []
    assert texts("matches(s, 'disk')", Dialect.MYSQL) == [("s", PART)]
    assert texts("matches(s, 'disk')", Dialect.POSTGRESQL) == [("s", PART)]


@pytest.mark.parametrize(
    ("where", "is_handed"),
    [
        ("host LIKE 'web%' AND sqrt(f) > 1", True),
        ("host ~ '^web' AND sqrt(f) > 1", True),
        ("host NOT LIKE 'web%'", True),
        ("(host LIKE 'web%' OR dc = 'x') AND sqrt(f) > 1", False),
        ("host = 'web' AND sqrt(f) > 1 AND s = '~'", False),
        ("host LIKE 'web%' OR n = 1", False),
        ("host ~ '\\d'", False),
    ],
)
def test_matches_of_tags(where: str, is_handed: bool) -> None:
    found = handed(f"SELECT sqrt(f) FROM t WHERE {where}")
    assert (found is not None and found.rest is not None) == is_handed


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1 WHERE matches(s, 'disk') UNION SELECT n FROM t",
        "SELECT n FROM t WHERE matches(s, 'disk') AND n IN (SELECT n FROM t)",
        "SELECT n FROM t, t AS u WHERE matches(t.s, 'disk')",
        "SELECT n FROM t JOIN t AS u ON t.n = u.n WHERE matches(t.s, 'disk')",
        "SELECT n FROM t TABLESAMPLE SYSTEM (10) WHERE matches(s, 'disk')",
        "WITH t AS (SELECT 'disk' AS s) SELECT * FROM t WHERE matches(s, 'disk')",
        "SELECT n FROM t AS u (ts, s) WHERE matches(s, 'disk')",
        "SELECT n FROM elsewhere WHERE matches(s, 'disk')",
        "SELECT n FROM t WHERE n = 1",
        "SELECT count(*) FILTER (WHERE matches(s, 'disk')) FROM t",
        "SELECT n FROM t HAVING matches(s, 'disk')",
    ],
)
def test_queries_that_hand_nothing_over(text: str) -> None:
    assert handed(text) is None
