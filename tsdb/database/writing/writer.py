"""The writer: rows are planned, the catalog is changed, batches are sent; again, if a table changed meanwhile.

rows ─▶ plan every table ─▶ reject all, or create and widen tables ─▶ batches ─▶ all regions ─▶ outcome
         ▲                                    │                          │
         └────────── rows that a change of a table has overtaken ◀───────┘
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial

from tsdb.catalog import AnyCatalog
from tsdb.clock import Clock
from tsdb.database.writing.apply import apply_plans, create_table
from tsdb.database.writing.batches import (
    Target,
    join_series,
    make_batch,
    make_metric_parts,
    make_parts,
    make_target,
)
from tsdb.database.writing.conform import conform_rows
from tsdb.database.writing.plan import Drafts, Planner, TablePlan
from tsdb.database.writing.rejections import RejectionLog, count_accepted, count_written
from tsdb.database.writing.request import Again, Progress, WriteRequest
from tsdb.database.writing.send import RegionBatch, Sender, Sent
from tsdb.database.writing.values import place_rejection
from tsdb.engine import Regions, SchemaOutdated
from tsdb.errors import Cancelled, Status, TsdbError
from tsdb.ingest import IngestRejected, PlannedRows, TableRows, WriteOutcome
from tsdb.model import Batch, RegionId, TableInfo
from tsdb.query import WriteToken
from tsdb.units import Duration

TARGETS_MAX = 100_000
"""How many tables are remembered; beyond, all are looked up anew."""


@dataclass(frozen=True, slots=True)
class _Writing:
    """A part of some rows of a request."""

    numbers: tuple[int, ...]
    """The rows of the request of which it holds some."""
    key: tuple[int, RegionId, int]
    part: RegionBatch


class Writer:
    """Writes rows. Safe to use from many threads."""

    def __init__(
        self, catalog: AnyCatalog, regions: Regions, clock: Clock, rejections: RejectionLog, timeout: Duration
    ) -> None:
        self._catalog = catalog
        self._regions = regions
        self._clock = clock
        self._rejections = rejections
        self._planner = Planner(catalog, clock)
        self._sender = Sender(regions, clock, timeout)
        self._targets: dict[int, Target] = {}

    def write(self, rows: Sequence[TableRows], request: WriteRequest) -> WriteOutcome:
        """Write rows; they are durable and visible when this returns. IngestRejected if some do not fit."""
        written = self._write(rows, request, may_begin=False)
        assert isinstance(written, WriteOutcome)
        return written

    def begin_rows(self, rows: Sequence[TableRows], request: WriteRequest) -> Future[int] | WriteOutcome:
        """Write rows as `write` does, but do not wait for the end if all of them go to one region.

        The future may end with SchemaOutdated or RegionNotFound: then nothing was written, and `write` has to plan the
        rows.
        """
        return self._write(rows, request, may_begin=True)

    def _write(
        self, rows: Sequence[TableRows], request: WriteRequest, *, may_begin: bool
    ) -> Future[int] | WriteOutcome:
        progress = Progress(WriteToken() if request.is_dry else request.token)
        pending = {number: each for number, each in enumerate(rows) if each.rows}
        retry = self._sender.retry()
        while pending:
            plans = self._plan(pending, request, progress)
            if request.is_dry:
                return _dry_outcome(plans.values(), progress)
            again = apply_plans(self._catalog, plans.values(), progress)
            if again is None:
                writings, outdated = self._make_writings(plans, progress)
                if may_begin and len(writings) == 1 and not outdated:
                    done = self._sender.begin(writings[0].part, progress.token)
                    done.add_done_callback(partial(count_written, request.protocol))
                    return done
                again = self._send(plans, pending, progress, writings, outdated)
            if again is None:
                break
            # What is written by now must not be written again.
            may_begin = False
            retry.wait(again)
            progress.token.check()
        count_accepted(request.protocol, progress.rows)
        return progress.outcome()

    def put(self, rows: Sequence[TableRows], token: WriteToken | None = None) -> int:
        """Write or delete rows that were made for a table; the number of rows, durable and visible."""
        progress = Progress(token or WriteToken())
        pending, retry = dict(enumerate(rows)), self._sender.retry()
        while pending:
            plans = self._plan(pending, _MADE, progress)
            again = self._send(plans, pending, progress, *self._make_writings(plans, progress))
            if again is None:
                break
            retry.wait(again)
            progress.token.check()
        return progress.rows

    def ensure_table(self, rows: TableRows, request: WriteRequest) -> TableInfo:
        """Create or widen the table that rows need, without writing them."""
        progress, retry = Progress(request.token), self._sender.retry()
        while True:
            plan = self._planner.plan_table(rows, request, {})
            again = apply_plans(self._catalog, [plan], progress)
            if again is None:
                return plan.table
            retry.wait(again)

    def create_table(self, rows: TableRows, request: WriteRequest) -> TableInfo:
        """Create the table that rows need; TableAlreadyExists if the name is taken."""
        draft = self._planner.draft(rows, rows.database or request.database, request)
        return create_table(self._catalog, draft.table, Progress(request.token))

    def send(self, parts: Sequence[RegionBatch], token: WriteToken) -> list[Sent]:
        """Write batches that need no plan."""
        return self._sender.send(parts, token)

    def begin(self, part: RegionBatch, token: WriteToken) -> Future[int]:
        """Write a batch that needs no plan, without waiting for the end."""
        return self._sender.begin(part, token)

    def _plan(
        self, pending: Mapping[int, TableRows], request: WriteRequest, progress: Progress
    ) -> dict[int, TablePlan]:
        plans: dict[int, TablePlan] = {}
        drafts: Drafts = {}
        for number, rows in pending.items():
            planned = self._planner.plan(rows, request, drafts)
            if isinstance(planned, TablePlan):
                plans[number] = planned
                refused = planned.fitted.rejections
            else:
                refused = [planned]
            progress.refused.pop(number, None)
            if refused:
                progress.refused[number] = [place_rejection(each, request.place_word) for each in refused]
        if progress.refused and not request.is_dry:
            if request.notes_rejections:
                self._rejections.add(progress.rejections, protocol=request.protocol, database=request.database)
            raise IngestRejected(progress.rejections)
        return plans

    def _send(
        self,
        plans: Mapping[int, TablePlan],
        pending: dict[int, TableRows],
        progress: Progress,
        writings: list[_Writing],
        outdated: dict[int, TsdbError],
    ) -> Again | None:
        """Send the parts of all plans; what is written is pending no more. Again if something is left."""
        sent = self._sender.send([each.part for each in writings], progress.token)
        failures: list[BaseException] = []
        for writing, each in zip(writings, sent, strict=True):
            error = each.error
            if error is None:
                progress.rows += each.rows
                progress.written.add(writing.key)
            elif isinstance(error, TsdbError) and self._is_overtaken(error, _tables(plans, writing)):
                outdated.update(dict.fromkeys(writing.numbers, error))
            else:
                failures.append(error)
        if failures:
            raise next((error for error in failures if isinstance(error, Cancelled)), failures[0])
        for number in plans.keys() - outdated.keys():
            del pending[number]
        return next((Again(error) for error in outdated.values()), None)

    def _make_writings(
        self, plans: Mapping[int, TablePlan], progress: Progress
    ) -> tuple[list[_Writing], dict[int, TsdbError]]:
        """Return the parts that are not written yet, and the rows whose table is being changed, with the reason."""
        writings: list[_Writing] = []
        outdated: dict[int, TsdbError] = {}
        logical: dict[int, list[int]] = {}
        for number, plan in plans.items():
            if plan.table.physical_table_id is not None:
                logical.setdefault(plan.table.physical_table_id, []).append(number)
                continue
            parts = self._parts(plan)
            if isinstance(parts, Again):
                outdated[number] = parts.reason
            else:
                writings += [_Writing((number,), (number, each.region, at), each) for at, each in enumerate(parts)]
        for numbers in logical.values():
            target = self._target(self._catalog.stored_in(plans[numbers[0]].table))
            if isinstance(target, Again):
                outdated.update(dict.fromkeys(numbers, target.reason))
                continue
            parts = make_metric_parts(target, [plans[number].fitted for number in numbers])
            writings += [_Writing(tuple(numbers), (numbers[0], each.region, at), each) for at, each in enumerate(parts)]
        return [each for each in writings if each.key not in progress.written], outdated

    def _parts(self, plan: TablePlan) -> list[RegionBatch] | Again:
        fitted = plan.fitted
        if fitted.rows.made_for is not None:
            return self._made_parts(plan)
        target = self._target(plan.table)
        if isinstance(target, Again):
            return target
        batch = make_batch(fitted, target.schema, target.known), target.schema.version
        return make_parts(fitted, target.rule, lambda _: batch)

    def _made_parts(self, plan: TablePlan) -> list[RegionBatch]:
        """Return the parts of rows that were made for a description of a table, each under its region's schema."""
        table = plan.table
        target = self._target(table)
        rule = table.partition_rule if isinstance(target, Again) else target.rule
        made: dict[int, Batch] = {}

        def batch_of(region: RegionId) -> tuple[Batch, int]:
            schema = self._regions.schema(region, at_least=table.schema_version)
            if schema.version not in made:
                if schema.version == table.schema_version:
                    made[schema.version] = make_batch(plan.fitted, schema)
                else:
                    newest = self._catalog.table_by_id(table.id) or table
                    conformed = conform_rows(plan.fitted, newest, schema, now_ns=self._clock.now_ns())
                    made[schema.version] = join_series(conformed)
            return made[schema.version], schema.version

        return make_parts(plan.fitted, rule, batch_of)

    def _target(self, table: TableInfo) -> Target | Again:
        """Return where rows of a table go; Again while its regions are being changed."""
        found = self._targets.get(table.id)
        if found is not None and found.table is table:
            return found
        first = table.region_ids[0]
        schema = self._regions.schema(first, at_least=table.schema_version)
        if schema.version != table.schema_version:
            return Again(SchemaOutdated(region_id=first, expected=table.schema_version, current=schema.version))
        if len(self._targets) >= TARGETS_MAX:
            self._targets.clear()
        made = self._targets[table.id] = make_target(table, schema)
        return made

    def _is_overtaken(self, error: TsdbError, tables: Iterable[TableInfo]) -> bool:
        """Whether rows have to be planned again: their table was altered, or dropped so that they need a new one."""
        if error.status is Status.REGION_NOT_FOUND:
            return all(self._catalog.table_by_id(each.id) is None for each in tables)
        return isinstance(error, SchemaOutdated)


def _tables(plans: Mapping[int, TablePlan], writing: _Writing) -> list[TableInfo]:
    return [plans[number].table for number in writing.numbers]


_MADE = WriteRequest()
"""Rows that were made for a table need nothing of a request."""


def _dry_outcome(plans: Iterable[TablePlan], progress: Progress) -> WriteOutcome:
    """What a write would do: all of it, or nothing."""
    plans = list(plans)
    planned = tuple(_planned_rows(plan) for plan in plans)
    if progress.refused:
        return WriteOutcome(0, rejections=progress.rejections, planned=planned)
    for plan in plans:
        if plan.physical is not None:
            progress.created[plan.physical.name] = None
        if plan.needs_change:
            progress.note_table(plan.table, plan.was)
        progress.rows += plan.fitted.rows.rows
    return replace(progress.outcome(), planned=planned)


def _planned_rows(plan: TablePlan) -> PlannedRows:
    table, was = plan.table, plan.was
    return PlannedRows(
        rows=plan.fitted.rows,
        times=plan.fitted.times,
        unit=table.time_index.type.arrow.unit,
        creates_table=was is None,
        added_columns=() if was is None else tuple(name for name in table.by_name if name not in was.by_name),
    )
