"""Metadata of some tables only: what a partial restore keeps of a backup."""

from __future__ import annotations

from collections.abc import Sequence

from tsdb.catalog._errors import TableNotFound
from tsdb.catalog._intents import delete_alter
from tsdb.catalog._keys import NAMES, PROCEDURES, ROUTES, TABLES, TOMBSTONES, VIEWS, name_key, route_key, table_key
from tsdb.catalog._recover import load_snapshot
from tsdb.catalog._snapshot import CatalogSnapshot
from tsdb.kv import OPERATIONS_MAX, DeleteKey, KvStore
from tsdb.model import RegionId, TableInfo
from tsdb.nearest import nearest

_ALL = ".*"


def keep_tables(kv: KvStore, names: Sequence[str]) -> set[RegionId]:
    """Delete all tables but some from a store of metadata, and all views; return the regions of those that are left.

    Names are `database.table`, or `database.*` for all tables of a database. A logical metric table takes the physical
    one that has its rows along. Databases and users stay. TableNotFound if there is no such table.
    """
    snapshot = load_snapshot(kv)
    kept: dict[int, TableInfo] = {}
    for name in names:
        for table in _find(snapshot, name):
            kept[table.id] = table
            if table.physical_table_id is not None:
                kept[table.physical_table_id] = snapshot.tables_by_id[table.physical_table_id]
    _delete_others(kv, kept)
    return {region_id for table in kept.values() for region_id in table.region_ids}


def _find(snapshot: CatalogSnapshot, name: str) -> list[TableInfo]:
    tables = snapshot.tables_by_id.values()
    if name.endswith(_ALL):
        found = [table for table in tables if table.database == name.removesuffix(_ALL)]
    else:
        # Both names may have dots, so they are compared as a whole.
        found = [table for table in tables if f"{table.database}.{table.name}" == name]
    if not found:
        database, _, table_name = name.partition(".")
        near = nearest(name, [f"{table.database}.{table.name}" for table in tables])
        raise TableNotFound(database, table_name, near=near)
    return found


def _delete_others(kv: KvStore, kept: dict[int, TableInfo]) -> None:
    keys = {key for prefix in (TABLES, VIEWS, ROUTES, NAMES, PROCEDURES, TOMBSTONES) for key, _ in kv.scan(prefix)}
    for table in kept.values():
        own = (table_key(table.id), route_key(table.id), delete_alter(table.id).key)
        keys -= {*own, name_key(table.database, table.name)}
    _delete(kv, sorted(keys))


def _delete(kv: KvStore, keys: Sequence[str]) -> None:
    for start in range(0, len(keys), OPERATIONS_MAX):
        kv.transact([], [DeleteKey(key) for key in keys[start : start + OPERATIONS_MAX]])
