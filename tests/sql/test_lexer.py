"""Text into tokens."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tsdb.errors import InvalidSyntax
from tsdb.sql import Dialect, TokenKind, tokenize
from tsdb.sql.lexer import TOKENS_MAX, first_word, locate, scan, skip_blanks, statement_end, unquote

GENERIC, MYSQL, POSTGRESQL = Dialect.GENERIC, Dialect.MYSQL, Dialect.POSTGRESQL


def _texts(text: str, dialect: Dialect = GENERIC) -> list[str]:
    return [token.text for token in tokenize(text, dialect)[:-1]]


def test_tokens_know_their_kind_and_place() -> None:
    tokens = tokenize("a 'b' \"c\" 1.5 0xff X'0a' <=")
    assert [token.kind for token in tokens] == [
        TokenKind.WORD,
        TokenKind.STRING,
        TokenKind.QUOTED,
        TokenKind.NUMBER,
        TokenKind.HEX,
        TokenKind.HEX,
        TokenKind.OPERATOR,
        TokenKind.END,
    ]
    assert [(token.start, token.end) for token in tokens[:3]] == [(0, 1), (2, 5), (6, 9)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a/*;*/b--c\nd", ["a", "b", "d"]),
        ("a->>b::c", ["a", "->>", "b", "::", "c"]),
        ("5m 1e5 .5 1.e2", ["5m", "1e5", ".5", "1.e2"]),
        ("'it''s' 'x'", ["'it''s'", "'x'"]),
        ("a!~*b=~c", ["a", "!~*", "b", "=~", "c"]),
        ("SELECT@@x", ["SELECT", "@@", "x"]),
        ("größe", ["größe"]),
    ],
)
def test_a_text_is_cut_into_tokens(text: str, expected: list[str]) -> None:
    assert _texts(text) == expected


def test_quotes_mean_what_the_dialect_says() -> None:
    assert tokenize('"x"', GENERIC)[0].kind == TokenKind.QUOTED
    assert tokenize('"x"', MYSQL)[0].kind == TokenKind.STRING
    assert tokenize("`x`", GENERIC)[0].kind == TokenKind.QUOTED
    assert tokenize("`x`", POSTGRESQL)[0].kind == TokenKind.OPERATOR
    assert _texts(r"'a\'b'", MYSQL) == [r"'a\'b'"]
    assert _texts(r"'a\' b", GENERIC) == [r"'a\'", "b"]
    assert _texts(r"e'a\'b'", POSTGRESQL) == [r"e'a\'b'"]


def test_comments_of_mysql_need_a_blank_or_a_hash() -> None:
    assert _texts("1--1", MYSQL) == ["1", "-", "-", "1"]
    assert _texts("1-- 1", MYSQL) == ["1"]
    assert _texts("1 # 2\n3", MYSQL) == ["1", "3"]
    assert _texts("1--1") == ["1"]


def test_unquote_gives_what_was_meant() -> None:
    assert [unquote(token) for token in tokenize("Ab 'it''s' \"Q\"\"x\" `K`")[:-1]] == ["ab", "it's", 'Q"x', "K"]
    assert unquote(tokenize(r"'a\n\'\%'", MYSQL)[0], MYSQL) == "a\n'\\%"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a 'b", "string that begins here is not terminated at line 1, column 3"),
        ('a\n "b', "quoted name that begins here is not terminated at line 2, column 2"),
        ("/* a", "comment that begins here is not terminated at line 1, column 1"),
    ],
)
def test_what_never_ends_is_refused_with_its_place(text: str, message: str) -> None:
    for read in (lambda: tokenize(text), lambda: statement_end(text, 0, GENERIC), lambda: list(scan(text))):
        with pytest.raises(InvalidSyntax, match=message):
            read()


def test_a_statement_ends_at_the_first_semicolon_outside_of_quotes() -> None:
    text = "a ';' \";\" `;` /*;*/ - / -- ;\n b ; c"
    assert statement_end(text, 0, GENERIC) == text.index(" c") - 1
    assert statement_end("abc", 0, GENERIC) == 3


def test_blanks_and_first_words_are_found() -> None:
    text = " /* x */ -- y\n select 1"
    assert first_word(text, skip_blanks(text, 0, GENERIC), GENERIC) == "SELECT"
    assert first_word("(select 1)", 0, GENERIC) == ""


def test_a_statement_of_too_many_tokens_is_refused() -> None:
    with pytest.raises(InvalidSyntax, match="more than"):
        tokenize("+" * (TOKENS_MAX + 1))


def test_lines_and_columns_count_from_one() -> None:
    assert locate("ab\ncd", 0) == (1, 1)
    assert locate("ab\ncd", 4) == (2, 2)


@given(st.text(st.sampled_from("ab1'\"`\\-/*#;.xX0eE \n$@~é"), max_size=30), st.sampled_from(Dialect))
def test_nothing_is_lost_and_both_readers_agree(text: str, dialect: Dialect) -> None:
    try:
        tokens = tokenize(text, dialect)
    except InvalidSyntax:
        with pytest.raises(InvalidSyntax):
            list(scan(text, dialect))
        return
    assert list(scan(text, dialect)) == tokens[:-1]
    position = 0
    for token in tokens:
        assert skip_blanks(text, position, dialect) == token.start
        assert text[token.start : token.end] == token.text
        position = token.end
    ends = [token.start for token in tokens if token.text == ";"] + [len(text)]
    assert statement_end(text, 0, dialect) == ends[0]
