"""`WITH (key = value, …)` and its relatives: keys in lower case, every value as text."""

from __future__ import annotations

from tsdb.errors import InvalidArguments
from tsdb.sql.lexer import TokenKind, locate, unquote
from tsdb.sql.parser._cursor import TokenCursor

Options = tuple[tuple[str, str], ...]


def parse_with(cursor: TokenCursor, *, needs_equals: bool = True) -> Options:
    """`[WITH (…)]`: what stands behind WITH, nothing when there is no WITH."""
    return parse_options(cursor, needs_equals=needs_equals) if cursor.accept("WITH") else ()


def parse_options(cursor: TokenCursor, *, needs_equals: bool = True) -> Options:
    """`( key = value [, …] [,] )`; COPY … TO STDOUT leaves the `=` out."""

    def option() -> tuple[str, str]:
        key = option_key(cursor)
        if not cursor.accept_operator("=") and needs_equals:
            cursor.fail("'='")
        return key, option_value(cursor)

    return tuple(cursor.parenthesised(option, may_be_empty=True))


def option_key(cursor: TokenCursor) -> str:
    """A key: a string, or words joined by points."""
    parts = [cursor.name_part("the key of an option")]
    while cursor.accept_operator("."):
        parts.append(cursor.name_part("the key of an option"))
    return ".".join(parts).lower()


def option_value(cursor: TokenCursor) -> str:
    """A value: a string, a number without sign, a word, a quoted name."""
    token = cursor.token
    if token.kind in (TokenKind.STRING, TokenKind.QUOTED):
        cursor.take()
        return unquote(token, cursor.dialect)
    if token.kind == TokenKind.NUMBER:
        cursor.take()
        return token.text
    if token.kind == TokenKind.WORD and token.word != "NULL":
        cursor.take()
        if not (cursor.is_operator("(") or cursor.is_operator(".")):
            return token.text.lower() if token.word in ("TRUE", "FALSE") else token.text
    if cursor.is_end:
        cursor.fail("the value of an option")
    raise _invalid_value(cursor)


def _invalid_value(cursor: TokenCursor) -> InvalidArguments:
    line, column = locate(cursor.text, cursor.token.start)
    return InvalidArguments(
        f"Invalid expr as option value, found '{cursor.token.text[:40]}' at line {line}, column {column}",
        hint="a value is a string, a number or a word",
    )
