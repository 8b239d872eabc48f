"""Dropping, in three steps: keys to tombstones, regions away, tombstones away.

The first transaction decides: from then on the table is gone, and a restart finishes the rest. A database with more
tables than one transaction can move leaves a tombstone of itself until the last of them is moved; while it is there,
a restart takes every table of that name's database along.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from tsdb.catalog._codec import decode, encode, encode_route
from tsdb.catalog._intents import delete_alter, delete_truncate
from tsdb.catalog._keys import DATABASES, TABLES, name_key, route_key, table_key, tombstone_key, view_key
from tsdb.catalog._snapshot import Relation
from tsdb.kv import OPERATIONS_MAX, DeleteKey, KvStore, Operation, PutKey
from tsdb.model import DatabaseInfo, TableInfo
from tsdb.store import crash_point

_RESERVED = 4
"""Room in each transaction for the keys of a database, and for what notes the drop."""
_FINISHED_MAX = OPERATIONS_MAX // 4
"""How many tables one transaction forgets: each has three tombstones, and one place in a cluster."""


def plan_moves(relations: Sequence[Relation]) -> Iterator[tuple[list[Relation], list[Operation]]]:
    """Split what is to go into groups of which one transaction can move each; there is always at least one group."""
    group: list[Relation] = []
    operations: list[Operation] = []
    for relation in relations:
        moves = _moves(relation)
        if len(operations) + len(moves) > OPERATIONS_MAX - _RESERVED:
            yield group, operations
            group, operations = [], []
        group.append(relation)
        operations += moves
    yield group, operations


def _moves(relation: Relation) -> list[Operation]:
    name = name_key(relation.database, relation.name)
    if not isinstance(relation, TableInfo):
        return [DeleteKey(name), DeleteKey(view_key(relation.id))]
    kept = [
        PutKey(name, encode(relation.id)),
        PutKey(table_key(relation.id), encode(relation.to_json())),
        PutKey(route_key(relation.id), encode_route(relation)),
    ]
    moves: list[Operation] = [delete_alter(relation.id), delete_truncate(relation.id)]
    for put in kept:
        moves += [DeleteKey(put.key), PutKey(tombstone_key(put.key), put.value)]
    return moves


def finish_drop(
    kv: KvStore,
    drop: Callable[[TableInfo], bool],
    tables: Sequence[TableInfo],
    forget_place: Callable[[int], list[Operation]],
) -> None:
    """Drop the regions of tables whose keys are tombstones; a table with a region that stays keeps its tombstones.

    `drop` tells whether all regions of a table are gone. `forget_place` says what else goes with the last of them.
    """
    gone = [table for table in tables if drop(table)]
    crash_point("catalog.drop.after_regions")
    for start in range(0, len(gone), _FINISHED_MAX):
        operations: list[Operation] = []
        for table in gone[start : start + _FINISHED_MAX]:
            keys = (name_key(table.database, table.name), route_key(table.id), table_key(table.id))
            operations += [*(DeleteKey(tombstone_key(key)) for key in keys), *forget_place(table.id)]
        kv.transact([], operations)
    crash_point("catalog.drop.after_delete")


def dropped_tables(kv: KvStore) -> list[TableInfo]:
    """Tables whose keys are tombstones."""
    return [decode(key, value, TableInfo.from_json) for key, value in kv.scan(tombstone_key(TABLES))]


def dropped_databases(kv: KvStore) -> list[DatabaseInfo]:
    """Databases with tables that are not tombstones yet."""
    return [decode(key, value, DatabaseInfo.from_json) for key, value in kv.scan(tombstone_key(DATABASES))]
