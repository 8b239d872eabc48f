"""DROP, TRUNCATE, COMMENT ON and DELETE."""

from __future__ import annotations

from tsdb.errors import Unsupported
from tsdb.sql.lexer import TokenKind
from tsdb.sql.parser._cursor import NAME_PARTS_MAX, TokenCursor
from tsdb.sql.parser._users import parse_drop_user
from tsdb.sql.statements import (
    Comment,
    Deallocate,
    Delete,
    DropDatabase,
    DropFlow,
    DropTable,
    DropView,
    Name,
    Slice,
    Statement,
    TruncateTable,
)

_AFTER_DELETE = frozenset({"LIMIT", "ORDER", "RETURNING", "USING"})


def parse_drop(cursor: TokenCursor) -> Statement:
    """DROP, which the caller has passed, and what it drops."""
    token = cursor.token
    what = cursor.accept_any("DATABASE", "SCHEMA", "TABLE", "VIEW", "FLOW", "PREPARE", "USER")
    if not what:
        if token.kind == TokenKind.WORD:
            raise cursor.unsupported(token)
        cursor.fail("DATABASE, TABLE, VIEW or FLOW")
    if what == "USER":
        return parse_drop_user(cursor)
    if what == "PREPARE":
        return Deallocate(cursor.identifier())
    if_exists = cursor.if_exists()
    if what in ("DATABASE", "SCHEMA"):
        return DropDatabase(cursor.name("the name of a database", parts_max=2), if_exists)
    if what == "TABLE":
        return DropTable(tuple(cursor.listed(lambda: cursor.name("the name of a table"))), if_exists)
    if what == "VIEW":
        return DropView(cursor.name("the name of a view"), if_exists)
    return DropFlow(cursor.name("the name of a flow", parts_max=2), if_exists)


def parse_truncate(cursor: TokenCursor) -> TruncateTable:
    """`TRUNCATE [TABLE] t [FILE RANGE (start, end)[, …]]`, TRUNCATE passed."""
    cursor.accept("TABLE")
    name = cursor.name("the name of a table")
    if not cursor.accept("FILE"):
        return TruncateTable(name)
    cursor.expect("RANGE")

    def time_range() -> tuple[Slice, Slice]:
        bounds = cursor.parenthesised(lambda: cursor.expression("a time"))
        if len(bounds) != 2:
            raise cursor.error(cursor.token, f"a range has a start and an end, found {len(bounds)} values")
        return bounds[0], bounds[1]

    ranges = [time_range()]
    while cursor.accept_operator(","):
        if cursor.is_end:
            break
        ranges.append(time_range())
    return TruncateTable(name, tuple(ranges))


def parse_comment(cursor: TokenCursor) -> Comment:
    """`COMMENT ON TABLE t | COLUMN t.c | FLOW f IS 'text' | NULL`, COMMENT passed."""
    cursor.expect("ON")
    kind = cursor.expect_any("TABLE", "COLUMN", "FLOW").lower()
    column = None
    name = cursor.name(f"the name of a {kind}", parts_max=NAME_PARTS_MAX + (kind == "column"))
    if kind == "column":
        if len(name.parts) < 2:
            cursor.fail("'.' and the name of a column")
        name, column = Name(name.parts[:-1]), name.last
    cursor.expect("IS")
    comment = None if cursor.accept("NULL") else cursor.string("a comment in quotes or NULL")
    return Comment(kind, name, column, comment)


def parse_delete(cursor: TokenCursor) -> Delete:
    """`DELETE FROM t [[AS] alias] [WHERE expression]`, DELETE passed."""
    if not cursor.accept("FROM"):
        cursor.fail("FROM")
    table = cursor.name("the name of a table")
    alias = None
    if cursor.accept("AS") or (cursor.token.kind in (TokenKind.WORD, TokenKind.QUOTED) and not _is_clause(cursor)):
        alias = cursor.identifier("an alias")
    where = None
    if cursor.accept("WHERE"):
        where = cursor.rest("a condition", _AFTER_DELETE)
    if cursor.word in _AFTER_DELETE:
        raise Unsupported(f"DELETE with {cursor.word} is not supported")
    return Delete(table, where, alias)


def _is_clause(cursor: TokenCursor) -> bool:
    return cursor.word == "WHERE" or cursor.word in _AFTER_DELETE
