"""Descriptions back into SQL: what SHOW CREATE TABLE and SHOW CREATE DATABASE print. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from tsdb.model import ColumnIndex, ColumnInfo, DatabaseInfo, DataType, Kind, TableInfo
from tsdb.sql.statements import Dialect

FOREIGN_SERVER = "tsdbdb"
"""The name a PostgreSQL server knows this one by, in the statement that makes a foreign table there."""

_SIMPLE_NAME = re.compile(r"[a-z_][a-z0-9_]*")
_INDEX_ORDER = ("fulltext", "skipping", "inverted", "vector")
_HIDDEN_COLUMNS = frozenset({"__table_id", "__tsid"})
"""What the metric engine adds to a physical table for itself."""

_FOREIGN_TYPES = {
    Kind.STRING: "VARCHAR",
    Kind.BINARY: "BYTEA",
    Kind.BOOLEAN: "BOOL",
    Kind.INT8: "INT2",
    Kind.INT16: "INT2",
    Kind.INT32: "INT4",
    Kind.INT64: "INT8",
    Kind.UINT8: "INT2",
    Kind.UINT16: "INT2",
    Kind.UINT32: "INT4",
    Kind.UINT64: "INT8",
    Kind.FLOAT32: "FLOAT4",
    Kind.FLOAT64: "FLOAT8",
    Kind.DECIMAL: "NUMERIC",
    Kind.DATE: "DATE",
    Kind.TIMESTAMP_SECOND: "TIMESTAMP",
    Kind.TIMESTAMP_MILLISECOND: "TIMESTAMP",
    Kind.TIMESTAMP_MICROSECOND: "TIMESTAMP",
    Kind.TIMESTAMP_NANOSECOND: "TIMESTAMP",
    Kind.JSON: "JSON",
    Kind.VECTOR: "BYTEA",
}


def quote_name(name: str, dialect: Dialect) -> str:
    """Put a name in the quotes of a dialect."""
    quote = "`" if dialect is Dialect.MYSQL else '"'
    return f"{quote}{name.replace(quote, quote * 2)}{quote}"


def quote_text(text: str) -> str:
    """A string literal."""
    return "'" + text.replace("'", "''") + "'"


def render_create_table(table: TableInfo, options: Mapping[str, str], dialect: Dialect) -> str:
    """The statement that creates a table; `options` are those in effect, inherited ones included."""
    columns = [column for column in table.columns if not _is_hidden(column.name, table)]
    key = [name for name in table.primary_key if not _is_hidden(name, table)]
    items = [_column(column, dialect) for column in columns]
    items.append(f"TIME INDEX ({quote_name(table.time_index.name, dialect)})")
    if key:
        items.append(f"PRIMARY KEY ({_names(key, dialect)})")
    what = "EXTERNAL TABLE" if table.engine == "file" else "TABLE"
    lines = [
        f"CREATE {what} IF NOT EXISTS {quote_name(table.name, dialect)} (",
        ",\n".join(f"  {item}" for item in items),
        ")",
        _partitions(table, dialect),
        f"ENGINE={table.engine}",
        _with(_settings(options, table.comment)),
    ]
    return "\n".join(lines)


def render_foreign_table(table: TableInfo) -> str:
    """The statement by which a PostgreSQL server reads a table of this one."""
    columns = [column for column in table.columns if not _is_hidden(column.name, table)]
    items = [f"  {quote_name(column.name, Dialect.POSTGRESQL)} {_foreign_type(column.type)}" for column in columns]
    lines = [
        f"CREATE FOREIGN TABLE ft_{table.name} (",
        ",\n".join(items),
        ")",
        f"SERVER {FOREIGN_SERVER}",
        f"OPTIONS (table_name {quote_text(table.name)})",
    ]
    return "\n".join(lines)


def render_create_database(database: DatabaseInfo, dialect: Dialect) -> str:
    """The statement that creates a database."""
    name = database.name if _SIMPLE_NAME.fullmatch(database.name) else quote_name(database.name, dialect)
    statement = f"CREATE DATABASE IF NOT EXISTS {name}"
    return f"{statement}\n{_with(_settings(database.options, None))}" if database.options else statement


def _is_hidden(column: str, table: TableInfo) -> bool:
    is_physical = table.engine == "metric" and "physical_metric_table" in table.options
    return is_physical and column in _HIDDEN_COLUMNS


def _foreign_type(kind: DataType) -> str:
    if kind.kind is Kind.DECIMAL:
        return f"NUMERIC({kind.precision},{kind.scale})"
    return _FOREIGN_TYPES[kind.kind]


def _names(names: Iterable[str], dialect: Dialect) -> str:
    return ", ".join(quote_name(name, dialect) for name in names)


def _column(column: ColumnInfo, dialect: Dialect) -> str:
    parts = [quote_name(column.name, dialect), column.type.sql, "NULL" if column.nullable else "NOT NULL"]
    if column.default is not None:
        parts.append(f"DEFAULT {_default(column)}")
    if column.comment:
        parts.append(f"COMMENT {quote_text(column.comment)}")
    indexes = sorted(column.indexes, key=lambda index: _INDEX_ORDER.index(index.kind))
    return " ".join([*parts, *map(_index, indexes)])


def _default(column: ColumnInfo) -> str:
    default = column.default
    if default is None or (default.function is None and default.literal is None):
        return "NULL"
    if default.function is not None:
        return default.function
    text = default.literal or ""
    kind = column.type
    is_count = kind.is_timestamp and text.lstrip("-").isdigit()
    is_bare = kind.is_integer or kind.is_float or kind.kind in (Kind.BOOLEAN, Kind.DECIMAL) or is_count
    return text if is_bare else quote_text(text)


def _index(index: ColumnIndex) -> str:
    options = ", ".join(f"{key} = {quote_text(value)}" for key, value in sorted(index.options))
    return f"{index.kind.upper()} INDEX WITH({options})" if options else f"{index.kind.upper()} INDEX"


def _partitions(table: TableInfo, dialect: Dialect) -> str:
    if not table.partition_columns:
        return ""
    rules = ",\n".join(f"  {rule}" for rule in table.partition_rules)
    return f"PARTITION ON COLUMNS ({_names(table.partition_columns, dialect)}) (\n{rules}\n)"


def _settings(options: Mapping[str, str], comment: str | None) -> dict[str, str]:
    """Options as they are printed, sorted by key: a key with a dot needs quotes, and so has a comment a flow gave."""
    said = {key: f"{quote_text(key)} = {_value(value)}" for key, value in options.items()}
    said |= {key: f"{key} = {_value(value)}" for key, value in options.items() if "." not in key and key != "comment"}
    if comment is not None:
        said["comment"] = f"comment = {_value(comment)}"
    return dict(sorted(said.items()))


def _value(text: str) -> str:
    """The value of an option on one line."""
    return quote_text(text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t"))


def _with(settings: Mapping[str, str]) -> str:
    if not settings:
        return ""
    return "WITH(\n" + ",\n".join(f"  {setting}" for setting in settings.values()) + "\n)"
