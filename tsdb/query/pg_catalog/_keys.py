"""Primary keys and their indexes, as PostgreSQL describes them.

It is the tags and then the time index: a later row with the same of both takes the place of the earlier one. A table in
append mode keeps every row, so it has no key. The index of a key and its constraint have the same number.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pyarrow as pa

from tsdb.model import TableInfo
from tsdb.query.information_schema import InformationContext, build_table, has_unique_key
from tsdb.query.pg_catalog import _oids
from tsdb.query.pg_catalog._schemas import pg_schema_of


class PrimaryKey(NamedTuple):
    """The primary key of a table."""

    table: TableInfo
    places: tuple[int, ...]
    """The columns, by their places from 1, in the order of the key."""

    @property
    def oid(self) -> int:
        return _oids.key_oid(self.table)

    @property
    def name(self) -> str:
        return f"{self.table.name}_pkey"


def primary_keys(context: InformationContext) -> Iterator[PrimaryKey]:
    """The keys of all tables that were created and have one."""
    for database in context.catalog.databases():
        for table in context.catalog.tables(database.name):
            if has_unique_key(table):
                places = {column.name: place for place, column in enumerate(table.columns, 1)}
                yield PrimaryKey(table, tuple(places[name] for name in (*table.primary_key, table.time_index.name)))


def pg_index(context: InformationContext) -> pa.Table:
    keys = list(primary_keys(context))
    columns = {
        "indexrelid": [key.oid for key in keys],
        "indrelid": [_oids.table_oid(key.table) for key in keys],
        "indnatts": [len(key.places) for key in keys],
        "indnkeyatts": [len(key.places) for key in keys],
        "indisunique": True,
        "indnullsnotdistinct": True,
        "indisprimary": True,
        "indisexclusion": False,
        "indimmediate": True,
        "indisclustered": False,
        "indisvalid": True,
        "indcheckxmin": False,
        "indisready": True,
        "indislive": True,
        "indisreplident": False,
        "indkey": [list(key.places) for key in keys],
        "indcollation": [[0] * len(key.places) for key in keys],
        "indclass": [[0] * len(key.places) for key in keys],
        "indoption": [[0] * len(key.places) for key in keys],
    }
    return build_table(pg_schema_of("pg_index"), len(keys), columns)


def pg_constraint(context: InformationContext) -> pa.Table:
    keys = list(primary_keys(context))
    columns = {
        "oid": [key.oid for key in keys],
        "conname": [key.name for key in keys],
        "connamespace": [_oids.namespace_oid(key.table.database) for key in keys],
        "contype": "p",
        "condeferrable": False,
        "condeferred": False,
        "convalidated": True,
        "conrelid": [_oids.table_oid(key.table) for key in keys],
        "contypid": 0,
        "conindid": [key.oid for key in keys],
        "conparentid": 0,
        "confrelid": 0,
        "confupdtype": " ",
        "confdeltype": " ",
        "confmatchtype": " ",
        "conislocal": True,
        "coninhcount": 0,
        "connoinherit": True,
        "conkey": [list(key.places) for key in keys],
    }
    return build_table(pg_schema_of("pg_constraint"), len(keys), columns)


def pg_indexes(context: InformationContext) -> pa.Table:
    keys = list(primary_keys(context))
    columns = {
        "schemaname": [key.table.database for key in keys],
        "tablename": [key.table.name for key in keys],
        "indexname": [key.name for key in keys],
    }
    return build_table(pg_schema_of("pg_indexes"), len(keys), columns)
