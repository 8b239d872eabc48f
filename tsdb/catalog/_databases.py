"""Changes of databases: created, altered with all that inherits their options, dropped with everything in them."""

from __future__ import annotations

from collections.abc import Sequence

from tsdb.catalog._codec import encode
from tsdb.catalog._drop import plan_moves
from tsdb.catalog._errors import DatabaseExists
from tsdb.catalog._intents import SpreadIntent
from tsdb.catalog._keys import database_key, tombstone_key
from tsdb.catalog._plan import plan_database, put_database
from tsdb.catalog._reader import region_options_in
from tsdb.catalog._snapshot import Relation
from tsdb.catalog._writer import CatalogWriter
from tsdb.errors import TsdbError, Unsupported
from tsdb.kv import Absent, DeleteKey, Operation, PutKey
from tsdb.model import DEFAULT_DATABASE, DatabaseInfo, TableInfo
from tsdb.store import crash_point
from tsdb.telemetry import get_logger

_log = get_logger("tsdb.catalog")

BUILT_IN_DATABASES = (DEFAULT_DATABASE, "tsdb_private")
"""They are always there."""


class DatabaseChanges(CatalogWriter):
    """Changes of databases."""

    def create_database(self, info: DatabaseInfo) -> None:
        with self._changing():
            if info.name in self._snapshot.databases:
                raise DatabaseExists(info.name)
            info = plan_database(info, created_ms=info.created_ms or self._now_ms())
            key = database_key(info.name)
            # While a database of this name is being dropped, its tombstone would take tables of the new one along.
            operations = [put_database(info), *self._ended(self._procedure())]
            self._transact([Absent(key), Absent(tombstone_key(key))], operations, what=info.name)
            crash_point("catalog.create_database.after_publish")
            self._snapshot = self._snapshot.with_database(info)

    def alter_database(self, info: DatabaseInfo) -> None:
        """Change the options of a database, and tell them the tables that inherit them."""
        with self._changing():
            old = self.database(info.name)
            info = plan_database(info, created_ms=old.created_ms)
            after = self._snapshot.with_database(info)
            # Before anything is written: a value that means nothing is refused.
            inside = self.tables(info.name)
            concerned = [table for table in inside if region_options_in(after, table) != self.region_options(table)]
            intent = SpreadIntent(info.name, self._procedure())
            operations = [put_database(info), *([intent.put] if concerned else self._ended(intent.procedure))]
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
            operations += self._note_drop(relations, name)
            self._transact([self._unchanged(key, info)], [*moves[0][1], *operations], what=name)
            self._snapshot = self._snapshot.without_database(name)
            crash_point("catalog.drop.after_move")
            self._move_rest(name, moves[1:])
            self._finish_drop(relations)

    def _move_rest(self, database: str, moves: Sequence[tuple[list[Relation], list[Operation]]]) -> None:
        """Move what did not fit into the transaction that dropped a database; the last one removes its tombstone."""
        tombstone = DeleteKey(tombstone_key(database_key(database)))
        for position, (_, operations) in enumerate(moves):
            is_last = position == len(moves) - 1
            self._transact([], [*operations, *([tombstone] if is_last else [])], what=database)
            crash_point("catalog.drop.after_move")

    def _spread(self, intent: SpreadIntent, tables: Sequence[TableInfo]) -> TsdbError | None:
        """Propagate inherited options to tables. If that fails for one, it is repeated; returns why."""
        problem: TsdbError | None = None
        for table in tables:
            try:
                self._steps.set_options(table, self.region_options(table))
            except TsdbError as error:
                problem = problem or error
                _log.warning(
                    "a table does not have the options of its database yet", table=table.full_name, error=error
                )
            crash_point("catalog.spread.after_table")
        if problem is None:
            self._transact([], [intent.delete, *self._ended(intent.procedure)], what=intent.database)
        crash_point("catalog.spread.after_tables")
        return problem
