"""`tables`, `columns`, `schemata`, `views`, `table_semantics`: what there is."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa

from tsdb.errors import TsdbError
from tsdb.model import CATALOG, ColumnInfo, DataType, Kind, RegionId, Semantic, TableInfo, ViewInfo
from tsdb.query.information_schema._build import ColumnValues, build_table
from tsdb.query.information_schema._context import InformationContext
from tsdb.query.information_schema._schemas import information_schema_of
from tsdb.query.information_schema._system import INFORMATION_SCHEMA, NUMBERS, PG_CATALOG, information_table_infos
from tsdb.query.session import Channel

CHARACTER_SET = "utf8"
COLLATION = "utf8_bin"

_TEXT_LENGTH_MAX = 2**31 - 1
_NUMERIC_PRECISIONS = {
    Kind.INT8: 3,
    Kind.UINT8: 3,
    Kind.INT16: 5,
    Kind.UINT16: 5,
    Kind.INT32: 10,
    Kind.UINT32: 10,
    Kind.INT64: 19,
    Kind.UINT64: 20,
    Kind.FLOAT32: 12,
    Kind.FLOAT64: 22,
}


class DescribedView(NamedTuple):
    """A view and the columns of its query."""

    database: str
    name: str
    id: int
    columns: tuple[ColumnInfo, ...]


@dataclass(frozen=True, slots=True)
class TableSize:
    """How much the regions of a table hold together."""

    rows: int
    bytes: int


_NO_SIZE = TableSize(0, 0)


def table_size(context: InformationContext, table: TableInfo) -> TableSize | None:
    """Add up the regions of a table; None while one of them is not available."""
    try:
        stats = [context.regions.stat(region_id) for region_id in table.region_ids]
    except TsdbError:
        return None
    rows = sum(stat.memtable_rows + stat.file_rows for stat in stats)
    return TableSize(rows, sum(stat.memtable_bytes + stat.file_bytes for stat in stats))


def database_options(context: InformationContext) -> dict[str, Mapping[str, str]]:
    """Every database a session sees with its options, sorted by name."""
    found: dict[str, Mapping[str, str]] = {each.name: each.options for each in context.catalog.databases()}
    found.setdefault(INFORMATION_SCHEMA, {})
    if context.session.channel is Channel.POSTGRES:
        found.setdefault(PG_CATALOG, {})
    return dict(sorted(found.items()))


def base_tables(context: InformationContext) -> list[TableInfo]:
    """The tables users made, by database and name."""
    return [table for database in context.catalog.databases() for table in context.catalog.tables(database.name)]


def regions_of(context: InformationContext) -> list[tuple[TableInfo, int, RegionId]]:
    """Table, position and id of every region."""
    return [
        (table, position, region_id)
        for table in base_tables(context)
        for position, region_id in enumerate(table.region_ids)
    ]


def _all_tables(context: InformationContext) -> Iterator[TableInfo]:
    """The tables of users and of the system; those of one database stand together."""
    yield from base_tables(context)
    if context.session.channel not in (Channel.MYSQL, Channel.POSTGRES):
        # Tools of these protocols would list it among the user's own tables.
        yield NUMBERS
    yield from information_table_infos()


def is_system_table(table: TableInfo | DescribedView) -> bool:
    """Whether it is built in: such tables have no regions and no time index."""
    return table is NUMBERS or table.database in (INFORMATION_SCHEMA, PG_CATALOG)


def format_options(options: Mapping[str, str]) -> str:
    """Options on one line: `append_mode=true ttl=7days`."""
    return " ".join(f"{key}={value}" for key, value in sorted(options.items()))


def tables_table(context: InformationContext) -> pa.Table:
    views = [view for database in context.catalog.databases() for view in context.catalog.views(database.name)]
    found: list[TableInfo | ViewInfo] = [*_all_tables(context), *views]
    found.sort(key=lambda each: (each.database, each.name))
    return tables_of(found, context)


def tables_of(found: Sequence[TableInfo | ViewInfo], context: InformationContext) -> pa.Table:
    """The rows of `tables` for some tables and views."""
    tables = [each if isinstance(each, TableInfo) else None for each in found]
    sizes = [_NO_SIZE if table is None or is_system_table(table) else table_size(context, table) for table in tables]
    is_temporary = [table is not None and is_system_table(table) for table in tables]
    columns = {
        "table_catalog": CATALOG,
        "table_schema": [each.database for each in found],
        "table_name": [each.name for each in found],
        "table_type": [table_type(each, context.session.channel) for each in found],
        "table_id": [each.id for each in found],
        "data_length": [size and size.bytes for size in sizes],
        "max_data_length": 0,
        "index_length": 0,
        "max_index_length": 0,
        "avg_row_length": [size and size.bytes // max(size.rows, 1) for size in sizes],
        "engine": [table and table.engine for table in tables],
        "version": 11,
        "row_format": "Fixed",
        "table_rows": [size and size.rows for size in sizes],
        "data_free": 0,
        "auto_increment": 0,
        "create_time": [each.created_ms // 1000 for each in found],
        "table_collation": COLLATION,
        "checksum": 0,
        "create_options": ["" if table is None else format_options(table.options) for table in tables],
        "table_comment": [table and (table.comment or table.options.get("comment")) for table in tables],
        "temporary": ["Y" if each else "N" for each in is_temporary],
    }
    return build_table(information_schema_of("tables"), len(found), columns)


_SYSTEM_TYPES = {Channel.MYSQL: "SYSTEM VIEW", Channel.POSTGRES: "VIEW"}


def table_type(each: TableInfo | ViewInfo, channel: Channel = Channel.HTTP) -> str:
    """`BASE TABLE`, `VIEW`, or what a protocol calls a table of the system, `LOCAL TEMPORARY` where it has no word."""
    if isinstance(each, ViewInfo):
        return "VIEW"
    return _SYSTEM_TYPES.get(channel, "LOCAL TEMPORARY") if is_system_table(each) else "BASE TABLE"


def data_type_name(kind: DataType) -> str:
    """The name of a type as information_schema prints it: `bigint unsigned`, `timestamp(3)`."""
    return "binary" if kind.kind is Kind.BINARY else kind.sql.lower()


_MYSQL_TYPES = {
    Kind.STRING: "text",
    Kind.BOOLEAN: "tinyint(1)",
    Kind.BINARY: "blob",
    Kind.VECTOR: "blob",
    Kind.TIMESTAMP_SECOND: "timestamp",
    Kind.TIMESTAMP_NANOSECOND: "timestamp(6)",
}


def mysql_column_type(kind: DataType) -> str:
    """A type as MySQL writes it: `bigint unsigned`, `timestamp(3)`, `text`."""
    return _MYSQL_TYPES.get(kind.kind) or data_type_name(kind)


def mysql_data_type(kind: DataType) -> str:
    """The bare name of a type in MySQL: `bigint`, `timestamp`, `decimal`."""
    return mysql_column_type(kind).partition("(")[0].partition(" ")[0]


def has_unique_key(table: TableInfo) -> bool:
    """Whether a later row with the same tags and the same time takes the place of the earlier one."""
    return table.options.get("append_mode", "false").lower() != "true"


def column_key(column: ColumnInfo, mysql_key: str | None = None) -> str:
    """What kind of key a column belongs to; `mysql_key` is the key of tags and time for MySQL clients."""
    if column.semantic is Semantic.FIELD:
        return ""
    if mysql_key is not None:
        return mysql_key
    return "PRI" if column.semantic is Semantic.TAG else "TIME INDEX"


def column_default(column: ColumnInfo) -> str | None:
    """The default of a column as text, None when it has none."""
    return None if column.default is None else column.default.function or column.default.literal


def _numeric_precision(kind: DataType) -> int | None:
    return kind.precision if kind.kind is Kind.DECIMAL else _NUMERIC_PRECISIONS.get(kind.kind)


def _numeric_scale(kind: DataType) -> int | None:
    if kind.kind is Kind.DECIMAL:
        return kind.scale
    return 0 if kind.is_integer else None


def columns_table(context: InformationContext) -> pa.Table:
    return columns_of(described(context), context.session.channel)


def described(context: InformationContext) -> list[TableInfo | DescribedView]:
    """Everything that has columns, by database and name."""
    views = [view for database in context.catalog.databases() for view in context.catalog.views(database.name)]
    found: list[TableInfo | DescribedView] = [*_all_tables(context), *(describe_view(view, context) for view in views)]
    return sorted(found, key=lambda each: (each.database, each.name))


def describe_view(view: ViewInfo, context: InformationContext) -> DescribedView:
    return DescribedView(view.database, view.name, view.id, context.view_columns(view))


def columns_of(tables: Sequence[TableInfo | DescribedView], channel: Channel) -> pa.Table:
    """The rows of `columns` for some tables, for clients of a protocol."""
    rows = [(table, position, column) for table in tables for position, column in enumerate(table.columns, 1)]
    types = [column.type for _, _, column in rows]
    # Tables repeat the same few types: what depends on the type alone is worked out once for each.
    known = {kind: kind for kind in types}
    names = {kind: (kind.name, data_type_name(kind)) for kind in known}

    def by_type(of: Callable[[DataType], int | str | None]) -> list[int | str | None]:
        found = {kind: of(kind) for kind in known}
        return [found[kind] for kind in types]

    mysql_keys: dict[int, str] = {}
    if channel is Channel.MYSQL:
        # Part of the only one of its kind, or of an index of many.
        mysql_keys = {
            table.id: "PRI" if has_unique_key(table) else "MUL"
            for table in tables
            if isinstance(table, TableInfo) and not is_system_table(table)
        }
        names = {kind: (kind.name, mysql_column_type(kind)) for kind in known}
    lengths = by_type(lambda kind: _TEXT_LENGTH_MAX if kind.is_string else None)
    columns = {
        "table_catalog": CATALOG,
        "table_schema": [table.database for table, _, _ in rows],
        "table_name": [table.name for table, _, _ in rows],
        "column_name": [column.name for _, _, column in rows],
        "ordinal_position": [position for _, position, _ in rows],
        "character_maximum_length": lengths,
        "character_octet_length": lengths,
        "numeric_precision": by_type(_numeric_precision),
        "numeric_scale": by_type(_numeric_scale),
        "datetime_precision": by_type(lambda kind: kind.timestamp_precision if kind.is_timestamp else None),
        "character_set_name": by_type(lambda kind: CHARACTER_SET if kind.is_string else None),
        "collation_name": by_type(lambda kind: COLLATION if kind.is_string else None),
        "column_key": [column_key(column, mysql_keys.get(table.id)) for table, _, column in rows],
        "extra": "",
        "privileges": "select,insert",
        "generation_expression": "",
        "tsdb_data_type": [names[kind][0] for kind in types],
        "data_type": by_type(mysql_data_type if channel is Channel.MYSQL else data_type_name),
        "semantic_type": [column.semantic.value.upper() for _, _, column in rows],
        "column_default": [column_default(column) for _, _, column in rows],
        "is_nullable": ["YES" if column.nullable else "NO" for _, _, column in rows],
        "column_type": [names[kind][1] for kind in types],
        "column_comment": [column.comment for _, _, column in rows],
    }
    return build_table(information_schema_of("columns"), len(rows), columns)


def format_database_options(options: Mapping[str, str]) -> str:
    """The options of a database, one a line: `'ttl'='7days'`."""
    return "\n".join(f"'{key}'='{value}'" for key, value in sorted(options.items()))


def schemata_table(context: InformationContext) -> pa.Table:
    databases = database_options(context)
    columns = {
        "catalog_name": CATALOG,
        "schema_name": list(databases),
        "default_character_set_name": CHARACTER_SET,
        "default_collation_name": COLLATION,
        "options": [format_database_options(options) for options in databases.values()],
    }
    return build_table(information_schema_of("schemata"), len(databases), columns)


def views_table(context: InformationContext) -> pa.Table:
    views = [view for database in context.catalog.databases() for view in context.catalog.views(database.name)]
    columns = {
        "table_catalog": CATALOG,
        "table_schema": [view.database for view in views],
        "table_name": [view.name for view in views],
        "view_definition": [view.definition for view in views],
        "check_option": "NONE",
        "is_updatable": "NO",
        # A view has no owner: its tables are read with the rights of who asks.
        "definer": f"{CATALOG}@%",
        "security_type": "INVOKER",
        "character_set_client": CHARACTER_SET,
        "collation_connection": COLLATION,
    }
    return build_table(information_schema_of("views"), len(views), columns)


_SEMANTIC_PREFIX = "tsdb.semantic."
_SEMANTIC_COLUMNS = ("signal_type", "source", "source_version", "pipeline", "metadata_quality")


def table_semantics_table(context: InformationContext) -> pa.Table:
    """What tables say of the signals they hold; tables that say nothing are left out."""
    found = []
    for table in base_tables(context):
        said = {key: value for key, value in table.options.items() if key.startswith(_SEMANTIC_PREFIX)}
        if said:
            found.append((table, said))
    columns: dict[str, ColumnValues] = {
        "table_catalog": CATALOG,
        "table_schema": [table.database for table, _ in found],
        "table_name": [table.name for table, _ in found],
        "table_id": [table.id for table, _ in found],
        "semantic_options": [json.dumps(said, sort_keys=True) for _, said in found],
    }
    for name in _SEMANTIC_COLUMNS:
        columns[name] = [said.get(_SEMANTIC_PREFIX + name) for _, said in found]
    return build_table(information_schema_of("table_semantics"), len(found), columns)
