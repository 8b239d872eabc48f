"""Shapes against the lexer: the same literals, in the same places."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tsdb.errors import InvalidSyntax
from tsdb.sql.lexer import TokenKind, tokenize
from tsdb.sql.shape import SHAPE_CHARS_MAX, find_offsets, find_shape
from tsdb.sql.statements import Dialect

_SNIPPETS = st.sampled_from([
    "SELECT", " ", "\n", "a", "e", "x", "1", "1.5", ".5", "1e3", "1e", "0x1f", "x'ab'", "'it''s'", "''", "e'a\\'b'",
    '"q 1"', "`b 2`", "-", "--", "-- 5\n", "/*", "/* 7 */", "*/", "#", ".", ",", "(", ")", ";", "<=", "::", "'", '"',
    "`", "$1", "é", "host_1", "t.5", "1a", "\\", "TIMESTAMP '2024-01-01'",
])  # fmt: skip


@pytest.mark.parametrize("dialect", list(Dialect))
@given(snippets=st.lists(_SNIPPETS, max_size=12))
def test_a_shape_has_the_literals_that_the_lexer_finds(dialect: Dialect, snippets: list[str]) -> None:
    text = "".join(snippets)
    shape = find_shape(text, dialect)
    try:
        tokens = [token for token in tokenize(text, dialect) if token.kind in (TokenKind.STRING, TokenKind.NUMBER)]
    except InvalidSyntax:
        return  # such a text is refused before anybody asks for its shape
    if shape is not None:
        assert shape.literals == [token.text for token in tokens]
        assert find_offsets(text, dialect) == [token.start for token in tokens]


def test_texts_that_differ_in_literals_have_one_shape() -> None:
    first = find_shape("SELECT max(f) FROM t WHERE host = 'a' AND ts > 5", Dialect.GENERIC)
    other = find_shape("SELECT max(f) FROM t WHERE host = 'it''s' AND ts > 1.5e3", Dialect.GENERIC)
    assert first is not None
    assert other is not None
    assert first.text == other.text == "SELECT max(f) FROM t WHERE host = ' AND ts > 0"
    assert other.literals == ["'it''s'", "1.5e3"]


def test_a_string_is_of_another_shape_than_a_number() -> None:
    shapes = [find_shape(f"SELECT {each}", Dialect.GENERIC) for each in ("'1'", "1")]
    assert shapes[0] is not None
    assert shapes[1] is not None
    assert shapes[0].text != shapes[1].text


def test_a_very_long_text_has_no_shape() -> None:
    assert find_shape("SELECT 1 " + " " * SHAPE_CHARS_MAX, Dialect.GENERIC) is None
