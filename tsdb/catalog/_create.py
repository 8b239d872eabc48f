"""Creation of tables.

intent and places ─▶ regions ─▶ publish and forget the intent          a restart undoes it
"""

from __future__ import annotations

from collections.abc import Sequence

from tsdb.catalog._alter import TableAlteration
from tsdb.catalog._errors import TableAlreadyExists
from tsdb.catalog._intents import CreateIntent
from tsdb.catalog._keys import TABLE_SEQUENCE, name_key
from tsdb.catalog._plan import plan_table, put_table
from tsdb.errors import TsdbError
from tsdb.kv import Absent, Operation, plan_sequence
from tsdb.model import USER_TABLE_ID_MIN, RegionOptions, TableInfo
from tsdb.store import crash_point

_LOGICAL_TABLES_MAX = 32
"""How many logical tables are created with one transaction: each takes three operations."""


class TableCreation(TableAlteration):
    """New tables."""

    def create_table(self, draft: TableInfo) -> TableInfo:
        """Create a table and its regions; the draft's id and versions are replaced."""
        with self._changing():
            if not draft.region_numbers:
                return self._create_without_regions([draft])[0]
            self._check_name_free(draft.database, draft.name)
            options = self.region_options(draft)
            number, sequence, step = plan_sequence(self._kv, TABLE_SEQUENCE, start=USER_TABLE_ID_MIN)
            table = plan_table(draft, number, created_ms=draft.created_ms or self._now_ms())
            published = [Absent(name_key(table.database, table.name)), self._database_there(table.database)]
            intent = CreateIntent(table, self._procedure())
            self._transact([sequence], [step, intent.put, *self._place(table)], what=table.full_name)
            crash_point("catalog.create.after_intent")
            self._create_regions(intent, options)
            crash_point("catalog.create.after_regions")
            ended = self._ended(intent.procedure)
            self._transact(published, [*put_table(table), intent.delete, *ended], what=table.full_name)
            crash_point("catalog.create.after_publish")
            self._snapshot = self._snapshot.with_relations([table])
            return table

    def create_logical_tables(self, drafts: Sequence[TableInfo]) -> list[TableInfo]:
        """Create logical tables, many in one transaction; if one is refused, those before it may be there."""
        created: list[TableInfo] = []
        for start in range(0, len(drafts), _LOGICAL_TABLES_MAX):
            with self._changing():
                is_last = start + _LOGICAL_TABLES_MAX >= len(drafts)
                created += self._create_without_regions(drafts[start : start + _LOGICAL_TABLES_MAX], is_last=is_last)
        return created

    def _create_without_regions(self, drafts: Sequence[TableInfo], *, is_last: bool = True) -> list[TableInfo]:
        """Create tables whose rows are elsewhere, with what they add to the physical tables that they are on."""
        names = [(draft.database, draft.name) for draft in drafts]
        self._make_room_for_histograms(drafts)
        for at, (database, name) in enumerate(names):
            self._check_name_free(database, name)
            if (database, name) in names[:at]:
                raise TableAlreadyExists(database, name)
        first, sequence, step = plan_sequence(self._kv, TABLE_SEQUENCE, start=USER_TABLE_ID_MIN, count=len(drafts))
        tables = [
            plan_table(draft, first + at, created_ms=draft.created_ms or self._now_ms())
            for at, draft in enumerate(drafts)
        ]
        free = [Absent(name_key(database, name)) for database, name in names]
        there = [self._database_there(name) for name in sorted({database for database, _ in names})]
        compares, shown = self._show_labels(tables)
        puts = [put for each in (*tables, *shown) for put in put_table(each)]
        ended = self._ended(self._procedure()) if is_last else []
        self._transact([sequence, *free, *there, *compares], [step, *puts, *ended], what=tables[0].full_name)
        crash_point("catalog.create.after_publish")
        self._snapshot = self._snapshot.with_relations([*tables, *shown])
        return tables

    def _place(self, table: TableInfo) -> list[Operation]:
        return [] if self._placement is None else self._placement.place(table)

    def _create_regions(self, intent: CreateIntent, options: RegionOptions) -> None:
        try:
            self._steps.create(intent.table, options)
        except TsdbError:
            # The intent stays: the region that failed may be there by half, which only a start can tell.
            self._steps.drop(intent.table)
            raise
