"""What a change writes: drafts made into descriptions, and descriptions made into keys.

A description that is planned here is equal to what the store will give back, so that the two can be compared.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tsdb.catalog._codec import decode, encode, encode_route
from tsdb.catalog._keys import database_key, name_key, route_key, table_key, view_key
from tsdb.errors import InvalidArguments
from tsdb.kv import Operation, PutKey
from tsdb.model import DatabaseInfo, TableInfo, ViewInfo


def plan_database(draft: DatabaseInfo, *, created_ms: int) -> DatabaseInfo:
    info = replace(draft, created_ms=created_ms)
    return decode(database_key(info.name), encode(info.to_json()), DatabaseInfo.from_json)


def put_database(info: DatabaseInfo) -> PutKey:
    return PutKey(database_key(info.name), encode(info.to_json()))


def put_table(table: TableInfo) -> list[Operation]:
    return [
        PutKey(name_key(table.database, table.name), encode(table.id)),
        PutKey(table_key(table.id), encode(table.to_json())),
        PutKey(route_key(table.id), encode_route(table)),
    ]


def plan_view(draft: ViewInfo, view_id: int, *, created_ms: int) -> ViewInfo:
    view = replace(draft, id=view_id, created_ms=created_ms)
    return decode(view_key(view_id), encode(view.to_json()), ViewInfo.from_json)


def plan_table(draft: TableInfo, table_id: int, *, created_ms: int) -> TableInfo:
    """Return the table that a draft becomes: numbered, with one region for each partition rule."""
    numbers = draft.region_numbers
    if numbers and draft.partition_rules:
        numbers = tuple(range(len(draft.partition_rules)))
    next_column_id = max((column.id + 1 for column in draft.columns), default=0)
    table = _as_stored(
        draft,
        id=table_id,
        region_numbers=numbers,
        created_ms=created_ms,
        version=0,
        next_column_id=max(draft.next_column_id, next_column_id),
        schema_version=0,
    )
    if table.region_numbers:
        try:
            table.first_region_schema()
        except (ValueError, KeyError) as error:
            raise InvalidArguments(f"invalid table columns: {error}", table=table.full_name) from error
    return table


def plan_change(old: TableInfo, new: TableInfo, has_changes: bool) -> TableInfo:
    """Return the next description: what identifies a table stays, versions grow."""
    added = max((column.id + 1 for column in new.columns), default=0)
    return _as_stored(
        new,
        id=old.id,
        database=old.database,
        region_numbers=old.region_numbers,
        created_ms=old.created_ms,
        version=old.version + 1,
        next_column_id=max(old.next_column_id, new.next_column_id, added),
        schema_version=old.schema_version + has_changes,
    )


def _as_stored(table: TableInfo, **changes: Any) -> TableInfo:
    table = replace(table, **changes)
    return decode(table_key(table.id), encode(table.to_json()), TableInfo.from_json)
