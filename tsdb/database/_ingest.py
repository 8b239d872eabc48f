"""Rows of any protocol into tables: the tables are found or made, the rows are checked, then all regions write at once.

    rows ─▶ plan every table (pure) ─▶ refuse all, or create and widen tables ─▶ batches ─▶ all regions ─▶ outcome

- Nothing is created or written before every row of the request has been checked.
- Two requests may need the same new table or column: one makes it, the other finds it made and goes on.
- A batch names the version of the schema that it was made for. One that a change of the table has overtaken is made
  again from the new description, and only for regions that do not have it.
- Each region takes its part as a whole or not at all.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace

from tsdb.catalog import CatalogOutdated, TableAlreadyExists
from tsdb.database._ingest_batch import Part, Target, make_metric_parts, make_parts, make_target
from tsdb.database._ingest_rejections import count_accepted
from tsdb.database._ingest_tables import (
    creation_options,
    draft_table,
    field_names,
    logical_draft,
    physical_draft,
    widen_table,
)
from tsdb.database._ingest_values import Fitted, fit_rows, place_rejection
from tsdb.database._names import check_table_name, check_writable
from tsdb.database._rows import stored_in
from tsdb.database._services import Services
from tsdb.engine import SchemaOutdated
from tsdb.errors import InvalidArguments, Status, TsdbError
from tsdb.ingest import IngestRejected, NewTable, Rejection, TableRows, WriteOutcome
from tsdb.metric import check_writable as check_metric_writable
from tsdb.model import AddColumn, ColumnExists, RegionId, TableInfo
from tsdb.query import Session

PAUSE_SECONDS_MAX = 0.05
"""The longest pause before a request looks again at a table that somebody else is changing."""

TARGETS_MAX = 100_000
"""How many tables are remembered; beyond, all are looked up anew."""

_LINE_PROTOCOLS = frozenset({"influxdb", "opentsdb_telnet"})


@dataclass(frozen=True, slots=True)
class IngestRequest:
    """What a request says beside its rows."""

    session: Session
    new_table: NewTable
    hints: Mapping[str, str] = field(default_factory=dict)
    protocol: str = "other"
    is_partial: bool = False
    """Rows that fit are written although others are refused."""
    is_dry: bool = False

    @property
    def place_word(self) -> str:
        return "line" if self.protocol in _LINE_PROTOCOLS else "row"

    @property
    def may_create(self) -> bool:
        return self.hints.get("auto_create_table", "true").strip().lower() != "false"


@dataclass(slots=True)
class _Plan:
    """What the rows of one table need."""

    fitted: Fitted
    was: TableInfo | None
    """The table as it is; None if it has to be created."""
    changes: tuple[AddColumn, ...] = ()

    @property
    def table(self) -> TableInfo:
        return self.fitted.table

    @property
    def is_changed(self) -> bool:
        return self.was is not None and self.table is not self.was


@dataclass(slots=True)
class _Progress:
    """What a request has done so far."""

    rows: int = 0
    created: dict[str, None] = field(default_factory=dict)
    added: dict[tuple[str, str, str], None] = field(default_factory=dict)
    rejections: list[Rejection] = field(default_factory=list)
    written: set[tuple[int, RegionId, int]] = field(default_factory=set)
    """The parts that are durable: of which rows, in which region, the how manieth."""

    def note(self, plan: _Plan) -> None:
        if plan.was is None:
            self.created[plan.table.name] = None
        elif plan.is_changed:
            new = [column for column in plan.table.columns if column.name not in plan.was.by_name]
            self.added.update(dict.fromkeys((plan.table.name, column.name, column.type.name) for column in new))

    def outcome(self) -> WriteOutcome:
        return WriteOutcome(self.rows, tuple(self.created), tuple(self.added), tuple(self.rejections))


class Ingestion:
    """Writes rows. Safe to use from many threads."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._targets: dict[int, Target] = {}

    def write(self, rows: Sequence[TableRows], request: IngestRequest) -> WriteOutcome:
        """Write rows; they are durable and visible when this returns. IngestRejected if some do not fit."""
        progress = _Progress()
        pending = list(enumerate(each for each in rows if each.rows))
        deadline = self._services.clock.monotonic_ns() + self._services.options.write_timeout
        pause = 0.0
        while pending:
            try:
                plans = self._plan_all(pending, request, progress)
                if request.is_dry:
                    break
                self._change_tables(plans, request, progress)
                pending = self._submit(plans, pending, progress)
            except (CatalogOutdated, TableAlreadyExists, ColumnExists, SchemaOutdated) as error:
                outdated: TsdbError = error
            else:
                if not pending:
                    break
                outdated = CatalogOutdated("a table of the request")
            if self._services.clock.monotonic_ns() > deadline:
                raise outdated
            time.sleep(pause)
            pause = min(PAUSE_SECONDS_MAX, 2 * pause + 0.001)
        if not request.is_dry:
            count_accepted(request.protocol, progress.rows)
            self._record(progress.rejections, request)
        return progress.outcome()

    # Planning: no side effects.

    def _plan_all(
        self, pending: Sequence[tuple[int, TableRows]], request: IngestRequest, progress: _Progress
    ) -> dict[int, _Plan]:
        plans: dict[int, _Plan] = {}
        rejections: list[Rejection] = []
        drafts: dict[tuple[str, str], TableInfo] = {}
        for number, rows in pending:
            planned = self._plan(rows, request, drafts)
            if isinstance(planned, Rejection):
                rejections.append(planned)
                continue
            plans[number] = planned
            rejections += planned.fitted.rejections
        told = [place_rejection(each, request.place_word) for each in rejections]
        if told and not (request.is_partial or request.is_dry):
            self._record(told, request)
            raise IngestRejected(told)
        progress.rejections = told
        if request.is_dry:
            for plan in plans.values():
                progress.note(plan)
            is_refused = bool(told) and not request.is_partial
            progress.rows = 0 if is_refused else sum(plan.fitted.good_rows for plan in plans.values())
        return plans

    def _plan(
        self, rows: TableRows, request: IngestRequest, drafts: dict[tuple[str, str], TableInfo]
    ) -> _Plan | Rejection:
        database = rows.database or request.session.database
        check_writable(database)
        self._services.catalog.database(database)
        try:
            return self._plan_table(rows, database, request, drafts)
        except InvalidArguments as error:
            # Of the table as a whole: told like a row, so that the sender learns which of his tables it is.
            place = None if rows.places is None else int(rows.places[0])
            reason = f"table {rows.table}: {error}"
            return Rejection(rows.table, reason, place=place, rows=rows.rows, kind="table")

    def _plan_table(
        self, rows: TableRows, database: str, request: IngestRequest, drafts: dict[tuple[str, str], TableInfo]
    ) -> _Plan:
        was = self._services.catalog.find_table(database, rows.table)
        now_ns = self._services.clock.now_ns()
        if was is None:
            draft = drafts.get((database, rows.table)) or self._draft(rows, database, request)
            drafts[database, rows.table] = draft
            names = field_names(rows, draft, request.new_table)
            wide, _ = widen_table(rows, draft, names)
            return _Plan(fit_rows(rows, wide, names, now_ns=now_ns), None)
        check_metric_writable(was)
        names = field_names(rows, was, request.new_table)
        table, changes = widen_table(rows, was, names)
        if table is not was and not request.may_create:
            table, changes = was, ()
        return _Plan(fit_rows(rows, table, names, now_ns=now_ns), was, changes)

    def _draft(self, rows: TableRows, database: str, request: IngestRequest) -> TableInfo:
        catalog, new_table = self._services.catalog, request.new_table
        if catalog.find_view(database, rows.table) is not None:
            raise InvalidArguments(f"{rows.table} is a view, which cannot be written to")
        if not request.may_create:
            raise InvalidArguments(
                f"table {rows.table} does not exist, and the hint auto_create_table forbids to create it",
                hint="create it first",
            )
        check_table_name(rows.table)
        options = creation_options(new_table, request.hints, catalog.database(database).options)
        created_ms = self._services.clock.now_ns() // 1_000_000
        if not new_table.is_metric:
            return draft_table(rows, database, new_table, options, created_ms=created_ms)
        name = request.hints.get("physical_table") or new_table.physical_table
        physical = catalog.find_table(database, name)
        if physical is None:
            check_table_name(name)
            named = replace(new_table, physical_table=name)
            physical = physical_draft(database, named, options, created_ms=created_ms)
        return logical_draft(rows, database, physical, created_ms=created_ms)

    # Changes of the catalog.

    def _change_tables(self, plans: Mapping[int, _Plan], request: IngestRequest, progress: _Progress) -> None:
        """Create and widen what the plans need; CatalogOutdated if they have to be made again."""
        changed = [plan for plan in plans.values() if plan.was is None or plan.is_changed]
        if not changed:
            return
        first: dict[tuple[str, str], _Plan] = {}
        for plan in changed:
            if plan.fitted.good_rows:
                first.setdefault((plan.table.database, plan.table.name), plan)
        self._create_logical([plan for plan in first.values() if plan.was is None and plan.table.is_logical], progress)
        for plan in first.values():
            if plan.was is not None:
                plan.fitted.table = self._services.catalog.alter_table(plan.was, plan.table.changed(), plan.changes)
                progress.note(plan)
            elif not plan.table.is_logical:
                plan.fitted.table = self._services.catalog.create_table(plan.table)
                progress.note(plan)
        if len(first) != len([plan for plan in changed if plan.fitted.good_rows]):
            # Two pieces of the request needed the same table: the second one looks again.
            raise CatalogOutdated("a table of the request")

    def _create_logical(self, plans: Sequence[_Plan], progress: _Progress) -> None:
        """Create logical tables, after the physical ones on which they are to be."""
        if not plans:
            return
        missing = [plan for plan in plans if plan.table.physical_table_id == 0]
        if missing:
            self._create_physical(missing, progress)
            # What the new tables are on has its id only now.
            raise CatalogOutdated(missing[0].table.full_name)
        made = self._services.catalog.create_logical_tables([plan.table for plan in plans])
        for plan, table in zip(plans, made, strict=True):
            plan.fitted.table = table
            progress.note(plan)

    def _create_physical(self, plans: Iterable[_Plan], progress: _Progress) -> None:
        drafts: dict[tuple[str, str], TableInfo] = {}
        for plan in plans:
            table = plan.table
            name = table.options["on_physical_table"]
            drafts.setdefault((table.database, name), table)
        for (database, name), table in drafts.items():
            time, value = table.time_index, table.fields[0]
            shape = NewTable(
                time_column=time.name, time_unit=time.type.arrow.unit, value_column=value.name, physical_table=name
            )
            options = self._physical_options[database, name]
            created_ms = table.created_ms
            self._services.catalog.create_table(physical_draft(database, shape, options, created_ms=created_ms))
            progress.created[name] = None
