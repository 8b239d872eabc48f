"""The catalog: what exists, and the changes of it.

- Readers use an immutable snapshot and never wait; changes are made one at a time.
- A change writes to the store of metadata before and after it touches regions, so that a process that dies anywhere
  leaves something that the next start completes or undoes:

      create    intent ─▶ regions ─▶ publish and forget the intent          a restart undoes it
      alter     intent ─▶ regions ─▶ publish and forget the intent          a restart redoes it
      truncate  intent ─▶ regions ─▶ forget the intent                      a restart redoes it
      drop      keys to tombstones ─▶ regions ─▶ forget the tombstones      a restart finishes it

- A change that fails half-way is completed or undone before the next change, in the same way as after a crash.
- Ids of tables and views are never used again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from tsdb.catalog._codec import encode
from tsdb.catalog._create import TableCreation
from tsdb.catalog._databases import BUILT_IN_DATABASES, DatabaseChanges
from tsdb.catalog._drop import dropped_databases, dropped_tables, finish_drop, plan_moves
from tsdb.catalog._errors import TableNotFound
from tsdb.catalog._intents import AlterIntent, CreateIntent, SpreadIntent, load_intents
from tsdb.catalog._keys import (
    CATALOG_KEY,
    PROCEDURES,
    TABLE_SEQUENCE,
    TOMBSTONES,
    database_key,
    name_key,
    table_key,
    tombstone_key,
    view_key,
)
from tsdb.catalog._metric_descriptions import MetricDescriptions
from tsdb.catalog._plan import plan_view, put_database
from tsdb.catalog._recover import check_undone, load_snapshot
from tsdb.catalog._regions import STEP_TIMEOUT, ReadSchema
from tsdb.catalog._truncate import TableTruncation
from tsdb.catalog._writer import Placement
from tsdb.catalog.progress import ProcedureState, RecoveryAttempt, UnfinishedChange, load_changes
from tsdb.clock import Clock
from tsdb.engine import Regions
from tsdb.errors import InvalidArguments, TsdbError
from tsdb.kv import Absent, DeleteKey, Equals, KvStore, PutKey, plan_sequence
from tsdb.model import USER_TABLE_ID_MIN, DatabaseInfo, TableInfo, ViewInfo
from tsdb.store import crash_point
from tsdb.telemetry import get_logger
from tsdb.units import Duration

_log = get_logger("tsdb.catalog")

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
    "catalog.create_database.after_publish",
    "catalog.truncate.after_intent",
    "catalog.truncate.after_region",
    "catalog.truncate.after_regions",
    "catalog.truncate.after_forget",
    "catalog.spread.after_intent",
    "catalog.spread.after_table",
    "catalog.spread.after_tables",
)


class Catalog(DatabaseChanges, TableCreation, TableTruncation):
    """Databases, tables and views, and all changes of them: of one server, or of the cluster that this server leads."""

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
        super().__init__(kv, regions, clock, placement=placement, step_timeout=step_timeout, read_schema=read_schema)
        self.metric_descriptions = MetricDescriptions(kv, lambda name: self.find_database(name) is not None)
        """What metrics say about themselves; tables do not depend on it."""
        with self._changes:
            self._recover(is_start=True)
            if placement is not None:
                # Those of a cluster are kept by frontends, which do not look for lost ones.
                self.metric_descriptions.forget_lost()

    def drop_database(self, name: str) -> None:
        super().drop_database(name)
        self.metric_descriptions.forget(name)

    def resume(self) -> bool:
        """Finish what was interrupted, as far as that is possible now; return whether nothing is left."""
        with self._changes:
            if not self._has_unfinished():
                self._attempt().end()
                return True
            self._recover(is_start=False, is_due=self._attempts.is_due)
            return not self._has_unfinished()

    def _has_unfinished(self) -> bool:
        return any(self._kv.scan(prefix) for prefix in (PROCEDURES, TOMBSTONES))

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
            noted = self._note_drop(list(found.values()))
            for group, operations in plan_moves(list(found.values())):
                self._transact([], [*operations, *noted], what="a table")
                noted = []
                self._snapshot = self._snapshot.without_relations(group)
                crash_point("catalog.drop.after_move")
            self._finish_drop(list(found.values()))

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
            self._transact(compares, [*operations, *gone, *self._ended(self._procedure())], what=view.name)
            self._snapshot = self._snapshot.with_relations([view])
            return view

    def drop_view(self, database: str, name: str) -> None:
        with self._changing():
            view = self.find_view(database, name)
            if view is None:
                raise TableNotFound(database, name, near=self.near_table(database, name))
            for _, operations in plan_moves([view]):
                ended = self._ended(self._procedure())
                self._transact([self._unchanged(view_key(view.id), view)], [*operations, *ended], what=name)
            self._snapshot = self._snapshot.without_relations([view])

    # After a crash, or after a change that failed half-way

    def _recover(self, *, is_start: bool, is_due: Callable[[str], bool] | None = None) -> None:
        """Show what the store holds, and finish what was interrupted as far as that is possible now.

        What is not due is left alone; before another change, that is what has failed too often.
        """
        self._snapshot = load_snapshot(self._kv)
        self._ensure_built_in()
        for info in dropped_databases(self._kv):
            relations = list(self._snapshot.of_database(info.name).values())
            self._snapshot = self._snapshot.without_database(info.name)
            self._move_rest(info.name, list(plan_moves(relations)))
        intents = load_intents(self._kv, skips_broken=self._placement is not None)
        attempt = self._attempt()
        if not is_start:
            attempt.is_due = is_due or (lambda key: not self._attempts.is_poisoned(key))
        for key, error in intents.broken:
            attempt.note(attempt.about(key, None, key), error)
        for create in intents.creates:
            attempt.run(create, partial(self._undo_create, create, is_start=is_start))
        for alter in intents.alters:
            attempt.run(alter, partial(self._redo_alter, alter))
        for truncate in intents.truncates:
            attempt.run(truncate, partial(self._redo_truncate, truncate, is_start=is_start))
        for_whom = {number: drop.procedure for drop in intents.drops for number in drop.tables}
        tables = dropped_tables(self._kv)

        def drop(table: TableInfo) -> bool:
            about = attempt.about(tombstone_key(table_key(table.id)), for_whom.get(table.id), table.full_name, "drop")
            return attempt.try_it(about, partial(self._steps.drop, table))

        finish_drop(self._kv, drop, tables, self._forget_place)
        self._end_drops(intents.drops)
        for spread in intents.spreads:
            attempt.run(spread, partial(self._redo_spread, spread))
        attempt.end(self._kv.scan(PROCEDURES), self._kv.scan(TOMBSTONES))
        self._is_stale = False

    def _attempt(self) -> RecoveryAttempt:
        return RecoveryAttempt(self._kv, self._attempts, self._clock, is_cluster=self._placement is not None)

    def unfinished(self) -> list[UnfinishedChange]:
        """What was interrupted in a cluster and could not be finished yet."""
        return self._attempts.all()

    def seconds_to_next(self) -> float | None:
        """How long it is until what was interrupted is tried again; None if nothing is."""
        return self._attempts.seconds_to_next()

    def retry(self) -> None:
        """Let `resume` try everything that is left at once."""
        self._attempts.hurry()

    def forget_unfinished(self) -> None:
        """Count nothing as unfinished any more: another server finishes it."""
        self._attempts.keep(())

    def settle(self, is_queued: Callable[[str], bool]) -> None:
        """Note the end of changes that an earlier leader had begun, and of which nothing is left to be finished."""
        with self._changes:
            intents = load_intents(self._kv, skips_broken=True)
            left = {each.procedure for kind in intents.all_kinds for each in kind}
            for record in load_changes(self._kv):
                if record.is_open and record.id not in left and not is_queued(record.id):
                    is_waiting = record.state is ProcedureState.WAITING
                    problem = "it was not made" if is_waiting else "a part of it may have been made"
                    reason = f"the server that was asked for it is no longer the leader: {problem}"
                    self._kv.transact([], [record.ended(ProcedureState.FAILED, self._now_ms(), reason).put])

    def _undo_create(self, create: CreateIntent, *, is_start: bool) -> TsdbError | None:
        table = create.table
        if is_start or self._placement is not None:
            check_undone(table, self._regions)
        problem = self._steps.drop(table)
        # Between starts it is unknown whether a region that is not open left something on disk. Another node opens
        # at its start all regions that are placed there, also those of tables that were never published.
        if problem is None and (is_start or self._placement is not None):
            ended = self._ended(create.procedure, ProcedureState.UNDONE)
            self._transact([], [create.delete, *self._forget_place(table.id), *ended], what=table.full_name)
        return problem

    def _ensure_built_in(self) -> None:
        if self._kv.get(CATALOG_KEY) is None:
            self._kv.transact([Absent(CATALOG_KEY)], [PutKey(CATALOG_KEY, encode({}))])
        for name in BUILT_IN_DATABASES:
            if name not in self._snapshot.databases:
                info = DatabaseInfo(name, created_ms=self._now_ms())
                self._kv.transact([Absent(database_key(name))], [put_database(info)])
                self._snapshot = self._snapshot.with_database(info)

    def _redo_alter(self, intent: AlterIntent) -> TsdbError | None:
        try:
            self._apply_alter(intent, has_steps=True)
        except TsdbError as error:
            if self._placement is None:
                _log.warning("a change of a table is not complete yet", table=intent.old.full_name, error=error)
            elif isinstance(error, InvalidArguments):
                # No region will ever take it.
                ended = self._ended(intent.procedure, ProcedureState.FAILED, str(error))
                return None if self._forget_refused(intent, ended) else error
            return error
        return None

    def _redo_spread(self, intent: SpreadIntent) -> TsdbError | None:
        if intent.database in self._snapshot.databases:
            return self._spread(intent, self.tables(intent.database))
        ended = self._ended(intent.procedure, ProcedureState.FAILED, "the database was dropped")
        self._transact([], [intent.delete, *ended], what=intent.database)
        return None
