"""The live tables of pg_catalog: databases, tables and columns as PostgreSQL describes them.

The one database of PostgreSQL is the catalog `tsdb`; a database here is a namespace there. Tables are of kind `r`,
views and the tables of information_schema of kind `v`, the indexes of primary keys (`_keys`) of kind `i`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

import pyarrow as pa

from tsdb.model import CATALOG, ColumnInfo, TableInfo, ViewInfo
from tsdb.query.information_schema import (
    PG_CATALOG,
    InformationContext,
    build_table,
    column_default,
    database_options,
    has_unique_key,
    information_table_infos,
    is_system_table,
    table_of_schema,
    table_size,
)
from tsdb.query.pg_catalog import _oids
from tsdb.query.pg_catalog._calls import UTF8_ENCODING
from tsdb.query.pg_catalog._keys import primary_keys
from tsdb.query.pg_catalog._schemas import PG_TABLES, pg_schema_of
from tsdb.query.session import Channel

_FIRST_ID = 256


@cache
def pg_table_infos() -> tuple[TableInfo, ...]:
    """The tables of pg_catalog, described as tables."""
    return tuple(
        table_of_schema(PG_CATALOG, name, pg_schema_of(name), table_id=_FIRST_ID + position)
        for position, name in enumerate(PG_TABLES)
    )


class Relation(NamedTuple):
    """A table or view and its number."""

    oid: int
    info: TableInfo | ViewInfo

    @property
    def is_view(self) -> bool:
        return isinstance(self.info, ViewInfo) or self.info.database == "information_schema"


def relations(context: InformationContext) -> Iterator[Relation]:
    """Everything that has columns."""
    for position, table in enumerate(pg_table_infos()):
        yield Relation(_oids.catalog_class_oid(table.name, position), table)
    for table in information_table_infos():
        yield Relation(_oids.table_oid(table), table)
    yield from user_relations(context)


def user_relations(context: InformationContext) -> Iterator[Relation]:
    """The tables and views that were created."""
    for database in context.catalog.databases():
        for table in context.catalog.tables(database.name):
            yield Relation(_oids.table_oid(table), table)
        for view in context.catalog.views(database.name):
            yield Relation(_oids.table_oid(view), view)


def pg_class(context: InformationContext) -> pa.Table:
    found, keys = list(relations(context)), list(primary_keys(context))
    owners = {_oids.table_oid(key.table) for key in keys}
    tables = len(found)
    columns = {
        "oid": [*(each.oid for each in found), *(key.oid for key in keys)],
        "relname": [*(each.info.name for each in found), *(key.name for key in keys)],
        "relnamespace": [
            _oids.namespace_oid(name)
            for name in (*(each.info.database for each in found), *(key.table.database for key in keys))
        ],
        "reltype": 0,
        "reloftype": 0,
        "relowner": _oids.OWNER_OID,
        "relam": [*(0 if each.is_view else _oids.HEAP_OID for each in found), *[_oids.BTREE_OID] * len(keys)],
        "relfilenode": [*(0 if each.is_view else each.oid for each in found), *(key.oid for key in keys)],
        "reltablespace": 0,
        "relpages": 0,
        "reltuples": [*(_rows(each.info, context) for each in found), *[-1.0] * len(keys)],
        "relallvisible": 0,
        "reltoastrelid": 0,
        "relhasindex": [*(each.oid in owners for each in found), *[False] * len(keys)],
        "relisshared": False,
        "relpersistence": "p",
        "relkind": [*("v" if each.is_view else "r" for each in found), *"i" * len(keys)],
        "relnatts": [*(len(each.info.columns) for each in found), *(len(key.places) for key in keys)],
        "relchecks": 0,
        "relhasrules": False,
        "relhastriggers": False,
        "relhassubclass": False,
        "relrowsecurity": False,
        "relforcerowsecurity": False,
        "relispopulated": True,
        "relreplident": ["d"] * tables + ["n"] * len(keys),
        "relispartition": False,
        "relrewrite": 0,
        "relfrozenxid": 0,
        "relminmxid": 0,
    }
    return build_table(pg_schema_of("pg_class"), tables + len(keys), columns)


def _rows(info: TableInfo | ViewInfo, context: InformationContext) -> float:
    """PostgreSQL writes -1 for an unknown count."""
    if isinstance(info, ViewInfo) or is_system_table(info):
        return -1.0
    size = table_size(context, info)
    return -1.0 if size is None else float(size.rows)


def pg_namespace(context: InformationContext) -> pa.Table:
    names = list(database_options(context))
    columns = {
        "oid": [_oids.namespace_oid(name) for name in names],
        "nspname": names,
        "nspowner": _oids.OWNER_OID,
    }
    return build_table(pg_schema_of("pg_namespace"), len(names), columns)


def pg_database(context: InformationContext) -> pa.Table:
    """The catalog, and the namespaces too: a client connects to one of them and looks for its name here."""
    names = [CATALOG, *(each.name for each in context.catalog.databases() if each.name != CATALOG)]
    columns = {
        "oid": [_oids.DATABASE_OID, *(_oids.namespace_oid(name) for name in names[1:])],
        "datname": names,
        "datdba": _oids.OWNER_OID,
        "encoding": UTF8_ENCODING,
        "datlocprovider": "c",
        "datistemplate": False,
        "datallowconn": True,
        "datconnlimit": -1,
        "datlastsysoid": _oids.USER_OID_MIN - 1,
        "datfrozenxid": 0,
        "datminmxid": 0,
        "dattablespace": 1663,
        "datcollate": "C.UTF-8",
        "datctype": "C.UTF-8",
    }
    return build_table(pg_schema_of("pg_database"), len(names), columns)


def pg_attribute(context: InformationContext) -> pa.Table:
    """The columns of tables and views."""
    rows = [
        (each.oid, position, column)
        for each in relations(context)
        for position, column in enumerate(_columns_of(each.info, context), 1)
    ]
    oids = [_oids.type_oid(column.type) for _, _, column in rows]
    lengths = {oid: _oids.TYPES_BY_OID[oid].length for oid in set(oids)}
    columns = {
        "attrelid": [oid for oid, _, _ in rows],
        "attname": [column.name for _, _, column in rows],
        "atttypid": oids,
        "attlen": [lengths[oid] for oid in oids],
        "attnum": [position for _, position, _ in rows],
        "attcacheoff": -1,
        "atttypmod": [_oids.type_modifier(column.type) for _, _, column in rows],
        "attndims": 0,
        "attbyval": [0 < lengths[oid] <= 8 for oid in oids],
        "attalign": "i",
        "attstorage": "p",
        "attcompression": "",
        "attnotnull": [not column.nullable for _, _, column in rows],
        "atthasdef": [column.default is not None for _, _, column in rows],
        "atthasmissing": False,
        "attidentity": "",
        "attgenerated": "",
        "attisdropped": False,
        "attislocal": True,
        "attinhcount": 0,
        "attstattarget": -1,
        "attcollation": [_oids.DEFAULT_COLLATION_OID if column.type.is_string else 0 for _, _, column in rows],
    }
    return build_table(pg_schema_of("pg_attribute"), len(rows), columns)


def _columns_of(info: TableInfo | ViewInfo, context: InformationContext) -> tuple[ColumnInfo, ...]:
    return context.view_columns(info) if isinstance(info, ViewInfo) else info.columns


def pg_attrdef(context: InformationContext) -> pa.Table:
    rows = [
        (each.oid, position, column)
        for each in user_relations(context)
        if isinstance(each.info, TableInfo)
        for position, column in enumerate(each.info.columns, 1)
        if column.default is not None
    ]
    columns = {
        "oid": list(range(1, len(rows) + 1)),
        "adrelid": [oid for oid, _, _ in rows],
        "adnum": [position for _, position, _ in rows],
        "adbin": [column_default(column) for _, _, column in rows],
    }
    return build_table(pg_schema_of("pg_attrdef"), len(rows), columns)


def pg_description(context: InformationContext) -> pa.Table:
    """The comments on tables (sub-number 0) and on their columns."""
    rows: list[tuple[int, int, str]] = []
    for each in user_relations(context):
        if not isinstance(each.info, TableInfo):
            continue
        if each.info.comment:
            rows.append((each.oid, 0, each.info.comment))
        rows += [(each.oid, at, column.comment) for at, column in enumerate(each.info.columns, 1) if column.comment]
    columns = {
        "objoid": [oid for oid, _, _ in rows],
        "classoid": _oids.CATALOG_CLASS_OIDS["pg_class"],
        "objsubid": [position for _, position, _ in rows],
        "description": [text for _, _, text in rows],
    }
    return build_table(pg_schema_of("pg_description"), len(rows), columns)


def pg_tables(context: InformationContext) -> pa.Table:
    tables = [each.info for each in relations(context) if not each.is_view]
    columns = {
        "schemaname": [table.database for table in tables],
        "tablename": [table.name for table in tables],
        "tableowner": _oids.OWNER_NAME,
        "hasindexes": [
            isinstance(table, TableInfo) and not is_system_table(table) and has_unique_key(table) for table in tables
        ],
        "hasrules": False,
        "hastriggers": False,
        "rowsecurity": False,
    }
    return build_table(pg_schema_of("pg_tables"), len(tables), columns)


def pg_views(context: InformationContext) -> pa.Table:
    views = [each.info for each in user_relations(context) if isinstance(each.info, ViewInfo)]
    columns = {
        "schemaname": [view.database for view in views],
        "viewname": [view.name for view in views],
        "viewowner": _oids.OWNER_NAME,
        "definition": [view.query for view in views],
    }
    return build_table(pg_schema_of("pg_views"), len(views), columns)


def pg_stat_activity(context: InformationContext) -> pa.Table:
    """Who is connected by this protocol, busy or not."""
    found = [each for each in context.connections() if each.channel is Channel.POSTGRES]
    columns = {
        "datid": [_oids.namespace_oid(each.database) for each in found],
        "datname": [each.database for each in found],
        "pid": [each.id & 0x7FFFFFFF for each in found],
        "usename": [each.user for each in found],
        "application_name": [each.application for each in found],
        "client_addr": [each.client for each in found],
        "backend_start": [each.start_ms * 1000 for each in found],
        "query_start": [None if each.statement_start_ms is None else each.statement_start_ms * 1000 for each in found],
        "state": ["idle" if each.statement is None else "active" for each in found],
        "query": [each.statement or "" for each in found],
        "backend_type": "client backend",
    }
    return build_table(pg_schema_of("pg_stat_activity"), len(found), columns)


def pg_stat_user_tables(context: InformationContext) -> pa.Table:
    found = [each for each in user_relations(context) if not each.is_view]
    columns = {
        "relid": [each.oid for each in found],
        "schemaname": [each.info.database for each in found],
        "relname": [each.info.name for each in found],
        "n_live_tup": [max(int(_rows(each.info, context)), 0) for each in found],
    }
    return build_table(pg_schema_of("pg_stat_user_tables"), len(found), columns)
