"""Changes of tables that are there: their columns, options and names.

intent ─▶ regions ─▶ publish and forget the intent          a restart redoes it
"""

from __future__ import annotations

from collections.abc import Container, Sequence

from tsdb.catalog._errors import CatalogOutdated, PhysicalTableInUse, TableNotFound
from tsdb.catalog._intents import AlterIntent, load_intents
from tsdb.catalog._keys import name_key, table_key
from tsdb.catalog._plan import plan_change, put_table
from tsdb.catalog._writer import CatalogWriter
from tsdb.errors import InvalidArguments, Unsupported
from tsdb.kv import Absent, Compare, DeleteKey, Operation
from tsdb.model import METRIC_ENGINE, RegionOptions, SchemaChange, TableInfo, add_histogram, add_labels
from tsdb.store import crash_point


class TableAlteration(CatalogWriter):
    """Changes of tables."""

    def alter_table(self, old: TableInfo, new: TableInfo, changes: Sequence[SchemaChange] = ()) -> TableInfo:
        """Publish a new description of a table, after its regions have learnt what concerns them.

        `changes` are those of the columns, in the order in which `new` numbers them. A new name renames the table.
        """
        with self._changing():
            self._redo_alter_of(old.id)
            if self._snapshot.tables_by_id.get(old.id) is None:
                raise TableNotFound(old.database, old.name)
            if self._snapshot.tables_by_id[old.id].version != old.version:
                raise CatalogOutdated(old.full_name)
            if new.name != old.name:
                self._check_name_free(old.database, new.name, is_rename=True)
                self._check_unused(old)
            if changes and old.engine == METRIC_ENGINE:
                raise Unsupported("the columns of a metric table's region do not change", table=old.full_name)
            self._make_room_for_histograms([new])
            return self._alter(old, new, changes, self._procedure())

    def _alter(
        self, old: TableInfo, new: TableInfo, changes: Sequence[SchemaChange], procedure: str | None = None
    ) -> TableInfo:
        """Change a table; `procedure` is the change that ends with this, None if more is to come of it."""
        new = plan_change(old, new, bool(changes))
        intent = AlterIntent(old, new, tuple(changes), procedure)
        options = self.region_options(new)
        has_steps = bool(old.region_numbers) and (bool(changes) or options != self.region_options(old))
        if has_steps:
            self._check_alter(intent, options)
            self._transact([self._unchanged(table_key(old.id), old)], [intent.put], what=old.full_name)
            crash_point("catalog.alter.after_intent")
        try:
            return self._apply_alter(intent, has_steps=has_steps)
        except InvalidArguments:
            self._forget_refused(intent)
            raise

    def _make_room_for_histograms(self, tables: Sequence[TableInfo]) -> None:
        """Let the physical tables under logical ones that hold native histograms have the field for them."""
        for physical_id in sorted({each.physical_table_id or 0 for each in tables if each.histogram is not None}):
            self._redo_alter_of(physical_id)
            physical = self._snapshot.tables_by_id.get(physical_id)
            if physical is not None and physical.histogram is None:
                widened, change = add_histogram(physical)
                self._alter(physical, widened, [change])

    def _forget_refused(self, intent: AlterIntent, ended: Sequence[Operation] = ()) -> bool:
        """Let a change be undone that regions refused before any of them had it; tell whether it is."""
        versions = {self._steps.schema(region_id).version for region_id in intent.old.region_ids}
        is_undone = versions <= {intent.old.schema_version}
        if is_undone:
            self._transact([], [intent.delete, *ended], what=intent.old.full_name)
        return is_undone

    def _check_alter(self, intent: AlterIntent, options: RegionOptions) -> None:
        """Refuse what a region would refuse, before anything is written."""
        old = intent.old
        if intent.changes:
            self._steps.check_alter(old, intent.new, intent.changes)
        was_append = self.region_options(old).append_mode
        if was_append and not options.append_mode:
            raise InvalidArguments(
                "a table in append mode may hold duplicates and cannot leave it", table=old.full_name
            )

    def _apply_alter(self, intent: AlterIntent, *, has_steps: bool) -> TableInfo:
        old, new = intent.old, intent.new
        if has_steps:
            if intent.changes:
                self._steps.alter(new, intent.changes)
            if self.region_options(new) != self.region_options(old):
                self._steps.set_options(new, self.region_options(new))
        crash_point("catalog.alter.after_regions")
        compares, shown = self._show_labels([new])
        compares.append(self._unchanged(table_key(old.id), old))
        puts = [put for each in (new, *shown) for put in put_table(each)]
        operations: list[Operation] = [*puts, intent.delete, *self._ended(intent.procedure)]
        if new.name != old.name:
            compares.append(Absent(name_key(new.database, new.name)))
            operations.append(DeleteKey(name_key(old.database, old.name)))
        self._transact(compares, operations, what=old.full_name)
        crash_point("catalog.alter.after_publish")
        self._snapshot = self._snapshot.without_relations([old]).with_relations([new, *shown])
        return new

    def _show_labels(self, tables: Sequence[TableInfo]) -> tuple[list[Compare], list[TableInfo]]:
        """Return the physical tables that show the labels of logical ones, as far as they do not yet.

        The comparisons make sure that the physical tables are there and as memory shows them.
        """
        compares: list[Compare] = []
        changed: list[TableInfo] = []
        for physical_id in sorted({each.physical_table_id for each in tables if each.physical_table_id is not None}):
            users = [each for each in tables if each.physical_table_id == physical_id]
            physical = self._snapshot.tables_by_id.get(physical_id)
            if physical is None:
                raise TableNotFound(users[0].database, users[0].options.get("on_physical_table", ""))
            compares.append(self._unchanged(table_key(physical_id), physical))
            labels = dict.fromkeys(label for each in users for label in each.primary_key)
            shown = add_labels(physical, labels)
            if shown is not physical:
                changed.append(plan_change(physical, shown, False))
        return compares, changed

    def _redo_alter_of(self, table_id: int) -> None:
        """Finish an earlier change of a table before the next; if that still fails, so does the next."""
        for intent in load_intents(self._kv).alters:
            if intent.old.id == table_id:
                self._apply_alter(intent, has_steps=True)

    def _check_unused(self, table: TableInfo, *, without: Container[int] = ()) -> None:
        """Refuse to take a physical table away from under its logical ones, unless they go too."""
        if table.is_physical:
            using = [each for each in self.logical_tables(table) if each.id not in without]
            if using:
                raise PhysicalTableInUse(table, using[0], count=len(using))
