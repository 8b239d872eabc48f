"""COPY: tables, queries and databases to and from files."""

from __future__ import annotations

from tsdb.errors import Unsupported
from tsdb.sql.lexer import TokenKind
from tsdb.sql.parser._cursor import Cursor
from tsdb.sql.parser._options import Options, parse_options, parse_with
from tsdb.sql.statements import Copy, Name, Slice


def parse_copy(cursor: Cursor) -> Copy:
    """`COPY t | (query) | DATABASE db  TO | FROM 'path' …`, COPY passed."""
    if cursor.is_operator("("):
        query = _query(cursor)
        if not cursor.accept("TO"):
            cursor.fail("TO")
        return _to_or_from(cursor, "to", query=query)
    if cursor.word == "DATABASE" and cursor.ahead(1).word not in ("TO", "FROM"):
        cursor.take()
        database = cursor.name("the name of a database", parts_max=2)
        return _to_or_from(cursor, cursor.expect_any("TO", "FROM").lower(), database=database)
    table = cursor.name("the name of a table")
    if cursor.is_operator("("):
        raise Unsupported("COPY with a list of columns is not supported", hint="copy a query: COPY (SELECT …) TO …")
    return _to_or_from(cursor, cursor.expect_any("TO", "FROM").lower(), table=table)


def _query(cursor: Cursor) -> Slice:
    """The query between parentheses."""
    cursor.expect_operator("(")
    query = _checked(cursor)
    cursor.expect_operator(")")
    return query


def _checked(cursor: Cursor) -> Slice:
    begin = cursor.position
    if not (cursor.word in ("SELECT", "WITH", "VALUES", "TABLE", "TQL") or cursor.is_operator("(")):
        cursor.fail("a query")
    cursor.skip_expression(stops_at_comma=False)
    return cursor.slice(begin, cursor.position)


def _to_or_from(
    cursor: Cursor,
    direction: str,
    *,
    table: Name | None = None,
    query: Slice | None = None,
    database: Name | None = None,
) -> Copy:
    if direction == "from" and cursor.word == "STDIN":
        raise Unsupported("COPY … FROM STDIN is not supported", hint="send the rows with INSERT")
    path = None
    options: Options = ()
    if database is None and direction == "to" and cursor.accept("STDOUT"):
        cursor.accept("WITH")
        if cursor.is_operator("("):
            options = parse_options(cursor, needs_equals=False)
    else:
        path = _path(cursor)
        options = parse_with(cursor)
    connection = parse_options(cursor) if cursor.accept("CONNECTION") else ()
    limit = None
    if cursor.word == "LIMIT":
        if table is None or direction == "to":
            raise cursor.error(cursor.token, "LIMIT belongs to COPY table FROM only")
        cursor.take()
        limit = cursor.integer("a number of rows")
    return Copy(direction, path, table, query, database, options, connection, limit)


def _path(cursor: Cursor) -> str:
    if cursor.token.kind == TokenKind.QUOTED:
        return cursor.identifier()
    return cursor.string("a path in quotes")
