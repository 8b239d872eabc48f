"""Statements as text and as JSON."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tsdb.errors import InvalidSyntax
from tsdb.sql import Dialect, format_statement, parse, to_json, tokenize


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("select  a,b from t where x=-1 ;", "SELECT a, b FROM t WHERE x = -1;"),
        ("select count( * ),a.b::int from T", "SELECT count(*), a.b::int FROM T;"),
        ("select a in(1,2)", "SELECT a IN(1, 2);"),
        ("select 1 - 1, (2)-3, 'select  x'", "SELECT 1 - 1, (2) - 3, 'select  x';"),
        ('use a; -- c\n drop table "Table"', 'USE a;\nDROP TABLE "Table";'),
        (
            'tql  eval (0,1 , \'5s\')  sum by (a) (m{a="\\""})  as X',
            'TQL EVAL (0, 1, \'5s\') sum by (a) (m{a="\\""}) AS x;',
        ),
        ("set @@session.a=1", "SET @@SESSION.a = 1;"),
        ("", ""),
    ],
)
def test_a_text_is_formatted(text: str, expected: str) -> None:
    assert format_statement(text) == expected


_PIECES = """
a B 1 'x' "Q" , ( ) + - . :: select from = * -1 / /*c*/ [ ] <= @ x'ff' .5 : < > | $ 5h e ' "y" ~ ! &
"""


@given(st.lists(st.sampled_from(_PIECES.split()), max_size=15))
def test_formatting_changes_no_token_but_the_case_of_keywords(words: list[str]) -> None:
    text = "SELECT 1, " + " ".join(words) + " x"
    try:
        tokens = tokenize(text)
    except InvalidSyntax:
        return
    formatted = format_statement(text)
    before = [token.text.upper() for token in tokens[:-1]]
    after = [token.text.upper() for token in tokenize(formatted)[:-1]]
    assert after == [*before, ";"]
    assert format_statement(formatted) == formatted


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1",
        "CREATE TABLE t (ts TIMESTAMP TIME INDEX, a DECIMAL(5, 2) DEFAULT 1 SKIPPING INDEX) WITH (ttl = '1d')",
        "ALTER TABLE t ADD COLUMN a INT, ADD COLUMN b INT",
        "INSERT INTO t VALUES (1, 'a', NULL, DEFAULT, now(), X'ff', 1.5)",
        "EXPLAIN ANALYZE TQL EVAL (0, 1, '5s') m",
        "SHOW TABLES LIKE 'a'",
        "SET a = 1, b = 2",
    ],
)
def test_every_statement_has_a_json_form(text: str) -> None:
    [parsed] = parse(text, Dialect.GENERIC)
    value = to_json(parsed.statement)
    assert isinstance(value, dict)
    assert value["type"] == type(parsed.statement).__name__
    assert json.loads(json.dumps(value)) == value


def test_the_json_form_names_types_as_users_do() -> None:
    [parsed] = parse("CREATE TABLE t (ts TIMESTAMP TIME INDEX)")
    value = to_json(parsed.statement)
    assert isinstance(value, dict)
    assert value["columns"][0]["data_type"] == "TimestampMillisecond"
    assert value["name"] == {"type": "Name", "parts": ["t"]}
