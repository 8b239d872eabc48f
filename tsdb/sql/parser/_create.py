"""CREATE DATABASE, TABLE, EXTERNAL TABLE and VIEW.

What a table's own text can tell is checked here: exactly one time index of a timestamp type, one place that names the
primary key, no column twice. What needs the catalog or the meaning of an option is the database's to judge.

Libraries that speak MySQL or PostgreSQL do not know of a time index. For them it is the first timestamp column that may
be one, or a column that is added and filled with the time of the insert. Without a primary key every row is kept.
CREATE INDEX is there an inverted index on each column.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from tsdb.errors import InvalidArguments, InvalidSyntax, Unsupported
from tsdb.model import DataType, Kind
from tsdb.sql.lexer import TokenKind
from tsdb.sql.parser._columns import parse_column
from tsdb.sql.parser._cursor import TokenCursor
from tsdb.sql.parser._flow import parse_create_flow
from tsdb.sql.parser._indexes import make_index
from tsdb.sql.parser._options import parse_with
from tsdb.sql.parser._users import parse_create_user
from tsdb.sql.statements import (
    AlterTable,
    ColumnDef,
    CreateDatabase,
    CreateTable,
    CreateTableLike,
    CreateView,
    DefaultExpression,
    Dialect,
    Name,
    SetIndexOp,
    Slice,
    Statement,
)

ADDED_TIME_INDEX = "tsdb_timestamp"
"""The time index of a table that has no timestamp column."""
APPENDED = (("append_mode", "true"),)
_MODES = frozenset({"append_mode", "merge_mode"})
QUERY_WORDS = frozenset({"SELECT", "WITH", "VALUES", "TABLE", "FROM"})


def parse_create(cursor: TokenCursor) -> Statement:
    """CREATE, which the caller has passed, and what it creates."""
    or_replace = cursor.accept("OR", "REPLACE")
    if not or_replace:
        if cursor.accept_any("DATABASE", "SCHEMA"):
            return _database(cursor)
        if cursor.accept("USER"):
            return parse_create_user(cursor)
        if cursor.accept("TABLE"):
            return _table(cursor, is_external=False)
        if cursor.accept("EXTERNAL", "TABLE"):
            return _table(cursor, is_external=True)
        if cursor.dialect is not Dialect.GENERIC and cursor.accept("INDEX"):
            return _index(cursor)
    is_temporary = bool(cursor.accept_any("TEMPORARY", "TEMP"))
    if cursor.accept("VIEW"):
        return replace(_view(cursor, or_replace=or_replace), is_temporary=is_temporary)
    if is_temporary:
        raise Unsupported("only views can be TEMPORARY")
    if cursor.accept("FLOW"):
        return parse_create_flow(cursor, or_replace=or_replace)
    if cursor.token.kind == TokenKind.WORD:
        raise cursor.unsupported(cursor.token)
    raise cursor.failure("DATABASE, TABLE, EXTERNAL TABLE, VIEW or FLOW")


def _database(cursor: TokenCursor) -> CreateDatabase:
    if_not_exists = cursor.if_not_exists()
    name = cursor.name("the name of a database", parts_max=2)
    return CreateDatabase(name, if_not_exists, parse_with(cursor))


@dataclass(slots=True)
class _Draft:
    """The contents of the parentheses of CREATE TABLE."""

    columns: list[ColumnDef] = field(default_factory=list)
    time_indexes: list[str] = field(default_factory=list)
    primary_keys: list[tuple[str, ...]] = field(default_factory=list)


def _table(cursor: TokenCursor, *, is_external: bool) -> Statement:
    if cursor.is_words("IF", "EXISTS"):
        raise cursor.unsupported(cursor.token)
    if_not_exists = cursor.if_not_exists()
    name = cursor.name("the name of a table")
    if not is_external and cursor.accept("LIKE"):
        return CreateTableLike(name, cursor.name("the name of a table"), if_not_exists)
    if cursor.word == "AS" or cursor.word in QUERY_WORDS - {"WITH"}:
        raise Unsupported("CREATE TABLE AS SELECT is not supported", hint="create the table, then INSERT … SELECT")
    draft = _Draft()
    if cursor.is_operator("(") or not is_external:
        cursor.parenthesised(lambda: _item(cursor, draft))
    partition_columns, partition_rules = _partition(cursor)
    engine = "file" if is_external else "mito"
    if cursor.accept("ENGINE"):
        cursor.accept_operator("=")
        engine = cursor.name_part("the name of an engine").lower()
    options: tuple[tuple[str, str], ...] = ()
    if cursor.dialect is not Dialect.GENERIC and engine == "mito" and draft.columns:
        options = _choose_time_index(draft)
    time_index, primary_key = _time_index(draft, is_external=is_external), _primary_key(draft)
    said = parse_with(cursor)
    if primary_key or any(key in _MODES for key, _ in said):
        options = ()
    return CreateTable(
        name=name,
        columns=tuple(draft.columns),
        if_not_exists=if_not_exists,
        time_index=time_index,
        primary_key=primary_key,
        partition_columns=partition_columns,
        partition_rules=partition_rules,
        engine=engine,
        options=(*said, *options),
        is_external=is_external,
    )


def _choose_time_index(draft: _Draft) -> tuple[tuple[str, str], ...]:
    """Choose the time index of a table that names none; returns the options of such a table."""
    if draft.time_indexes or any(column.is_time_index for column in draft.columns):
        return ()
    keys = {name for key in draft.primary_keys for name in key}
    for place, column in enumerate(draft.columns):
        is_key = column.is_primary_key or column.name in keys
        if column.type.is_timestamp and not column.is_nullable and not is_key:
            draft.columns[place] = replace(column, is_time_index=True, is_nullable=False)
            return APPENDED
    kind, filled = DataType(Kind.TIMESTAMP_MILLISECOND), DefaultExpression("current_timestamp", "function")
    draft.columns.append(ColumnDef(ADDED_TIME_INDEX, kind, is_nullable=False, default=filled, is_time_index=True))
    return APPENDED


def _index(cursor: TokenCursor) -> AlterTable:
    """`CREATE INDEX [IF NOT EXISTS] [name] ON t [USING method] (column, …)`."""
    cursor.if_not_exists()
    if cursor.word != "ON":
        cursor.name("the name of an index")
    cursor.expect("ON")
    table = cursor.name("the name of a table")
    _ = cursor.accept("USING") and cursor.name_part("the kind of an index")
    columns = cursor.parenthesised(lambda: _indexed_column(cursor))
    return AlterTable(table, tuple(SetIndexOp(each, make_index("inverted", (), each)) for each in columns))


def _indexed_column(cursor: TokenCursor) -> str:
    name = cursor.name_part("the name of a column")
    _ = cursor.is_operator("(") and cursor.parenthesised(cursor.integer)
    cursor.accept_any("ASC", "DESC")
    return name


def _item(cursor: TokenCursor, draft: _Draft) -> None:
    """A column, `TIME INDEX (c)` or `PRIMARY KEY (c, …)`."""
    _ = cursor.accept("CONSTRAINT") and cursor.identifier()
    if cursor.is_words("TIME", "INDEX") and cursor.ahead(2).text == "(":
        cursor.expect("TIME", "INDEX")
        names = cursor.parenthesised(cursor.name_part)
        if len(names) != 1:
            raise InvalidSyntax("Invalid time index: it should contain only one column in time index")
        draft.time_indexes.append(names[0])
    elif cursor.accept("PRIMARY", "KEY"):
        draft.primary_keys.append(tuple(cursor.parenthesised(cursor.name_part, may_be_empty=True)))
    else:
        draft.columns.append(parse_column(cursor))


def _time_index(draft: _Draft, *, is_external: bool) -> str | None:
    """The one column that is the time index, checked."""
    places: dict[str, int] = {}
    for place, column in enumerate(draft.columns):
        if column.name in places:
            first = places[column.name]
            raise InvalidArguments(f"column name `{column.name}` is duplicated at index {first} and {place}")
        places[column.name] = place
    names = dict.fromkeys([column.name for column in draft.columns if column.is_time_index] + draft.time_indexes)
    if not names:
        if is_external:
            return None
        raise InvalidSyntax("Missing time index constraint", hint="mark one timestamp column with TIME INDEX")
    if len(names) > 1:
        raise InvalidSyntax(f"Invalid time index: expected only one time index constraint but actual {len(names)}")
    name = next(iter(names))
    if name not in places:
        raise InvalidSyntax(f"Invalid time index: there is no column {name}")
    column = draft.columns[places[name]]
    if not column.type.is_timestamp:
        raise InvalidArguments(
            f"time index column data type should be timestamp, found {column.type.name}", column=name
        )
    if column.is_nullable:
        raise InvalidArguments("time index column can't be null", column=name)
    return name


def _primary_key(draft: _Draft) -> tuple[str, ...]:
    inline = [column.name for column in draft.columns if column.is_primary_key]
    if len(draft.primary_keys) + bool(inline) > 1:
        raise InvalidArguments(
            "Illegal primary keys definition: found definitions of primary keys in multiple places",
            hint="name all columns of the key in one PRIMARY KEY (…)",
        )
    if len(inline) > 1:
        raise InvalidArguments(
            "Illegal primary keys definition: not allowed to inline multiple primary keys in columns options",
            hint="write PRIMARY KEY (…) after the columns",
        )
    key = draft.primary_keys[0] if draft.primary_keys else tuple(inline)
    known = {column.name: column for column in draft.columns}
    time_indexes = {*draft.time_indexes, *(column.name for column in draft.columns if column.is_time_index)}
    for name in key:
        if name not in known:
            raise InvalidArguments(f"the primary key names a column that does not exist: {name}")
        if name in time_indexes:
            raise InvalidArguments("the time index cannot be part of the primary key", column=name)
    if len(set(key)) < len(key):
        raise InvalidArguments("the primary key names a column twice", columns=", ".join(key)[:200])
    return key


def _partition(cursor: TokenCursor) -> tuple[tuple[str, ...], tuple[Slice, ...]]:
    """`[PARTITION ON COLUMNS (c, …) (rule, …)]`."""
    if not cursor.accept("PARTITION"):
        return (), ()
    cursor.expect("ON", "COLUMNS")
    columns = tuple(cursor.parenthesised(cursor.name_part))
    if len(set(columns)) < len(columns):
        raise InvalidArguments("PARTITION ON COLUMNS names a column twice")
    rules = cursor.parenthesised(lambda: cursor.expression("a partition rule"), may_be_empty=True)
    return columns, tuple(rules)


def _view(cursor: TokenCursor, *, or_replace: bool) -> CreateView:
    if_not_exists = cursor.if_not_exists()
    if or_replace and if_not_exists:
        raise InvalidArguments("CREATE VIEW cannot be both OR REPLACE and IF NOT EXISTS")
    name: Name = cursor.name("the name of a view")
    columns = cursor.parenthesised(cursor.name_part) if cursor.is_operator("(") else []
    cursor.expect("AS")
    query = parse_query_slice(cursor, "TQL")
    return CreateView(name, query, cursor.slice(0, cursor.position), tuple(columns), or_replace, if_not_exists)


def parse_query_slice(cursor: TokenCursor, *others: str) -> Slice:
    """Everything to the end, which must begin like a query (or with one of `others`)."""
    if not (cursor.word in QUERY_WORDS or cursor.word in others or cursor.is_operator("(")):
        cursor.fail("a query")
    return cursor.rest("a query")
