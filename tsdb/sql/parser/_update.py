"""UPDATE."""

from __future__ import annotations

from tsdb.errors import InvalidArguments, Unsupported
from tsdb.sql.lexer import TokenKind
from tsdb.sql.parser._cursor import TokenCursor
from tsdb.sql.statements import Slice, Update

_AFTER_UPDATE = frozenset({"FROM", "LIMIT", "ORDER", "RETURNING"})
_AFTER_ASSIGNMENT = _AFTER_UPDATE | {"WHERE"}


def parse_update(cursor: TokenCursor) -> Update:
    """`UPDATE t [[AS] alias] SET column = expression, … [WHERE expression]`, UPDATE passed."""
    table = cursor.name("the name of a table")
    alias = None
    if cursor.accept("AS") or (cursor.token.kind in (TokenKind.WORD, TokenKind.QUOTED) and cursor.word != "SET"):
        alias = cursor.identifier("an alias")
    cursor.expect("SET")
    qualifiers = (table.parts[-1], alias)
    assignments = tuple(cursor.listed(lambda: _assignment(cursor, qualifiers)))
    where = None
    if cursor.accept("WHERE"):
        where = cursor.rest("a condition", _AFTER_UPDATE)
    if cursor.word in _AFTER_UPDATE:
        raise Unsupported(f"UPDATE with {cursor.word} is not supported")
    names = [name for name, _ in assignments]
    for name in names:
        if names.count(name) > 1:
            raise InvalidArguments(f"column {name} is set twice")
    return Update(table, assignments, where, alias)


def _assignment(cursor: TokenCursor, qualifiers: tuple[str, str | None]) -> tuple[str, Slice]:
    if cursor.is_operator("("):
        raise Unsupported("UPDATE with SET (…) = (…) is not supported", hint="set one column after the other")
    name = cursor.name_part("the name of a column")
    if cursor.is_operator(".") and name in qualifiers:
        cursor.expect_operator(".")
        name = cursor.name_part("the name of a column")
    cursor.expect_operator("=")
    if cursor.word == "DEFAULT":
        raise Unsupported("UPDATE with SET … = DEFAULT is not supported", hint="write the value")
    return name, cursor.expression("a value", _AFTER_ASSIGNMENT)
