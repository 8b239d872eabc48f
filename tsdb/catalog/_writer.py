"""How a change of the catalog is made: one at a time, from what the store holds, by transactions that compare.

A change that fails after its first transaction leaves memory behind the store; the next change then begins by reading
the store again, and by finishing or undoing what was left, as a start does (`_recover`).
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from tsdb.catalog._codec import decode, encode
from tsdb.catalog._drop import dropped_databases, dropped_tables, finish_drop
from tsdb.catalog._errors import CatalogOutdated, TableAlreadyExists
from tsdb.catalog._intents import DropIntent, load_drops
from tsdb.catalog._keys import database_key
from tsdb.catalog._reader import CatalogReader
from tsdb.catalog._regions import STEP_TIMEOUT, ReadSchema, RegionSteps, directories_of
from tsdb.catalog._snapshot import CatalogSnapshot, Relation
from tsdb.catalog.progress import Attempts, ProcedureState, making, read_change, running_change
from tsdb.clock import Clock
from tsdb.engine import Regions
from tsdb.kv import Compare, Equals, KvStore, Operation
from tsdb.model import DatabaseInfo, RegionId, TableInfo
from tsdb.store import crash_point
from tsdb.units import Duration


class Placement(Protocol):
    """Who decides on which nodes of a cluster the regions of a table are."""

    def place(self, table: TableInfo) -> list[Operation]:
        """Choose nodes; return what records them, together with the intent to create the table."""
        ...

    def forget(self, table_id: int) -> list[Operation]:
        """Return what removes the record, when no region is left."""
        ...


@dataclass(frozen=True, slots=True)
class CapturedCatalog:
    """Everything the store of metadata holds at one moment."""

    pairs: list[tuple[str, bytes]]
    """Keys and values, sorted by key."""
    regions: dict[RegionId, str]
    """The regions of all tables, each with its directory."""
    databases: int
    tables: int


def captured_from(pairs: list[tuple[str, bytes]], snapshot: CatalogSnapshot) -> CapturedCatalog:
    """Return what a store of metadata holds, and what it means."""
    regions: dict[RegionId, str] = {}
    tables = snapshot.tables_by_id.values()
    for table in tables:
        regions.update(directories_of(table))
    return CapturedCatalog(pairs, regions, len(snapshot.databases), len(tables))


class CatalogWriter(CatalogReader, ABC):
    """What all kinds of changes have in common."""

    def __init__(
        self,
        kv: KvStore,
        regions: Regions,
        clock: Clock,
        *,
        placement: Placement | None = None,
        step_timeout: Duration = STEP_TIMEOUT,
        read_schema: ReadSchema | None = None,
    ) -> None:
        """Without `placement`, all regions are in this process. `step_timeout` bounds one step of one change.

        `read_schema` asks a region for its schema, where `Regions.schema` may answer from memory.
        """
        super().__init__()
        self._kv = kv
        self._regions = regions
        self._steps = RegionSteps(regions, step_timeout, read_schema)
        self._placement = placement
        self._clock = clock
        self._attempts = Attempts(clock)
        """What was left half-way and could not be finished yet, in a cluster."""
        self._changes = threading.RLock()
        self._has_written = False
        self._is_stale = False
        """A change failed after its first transaction: what memory shows may be older than the store."""

    @abstractmethod
    def _recover(self, *, is_start: bool) -> None:
        """Show what the store holds, and finish what was interrupted as far as that is possible now."""

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Make one change at a time, each from what the store holds."""
        with self._changes:
            if self._is_stale:
                with making(None):
                    self._recover(is_start=False)
            self._has_written = False
            try:
                yield
            except BaseException:
                self._is_stale = self._has_written
                raise

    @contextmanager
    def captured(self) -> Iterator[CapturedCatalog]:
        """Yield all metadata and the regions of all tables; no change of a table begins before the block ends."""
        with self.held():
            yield captured_from(self._kv.scan(""), self._snapshot)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Block schema changes until the block ends; interrupted ones are handled first."""
        with self._changing():
            yield

    def _transact(self, compares: Sequence[Compare], operations: Sequence[Operation], *, what: str) -> None:
        """Make a transaction of a change; the first one notes that it runs, if none notes that it has ended."""
        self._has_written = True
        change = running_change()
        ends = change is not None and any(each.key == change.record.key for each in operations)
        if change is not None and not change.is_noted and not ends:
            operations = [*operations, change.record.put]
        if not self._kv.transact(compares, operations):
            raise CatalogOutdated(what)
        if change is not None:
            change.is_noted, change.is_ended = True, ends

    def _ended(
        self, procedure_id: str | None, state: ProcedureState = ProcedureState.DONE, error: str | None = None
    ) -> list[Operation]:
        """Return what notes the end of a change, to be made together with what ends it."""
        if procedure_id is None or self._placement is None:
            return []
        change = running_change()
        is_own = change is not None and change.record.id == procedure_id
        found = change.record if change is not None and is_own else read_change(self._kv, procedure_id)
        return [] if found is None else [found.ended(state, self._now_ms(), error).put]

    def _procedure(self) -> str | None:
        """Return the id of the change that this thread makes, if it has one."""
        change = running_change()
        return None if change is None else change.record.id

    def _unchanged(self, key: str, shown: DatabaseInfo | Relation) -> Compare:
        """Return the comparison that the store still holds what memory shows."""
        found = self._kv.get(key)
        # Descriptions of thousands of columns are compared as bytes; other bytes may still mean the same.
        if found is None or (found != encode(shown.to_json()) and decode(key, found, type(shown).from_json) != shown):
            self._has_written = True
            raise CatalogOutdated(shown.name)
        return Equals(key, found)

    def _database_there(self, name: str) -> Compare:
        return self._unchanged(database_key(name), self.database(name))

    def _check_name_free(self, database: str, name: str, *, is_rename: bool = False) -> None:
        self.database(database)
        if name in self._snapshot.of_database(database):
            raise TableAlreadyExists(database, name, is_rename=is_rename)

    def _finish_drop(self, relations: Sequence[Relation]) -> None:
        crash_point("catalog.drop.after_tombstones")
        self._drop_regions([each for each in relations if isinstance(each, TableInfo)])
        if self._procedure() is not None:
            self._end_drops(load_drops(self._kv))

    def _note_drop(self, relations: Sequence[Relation], database: str | None = None) -> list[Operation]:
        """Return what notes for whom tables are dropped, together with the first of their tombstones."""
        procedure = self._procedure()
        if procedure is None or self._placement is None:
            return []
        return [
            DropIntent(procedure, tuple(each.id for each in relations if isinstance(each, TableInfo)), database).put
        ]

    def _end_drops(self, drops: Sequence[DropIntent]) -> None:
        """Forget for whom tables were dropped that are gone with all their regions."""
        if not drops:
            return
        left = {table.id for table in dropped_tables(self._kv)}
        databases = {info.name for info in dropped_databases(self._kv)}
        for drop in drops:
            if drop.database in databases or not left.isdisjoint(drop.tables):
                continue
            kept = [number for number in drop.tables if number in self._snapshot.tables_by_id]
            ended = self._ended(drop.procedure)
            if kept:
                error = f"it was interrupted: {len(kept)} of {len(drop.tables)} tables were not dropped"
                ended = self._ended(drop.procedure, ProcedureState.FAILED, error)
            self._transact([], [drop.delete, *ended], what="a table")

    def _drop_regions(self, tables: Sequence[TableInfo]) -> None:
        """Finish the drop of tables whose keys are tombstones, as far as their regions can be reached."""
        finish_drop(self._kv, self._drop_table, tables, self._forget_place)

    def _drop_table(self, table: TableInfo) -> bool:
        """Drop the regions of a table; tell whether all are gone."""
        return self._steps.drop(table) is None

    def _forget_place(self, table_id: int) -> list[Operation]:
        return [] if self._placement is None else self._placement.forget(table_id)

    def _now_ms(self) -> int:
        return self._clock.now_ns() // 1_000_000
