"""Changes that are under way: what is written before regions are touched, so that a restart knows what to do.

    CreateIntent    undone at a restart: its regions are dropped, the table was never there
    AlterIntent     redone: its regions may have the new schema already, and a schema cannot be taken back
    SpreadIntent    redone: the tables of a database learn options that they inherit
    TruncateIntent  redone: some regions may be empty already, and rows cannot be brought back

A drop needs no intent, its tombstones say everything.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tsdb.catalog._codec import change_from_json, change_to_json, decode, encode
from tsdb.catalog._keys import PROCEDURES, procedure_key
from tsdb.kv import DeleteKey, KvStore, PutKey
from tsdb.model import SchemaChange, TableInfo

_CREATE, _ALTER, _SPREAD, _TRUNCATE = "create_table", "alter_table", "alter_database", "truncate_table"


@dataclass(frozen=True, slots=True)
class CreateIntent:
    """A table is being created."""

    table: TableInfo

    @property
    def put(self) -> PutKey:
        return PutKey(procedure_key(_CREATE, self.table.id), encode({"table": self.table.to_json()}))

    @property
    def delete(self) -> DeleteKey:
        return DeleteKey(procedure_key(_CREATE, self.table.id))


@dataclass(frozen=True, slots=True)
class AlterIntent:
    """The regions of a table are being altered; `old` is what is published."""

    old: TableInfo
    new: TableInfo
    changes: tuple[SchemaChange, ...]

    @property
    def put(self) -> PutKey:
        changes = [change_to_json(each) for each in self.changes]
        value = {"old": self.old.to_json(), "new": self.new.to_json(), "changes": changes}
        return PutKey(procedure_key(_ALTER, self.old.id), encode(value))

    @property
    def delete(self) -> DeleteKey:
        return delete_alter(self.old.id)

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> AlterIntent:
        changes = tuple(change_from_json(each) for each in value["changes"])
        return cls(TableInfo.from_json(value["old"]), TableInfo.from_json(value["new"]), changes)


@dataclass(frozen=True, slots=True)
class SpreadIntent:
    """The options of a database are being propagated to its tables."""

    database: str

    @property
    def put(self) -> PutKey:
        return PutKey(procedure_key(_SPREAD, self.database), encode({"database": self.database}))

    @property
    def delete(self) -> DeleteKey:
        return DeleteKey(procedure_key(_SPREAD, self.database))


@dataclass(frozen=True, slots=True)
class TruncateIntent:
    """The rows of a table are being removed."""

    table_id: int
    token: str
    """By which a region knows whether it was truncated already."""
    started_ms: int

    @property
    def put(self) -> PutKey:
        value = {"table_id": self.table_id, "token": self.token, "started_ms": self.started_ms}
        return PutKey(procedure_key(_TRUNCATE, self.table_id), encode(value))

    @property
    def delete(self) -> DeleteKey:
        return DeleteKey(procedure_key(_TRUNCATE, self.table_id))

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> TruncateIntent:
        return cls(int(value["table_id"]), str(value["token"]), int(value["started_ms"]))


def delete_alter(table_id: int) -> DeleteKey:
    """Forget that a table is being altered, if it is."""
    return DeleteKey(procedure_key(_ALTER, table_id))


def delete_truncate(table_id: int) -> DeleteKey:
    """Forget that a table is being truncated, if it is."""
    return DeleteKey(procedure_key(_TRUNCATE, table_id))


@dataclass(frozen=True, slots=True)
class Intents:
    """Everything that is under way."""

    creates: tuple[CreateIntent, ...]
    alters: tuple[AlterIntent, ...]
    spreads: tuple[SpreadIntent, ...]
    truncates: tuple[TruncateIntent, ...]


def load_intents(kv: KvStore) -> Intents:
    def of_kind(kind: str) -> list[tuple[str, bytes]]:
        return kv.scan(f"{PROCEDURES}{kind}/")

    return Intents(
        tuple(
            decode(key, value, lambda each: CreateIntent(TableInfo.from_json(each["table"])))
            for key, value in of_kind(_CREATE)
        ),
        tuple(decode(key, value, AlterIntent.from_json) for key, value in of_kind(_ALTER)),
        tuple(decode(key, value, lambda each: SpreadIntent(each["database"])) for key, value in of_kind(_SPREAD)),
        tuple(decode(key, value, TruncateIntent.from_json) for key, value in of_kind(_TRUNCATE)),
    )
