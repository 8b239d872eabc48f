"""INSERT and REPLACE: the head is read by tokens, the rows by `read_values`."""

from __future__ import annotations

from itertools import islice

from tsdb.sql.lexer import Token, TokenKind, scan, statement_end, tokenize
from tsdb.sql.parser._create import QUERY_WORDS
from tsdb.sql.parser._cursor import NESTING_MAX, TokenCursor, check_nesting
from tsdb.sql.parser._values import read_values
from tsdb.sql.statements import Dialect, Insert, Name

_HEAD_TOKENS_MAX = 20_000
"""Names of columns included; VALUES behind more tokens is looked for in vain."""

_TQL_VERBS = frozenset({"EVAL", "EVALUATE"})


def parse_insert(text: str, start: int, dialect: Dialect) -> tuple[Insert, int]:
    """Parse the INSERT or REPLACE that begins at `start`; return it and where it ends."""
    head = _head_of_values(text, start, dialect)
    if head is not None:
        cursor = TokenCursor(text, head, dialect)
        table, columns = _target(cursor)
        values_start = cursor.token.end
        cursor.expect_any("VALUES", "VALUE")
        cursor.finish()
        values, end = read_values(text, values_start, dialect)
        return Insert(table, columns, values), end
    end = statement_end(text, start, dialect)
    tokens = tokenize(text, dialect, start, end)
    check_nesting(text, tokens, NESTING_MAX)
    cursor = TokenCursor(text, tokens, dialect)
    table, columns = _target(cursor)
    if not (cursor.word in QUERY_WORDS or cursor.word == "TQL" or cursor.is_operator("(")):
        cursor.fail("VALUES or a query")
    query = cursor.rest("a query")
    cursor.finish()
    return Insert(table, columns, query=query), end


def _head_of_values(text: str, start: int, dialect: Dialect) -> list[Token] | None:
    """The tokens up to VALUES and an END behind them; None for any other INSERT."""
    tokens: list[Token] = []
    depth = 0
    for token in islice(scan(text, dialect, start), _HEAD_TOKENS_MAX):
        tokens.append(token)
        if token.kind == TokenKind.OPERATOR:
            if token.text == ";":
                return None
            depth += (token.text == "(") - (token.text == ")")
        elif token.kind == TokenKind.WORD:
            word = token.word
            if word in ("SELECT", "WITH") or (word in _TQL_VERBS and depth == 0 and tokens[-2].word == "TQL"):
                return None
            if word in ("VALUES", "VALUE") and depth == 0:
                tokens.append(Token(TokenKind.END, "", token.end, token.end))
                return tokens
    return None


def _target(cursor: TokenCursor) -> tuple[Name, tuple[str, ...]]:
    """`INSERT | REPLACE INTO [TABLE] t [(columns)]`."""
    cursor.expect_any("INSERT", "REPLACE")
    if not cursor.accept("INTO"):
        if cursor.token.kind == TokenKind.WORD:
            error = cursor.trailing(cursor.token)
            error.hint = "write INTO before the name of the table"
            raise error
        cursor.fail("INTO")
    cursor.accept("TABLE")
    table = cursor.name("the name of a table")
    if cursor.word == "DEFAULT":
        raise cursor.unsupported(cursor.token)
    follower = cursor.ahead(1)
    is_query = follower.word in QUERY_WORDS or follower.text == "("
    if not cursor.is_operator("(") or is_query:
        return table, ()
    columns = cursor.parenthesised(cursor.name_part, may_be_empty=True)
    return table, tuple(columns)
