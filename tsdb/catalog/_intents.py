"""Changes that are under way: what is written before regions are touched, so that a restart knows what to do.

    CreateIntent    undone at a restart: its regions are dropped, the table was never there
    AlterIntent     redone: its regions may have the new schema already, and a schema cannot be taken back
    SpreadIntent    redone: the tables of a database learn options that they inherit
    TruncateIntent  redone: some regions may be empty already, and rows cannot be brought back

    DropIntent      forgotten when the tombstones of its tables are: these say what is to be done, it says for whom

An intent of a cluster has the id of the procedure that its client knows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from tsdb.catalog._codec import change_from_json, change_to_json, decode, encode
from tsdb.catalog._errors import CatalogCorrupted
from tsdb.catalog._keys import PROCEDURES, procedure_key
from tsdb.kv import DeleteKey, KvStore, PutKey
from tsdb.model import SchemaChange, TableInfo

T = TypeVar("T")

_CREATE, _ALTER, _SPREAD, _TRUNCATE = "create_table", "alter_table", "alter_database", "truncate_table"
_DROP = "drop"


@dataclass(frozen=True, slots=True)
class CreateIntent:
    """A table is being created."""

    table: TableInfo
    procedure: str | None = None

    @property
    def put(self) -> PutKey:
        value = {"table": self.table.to_json(), "procedure": self.procedure}
        return PutKey(procedure_key(_CREATE, self.table.id), encode(value))

    @property
    def delete(self) -> DeleteKey:
        return DeleteKey(procedure_key(_CREATE, self.table.id))

    @property
    def subject(self) -> str:
        return self.table.full_name

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> CreateIntent:
        return cls(TableInfo.from_json(value["table"]), value.get("procedure"))


@dataclass(frozen=True, slots=True)
class AlterIntent:
    """The regions of a table are being altered; `old` is what is published."""

    old: TableInfo
    new: TableInfo
    changes: tuple[SchemaChange, ...]
    procedure: str | None = None

    @property
    def put(self) -> PutKey:
        changes = [change_to_json(each) for each in self.changes]
        value = {"old": self.old.to_json(), "new": self.new.to_json(), "changes": changes, "procedure": self.procedure}
        return PutKey(procedure_key(_ALTER, self.old.id), encode(value))

    @property
    def delete(self) -> DeleteKey:
        return delete_alter(self.old.id)

    @property
    def subject(self) -> str:
        return self.old.full_name

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> AlterIntent:
        changes = tuple(change_from_json(each) for each in value["changes"])
        old, new = TableInfo.from_json(value["old"]), TableInfo.from_json(value["new"])
        return cls(old, new, changes, value.get("procedure"))


@dataclass(frozen=True, slots=True)
class SpreadIntent:
    """The options of a database are being propagated to its tables."""

    database: str
    procedure: str | None = None

    @property
    def put(self) -> PutKey:
        value = {"database": self.database, "procedure": self.procedure}
        return PutKey(procedure_key(_SPREAD, self.database), encode(value))

    @property
    def delete(self) -> DeleteKey:
        return DeleteKey(procedure_key(_SPREAD, self.database))

    @property
    def subject(self) -> str:
        return self.database

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> SpreadIntent:
        return cls(value["database"], value.get("procedure"))


@dataclass(frozen=True, slots=True)
class TruncateIntent:
    """The rows of a table are being removed."""

    table_id: int
    token: str
    """By which a region knows whether it was truncated already."""
    started_ms: int
    procedure: str | None = None

    @property
    def put(self) -> PutKey:
        about = {"table_id": self.table_id, "token": self.token, "started_ms": self.started_ms}
        value = {**about, "procedure": self.procedure}
        return PutKey(procedure_key(_TRUNCATE, self.table_id), encode(value))

    @property
    def delete(self) -> DeleteKey:
        return DeleteKey(procedure_key(_TRUNCATE, self.table_id))

    @property
    def subject(self) -> str:
        return str(self.table_id)

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> TruncateIntent:
        number, token, started_ms = int(value["table_id"]), str(value["token"]), int(value["started_ms"])
        return cls(number, token, started_ms, value.get("procedure"))


@dataclass(frozen=True, slots=True)
class DropIntent:
    """Tables are being dropped, by a procedure of a cluster; `database` if with all that is in it."""

    procedure: str
    tables: tuple[int, ...]
    database: str | None = None

    @property
    def put(self) -> PutKey:
        value = {"procedure": self.procedure, "tables": list(self.tables), "database": self.database}
        return PutKey(procedure_key(_DROP, self.procedure), encode(value))

    @property
    def delete(self) -> DeleteKey:
        return DeleteKey(procedure_key(_DROP, self.procedure))

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> DropIntent:
        return cls(str(value["procedure"]), tuple(map(int, value["tables"])), value["database"])


AnyIntent: TypeAlias = CreateIntent | AlterIntent | SpreadIntent | TruncateIntent | DropIntent


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
    drops: tuple[DropIntent, ...] = ()
    broken: tuple[tuple[str, CatalogCorrupted], ...] = ()
    """Keys that cannot be read, if those are to be skipped."""

    @property
    def all_kinds(self) -> tuple[Sequence[AnyIntent], ...]:
        return self.creates, self.alters, self.spreads, self.truncates, self.drops


def load_drops(kv: KvStore) -> list[DropIntent]:
    """Read the intents of drops alone."""
    return [decode(key, value, DropIntent.from_json) for key, value in kv.scan(f"{PROCEDURES}{_DROP}/")]


def load_intents(kv: KvStore, *, skips_broken: bool = False) -> Intents:
    """Read all intents; CatalogCorrupted if one of them is not one, unless those are to be skipped."""
    broken: list[tuple[str, CatalogCorrupted]] = []

    def of_kind(kind: str, make: Callable[[Any], T]) -> tuple[T, ...]:
        found = []
        for key, value in kv.scan(f"{PROCEDURES}{kind}/"):
            try:
                found.append(decode(key, value, make))
            except CatalogCorrupted as error:
                if not skips_broken:
                    raise
                broken.append((key, error))
        return tuple(found)

    return Intents(
        of_kind(_CREATE, CreateIntent.from_json),
        of_kind(_ALTER, AlterIntent.from_json),
        of_kind(_SPREAD, SpreadIntent.from_json),
        of_kind(_TRUNCATE, TruncateIntent.from_json),
        of_kind(_DROP, DropIntent.from_json),
        tuple(broken),
    )
