"""From the text of a query to a plan that runs.

`prepare` looks at the text: limits, the tables it names, the edits it needs. `describe` has DataFusion plan it, `run`
runs the plan. Heavy queries run in worker processes; where there are none, large queries are planned on threads
of their own, so that a deadline or a KILL ends the wait.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, cast

import pyarrow as pa
from datafusion import DataFrame

from tsdb.clock import Clock
from tsdb.engine import Regions
from tsdb.engine.reading import RegionReader
from tsdb.memory import LEAST_SHARE, MemoryUse
from tsdb.model import ColumnInfo, RegionId, TableInfo, ViewInfo
from tsdb.query._checkpoint import before_long_step
from tsdb.query._handed import find_handed, read_once
from tsdb.query.errors import TableMissing
from tsdb.query.functions import Function
from tsdb.query.information_schema import InformationContext, information_table
from tsdb.query.lifetime import MemoryWatch, Planning, QueryLife, Unfinished
from tsdb.query.pg_catalog import information_columns, pg_functions, pg_table
from tsdb.query.planning import (
    Contexts,
    Expand,
    Job,
    PlannedQuery,
    Plans,
    Preparer,
    QueryDescription,
    QueryEngineOptions,
    QueryRecords,
    Waiter,
    may_read,
)
from tsdb.query.session import Session
from tsdb.query.tables import INFORMATION_SCHEMA, NUMBERS_ROWS, PG_CATALOG, Handed, TableCatalog, TableSource, visible
from tsdb.query.workers import (
    DescribeRequest,
    Lease,
    QueryTables,
    RunRequest,
    WorkerOptions,
    WorkerRecords,
    Workers,
    travelling,
)
from tsdb.sql.lexer import Token
from tsdb.sql.statements import Dialect
from tsdb.units import Duration, Size

_DESCRIBING = frozenset({INFORMATION_SCHEMA, PG_CATALOG})
_PG_FUNCTIONS = frozenset(each.name for each in pg_functions())

WORKER_MEMORY_MIN = 64 << 20
"""What a worker may take at least."""

PATIENCE = Duration.of_seconds(10)
"""A query with a longer timeout than this, if it takes milliseconds, need not be watched."""

InformationSource = Callable[[Session], InformationContext]


class QueryPlanner:
    """Plans queries over the tables of a catalog."""

    def __init__(
        self,
        catalog: TableCatalog,
        regions: Regions,
        clock: Clock,
        options: QueryEngineOptions,
        information: InformationSource | None,
    ) -> None:
        self._catalog = catalog
        self._regions = regions
        self._clock = clock
        self._options = options
        self._information = information
        self._contexts = Contexts(options)
        self.parallelism = self._contexts.parallelism
        self._plans = Plans(self._contexts, self._server_functions)
        self._preparer = Preparer(catalog, regions, self.describe)
        self.unfinished = Unfinished()
        self._planning = Planning(self.unfinished)
        self._memory = MemoryWatch(int(options.memory_bytes), self.unfinished)
        self._waiter = Waiter()
        self._workers = _workers(options) if options.workers else None

    def expand_with(self, expand: Expand) -> None:
        """Let `expand` take out of every query, those of views too, what is not SQL."""
        self._preparer.expand = expand

    def expand(self, text: str, session: Session) -> tuple[str, Mapping[str, pa.Table]]:
        return self._preparer.expand(text, session)

    def prepare(
        self, text: str, tokens: list[Token], session: Session, tables: Mapping[str, pa.Table], *, prefix: str = ""
    ) -> Job:
        """Look at the text of a query and edit it; `prefix` goes before the edited text."""
        job = self._preparer.prepare(text, tokens, session, tables, prefix=prefix)
        handed = self._find_handed(text, tokens, session, tables)
        return job if handed is None else replace(job, handed=handed)

    def _find_handed(
        self, text: str, tokens: list[Token], session: Session, tables: Mapping[str, pa.Table]
    ) -> Handed | None:
        """Return the conditions that can be handed to the only table of a query."""
        found = read_once(text, tokens, session.dialect)
        if found is None or found[0][-1] in tables:
            return None
        table = self.find_table(found[0], session)
        return None if table is None else find_handed(tokens, session.dialect, session.time_zone, table, found[1])

    def find_table(self, parts: Sequence[str], session: Session) -> TableInfo | None:
        """Return the table that a name of one to three parts stands for; None for anything else."""
        return self._preparer.find_table(parts, session)

    def columns_of_view(self, view: ViewInfo, session: Session) -> tuple[ColumnInfo, ...]:
        """Return the columns of a view; none if it cannot be planned, or that reads descriptions of columns."""
        return self._preparer.columns_of_view(view, session)

    def describe(self, job: Job) -> QueryDescription:
        """Have DataFusion plan a query that is not run."""
        if self._workers is not None and not job.is_small:
            lease, described, _ = self._in_worker(job, DescribeRequest)
            lease.end(is_done=True)
            return cast(QueryDescription, described)
        planned = self._plan_where_it_fits(job)
        try:
            return QueryDescription(planned.schema, planned.coerced.logical_plan().display_indent_schema())
        finally:
            planned.life.end()

    def run(self, job: Job) -> QueryRecords | WorkerRecords:
        """Plan a query and let it run; returns its rows."""
        if self._workers is not None and not job.is_harmless:
            self._admit(job)
            return WorkerRecords(*self._in_worker(job, RunRequest))
        planned, stream = self.start(job)
        waiter = None if job.is_single and job.is_small else self._waiter
        return QueryRecords(stream, planned.schema, planned.life, waiter, self.unfinished)

    def start(self, job: Job) -> tuple[PlannedQuery, Any]:
        """Plan a query and let it run; returns the plan and the stream of its batches."""
        before_long_step()
        if not job.is_single or not job.is_small:
            self.unfinished.check()
            self._admit(job)
            self._memory.check()
        if job.is_small:
            return self._start(job)
        return self._planning.run(self._watched(job), lambda: self._start(job), lambda found: found[0].give_up())

    def _admit(self, job: Job) -> None:
        """Refuse a query if memory is short; what describes the server can always be asked."""
        if any(database not in _DESCRIBING for database, _ in job.names):
            self._memory.admit()

    def memory_use(self) -> Iterator[MemoryUse]:
        if self._workers is not None:
            yield MemoryUse("query_workers", self._workers.resident_bytes())

    def limit_memory(self, share: float) -> None:
        self._memory.is_short = share <= LEAST_SHARE
        if self._workers is not None:
            self._workers.limit_memory(share)

    def return_free_memory(self) -> None:
        self._contexts.return_free_memory()

    def short_life(self, session: Session) -> QueryLife:
        """Return the life of a query that needs no planner."""
        return QueryLife(self._clock, session.timeout or self._options.timeout)

    def is_patient(self, session: Session) -> bool:
        """Return whether a query may take so long that a fast one need not watch its deadline."""
        timeout = session.timeout or self._options.timeout
        return timeout is None or timeout >= PATIENCE

    def open_reader(self, region_id: RegionId) -> RegionReader:
        """Take what a region holds now, for a query without a life of its own."""
        return self._regions.open_reader(region_id)

    def source(
        self,
        life: QueryLife,
        session: Session,
        tables: Mapping[str, pa.Table],
        *,
        is_ordered: bool,
        is_single: bool,
        handed: Handed | None = None,
    ) -> TableSource:
        """Return where a query finds its tables; `tables` are its own."""
        return TableSource(
            visible(self._catalog, session),
            self._regions,
            life,
            database=session.database,
            extra=tables,
            system_table=lambda database, name: self._system_table(database, name, session),
            is_ordered=is_ordered,
            is_single=is_single,
            numbers_rows=NUMBERS_ROWS,
            handed=handed,
        )

    def close(self) -> None:
        """Stop the threads that plan and wait, and end the workers."""
        self._planning.close()
        self._waiter.close()
        if self._workers is not None:
            self._workers.close()

    def _in_worker(self, job: Job, request: type[RunRequest | DescribeRequest]) -> tuple[Lease, Any, Sequence[Any]]:
        """Have a worker answer; returns the worker, the first answer, and the tables that the query reads."""
        assert self._workers is not None
        before_long_step()
        life, source = self._begin(job)
        functions = cache(lambda: {each.name: each.body for each in self._pg_functions(job.session)})
        tables = QueryTables(source, lambda view: self._job_of_view(view, job), lambda name: functions()[name])
        try:
            lease = Lease(self._workers, life, tables)
        except BaseException:
            life.end()
            raise
        try:
            return lease, lease.ask(request(travelling(job), tables.open_named(job.names))), life.scans
        except BaseException as error:
            lease.end(is_done=False)
            self._add_near_table(error, job.session)
            raise

    def _plan_where_it_fits(self, job: Job) -> PlannedQuery:
        before_long_step()
        if job.is_small:
            return self._plan(job)
        return self._planning.run(self._watched(job), lambda: self._plan(job), PlannedQuery.give_up)

    def _plan(self, job: Job) -> PlannedQuery:
        life, source = self._begin(job)
        try:
            return self._plans.plan(job, source, life)
        except BaseException as error:
            life.end()
            self._add_near_table(error, job.session)
            raise

    def _start(self, job: Job) -> tuple[PlannedQuery, Any]:
        life, source = self._begin(job)
        try:
            return self._plans.start(job, source, life)
        except BaseException as error:
            life.end()
            self._add_near_table(error, job.session)
            raise

    def _begin(self, job: Job) -> tuple[QueryLife, TableSource]:
        life = self.life_of(job.session)
        is_isolated = self._workers is not None and not job.is_harmless
        if not is_isolated and (not job.is_single or not job.is_small):
            self._memory.watch(life)
        is_single = is_isolated or job.is_single
        source = self.source(
            life, job.session, job.tables, is_ordered=job.is_ordered, is_single=is_single, handed=job.handed
        )
        source.plan_view = lambda view: self._plan_view(view, job, source, life)
        return life, source

    def _plan_view(self, view: ViewInfo, job: Job, source: TableSource, life: QueryLife) -> DataFrame:
        prepared = self._job_of_view(view, job)
        for name, rows in prepared.tables.items():
            source.add(view.database, name, rows)
        return self._plans.plan_view(prepared, source, life)

    def _job_of_view(self, view: ViewInfo, job: Job) -> Job:
        """Return the query of a view, ready to be planned within a query that names it."""
        prepared = self._preparer.prepare_view(view, job.session, job.views)
        return replace(prepared, is_ordered=job.is_ordered, is_single=job.is_single)

    def _watched(self, job: Job) -> QueryLife:
        life = self.life_of(job.session)
        self._memory.watch(life)
        return life

    def life_of(self, session: Session) -> QueryLife:
        """Return the life of a query that belongs to the running statement of a session."""
        return QueryLife(self._clock, session.timeout or self._options.timeout, statement=session.statement)

    def _add_near_table(self, error: BaseException, session: Session) -> None:
        """Have an error about a missing table say which one was probably meant."""
        if isinstance(error, TableMissing) and may_read(session, error.database):
            near = self._catalog.near_table(error.database, error.name)
            error.hint = None if near is None else f"did you mean {near}?"

    def _server_functions(self, session: Session, words: set[str]) -> list[Any]:
        if session.dialect is not Dialect.POSTGRESQL or _PG_FUNCTIONS.isdisjoint(words):
            return []
        return [each.make() for each in self._pg_functions(session) if each.name in words]

    def _pg_functions(self, session: Session) -> list[Function]:
        return pg_functions(self._information(session) if self._information is not None else None)

    def _system_table(self, database: str, name: str, session: Session) -> pa.Table | None:
        if self._information is None:
            return None
        context = replace(self._information(session), view_columns=lambda view: self.columns_of_view(view, session))
        if database == INFORMATION_SCHEMA and name == "columns" and session.dialect is Dialect.POSTGRESQL:
            return information_columns(context)
        if database == INFORMATION_SCHEMA:
            return information_table(name, context)
        if database == PG_CATALOG and session.dialect is Dialect.POSTGRESQL:
            return pg_table(name, context)
        return None


def _workers(options: QueryEngineOptions) -> Workers:
    assert options.spill_dir is not None, "workers have a place to spill to"
    memory = max(int(options.memory_bytes) // options.workers, WORKER_MEMORY_MIN) if options.memory_bytes else 0
    own = WorkerOptions(Size(memory), options.spill_dir / "workers", options.parallelism or os.cpu_count() or 1)
    return Workers(options.workers, own, forker=options.forker)
