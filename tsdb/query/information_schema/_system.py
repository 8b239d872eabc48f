"""The built-in tables: `public.numbers` and the tables of information_schema themselves.

They are described like all others, as `LOCAL TEMPORARY` tables, with ids below those of users' tables.
"""

from __future__ import annotations

from functools import cache

import pyarrow as pa

from tsdb.model import DEFAULT_DATABASE, ColumnId, ColumnInfo, Kind, Semantic, TableInfo, type_of_field
from tsdb.model import DataType as SqlType
from tsdb.query.information_schema._schemas import INFORMATION_TABLES, information_schema_of

INFORMATION_SCHEMA = "information_schema"
PG_CATALOG = "pg_catalog"

NUMBERS = TableInfo(
    id=2,
    database=DEFAULT_DATABASE,
    name="numbers",
    columns=(ColumnInfo(ColumnId(0), "number", SqlType(Kind.UINT32), Semantic.TAG, nullable=False),),
    primary_key=("number",),
    engine="test_engine",
    region_numbers=(),
)
"""A table of the numbers from 0. It has no time index."""

_FIRST_ID = 3


@cache
def information_table_infos() -> tuple[TableInfo, ...]:
    """The tables of information_schema, described as tables."""
    return tuple(
        table_of_schema(INFORMATION_SCHEMA, name, information_schema_of(name), table_id=_FIRST_ID + position)
        for position, name in enumerate(INFORMATION_TABLES)
    )


def table_of_schema(database: str, name: str, schema: pa.Schema, *, table_id: int) -> TableInfo:
    """Describe a read-only table that has only an Arrow schema; types no column can have count as their nearest."""
    columns = tuple(
        ColumnInfo(
            ColumnId(position),
            field.name,
            type_of_field(field) or SqlType(Kind.INT64 if pa.types.is_duration(field.type) else Kind.STRING),
            Semantic.FIELD,
            nullable=field.nullable,
        )
        for position, field in enumerate(schema)
    )
    return TableInfo(id=table_id, database=database, name=name, columns=columns, engine="", region_numbers=())
