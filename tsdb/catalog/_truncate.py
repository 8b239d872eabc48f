"""Truncation of tables.

intent ─▶ regions, each once ─▶ forget the intent          a restart redoes it

A region that was truncated knows the token of the intent and does nothing the second time, so rows that were written
since stay. Rows that are written while a truncation is under way may be removed by it. That must not be for long: a
truncation that was interrupted and cannot be finished soon is given up, because it would remove rows that were written
by users who have long taken it for failed.
"""

from __future__ import annotations

from tsdb.catalog._errors import TableNotFound
from tsdb.catalog._intents import TruncateIntent
from tsdb.catalog._keys import table_key
from tsdb.catalog._writer import CatalogWriter
from tsdb.catalog.progress import ProcedureState
from tsdb.errors import TsdbError
from tsdb.ids import SYSTEM_IDS
from tsdb.model import TableInfo
from tsdb.store import crash_point
from tsdb.telemetry import get_logger

REDO_MS_MAX = 60_000
"""So long after it began, a truncation of a cluster is finished by the next leader. A change of leaders takes 5 s."""
_TOKEN_BYTES = 8

_log = get_logger("tsdb.catalog")


class TableTruncation(CatalogWriter):
    """Removal of all rows of tables."""

    def truncate_table(self, table: TableInfo) -> None:
        """Remove all rows of a table. If a region cannot be reached, nothing; if one fails, those of the others."""
        with self._changing():
            current = self._snapshot.tables_by_id.get(table.id)
            if current is None:
                raise TableNotFound(table.database, table.name)
            for region_id in current.region_ids:
                self._steps.schema(region_id)
            intent = TruncateIntent(current.id, SYSTEM_IDS.token(_TOKEN_BYTES), self._now_ms(), self._procedure())
            unchanged = self._unchanged(table_key(current.id), current)
            self._transact([unchanged], [intent.put], what=current.full_name)
            crash_point("catalog.truncate.after_intent")
            try:
                self._apply_truncate(intent, current)
            except TsdbError:
                # The user hears of it and may repeat it. Rows that come later must not go with it.
                self._transact([], [intent.delete], what=current.full_name)
                raise

    def _apply_truncate(self, intent: TruncateIntent, table: TableInfo) -> None:
        self._steps.truncate(table, intent.token)
        crash_point("catalog.truncate.after_regions")
        self._transact([], [intent.delete, *self._ended(intent.procedure)], what=table.full_name)
        crash_point("catalog.truncate.after_forget")

    def _redo_truncate(self, intent: TruncateIntent, *, is_start: bool) -> None:
        table = self._snapshot.tables_by_id.get(intent.table_id)
        if table is None:
            return
        problem: TsdbError | None = None
        if self._may_redo(intent, is_start=is_start):
            try:
                self._apply_truncate(intent, table)
                return
            except TsdbError as error:
                problem = error
        if problem is not None and self._placement is not None:
            _log.warning("a truncation is not complete yet", table=table.full_name, error=problem)
            raise problem
        _log.error(
            "an interrupted truncation is abandoned",
            table=table.full_name,
            error=problem,
            hint="truncate the table again",
        )
        ended = self._ended(intent.procedure, ProcedureState.FAILED, "it was interrupted and is abandoned")
        self._transact([], [intent.delete, *ended], what=table.full_name)

    def _may_redo(self, intent: TruncateIntent, *, is_start: bool) -> bool:
        """Nobody has written since a server died that starts now; frontends of a cluster write without a leader."""
        if self._placement is None:
            return is_start
        return self._now_ms() - intent.started_ms <= REDO_MS_MAX
