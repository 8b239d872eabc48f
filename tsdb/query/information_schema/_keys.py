"""`key_column_usage`, `table_constraints`, `statistics`: the keys and indexes of tables.

Every table has a time index, which counts as a key beside the primary key; declared indexes are listed in `statistics`
only.

Clients of MySQL take the primary key for what makes a row the only one of its kind, and so do those of PostgreSQL. To
them it is the tags and then the time index, and a table in append mode, which keeps every row, has none.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pyarrow as pa

from tsdb.model import CATALOG, ColumnIndex, TableInfo
from tsdb.query.information_schema._build import build_table
from tsdb.query.information_schema._context import InformationContext
from tsdb.query.information_schema._schemas import information_schema_of
from tsdb.query.information_schema._tables import base_tables, has_unique_key
from tsdb.query.session import Channel

PRIMARY = "PRIMARY"
TIME_INDEX = "TIME INDEX"
_STANDARD_CATALOG = "def"
"""What MySQL calls its only catalog; its clients compare with it."""


class KeyPart(NamedTuple):
    """One column of one key or index of a table."""

    table: TableInfo
    key: str
    position: int
    column: str
    kind: str
    is_unique: bool
    is_nullable: bool
    structure: str | None
    """How the index is kept: `dense`, `inverted`, `fulltext_bloom`, …"""


def keys_of(table: TableInfo, *, for_mysql: bool = False) -> Iterator[KeyPart]:
    """The primary key and the time index of a table."""
    encoding = table.options.get("primary_key_encoding", "dense")
    key = list(table.tags)
    if for_mysql:
        key = [*key, table.time_index] if has_unique_key(table) else []
    for position, column in enumerate(key, 1):
        yield KeyPart(table, PRIMARY, position, column.name, PRIMARY, True, column.nullable, encoding)
    yield KeyPart(table, TIME_INDEX, 1, table.time_index.name, "TIME", False, False, None)


def indexes_of(table: TableInfo, *, for_mysql: bool = False) -> list[KeyPart]:
    """The keys and the declared indexes of a table, sorted by their names."""
    parts = list(keys_of(table, for_mysql=for_mysql))
    for column in table.columns:
        for index in column.indexes:
            kind = index.kind.upper()
            name = f"{kind}_INDEX_{column.name}"
            parts.append(KeyPart(table, name, 1, column.name, kind, False, column.nullable, _structure(index)))
    return sorted(parts, key=lambda part: (part.key, part.position))


def _structure(index: ColumnIndex) -> str:
    if index.kind == "fulltext":
        return f"fulltext_{dict(index.options).get('backend', 'bloom')}"
    return {"skipping": "bloom_filter", "inverted": "inverted"}.get(index.kind, index.kind)


def key_column_usage_table(context: InformationContext) -> pa.Table:
    for_mysql = context.session.channel is Channel.MYSQL
    parts = [part for table in base_tables(context) for part in keys_of(table, for_mysql=for_mysql)]
    columns = {
        "constraint_catalog": _STANDARD_CATALOG,
        "constraint_schema": [part.table.database for part in parts],
        "constraint_name": [part.key for part in parts],
        "table_catalog": _STANDARD_CATALOG,
        "real_table_catalog": CATALOG,
        "table_schema": [part.table.database for part in parts],
        "table_name": [part.table.name for part in parts],
        "column_name": [part.column for part in parts],
        "ordinal_position": [part.position for part in parts],
        "tsdb_index_type": [part.structure for part in parts],
    }
    return build_table(information_schema_of("key_column_usage"), len(parts), columns)


def table_constraints_table(context: InformationContext) -> pa.Table:
    for_mysql = context.session.channel is Channel.MYSQL
    rows = [
        (table, name, kind)
        for table in base_tables(context)
        for name, kind in ((TIME_INDEX, TIME_INDEX), (PRIMARY, "PRIMARY KEY"))
        if name in {part.key for part in keys_of(table, for_mysql=for_mysql)}
    ]
    columns = {
        "constraint_catalog": _STANDARD_CATALOG,
        "constraint_schema": [table.database for table, _, _ in rows],
        "constraint_name": [name for _, name, _ in rows],
        "table_schema": [table.database for table, _, _ in rows],
        "table_name": [table.name for table, _, _ in rows],
        "constraint_type": [kind for _, _, kind in rows],
        "enforced": "YES",
    }
    return build_table(information_schema_of("table_constraints"), len(rows), columns)


def statistics_table(context: InformationContext) -> pa.Table:
    return statistics_of(base_tables(context), context.session.channel)


def statistics_of(tables: list[TableInfo], channel: Channel) -> pa.Table:
    """The rows of `statistics` for some tables, for clients of a protocol."""
    parts = [part for table in tables for part in indexes_of(table, for_mysql=channel is Channel.MYSQL)]
    columns = {
        "table_catalog": CATALOG,
        "table_schema": [part.table.database for part in parts],
        "table_name": [part.table.name for part in parts],
        "non_unique": [0 if part.is_unique else 1 for part in parts],
        "index_schema": [part.table.database for part in parts],
        "index_name": [part.key for part in parts],
        "seq_in_index": [part.position for part in parts],
        "column_name": [part.column for part in parts],
        "collation": "A",
        "nullable": ["YES" if part.is_nullable else "" for part in parts],
        "index_type": [part.kind for part in parts],
        "comment": "",
        "index_comment": "",
        "is_visible": "YES",
        "tsdb_index_type": [part.structure for part in parts],
    }
    return build_table(information_schema_of("statistics"), len(parts), columns)
