"""Plans: what the rows of one table need of the catalog, and the rows as its columns. Changes nothing.

A plan is made from a snapshot of the catalog; if that is outdated when the plan is applied, it is made again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tsdb.catalog import AnyCatalog
from tsdb.clock import Clock
from tsdb.database._names import check_table_name
from tsdb.database.writing.request import WriteRequest
from tsdb.database.writing.tables import (
    creation_options,
    draft_table,
    field_names,
    logical_draft,
    physical_draft,
    widen_table,
)
from tsdb.database.writing.values import Fitted, fit_rows
from tsdb.errors import InvalidArguments, Unsupported
from tsdb.ingest import Rejection, TableRows
from tsdb.metric import check_writable as check_metric_writable
from tsdb.model import AddColumn, TableInfo


@dataclass(slots=True)
class TablePlan:
    """What the rows of one table need."""

    fitted: Fitted
    was: TableInfo | None
    """The table as it is; None if it has to be created."""
    changes: tuple[AddColumn, ...] = ()
    physical: TableInfo | None = None
    """The physical table that has to be created before it."""
    names: Mapping[str, str] = field(default_factory=dict)
    """The table's names of fields that have others in the rows."""

    @property
    def table(self) -> TableInfo:
        return self.fitted.table

    @property
    def key(self) -> tuple[str, str]:
        return self.table.database, self.table.name

    @property
    def needs_change(self) -> bool:
        return self.table is not self.was


@dataclass(frozen=True, slots=True)
class Draft:
    """A table that has to be created, and the physical one that has to be before it."""

    table: TableInfo
    physical: TableInfo | None = None


Drafts = dict[tuple[str, str], Draft]
"""The new tables of one request, by database and name: several pieces of it may need the same."""


class Planner:
    """Makes plans from the present catalog."""

    def __init__(self, catalog: AnyCatalog, clock: Clock) -> None:
        self._catalog = catalog
        self._clock = clock

    def plan(self, rows: TableRows, request: WriteRequest, drafts: Drafts) -> TablePlan | Rejection:
        """Plan rows; a rejection if their table cannot take them at all."""
        if rows.made_for is not None:
            return plan_made_rows(rows, rows.made_for)
        request.admit(rows.database or request.database)
        try:
            plan = self.plan_table(rows, request, drafts)
            fit_rows(plan.fitted, plan.names, now_ns=self._clock.now_ns())
        except InvalidArguments as error:
            # It concerns the table as a whole; the place of its first row tells the sender where to look.
            place = None if rows.places is None else int(rows.places[0])
            return Rejection(rows.table, f"table {rows.table}: {error}", place=place, rows=rows.rows, kind="table")
        return plan

    def plan_table(self, rows: TableRows, request: WriteRequest, drafts: Drafts) -> TablePlan:
        """Plan the table that rows need, without checking their values."""
        database = rows.database or request.database
        was = self._catalog.find_table(database, rows.table)
        if was is None:
            key = (database, rows.table)
            if key not in drafts:
                drafts[key] = self._draft(rows, database, request)
            draft = drafts[key]
            names = field_names(rows, draft.table, request.new_table)
            table, _ = widen_table(rows, draft.table, names)
            return TablePlan(Fitted(rows, table), None, physical=draft.physical, names=names)
        check_takes_rows(was, "it")
        names = field_names(rows, was, request.new_table)
        table, changes = widen_table(rows, was, names)
        if table is not was and not request.may_create:
            table, changes = was, ()
        return TablePlan(Fitted(rows, table), was, changes, names=names)

    def _draft(self, rows: TableRows, database: str, request: WriteRequest) -> Draft:
        if self._catalog.find_view(database, rows.table) is not None:
            raise InvalidArguments(f"{rows.table} is a view, which cannot be written to")
        if not request.may_create:
            raise InvalidArguments(
                "it does not exist, and the hint auto_create_table=false forbids creating it", hint="create it first"
            )
        return self.draft(rows, database, request)

    def draft(self, rows: TableRows, database: str, request: WriteRequest) -> Draft:
        """Describe the table that rows need, as if there were none."""
        catalog, new_table = self._catalog, request.new_table
        check_table_name(rows.table)
        options = creation_options(
            new_table, request.hints, catalog.database(database).options, said=request.table_options
        )
        created_ms = self._clock.now_ns() // 1_000_000
        if not new_table.is_metric:
            return Draft(draft_table(rows, database, new_table, options, created_ms=created_ms))
        name = rows.physical_table or request.physical_table
        physical = catalog.find_table(database, name)
        if physical is not None:
            return Draft(logical_draft(rows, database, new_table, physical, created_ms=created_ms))
        check_table_name(name)
        physical = physical_draft(database, replace(new_table, physical_table=name), options, created_ms=created_ms)
        return Draft(logical_draft(rows, database, new_table, physical, created_ms=created_ms), physical)


def plan_made_rows(rows: TableRows, table: TableInfo) -> TablePlan:
    """Plan rows that were made for a table: they fit as they are."""
    check_takes_rows(table, f"table {table.name}")
    tags = rows.read_tags()
    named = dict(zip(tags.schema.names, tags.columns, strict=True))
    return TablePlan(Fitted(rows, table, named, dict(rows.fields), rows.times), table)


def check_takes_rows(table: TableInfo, what: str) -> None:
    """Refuse a physical table of the metric engine, and one that shows a file."""
    check_metric_writable(table)
    if not table.region_numbers and not table.is_logical:
        raise Unsupported(f"{what} is read-only: it shows a file")
