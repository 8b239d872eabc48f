"""COPY: tables, queries and databases to and from files, to the client (STDOUT), and from it (STDIN).

The options of STDOUT and STDIN are written as PostgreSQL writes them: `(FORMAT csv, HEADER)`, or as before its
version 9, `CSV HEADER DELIMITER AS ';'`. A flag without a value is ''.
"""

from __future__ import annotations

from dataclasses import replace

from tsdb.errors import Unsupported
from tsdb.sql.lexer import TokenKind
from tsdb.sql.parser._cursor import TokenCursor
from tsdb.sql.parser._options import Options, option_key, option_value, parse_options, parse_with
from tsdb.sql.statements import Copy, Name, Slice


def parse_copy(cursor: TokenCursor) -> Copy:
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
    start = cursor.token.start
    table = cursor.name("the name of a table")
    if cursor.is_operator("("):
        return _columns(cursor, table, start)
    return _to_or_from(cursor, cursor.expect_any("TO", "FROM").lower(), table=table)


def _columns(cursor: TokenCursor, table: Name, start: int) -> Copy:
    """`COPY t (a, b) TO STDOUT` is a query; files have all columns."""
    names = cursor.parenthesised(lambda: cursor.identifier("the name of a column"))
    if cursor.is_words("FROM", "STDIN"):
        cursor.take()
        return replace(_to_or_from(cursor, "from", table=table), columns=tuple(names))
    if not cursor.is_words("TO", "STDOUT"):
        raise Unsupported("COPY with a list of columns is not supported", hint="copy a query: COPY (SELECT …) TO …")
    cursor.take()
    text = f"SELECT {', '.join(map(_quoted, names))} FROM {'.'.join(map(_quoted, table.parts))}"
    return _to_or_from(cursor, "to", query=Slice(text, start))


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _query(cursor: TokenCursor) -> Slice:
    """The query between parentheses."""
    cursor.expect_operator("(")
    query = _checked(cursor)
    cursor.expect_operator(")")
    return query


def _checked(cursor: TokenCursor) -> Slice:
    begin = cursor.position
    if not (cursor.word in ("SELECT", "WITH", "VALUES", "TABLE", "TQL") or cursor.is_operator("(")):
        cursor.fail("a query")
    cursor.skip_expression(stops_at_comma=False)
    return cursor.slice(begin, cursor.position)


def _to_or_from(
    cursor: TokenCursor,
    direction: str,
    *,
    table: Name | None = None,
    query: Slice | None = None,
    database: Name | None = None,
) -> Copy:
    path = None
    options: Options = ()
    is_client = database is None and cursor.accept("STDOUT" if direction == "to" else "STDIN")
    if is_client:
        cursor.accept("WITH")
        if cursor.is_operator("("):
            options = tuple(cursor.parenthesised(lambda: _stdout_option(cursor), may_be_empty=True))
        else:
            options = _older_options(cursor)
    else:
        path = _path(cursor)
        options = parse_with(cursor)
    connection = parse_options(cursor) if cursor.accept("CONNECTION") else ()
    limit = None
    if cursor.word == "LIMIT":
        if table is None or direction == "to" or is_client:
            raise cursor.error(cursor.token, "LIMIT belongs to COPY table FROM only")
        cursor.take()
        limit = cursor.integer("a number of rows")
    return Copy(direction, path, table, query, database, options, connection, limit)


def _path(cursor: TokenCursor) -> str:
    if cursor.token.kind == TokenKind.QUOTED:
        return cursor.identifier()
    return cursor.string("a path in quotes")


def _stdout_option(cursor: TokenCursor) -> tuple[str, str]:
    """`HEADER`, `DELIMITER ';'`, `FORCE_QUOTE (a, b)`, `FORCE_QUOTE *`."""
    key = option_key(cursor)
    cursor.accept_operator("=")
    if cursor.is_operator(",") or cursor.is_operator(")"):
        return key, ""
    return key, _column_list(cursor) if key == "force_quote" else option_value(cursor)


def _column_list(cursor: TokenCursor) -> str:
    """`*`, or names with commas between them."""
    if cursor.accept_operator("*"):
        return "*"
    if cursor.is_operator("("):
        return ",".join(cursor.parenthesised(lambda: cursor.identifier("the name of a column")))
    return ",".join(cursor.listed(lambda: cursor.identifier("the name of a column")))


def _older_options(cursor: TokenCursor) -> Options:
    found: list[tuple[str, str]] = []
    while word := cursor.accept_any("BINARY", "CSV", "HEADER", "DELIMITER", "DELIMITERS", "NULL", "QUOTE", "ESCAPE"):
        if word in ("BINARY", "CSV"):
            found.append(("format", word.lower()))
        elif word == "HEADER":
            found.append(("header", ""))
        else:
            cursor.accept("AS")
            found.append((word.lower().removesuffix("s"), cursor.string(f"the {word.lower()} in quotes")))
    if cursor.accept("FORCE", "QUOTE"):
        found.append(("force_quote", _column_list(cursor)))
    return tuple(found)
