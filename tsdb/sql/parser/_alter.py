"""ALTER DATABASE and ALTER TABLE."""

from __future__ import annotations

from tsdb.errors import InvalidArguments, Unsupported
from tsdb.sql.lexer import TokenKind
from tsdb.sql.parser._columns import IntervalColumn, parse_column, parse_default, parse_type
from tsdb.sql.parser._cursor import TokenCursor
from tsdb.sql.parser._indexes import INDEX_WORDS, parse_index, parse_index_kind
from tsdb.sql.parser._options import option_key, option_value, parse_with
from tsdb.sql.parser._users import parse_alter_user
from tsdb.sql.statements import (
    AddColumnOp,
    AlterDatabase,
    AlterOp,
    AlterTable,
    DropColumnOp,
    DropDefaultOp,
    ModifyTypeOp,
    RenameColumnOp,
    RenameTableOp,
    SetDefaultOp,
    SetIndexOp,
    SetOptionsOp,
    Statement,
    UnsetIndexOp,
    UnsetOptionsOp,
)

_REPEATABLE = (AddColumnOp, SetDefaultOp, DropDefaultOp)
"""Changes that may be listed with commas, all of one kind."""

_REQUEST_OPTIONS = frozenset({"timeout", "wait"})
"""Options of the request itself; a change is done when its answer is sent, so that they change nothing."""


def parse_alter(cursor: TokenCursor) -> Statement:
    """ALTER, which the caller has passed, and what it changes."""
    if cursor.accept_any("DATABASE", "SCHEMA"):
        return _database(cursor)
    if cursor.accept("TABLE"):
        return _table(cursor)
    if cursor.accept("USER"):
        return parse_alter_user(cursor)
    if cursor.token.kind == TokenKind.WORD:
        raise cursor.unsupported(cursor.token)
    raise cursor.failure("DATABASE or TABLE")


def _database(cursor: TokenCursor) -> AlterDatabase:
    name = cursor.name("the name of a database", parts_max=2)
    if cursor.accept("SET"):
        pairs = _set_options(cursor)
        statement = AlterDatabase(name, set_options=tuple((key, value or "") for key, value in pairs))
    else:
        if not cursor.accept("UNSET"):
            cursor.fail("SET or UNSET")
        statement = AlterDatabase(name, unset_options=tuple(cursor.listed(lambda: option_key(cursor))))
    _request_options(cursor)
    return statement


def _table(cursor: TokenCursor) -> AlterTable:
    if_exists = cursor.if_exists()
    name = cursor.name("the name of a table")
    operations = [_operation(cursor)]
    while isinstance(operations[0], _REPEATABLE) and cursor.accept_operator(","):
        token = cursor.token
        operations.append(_operation(cursor))
        if type(operations[-1]) is not type(operations[0]):
            raise Unsupported(
                f"one ALTER TABLE cannot combine different operations, found '{token.text}' after a comma"
            )
    _request_options(cursor)
    return AlterTable(name, tuple(operations), if_exists)


def _request_options(cursor: TokenCursor) -> None:
    for key, _ in parse_with(cursor):
        if key not in _REQUEST_OPTIONS:
            raise InvalidArguments(f"unknown option of ALTER: {key}", hint="known: timeout, wait")


def _operation(cursor: TokenCursor) -> AlterOp:
    if cursor.accept("ADD"):
        return _add(cursor)
    if cursor.accept("DROP"):
        if cursor.word in ("CONSTRAINT", "PRIMARY", "INDEX", "PARTITION"):
            raise cursor.unsupported(cursor.token)
        cursor.accept("COLUMN")
        return DropColumnOp(cursor.name_part("the name of a column"))
    if cursor.accept("MODIFY"):
        cursor.accept("COLUMN")
        return _modify(cursor)
    if cursor.accept("RENAME"):
        return _rename(cursor)
    if cursor.accept("SET"):
        return SetOptionsOp(_set_options(cursor))
    if cursor.accept("UNSET"):
        return UnsetOptionsOp(tuple(cursor.listed(lambda: option_key(cursor))))
    if cursor.token.kind == TokenKind.WORD:
        raise cursor.unsupported(cursor.token)
    raise cursor.failure("ADD, DROP, MODIFY, RENAME, SET or UNSET")


def _add(cursor: TokenCursor) -> AddColumnOp:
    has_column = cursor.accept("COLUMN")
    if not has_column and cursor.word in ("CONSTRAINT", "PRIMARY", "INDEX", "UNIQUE", "FOREIGN", "PARTITION"):
        raise cursor.unsupported(cursor.token)
    if_not_exists = cursor.if_not_exists()
    try:
        column = parse_column(cursor)
    except IntervalColumn as error:
        raise Unsupported(error.message) from None
    if column.is_time_index:
        raise InvalidArguments("a table has its time index already", column=column.name)
    if cursor.accept("FIRST"):
        return AddColumnOp(column, if_not_exists, "first")
    if cursor.accept("AFTER"):
        return AddColumnOp(column, if_not_exists, "after", cursor.name_part("the name of a column"))
    return AddColumnOp(column, if_not_exists)


def _modify(cursor: TokenCursor) -> AlterOp:
    name = cursor.name_part("the name of a column")
    if cursor.accept("SET", "DEFAULT"):
        return SetDefaultOp(name, parse_default(cursor))
    if cursor.accept("DROP", "DEFAULT"):
        return DropDefaultOp(name)
    if cursor.accept("SET"):
        if cursor.word not in INDEX_WORDS:
            cursor.fail("DEFAULT or an index")
        return SetIndexOp(name, parse_index(cursor, name))
    if cursor.accept("UNSET"):
        return UnsetIndexOp(name, parse_index_kind(cursor))
    if cursor.word == "INTERVAL":
        raise Unsupported(f"column {name} cannot be an interval")
    return ModifyTypeOp(name, parse_type(cursor))


def _rename(cursor: TokenCursor) -> RenameTableOp | RenameColumnOp:
    if cursor.word == "COLUMN" and cursor.ahead(1).kind != TokenKind.END:
        cursor.take()
        name = cursor.name_part("the name of a column")
        cursor.expect("TO")
        return RenameColumnOp(name, cursor.name_part("the name of a column"))
    if cursor.word == "TO" and cursor.ahead(1).kind != TokenKind.END:
        cursor.take()
    return RenameTableOp(cursor.name("the new name of the table"))


def _set_options(cursor: TokenCursor) -> tuple[tuple[str, str | None], ...]:
    def pair() -> tuple[str, str | None]:
        key = option_key(cursor)
        cursor.expect_operator("=")
        return key, None if cursor.accept("NULL") else option_value(cursor)

    return tuple(cursor.listed(pair))
