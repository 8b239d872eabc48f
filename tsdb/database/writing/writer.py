"""Rows of any protocol into tables: the tables are found or made, the rows are checked, then all regions write at once.

    rows ─▶ plan every table (pure) ─▶ refuse all, or create and widen tables ─▶ batches ─▶ all regions ─▶ outcome

- Nothing is created or written before every row of the request has been checked.
- Two requests may need the same new table or column: one makes it, the other finds it made and goes on.
- A batch names the version of the schema that it was made for. One that a change of the table has overtaken is made
  again from the new description, and only for regions that do not have it.
- Each region takes its part as a whole or not at all.
- Before each table and each part the token of the session is asked whether the write is still wanted.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from tsdb.catalog import CatalogOutdated, TableAlreadyExists
from tsdb.database._access import check_target
from tsdb.database._names import check_table_name, check_writable
from tsdb.database._services import Services
from tsdb.database.writing.batches import Part, Target, make_metric_parts, make_parts, make_target
from tsdb.database.writing.columns import stored_in
from tsdb.database.writing.rejections import count_accepted
from tsdb.database.writing.tables import (
    creation_options,
    draft_table,
    field_names,
    logical_draft,
    physical_draft,
    widen_table,
)
from tsdb.database.writing.values import Fitted, fit_rows, place_rejection
from tsdb.engine import SchemaOutdated
from tsdb.errors import Cancelled, InvalidArguments, Status, TsdbError, Unsupported
from tsdb.ingest import IngestRejected, NewTable, Rejection, TableRows, WriteOutcome
from tsdb.metric import check_writable as check_metric_writable
from tsdb.model import AddColumn, ColumnExists, RegionId, TableInfo
from tsdb.query import Session, WriteToken

PAUSE_SECONDS_MAX = 0.05
"""The longest pause before a request looks again at a table that somebody else is changing."""

TARGETS_MAX = 100_000
"""How many tables are remembered; beyond, all are looked up anew."""

_Draft: TypeAlias = tuple[TableInfo, TableInfo | None]
"""A table that has to be created, and the physical one that has to be before it."""

_LINE_PROTOCOLS = frozenset({"influxdb", "opentsdb_telnet"})


@dataclass(frozen=True, slots=True)
class IngestRequest:
    """What a request says beside its rows."""

    session: Session
    new_table: NewTable
    hints: Mapping[str, str] = field(default_factory=dict)
    protocol: str = "other"
    is_dry: bool = False
    notes_rejections: bool = True

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
    physical: TableInfo | None = None
    """The physical table that has to be created before it."""

    @property
    def table(self) -> TableInfo:
        return self.fitted.table

    @property
    def is_changed(self) -> bool:
        return self.was is not None and self.table is not self.was


@dataclass(slots=True)
class _Progress:
    """What a request has done so far."""

    token: WriteToken
    rows: int = 0
    created: dict[str, None] = field(default_factory=dict)
    added: dict[tuple[str, str, str], None] = field(default_factory=dict)
    refused: dict[int, list[Rejection]] = field(default_factory=dict)
    """By the number of the rows in the request."""
    written: set[tuple[int, RegionId, int]] = field(default_factory=set)
    """The parts that are durable: of which rows, in which region, and which of its parts."""

    planned: set[tuple[str, str]] = field(default_factory=set)
    """The tables that have to be created or widened."""

    def expect(self, tables: Iterable[tuple[str, str]]) -> None:
        before = len(self.planned)
        self.planned.update(tables)
        self.token.expect(len(self.planned) - before)

    def note(self, plan: _Plan) -> None:
        self.token.note(tables=1)
        if plan.was is None:
            if plan.physical is not None:
                self.created[plan.physical.name] = None
            self.created[plan.table.name] = None
        elif plan.is_changed:
            new = [column for column in plan.table.columns if column.name not in plan.was.by_name]
            self.added.update(dict.fromkeys((plan.table.name, column.name, column.type.name) for column in new))

    @property
    def rejections(self) -> tuple[Rejection, ...]:
        return tuple(each for many in self.refused.values() for each in many)

    def outcome(self) -> WriteOutcome:
        return WriteOutcome(self.rows, tuple(self.created), tuple(self.added), self.rejections)


@dataclass(frozen=True, slots=True)
class _Writing:
    """A part on its way into its region."""

    numbers: tuple[int, ...]
    """The rows of the request of which it holds some."""
    key: tuple[int, RegionId, int]
    part: Part


class Ingestion:
    """Writes rows. Safe to use from many threads."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._targets: dict[int, Target] = {}

    def write(self, rows: Sequence[TableRows], request: IngestRequest) -> WriteOutcome:
        """Write rows; they are durable and visible when this returns. IngestRejected if some do not fit."""
        progress = _Progress((None if request.is_dry else request.session.token) or WriteToken())
        pending = list(enumerate(each for each in rows if each.rows))
        deadline = self._services.clock.monotonic_ns() + self._services.options.write_timeout
        pause = 0.0
        while pending:
            try:
                plans = self._plan_all(pending, request, progress)
                if request.is_dry:
                    return _dry_outcome(plans.values(), progress)
                self._change_tables(plans, progress)
                stale = self._write_all(plans, progress)
                pending = [each for each in pending if each[0] in stale]
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
        count_accepted(request.protocol, progress.rows)
        return progress.outcome()

    # Planning: no side effects.

    def _plan_all(
        self, pending: Sequence[tuple[int, TableRows]], request: IngestRequest, progress: _Progress
    ) -> dict[int, _Plan]:
        plans: dict[int, _Plan] = {}
        drafts: dict[tuple[str, str], _Draft] = {}
        for number, rows in pending:
            planned = self._plan(rows, request, drafts)
            if isinstance(planned, _Plan):
                plans[number] = planned
                refused = planned.fitted.rejections
            else:
                refused = [planned]
            progress.refused.pop(number, None)
            if refused:
                progress.refused[number] = [place_rejection(each, request.place_word) for each in refused]
        if progress.refused and not request.is_dry:
            if request.notes_rejections:
                self._record(progress.rejections, request)
            raise IngestRejected(progress.rejections)
        return plans

    def _plan(
        self, rows: TableRows, request: IngestRequest, drafts: dict[tuple[str, str], _Draft]
    ) -> _Plan | Rejection:
        database = rows.database or request.session.database
        check_writable(database)
        check_target(request.session, database)
        self._services.catalog.database(database)
        try:
            return self._plan_table(rows, database, request, drafts)
        except InvalidArguments as error:
            # Of the table as a whole: told like a row, so that the sender learns where it is.
            place = None if rows.places is None else int(rows.places[0])
            return Rejection(rows.table, f"table {rows.table}: {error}", place=place, rows=rows.rows, kind="table")

    def _plan_table(
        self, rows: TableRows, database: str, request: IngestRequest, drafts: dict[tuple[str, str], _Draft]
    ) -> _Plan:
        was = self._services.catalog.find_table(database, rows.table)
        if was is None:
            key = (database, rows.table)
            if key not in drafts:
                drafts[key] = self._draft(rows, database, request)
            table, physical = drafts[key]
            names = field_names(rows, table, request.new_table)
            table, _ = widen_table(rows, table, names)
            return _Plan(self._fit(rows, table, names), None, physical=physical)
        check_metric_writable(was)
        if not was.region_numbers and not was.is_logical:
            raise Unsupported("it is read-only: it shows a file")
        names = field_names(rows, was, request.new_table)
        table, changes = widen_table(rows, was, names)
        if table is not was and not request.may_create:
            table, changes = was, ()
        return _Plan(self._fit(rows, table, names), was, changes)

    def _fit(self, rows: TableRows, table: TableInfo, names: Mapping[str, str]) -> Fitted:
        return fit_rows(rows, table, names, now_ns=self._services.clock.now_ns())

    def _draft(self, rows: TableRows, database: str, request: IngestRequest) -> _Draft:
        catalog, new_table = self._services.catalog, request.new_table
        if catalog.find_view(database, rows.table) is not None:
            raise InvalidArguments(f"{rows.table} is a view, which cannot be written to")
        if not request.may_create:
            raise InvalidArguments(
                "it does not exist, and the hint auto_create_table forbids to create it", hint="create it first"
            )
        check_table_name(rows.table)
        options = creation_options(new_table, request.hints, catalog.database(database).options)
        created_ms = self._services.clock.now_ns() // 1_000_000
        if not new_table.is_metric:
            return draft_table(rows, database, new_table, options, created_ms=created_ms), None
        name = request.hints.get("physical_table") or new_table.physical_table
        physical = catalog.find_table(database, name)
        if physical is not None:
            return logical_draft(rows, database, physical, created_ms=created_ms), None
        check_table_name(name)
        physical = physical_draft(database, replace(new_table, physical_table=name), options, created_ms=created_ms)
        return logical_draft(rows, database, physical, created_ms=created_ms), physical

    # Changes of the catalog.

    def _change_tables(self, plans: Mapping[int, _Plan], progress: _Progress) -> None:
        """Create and widen what the plans need; CatalogOutdated if they have to be made again."""
        needed = [plan for plan in plans.values() if plan.was is None or plan.is_changed]
        if not needed:
            return
        first: dict[tuple[str, str], _Plan] = {}
        for plan in needed:
            first.setdefault((plan.table.database, plan.table.name), plan)
        progress.expect(first)
        self._create_physical(first.values(), progress)
        self._create_logical([plan for plan in first.values() if plan.was is None and plan.table.is_logical], progress)
        for plan in first.values():
            if plan.was is not None:
                progress.token.enter()
                plan.fitted.table = self._services.catalog.alter_table(plan.was, plan.table.changed(), plan.changes)
                progress.note(plan)
            elif not plan.table.is_logical:
                progress.token.enter()
                plan.fitted.table = self._services.catalog.create_table(plan.table)
                progress.note(plan)
        if len(first) != len(needed):
            # Two pieces of the request need the same table: the second one looks again.
            raise CatalogOutdated(needed[0].table.full_name)

    def _create_physical(self, plans: Iterable[_Plan], progress: _Progress) -> None:
        drafts = {(plan.physical.database, plan.physical.name): plan.physical for plan in plans if plan.physical}
        for draft in drafts.values():
            progress.token.enter()
            progress.created[self._services.catalog.create_table(draft).name] = None
        if drafts:
            # What the new logical tables are on has its id only now.
            raise CatalogOutdated(", ".join(name for _, name in drafts))

    def _create_logical(self, plans: Sequence[_Plan], progress: _Progress) -> None:
        if not plans:
            return
        progress.token.enter()
        made = self._services.catalog.create_logical_tables([plan.table for plan in plans])
        for plan, table in zip(plans, made, strict=True):
            plan.fitted.table = table
            progress.note(plan)

    # Writing.

    def _write_all(self, plans: Mapping[int, _Plan], progress: _Progress) -> set[int]:
        """Hand every part to its region, then wait for all; the numbers of rows that must be planned again."""
        writings, stale = self._make_writings(plans, progress)
        futures, failure = self._send_all(writings, progress.token)
        for writing, future in zip(writings, futures, strict=False):
            try:
                rows = future.result()
                progress.rows += rows
                progress.token.note(rows=rows)
                progress.written.add(writing.key)
            except SchemaOutdated:
                stale.update(writing.numbers)
            except TsdbError as error:
                if self._is_gone(error, [plans[number].table for number in writing.numbers]):
                    stale.update(writing.numbers)
                else:
                    failure = failure or error
        if failure is not None:
            raise failure
        return stale

    def _send_all(self, writings: Sequence[_Writing], token: WriteToken) -> tuple[list[Future[int]], TsdbError | None]:
        """Send parts until the write is cancelled: those that were sent are waited for in any case."""
        futures: list[Future[int]] = []
        try:
            for each in writings:
                token.enter()
                futures.append(self._send(each.part))
        except Cancelled as error:
            return futures, error
        return futures, None

    def _make_writings(self, plans: Mapping[int, _Plan], progress: _Progress) -> tuple[list[_Writing], set[int]]:
        writings: list[_Writing] = []
        stale: set[int] = set()
        logical: dict[int, list[int]] = {}
        for number, plan in plans.items():
            if plan.table.physical_table_id is not None:
                logical.setdefault(plan.table.physical_table_id, []).append(number)
                continue
            try:
                parts = make_parts(self._target(plan.table), plan.fitted)
            except SchemaOutdated:
                stale.add(number)
            else:
                writings += [_Writing((number,), (number, each.region, at), each) for at, each in enumerate(parts)]
        for numbers in logical.values():
            target = self._target(stored_in(self._services, plans[numbers[0]].table))
            parts = make_metric_parts(target, [plans[number].fitted for number in numbers])
            writings += [_Writing(tuple(numbers), (numbers[0], each.region, at), each) for at, each in enumerate(parts)]
        return [each for each in writings if each.key not in progress.written], stale

    def _target(self, table: TableInfo) -> Target:
        found = self._targets.get(table.id)
        if found is None or found.table is not table:
            found = make_target(self._services.regions, table)
            if len(self._targets) >= TARGETS_MAX:
                self._targets.clear()
            self._targets[table.id] = found
        return found

    def _send(self, part: Part) -> Future[int]:
        try:
            return self._services.regions.write(
                part.region,
                part.batch,
                timeout=self._services.options.write_timeout,
                schema_version=part.schema_version,
            )
        except TsdbError as error:
            # The other regions have their parts already and are waited for in any case.
            refused: Future[int] = Future()
            refused.set_exception(error)
            return refused

    def _is_gone(self, error: TsdbError, tables: Iterable[TableInfo]) -> bool:
        """Whether a region is missing because its table was dropped meanwhile: then the rows need a new one."""
        catalog = self._services.catalog
        return error.status is Status.REGION_NOT_FOUND and all(catalog.table_by_id(each.id) is None for each in tables)

    def _record(self, rejections: Iterable[Rejection], request: IngestRequest) -> None:
        self._services.rejections.add(rejections, protocol=request.protocol, database=request.session.database)


def _dry_outcome(plans: Iterable[_Plan], progress: _Progress) -> WriteOutcome:
    """What a write would do, were it one: all of it, or nothing."""
    if progress.refused:
        return WriteOutcome(0, rejections=progress.rejections)
    for plan in plans:
        progress.note(plan)
        progress.rows += plan.fitted.rows.rows
    return progress.outcome()
