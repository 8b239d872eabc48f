"""The catalog: what exists, and the changes of it.

- Readers use an immutable snapshot and never wait; changes are made one at a time.
- A change writes to the store of metadata before and after it touches regions, so that a process that dies anywhere
  leaves something that the next start completes or undoes:

      create    intent ─▶ regions ─▶ publish and forget the intent          a restart undoes it
      alter     intent ─▶ regions ─▶ publish and forget the intent          a restart redoes it
      drop      keys to tombstones ─▶ regions ─▶ forget the tombstones      a restart finishes it

- A change that fails half-way is completed or undone before the next change, in the same way as after a crash.
- Ids of tables and views are never used again.
"""

from __future__ import annotations

import threading
from collections.abc import Container, Iterator, Sequence
from contextlib import contextmanager

from tsdb.catalog import _options
from tsdb.catalog._codec import decode, encode
from tsdb.catalog._drop import dropped_databases, dropped_tables, finish_drop, plan_moves
from tsdb.catalog._errors import (
    CatalogOutdated,
    DatabaseExists,
    DatabaseNotFound,
    PhysicalTableInUse,
    TableAlreadyExists,
    TableNotFound,
)
from tsdb.catalog._intents import AlterIntent, CreateIntent, SpreadIntent, load_intents
from tsdb.catalog._keys import (
    CATALOG_KEY,
    TABLE_SEQUENCE,
    database_key,
    name_key,
    table_key,
    tombstone_key,
    view_key,
)
from tsdb.catalog._metric_descriptions import MetricDescriptions
from tsdb.catalog._plan import plan_change, plan_database, plan_table, plan_view, put_database, put_table
from tsdb.catalog._recover import check_undone, load_snapshot
from tsdb.catalog._regions import alter_regions, check_alter, create_regions, drop_regions, set_region_options
from tsdb.catalog._snapshot import CatalogSnapshot, Relation
from tsdb.clock import Clock
from tsdb.engine import Regions
from tsdb.errors import InvalidArguments, TsdbError, Unsupported
from tsdb.kv import Absent, Compare, DeleteKey, Equals, KvStore, Operation, PutKey, plan_sequence
from tsdb.model import (
    DEFAULT_DATABASE,
    METRIC_ENGINE,
    USER_TABLE_ID_MIN,
    DatabaseInfo,
    RegionId,
    RegionOptions,
    SchemaChange,
    TableInfo,
    ViewInfo,
    add_histogram,
    add_labels,
    table_id_of,
)
from tsdb.nearest import nearest
from tsdb.store import crash_point
from tsdb.telemetry import get_logger

_log = get_logger("tsdb.catalog")

BUILT_IN_DATABASES = (DEFAULT_DATABASE, "tsdb_private")
"""They are always there."""

_LOGICAL_TABLES_MAX = 32
"""How many logical tables are created with one transaction: each takes three operations."""

CRASH_POINTS = (
    "catalog.create.after_intent",
    "catalog.create.after_region",
    "catalog.create.after_regions",
    "catalog.create.after_publish",
    "catalog.alter.after_intent",
    "catalog.alter.after_region",
    "catalog.alter.after_regions",
    "catalog.alter.after_publish",
    "catalog.drop.after_move",
    "catalog.drop.after_tombstones",
    "catalog.drop.after_regions",
    "catalog.drop.after_delete",
    "catalog.spread.after_intent",
    "catalog.spread.after_table",
    "catalog.spread.after_tables",
)


class Catalog:
    """Databases, tables and views of one server."""

    def __init__(self, kv: KvStore, regions: Regions, clock: Clock) -> None:
        self._kv = kv
        self._regions = regions
        self._clock = clock
        self._changes = threading.RLock()
        self._snapshot = CatalogSnapshot()
        self._has_written = False
        self._is_stale = False
        """A change failed after its first transaction: what memory shows may be older than the store."""
        self.metric_descriptions = MetricDescriptions(kv, lambda name: self.find_database(name) is not None)
        """What metrics say about themselves; tables do not depend on it."""
        with self._changes:
            self._recover(is_start=True)

    # Reading

    def databases(self) -> list[DatabaseInfo]:
        """All databases, by name."""
        return sorted(self._snapshot.databases.values(), key=lambda info: info.name)

    def find_database(self, name: str) -> DatabaseInfo | None:
        return self._snapshot.databases.get(name)

    def database(self, name: str) -> DatabaseInfo:
        return _database_of(self._snapshot, name)

    def tables(self, database: str) -> list[TableInfo]:
        """All tables of a database, by name; none if there is no such database."""
        inside = self._snapshot.of_database(database).values()
        return sorted((each for each in inside if isinstance(each, TableInfo)), key=lambda table: table.name)

    @property
    def state(self) -> object:
        """What the catalog holds now: another object after every change."""
        return self._snapshot

    def find_table(self, database: str, name: str) -> TableInfo | None:
        found = self._snapshot.of_database(database).get(name)
        return found if isinstance(found, TableInfo) else None

    def table(self, database: str, name: str) -> TableInfo:
        found = self.find_table(database, name)
        if found is None:
            raise TableNotFound(database, name, near=self.near_table(database, name))
        return found

    def table_by_id(self, table_id: int) -> TableInfo | None:
        return self._snapshot.tables_by_id.get(table_id)

    def stored_in(self, table: TableInfo) -> TableInfo:
        """Return the table whose regions hold the rows of a table: itself, unless it is a logical metric table."""
        if table.physical_table_id is None:
            return table
        physical = self.table_by_id(table.physical_table_id)
        if physical is None:
            raise TableNotFound(table.database, table.options.get("on_physical_table", ""))
        return physical

    def logical_tables(self, physical: TableInfo) -> list[TableInfo]:
        """The tables of the metric engine that are on a physical one, by id."""
        found = [each for each in self._snapshot.tables_by_id.values() if each.physical_table_id == physical.id]
        return sorted(found, key=lambda table: table.id)

    def name_of_region(self, region_id: RegionId) -> str | None:
        """Return the table of a region as `database.table`."""
        table = self.table_by_id(table_id_of(region_id))
        return None if table is None else f"{table.database}.{table.name}"

    def near_table(self, database: str, name: str) -> str | None:
        """Return the table or view of a database that a name which does not exist probably means."""
        return nearest(name, self._snapshot.of_database(database))

    def views(self, database: str) -> list[ViewInfo]:
        """All views of a database, by name."""
        inside = self._snapshot.of_database(database).values()
        return sorted((each for each in inside if isinstance(each, ViewInfo)), key=lambda view: view.name)

    def find_view(self, database: str, name: str) -> ViewInfo | None:
        found = self._snapshot.of_database(database).get(name)
        return found if isinstance(found, ViewInfo) else None

    def effective_options(self, table: TableInfo) -> dict[str, str]:
        """Return the table's own options, with `ttl` and `compaction.*` of its database where it has none."""
        return _effective(self._snapshot, table)

    def region_options(self, table: TableInfo) -> RegionOptions:
        """Return what the table's options mean to its regions."""
        return _options.region_options(_effective(self._snapshot, table), table.columns)

    # Databases

    def create_database(self, info: DatabaseInfo) -> None:
        with self._changing():
            if info.name in self._snapshot.databases:
                raise DatabaseExists(info.name)
            info = plan_database(info, created_ms=info.created_ms or self._now_ms())
            key = database_key(info.name)
            # While a database of this name is being dropped, its tombstone would take tables of the new one along.
            self._transact([Absent(key), Absent(tombstone_key(key))], [put_database(info)], what=info.name)
            self._snapshot = self._snapshot.with_database(info)

    def alter_database(self, info: DatabaseInfo) -> None:
        """Change the options of a database, and tell them the tables that inherit them."""
        with self._changing():
            old = self.database(info.name)
            info = plan_database(info, created_ms=old.created_ms)
            after = self._snapshot.with_database(info)
            # Before anything is written: a value that means nothing is refused.
            inside = self.tables(info.name)
            concerned = [table for table in inside if _region_options(after, table) != self.region_options(table)]
            intent = SpreadIntent(info.name)
            operations = [put_database(info), *([intent.put] if concerned else [])]
            self._transact([self._unchanged(database_key(info.name), old)], operations, what=info.name)
            self._snapshot = after
            crash_point("catalog.spread.after_intent")
            if concerned:
                self._spread(intent, concerned)

    def drop_database(self, name: str) -> None:
        """Drop a database with everything in it."""
        with self._changing():
            info = self.database(name)
            if name in BUILT_IN_DATABASES:
                raise Unsupported(f"the database {name} cannot be dropped")
            relations = list(self._snapshot.of_database(name).values())
            key = database_key(name)
            moves = list(plan_moves(relations))
            operations: list[Operation] = [DeleteKey(key)]
            if len(moves) > 1:
                operations.append(PutKey(tombstone_key(key), encode(info.to_json())))
            self._transact([self._unchanged(key, info)], [*moves[0][1], *operations], what=name)
            self._snapshot = self._snapshot.without_database(name)
            crash_point("catalog.drop.after_move")
            self._move_rest(name, moves[1:])
            self._finish_drop(relations)
        self.metric_descriptions.forget(name)

    def _move_rest(self, database: str, moves: Sequence[tuple[list[Relation], list[Operation]]]) -> None:
        """Move what did not fit into the transaction that dropped a database; the last one removes its tombstone."""
        tombstone = DeleteKey(tombstone_key(database_key(database)))
        for position, (_, operations) in enumerate(moves):
            is_last = position == len(moves) - 1
            self._transact([], [*operations, *([tombstone] if is_last else [])], what=database)
            crash_point("catalog.drop.after_move")

    # Tables

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
            intent = CreateIntent(table)
            self._transact([sequence], [step, intent.put], what=table.full_name)
            crash_point("catalog.create.after_intent")
            self._create_regions(intent, options)
            crash_point("catalog.create.after_regions")
            self._transact(published, [*put_table(table), intent.delete], what=table.full_name)
            crash_point("catalog.create.after_publish")
            self._snapshot = self._snapshot.with_relations([table])
            return table

    def create_logical_tables(self, drafts: Sequence[TableInfo]) -> list[TableInfo]:
        """Create logical tables, many in one transaction; if one is refused, those before it may be there."""
        created: list[TableInfo] = []
        for start in range(0, len(drafts), _LOGICAL_TABLES_MAX):
            with self._changing():
                created += self._create_without_regions(drafts[start : start + _LOGICAL_TABLES_MAX])
        return created

    def _create_without_regions(self, drafts: Sequence[TableInfo]) -> list[TableInfo]:
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
        self._transact([sequence, *free, *there, *compares], [step, *puts], what=tables[0].full_name)
        crash_point("catalog.create.after_publish")
        self._snapshot = self._snapshot.with_relations([*tables, *shown])
        return tables

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

    def _create_regions(self, intent: CreateIntent, options: RegionOptions) -> None:
        try:
            create_regions(self._regions, intent.table, options)
        except TsdbError:
            # The intent stays: the region that failed may be there by half, which only a start can tell.
            drop_regions(self._regions, intent.table)
            raise

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
            return self._alter(old, new, changes)

    def _alter(self, old: TableInfo, new: TableInfo, changes: Sequence[SchemaChange]) -> TableInfo:
        new = plan_change(old, new, bool(changes))
        intent = AlterIntent(old, new, tuple(changes))
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

    def _forget_refused(self, intent: AlterIntent) -> None:
        """Let a change be undone that regions refused before any of them had it."""
        versions = {self._regions.schema(region_id).version for region_id in intent.old.region_ids}
        if versions <= {intent.old.schema_version}:
            self._transact([], [intent.delete], what=intent.old.full_name)

    def _check_alter(self, intent: AlterIntent, options: RegionOptions) -> None:
        """Refuse what a region would refuse, before anything is written."""
        old = intent.old
        if intent.changes:
            check_alter(self._regions, old, intent.new, intent.changes)
        was_append = self.region_options(old).append_mode
        if was_append and not options.append_mode:
            raise InvalidArguments(
                "a table in append mode may hold duplicates and cannot leave it", table=old.full_name
            )

    def _apply_alter(self, intent: AlterIntent, *, has_steps: bool) -> TableInfo:
        old, new = intent.old, intent.new
        if has_steps:
            if intent.changes:
                alter_regions(self._regions, new, intent.changes)
            if self.region_options(new) != self.region_options(old):
                set_region_options(self._regions, new, self.region_options(new))
        crash_point("catalog.alter.after_regions")
        compares, shown = self._show_labels([new])
        compares.append(self._unchanged(table_key(old.id), old))
        puts = [put for each in (new, *shown) for put in put_table(each)]
        operations: list[Operation] = [*puts, intent.delete]
        if new.name != old.name:
            compares.append(Absent(name_key(new.database, new.name)))
            operations.append(DeleteKey(name_key(old.database, old.name)))
        self._transact(compares, operations, what=old.full_name)
        crash_point("catalog.alter.after_publish")
        self._snapshot = self._snapshot.without_relations([old]).with_relations([new, *shown])
        return new

    def drop_tables(self, tables: Sequence[TableInfo]) -> None:
        """Drop tables; if one of them is not there, none."""
        with self._changing():
            found = {}
            for table in tables:
                current = self._snapshot.tables_by_id.get(table.id)
                if current is None:
                    raise TableNotFound(table.database, table.name)
                found[current.id] = current
            for table in found.values():
                self._check_unused(table, without=found)
            for group, operations in plan_moves(list(found.values())):
                self._transact([], operations, what="a table")
                self._snapshot = self._snapshot.without_relations(group)
                crash_point("catalog.drop.after_move")
            self._finish_drop(list(found.values()))

    def _check_unused(self, table: TableInfo, *, without: Container[int] = ()) -> None:
        """Refuse to take a physical table away from under its logical ones, unless they go too."""
        if table.is_physical:
            using = [each for each in self.logical_tables(table) if each.id not in without]
            if using:
                raise PhysicalTableInUse(table, using[0], count=len(using))

    # Views

    def create_view(self, draft: ViewInfo, *, replace: bool) -> ViewInfo:
        """Create a view; `replace` takes the place of a view, never of a table."""
        with self._changing():
            old = self.find_view(draft.database, draft.name)
            if old is None or not replace:
                self._check_name_free(draft.database, draft.name)
            number, sequence, step = plan_sequence(self._kv, TABLE_SEQUENCE, start=USER_TABLE_ID_MIN)
            view = plan_view(draft, number, created_ms=draft.created_ms or self._now_ms())
            key = name_key(view.database, view.name)
            named = Absent(key) if old is None else Equals(key, encode(old.id))
            operations = [step, PutKey(key, encode(view.id)), PutKey(view_key(view.id), encode(view.to_json()))]
            gone = [] if old is None else [DeleteKey(view_key(old.id))]
            compares = [sequence, named, self._database_there(view.database)]
            self._transact(compares, [*operations, *gone], what=view.name)
            self._snapshot = self._snapshot.with_relations([view])
            return view

    def drop_view(self, database: str, name: str) -> None:
        with self._changing():
            view = self.find_view(database, name)
            if view is None:
                raise TableNotFound(database, name, near=self.near_table(database, name))
            for _, operations in plan_moves([view]):
                self._transact([self._unchanged(view_key(view.id), view)], operations, what=name)
            self._snapshot = self._snapshot.without_relations([view])

    # How changes are made

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Make one change at a time, each from what the store holds."""
        with self._changes:
            if self._is_stale:
                self._recover(is_start=False)
            self._has_written = False
            try:
                yield
            except BaseException:
                self._is_stale = self._has_written
                raise

    def _transact(self, compares: Sequence[Compare], operations: Sequence[Operation], *, what: str) -> None:
        self._has_written = True
        if not self._kv.transact(compares, operations):
            raise CatalogOutdated(what)

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
        finish_drop(self._kv, self._regions, [each for each in relations if isinstance(each, TableInfo)])

    def _spread(self, intent: SpreadIntent, tables: Sequence[TableInfo]) -> None:
        """Propagate inherited options to tables. If that fails for one, it is repeated at the next start."""
        are_told = True
        for table in tables:
            try:
                set_region_options(self._regions, table, self.region_options(table))
            except TsdbError as error:
                are_told = False
                _log.warning(
                    "a table does not have the options of its database yet", table=table.full_name, error=error
                )
            crash_point("catalog.spread.after_table")
        if are_told:
            self._transact([], [intent.delete], what=intent.database)
        crash_point("catalog.spread.after_tables")

    # After a crash, or after a change that failed half-way

    def _recover(self, *, is_start: bool) -> None:
        """Show what the store holds, and finish what was interrupted as far as that is possible now."""
        self._snapshot = load_snapshot(self._kv)
        self._ensure_built_in()
        for info in dropped_databases(self._kv):
            relations = list(self._snapshot.of_database(info.name).values())
            self._snapshot = self._snapshot.without_database(info.name)
            self._move_rest(info.name, list(plan_moves(relations)))
        intents = load_intents(self._kv)
        for create in intents.creates:
            if is_start:
                check_undone(create.table, self._regions)
            # Between starts it is unknown whether a region that is not open left something on disk.
            if drop_regions(self._regions, create.table) and is_start:
                self._transact([], [create.delete], what=create.table.full_name)
        for alter in intents.alters:
            self._redo_alter(alter)
        finish_drop(self._kv, self._regions, dropped_tables(self._kv))
        for spread in intents.spreads:
            self._spread(spread, self.tables(spread.database))
        self._is_stale = False

    def _ensure_built_in(self) -> None:
        if self._kv.get(CATALOG_KEY) is None:
            self._kv.transact([Absent(CATALOG_KEY)], [PutKey(CATALOG_KEY, encode({}))])
        for name in BUILT_IN_DATABASES:
            if name not in self._snapshot.databases:
                info = DatabaseInfo(name, created_ms=self._now_ms())
                self._kv.transact([Absent(database_key(name))], [put_database(info)])
                self._snapshot = self._snapshot.with_database(info)

    def _redo_alter(self, intent: AlterIntent) -> None:
        try:
            self._apply_alter(intent, has_steps=True)
        except TsdbError as error:
            _log.warning("a change of a table is not finished yet", table=intent.old.full_name, error=error)

    def _redo_alter_of(self, table_id: int) -> None:
        """Finish an earlier change of a table before the next; if that still fails, so does the next."""
        for intent in load_intents(self._kv).alters:
            if intent.old.id == table_id:
                self._apply_alter(intent, has_steps=True)

    def _now_ms(self) -> int:
        return self._clock.now_ns() // 1_000_000


def _database_of(snapshot: CatalogSnapshot, name: str) -> DatabaseInfo:
    found = snapshot.databases.get(name)
    if found is None:
        raise DatabaseNotFound(name)
    return found


def _effective(snapshot: CatalogSnapshot, table: TableInfo) -> dict[str, str]:
    return _options.effective_options(table, _database_of(snapshot, table.database))


def _region_options(snapshot: CatalogSnapshot, table: TableInfo) -> RegionOptions:
    return _options.region_options(_effective(snapshot, table), table.columns)
