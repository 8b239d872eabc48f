"""From the text of a query to a plan that runs.

`prepare` looks at the text: limits, the tables it names, the edits it needs. `describe` has DataFusion plan it, `start`
lets it run. Large queries are planned on threads of their own, so that a deadline or a KILL ends the wait.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from datafusion import DataFrame

from tsdb.clock import Clock
from tsdb.engine import Regions
from tsdb.model import ColumnInfo, TableInfo, ViewInfo
from tsdb.query._context import Contexts, QueryOptions
from tsdb.query._job import Described, Job, Planned
from tsdb.query._life import QueryLife, before_long_step
from tsdb.query._memory import MemoryWatch
from tsdb.query._numbers import NUMBERS_ROWS
from tsdb.query._planning import Planning, Unfinished
from tsdb.query._plans import Plans
from tsdb.query._prepare import Expand, Preparer, may_read
from tsdb.query._providers import INFORMATION_SCHEMA, PG_CATALOG, TableCatalog, TableSource
from tsdb.query._visible import visible
from tsdb.query.errors import TableMissing
from tsdb.query.information_schema import InformationContext, information_table
from tsdb.query.pg_catalog import information_columns, pg_functions, pg_table
from tsdb.query.session import Session
from tsdb.sql.lexer import Token
from tsdb.sql.statements import Dialect

_PG_FUNCTIONS = frozenset(each.name for each in pg_functions())

InformationSource = Callable[[Session], InformationContext]


class Planner:
    """Plans queries over the tables of a catalog."""

    def __init__(
        self,
        catalog: TableCatalog,
        regions: Regions,
        clock: Clock,
        options: QueryOptions,
        information: InformationSource | None,
    ) -> None:
        self._catalog = catalog
        self._regions = regions
        self._clock = clock
        self._options = options
        self._information = information
        contexts = Contexts(options)
        self.parallelism = contexts.parallelism
        self._plans = Plans(contexts, self._server_functions)
        self._preparer = Preparer(catalog, regions, self.describe)
        self.unfinished = Unfinished()
        self._planning = Planning(self.unfinished)
        self._memory = MemoryWatch(int(options.memory_bytes), self.unfinished)

    def expand_with(self, expand: Expand) -> None:
        """Let `expand` take out of every query, those of views too, what is not SQL."""
        self._preparer.expand = expand

    def expand(self, text: str, session: Session) -> tuple[str, Mapping[str, pa.Table]]:
        return self._preparer.expand(text, session)

    def prepare(
        self, text: str, tokens: list[Token], session: Session, tables: Mapping[str, pa.Table], *, prefix: str = ""
    ) -> Job:
        """Look at the text of a query and edit it; `prefix` goes before the edited text."""
        return self._preparer.prepare(text, tokens, session, tables, prefix=prefix)

    def find_table(self, parts: Sequence[str], session: Session) -> TableInfo | None:
        """Return the table that a name of one to three parts stands for; None for anything else."""
        return self._preparer.find_table(parts, session)

    def columns_of_view(self, view: ViewInfo, session: Session) -> tuple[ColumnInfo, ...]:
        """Return the columns of a view; none of a view that cannot be planned, or that itself asks for columns."""
        return self._preparer.columns_of_view(view, session)

    def describe(self, job: Job) -> Described:
        """Have DataFusion plan a query that is not run."""
        planned = self._plan_where_it_fits(job)
        try:
            return Described(planned.schema, planned.frame.logical_plan().display_indent_schema())
        finally:
            planned.life.end()

    def start(self, job: Job) -> tuple[Planned, Any]:
        """Plan a query and let it run; returns the plan and the stream of its batches."""
        before_long_step()
        if not job.is_single or not job.is_small:
            self.unfinished.check()
            self._memory.check()
        if job.is_small:
            return self._start(job)
        return self._planning.run(self._watched(job), lambda: self._start(job), lambda found: found[0].give_up())

    def short_life(self, session: Session) -> QueryLife:
        """Return the life of a query that needs no planner."""
        return QueryLife(self._clock, session.timeout or self._options.timeout)

    def source(
        self,
        life: QueryLife,
        session: Session,
        tables: Mapping[str, pa.Table],
        *,
        is_ordered: bool,
        is_single: bool,
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
        )

    def close(self) -> None:
        """Stop the threads that plan."""
        self._planning.close()

    def _plan_where_it_fits(self, job: Job) -> Planned:
        before_long_step()
        if job.is_small:
            return self._plan(job)
        return self._planning.run(self._watched(job), lambda: self._plan(job), Planned.give_up)

    def _plan(self, job: Job) -> Planned:
        life, source = self._begin(job)
        try:
            return self._plans.plan(job, source, life)
        except BaseException as error:
            life.end()
            raise self._with_near_table(error, job.session) from error

    def _start(self, job: Job) -> tuple[Planned, Any]:
        life, source = self._begin(job)
        try:
            return self._plans.start(job, source, life)
        except BaseException as error:
            life.end()
            raise self._with_near_table(error, job.session) from error

    def _begin(self, job: Job) -> tuple[QueryLife, TableSource]:
        life = self._life(job)
        if not job.is_single or not job.is_small:
            self._memory.watch(life)
        source = self.source(life, job.session, job.tables, is_ordered=job.is_ordered, is_single=job.is_single)
        source.plan_view = lambda view: self._plan_view(view, job, source, life)
        return life, source

    def _plan_view(self, view: ViewInfo, job: Job, source: TableSource, life: QueryLife) -> DataFrame:
        return self._plans.plan_view(self._job_of_view(view, job, source), source, life)

    def _job_of_view(self, view: ViewInfo, job: Job, source: TableSource) -> Job:
        """Return the query of a view, ready to be planned within a query that names it."""
        prepared = self._preparer.prepare_view(view, job.session, job.views)
        for name, rows in prepared.tables.items():
            source.add(view.database, name, rows)
        return replace(prepared, is_ordered=job.is_ordered, is_single=job.is_single)

    def _watched(self, job: Job) -> QueryLife:
        life = self._life(job)
        self._memory.watch(life)
        return life

    def _life(self, job: Job) -> QueryLife:
        session = job.session
        return QueryLife(self._clock, session.timeout or self._options.timeout, statement=session.statement)

    def _with_near_table(self, error: BaseException, session: Session) -> BaseException:
        """Return an error; one about a missing table says which one was probably meant."""
        if isinstance(error, TableMissing) and may_read(session, error.database):
            near = self._catalog.near_table(error.database, error.name)
            error.hint = None if near is None else f"did you mean {near}?"
        return error

    def _server_functions(self, session: Session, words: set[str]) -> list[Any]:
        if session.dialect is not Dialect.POSTGRESQL or _PG_FUNCTIONS.isdisjoint(words):
            return []
        known = pg_functions(self._information(session) if self._information is not None else None)
        return [each for each in known if each.name in words]

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
