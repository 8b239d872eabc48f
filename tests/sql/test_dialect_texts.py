"""Edits of MySQL's and PostgreSQL's queries fail on no text: the query engine says what is wrong with it."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tsdb.errors import InvalidSyntax
from tsdb.sql import Dialect, tokenize
from tsdb.sql.derived_names import name_derived
from tsdb.sql.headings import headings
from tsdb.sql.mysql_rewrite import as_generic, rewrite_mysql

WORDS = [
    "SELECT",
    "DISTINCT",
    "ON",
    "WITH",
    "x",
    "AS",
    "(",
    ")",
    "[",
    "]",
    ",",
    ";",
    ".",
    "*",
    "+",
    "-",
    "/",
    "%",
    "::",
    "=",
    "<=>",
    "$",
    "1",
    "2.5",
    "'a'",
    '"b"',
    "`c`",
    "FROM",
    "t",
    "WHERE",
    "GROUP",
    "BY",
    "ORDER",
    "LIMIT",
    "UNION",
    "CASE",
    "WHEN",
    "THEN",
    "ELSE",
    "END",
    "CAST",
    "CONVERT",
    "USING",
    "SIGNED",
    "CHAR",
    "DIV",
    "MOD",
    "REGEXP",
    "NOT",
    "INTERVAL",
    "DAY",
    "count",
    "date",
    "hour",
    "GROUP_CONCAT",
    "SEPARATOR",
    "TIMESTAMPDIFF",
    "MONTH",
    "IN",
    "EXISTS",
    "ARRAY",
    "OVER",
    "FILTER",
    "WITHIN",
    "AT",
    "TIME",
    "ZONE",
    "COLLATE",
    "NULL",
    "TRUE",
    "RANGE",
]
TEXTS = st.lists(st.sampled_from(WORDS), max_size=24).map(" ".join)


@settings(max_examples=300, deadline=None)
@given(TEXTS, st.sampled_from([Dialect.MYSQL, Dialect.POSTGRESQL]))
def test_any_text_is_edited_or_left_alone(text: str, dialect: Dialect) -> None:
    try:
        tokens = tokenize(text, dialect)
    except InvalidSyntax:
        return
    name_derived(text, tokens, dialect)
    if dialect is Dialect.MYSQL:
        rewrite_mysql(text, tokens)
        as_generic(text)
    headings(text, dialect)
