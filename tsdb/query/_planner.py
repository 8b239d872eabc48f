"""From the text of a query to a plan that runs.

`prepare` looks at the text: limits, the tables it names, the edits it needs. `plan` has DataFusion plan it over a
source of tables, and `start` lets it run. A plan is made anew without handing filters to tables when one of them
cannot be handed over, and with more numbers when the query limits `numbers` to more than its usual rows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from datafusion import DataFrame, SessionContext

from tsdb.clock import Clock
from tsdb.engine import Regions
from tsdb.errors import Busy, Cancelled, DeadlineExceeded, NotBrief, TsdbError
from tsdb.model import (
    CATALOG,
    METRIC_ENGINE,
    NS_PER_UNIT,
    ColumnId,
    ColumnInfo,
    DataType,
    Kind,
    Semantic,
    TableInfo,
    ViewInfo,
    type_of_field,
)
from tsdb.query._context import READ_ONLY, Contexts, QueryOptions, coerced_frame
from tsdb.query._dialects import translate_query
from tsdb.query._job import Job, Planned, SeenAggregate, SeenOuter, ViewChain
from tsdb.query._life import QueryLife
from tsdb.query._memory import MemoryWatch
from tsdb.query._numbers import NUMBERS, NUMBERS_ROWS, NUMBERS_ROWS_MAX, SERIES_FUNCTIONS, series_functions
from tsdb.query._planning import Planning, Unfinished
from tsdb.query._providers import INFORMATION_SCHEMA, PG_CATALOG, TableCatalog, TableSource
from tsdb.query._records import QueryRecords, result_schema
from tsdb.query._seen import Misfit, SeenShapes, shifted
from tsdb.query._selection import PlainSelection, SelectionRecords, fit_selection
from tsdb.query._threads import in_thread
from tsdb.query._view_sizes import ViewSizes, check_size
from tsdb.query._visible import visible
from tsdb.query.errors import TableMissing, execution_error, is_bridge_failure, is_panic, planning_error
from tsdb.query.functions import functions_named
from tsdb.query.information_schema import InformationContext, information_table
from tsdb.query.mysql_variables import mysql_variable
from tsdb.query.pg_catalog import information_columns, pg_functions, pg_table
from tsdb.query.series_aggregate import (
    TAGS,
    AggregateRecords,
    OuterRecords,
    RunFilter,
    Shapes,
    TagValues,
    bind_expressions,
    fit_query,
    is_series_aggregate_on,
    leave_to_planner,
)
from tsdb.query.session import Channel, Records, Session, read_all
from tsdb.query.syntax_errors import located
from tsdb.sql.aggregate_names import AGGREGATE_NAMES
from tsdb.sql.clauses import OtherClause
from tsdb.sql.lexer import Token, tokenize
from tsdb.sql.outer_query import CELLS, Apart, take_apart
from tsdb.sql.parser import check_query_limits
from tsdb.sql.rewrite import (
    ColumnTypes,
    Layout,
    RewriteRules,
    TableRef,
    find_tables,
    first_of_same,
    header_of,
    keeps_order,
    limit_of,
    reads_in_order,
    redefined_names,
    refuse_clauses,
    rename_item,
    rewrite,
)
from tsdb.sql.selection import find_selection
from tsdb.sql.series_query import read_series_query
from tsdb.sql.statements import Dialect

_FETCH = re.compile(rf"TableScan: (?:[\w.]+\.)?{NUMBERS}\b.*?fetch=(\d+)")

# Functions that the text does not name need not be registered: 136 of them took 0.2 ms.
_WORD = re.compile(r"[a-z_]\w*")

_INT64_MAX = 2**63 - 1
_YEAR_NS = 366 * 86_400 * 10**9
_BINNING = frozenset({"DATE_TRUNC", "DATE_BIN"})

# What can make much of one table: series of numbers that are joined with it, recursion.
_ENDLESS_WORDS = frozenset({"JOIN", "RECURSIVE", "UNNEST", "GENERATE_SERIES", "RANGE", "LATERAL", "WITH"})

_JOIN_WORDS = frozenset({"join", "exists", "in", "lateral"})
# What can give a column that is none of a table's.
_DERIVING_WORDS = frozenset({"AS", "WITH", "VALUES", "UNNEST", "GENERATE_SERIES", "RANGE", "UNION", "JOIN"})
SAME_NAMES_MAX = 100
"""How many result columns may have a name that another one has."""
_SAME_NAMES = re.compile(
    r"unique expression names but the expression .* at position (\d+) and .* at position (\d+)", re.S
)
_PLANNED_COLUMN = re.compile(r"(?<=[\[ ])([^\s\[\]:,]+):(\w+)")
_INTEGER_KINDS = frozenset(f"{sign}Int{bits}" for sign in ("", "U") for bits in (8, 16, 32, 64))
_COERCED = re.compile(r"\b(?:UNION|INTERSECT|EXCEPT|RECURSIVE|CASE)\b", re.IGNORECASE)
_PG_FUNCTIONS = frozenset(each.name for each in pg_functions())

Above = Callable[[str, pa.Table, Session], Records]
InformationSource = Callable[[Session], InformationContext]
Expand = Callable[[str, Session], tuple[str, Mapping[str, pa.Table]]]


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
        self._contexts = Contexts(options)
        self._shapes = Shapes()
        self.unfinished = Unfinished()
        self._planning = Planning(self.unfinished)
        self._memory = MemoryWatch(int(options.memory_bytes), self.unfinished)
        self._tag_values = TagValues(self._evaluate)
        self._seen: SeenShapes[PlainSelection | SeenAggregate | SeenOuter] = SeenShapes()
        self.expand: Expand = lambda text, session: (text, {})
        """Takes out of a query what is not SQL; returns the rest and the tables it names instead."""

    def prepare(
        self,
        text: str,
        tokens: list[Token],
        session: Session,
        tables: Mapping[str, pa.Table],
        *,
        prefix: str = "",
        views: ViewChain | None = None,
    ) -> Job:
        """Look at the text of a query and edit it; `prefix` goes before the edited text.

        `views` are those whose own text this is, one in the other.
        """
        check_query_limits(text, tokens)
        chain = views or ViewChain()
        written = prefix + text
        if (
            session.dialect is not Dialect.GENERIC
            and (edited := translate_query(text, tokens, session.dialect)) != text
        ):
            text, tokens = edited, tokenize(edited, session.dialect)
        layout = Layout(text, tokens)
        refuse_clauses(layout)
        named = find_tables(layout, session.dialect)
        is_small = self._check_size(layout, named, session, tables)
        rules = RewriteRules(
            dialect=session.dialect,
            columns=self._columns(layout, named, session, tables, chain),
            zone=session.time_zone,
            variable=lambda name: session_variable(session, name),
            is_wide=not _BINNING.isdisjoint(layout.words) and self._is_wide(layout, named, session, tables),
        )
        names_numbers = any(each.name == NUMBERS for each in named)
        job = Job(
            text="",
            session=session,
            tables=tables,
            is_ordered=keeps_order(layout, AGGREGATE_NAMES) or reads_in_order(layout),
            is_single=self._is_single(layout, named, session, tables),
            is_explained=bool(prefix),
            views=chain,
            limit=limit_of(layout) if names_numbers else None,
            is_small=is_small,
            written=written,
        )
        derived = replace(rules, derived=lambda: self._derived_columns(layout, rules, job, named))
        return replace(job, text=prefix + rewrite(layout, derived))

    def _derived_columns(self, layout: Layout, rules: RewriteRules, job: Job, named: Sequence[TableRef]) -> ColumnTypes:
        """Return the types of columns that no table of ours has; names that stand for several types are left out."""
        kinds: dict[str, set[DataType | None]] = {}
        for rows in job.tables.values():
            for field in rows.schema:
                kinds.setdefault(field.name, set()).add(type_of_field(field))
        is_of_tables = _DERIVING_WORDS.isdisjoint(layout.words) and len(named) == len(rules.columns.tables)
        if is_of_tables:
            return _certain(kinds)
        try:
            planned = self.plan(replace(job, text=rewrite(layout, rules), is_explained=False))
        except (Cancelled, DeadlineExceeded, Busy):
            raise
        except TsdbError:
            return _certain(kinds)
        text = planned.coerced.logical_plan().display_indent_schema()
        planned.life.end()
        for name, kind in _PLANNED_COLUMN.findall(text):
            found = DataType(Kind(kind)) if kind in _INTEGER_KINDS else None
            kinds.setdefault(name, set()).add(found)
        return _certain(kinds)

    def _is_wide(
        self, layout: Layout, named: Sequence[TableRef], session: Session, tables: Mapping[str, pa.Table]
    ) -> bool:
        """Tell whether a table that a query names may have times that nanoseconds do not hold.

        The planner's functions of time compute in nanoseconds. Of the time index it is known which times there are; any
        other column of a coarser unit that is in the text may have some.
        """
        words = {word.lower() for word in layout.words}
        for reference in named:
            is_ours = len(reference.parts) > 1 or reference.name not in tables
            table = self.find_table(reference.parts, session) if is_ours else None
            if table is not None and self._may_be_wide(table, words):
                return True
        return False

    def _may_be_wide(self, table: TableInfo, words: set[str]) -> bool:
        coarse = [each for each in table.columns if each.type.is_timestamp and each.type.arrow.unit != "ns"]
        if any(each is not table.time_index and each.name.lower() in words for each in coarse):
            return True
        if table.engine == "file":
            return False
        unit = NS_PER_UNIT[table.time_index.type.arrow.unit]
        # Of times next to the least one, even of nanoseconds, the start of their year is out of range.
        first, last = (_YEAR_NS - _INT64_MAX) // unit, _INT64_MAX // unit
        spans = [self._regions.time_range(each) for each in table.region_ids]
        return any(span is not None and (span.start < first or span.last > last) for span in spans)

    def _check_size(
        self, layout: Layout, named: Sequence[TableRef], session: Session, tables: Mapping[str, pa.Table]
    ) -> bool:
        """Refuse a query that is too large after expansion; tells whether it is a small one."""
        known = {each.parts for each in named if len(each.parts) == 1 and each.name in tables}
        sizes = ViewSizes(lambda parts: None if parts in known else self._view_named(parts, session))
        return check_size(layout, named, session.dialect, sizes)

    def _is_single(
        self, layout: Layout, named: Sequence[TableRef], session: Session, tables: Mapping[str, pa.Table]
    ) -> bool:
        if not named and "FROM" not in layout.words:
            return _ENDLESS_WORDS.isdisjoint(layout.words)
        if len(named) != 1 or (len(named[0].parts) == 1 and named[0].name in tables):
            return False
        if not _ENDLESS_WORDS.isdisjoint(layout.words) or self.find_table(named[0].parts, session) is None:
            return False
        return layout.words.count("FROM") == 1

    def _columns(
        self,
        layout: Layout,
        named: Sequence[TableRef],
        session: Session,
        tables: Mapping[str, pa.Table],
        views: ViewChain,
    ) -> ColumnTypes:
        """Return the types of the columns whose comparisons may need an edit."""
        known: dict[str, dict[str, DataType]] = {}
        for reference in named:
            if len(reference.parts) == 1 and reference.name in tables:
                continue
            table = self.find_table(reference.parts, session)
            if table is not None:
                kinds = {column.name: column.type for column in table.columns}
            elif "WHERE" in layout.words and (view := self._find_view(reference, session)) is not None:
                kinds = self._view_columns(view, session, views)
            else:
                continue
            known[reference.alias or reference.name] = reference.renamed(kinds)
        return ColumnTypes(known, redefined_names(layout, session.dialect) if known else frozenset())

    def _find_view(self, reference: TableRef, session: Session) -> ViewInfo | None:
        return self._view_named(reference.parts, session)

    def _view_named(self, parts: Sequence[str], session: Session) -> ViewInfo | None:
        if len(parts) > 3 or (len(parts) == 3 and parts[0] != CATALOG):
            return None
        database = session.database if len(parts) == 1 else parts[-2]
        if (own := session.views.get((database, parts[-1]))) is not None:
            return own
        return self._catalog.find_view(database, parts[-1]) if _may_read(session, database) else None

    def _view_columns(self, view: ViewInfo, session: Session, views: ViewChain) -> dict[str, DataType]:
        """Return the types of a view's columns; none of a view that cannot be planned, which the query will tell."""
        if view in views.path:
            return {}
        kinds = views.kinds.get(view)
        if kinds is None:
            kinds = views.kinds[view] = self._plan_view_columns(view, session, views)
        return kinds

    def _plan_view_columns(self, view: ViewInfo, session: Session, views: ViewChain) -> dict[str, DataType]:
        try:
            planned = self.plan(self._prepare_view(view, session, views))
        except (Cancelled, DeadlineExceeded, Busy):
            raise
        except TsdbError:
            return {}
        planned.life.end()
        return {field.name: kind for field in planned.schema if (kind := type_of_field(field)) is not None}

    def _prepare_view(self, view: ViewInfo, session: Session, views: ViewChain) -> Job:
        """Look at the query of a view. Its text is of the generic dialect, whoever asks."""
        job = views.prepared.get(view)
        if job is None:
            job = views.prepared[view] = self._prepare_view_text(view, session, views)
        return job

    def _prepare_view_text(self, view: ViewInfo, session: Session, views: ViewChain) -> Job:
        own = replace(session, database=view.database, channel=Channel.HTTP)
        text, tables = self.expand(view.query, own)
        if view.columns:
            names = ", ".join(_quoted(name) for name in view.columns)
            text = f"SELECT * FROM ({text}\n) AS {_quoted(view.name)} ({names})"
        return self.prepare(text, tokenize(text, own.dialect), own, tables, views=views.within(view))

    def find_table(self, parts: Sequence[str], session: Session) -> TableInfo | None:
        """Return the table that a name of one to three parts stands for; None for anything else."""
        if len(parts) > 3 or (len(parts) == 3 and parts[0] != CATALOG):
            return None
        database = session.database if len(parts) == 1 else parts[-2]
        if (database, parts[-1]) in session.views:
            return None
        return self._catalog.find_table(database, parts[-1]) if _may_read(session, database) else None

    def answer_seen(
        self, text: str, session: Session, plan: Callable[[], Records], above: Above
    ) -> SelectionRecords | AggregateRecords | OuterRecords | None:
        """Answer a query whose shape was seen before; None for any other.

        `plan` is for the rare answer that only a planner can tell, `above` runs a query over an aggregate.
        """
        known = self._seen.find(text, session)
        if known is None:
            return None
        template, shape = known
        table = self.find_table(template.name, session)
        meaning = template.meaning
        if table is None or not template.is_of(table):
            return None
        if not isinstance(meaning, PlainSelection) and not is_series_aggregate_on(session):
            return None
        try:
            filter = template.where.bind(shape.literals)
        except Misfit:
            return None
        if isinstance(meaning, PlainSelection):
            return self._start_selection(meaning.where(filter), session)
        if isinstance(meaning, SeenAggregate):
            return self._start_aggregate(meaning, filter, session, plan)
        inner = self._start_aggregate(meaning.below, filter, session, leave_to_planner)
        return OuterRecords(inner, lambda rows: above(meaning.above, rows, session), meaning.schema, plan)

    def select(
        self, text: str, tokens: list[Token], session: Session, tables: Mapping[str, pa.Table]
    ) -> SelectionRecords | None:
        """Answer a query of the plainest kind from its table; None for any other."""
        selection = find_selection(tokens, session.dialect)
        if selection is None or (len(selection.table) == 1 and selection.table[0] in tables):
            return None
        table = self.find_table(selection.table, session)
        if table is None or table.engine == "file" or table.is_physical:
            return None
        fitted = fit_selection(selection, table, session.time_zone)
        if fitted is None:
            return None
        if not tables and table.engine != METRIC_ENGINE:
            self._seen.remember(text, session, selection.where, selection.table, table, lambda: fitted)
        return self._start_selection(fitted, session)

    def _start_selection(self, fitted: PlainSelection, session: Session) -> SelectionRecords:
        life = QueryLife(self._clock, session.timeout or self._options.timeout, session.hurry)
        source = self._source(life, session, {}, is_ordered=True, is_single=True, numbers_rows=0)
        try:
            return SelectionRecords(fitted, source.dataset(fitted.table), life)
        except BaseException:
            life.end()
            raise

    def aggregate(
        self,
        text: str,
        tokens: list[Token],
        session: Session,
        tables: Mapping[str, pa.Table],
        plan: Callable[[], Records],
    ) -> AggregateRecords:
        """Answer an aggregate by tags and time from runs; OtherClause says why a query is none of these.

        `plan` is for the rare answer that only a planner can tell.
        """
        if not is_series_aggregate_on(session):
            raise OtherClause("series_aggregate is off in this session")
        query = read_series_query(text, tokens, session.dialect)
        table = None
        if len(query.table) > 1 or query.table[0] not in tables:
            table = self.find_table(query.table, session)
        if table is None:
            raise OtherClause("it is not of one table")
        fitted = fit_query(query, table, session.time_zone)
        schema = self._shapes.schema(
            (table.id, table.version, session.database, session.dialect, session.time_zone, query.shape),
            lambda: self._schema_of(text, tokens, session),
        )
        meaning = SeenAggregate(fitted, schema, schema.types)
        if not tables and not fitted.is_of_range:
            self._seen.remember(text, session, fitted.where, query.table, table, lambda: meaning)
        return self._start_aggregate(meaning, fitted.filter, session, plan)

    def _start_aggregate(
        self, meaning: SeenAggregate, filter: RunFilter, session: Session, plan: Callable[[], Records]
    ) -> AggregateRecords:
        fitted = meaning.fitted
        bound = bind_expressions(fitted, filter, lambda each, tags: self._tag_values.of(each, tags, session))
        life = QueryLife(self._clock, session.timeout or self._options.timeout, session.hurry)
        source = self._source(life, session, {}, is_ordered=False, is_single=True, numbers_rows=0)
        try:
            return AggregateRecords(
                fitted,
                bound,
                source.dataset(fitted.table),
                life,
                meaning.schema,
                meaning.kinds,
                threads=self._contexts.parallelism,
                plan=plan,
            )
        except BaseException:
            life.end()
            raise

    def _evaluate(self, text: str, tags: pa.Table, session: Session) -> pa.Table:
        """Run a query over tags of series, in the thread that wants its answer."""
        job = self.prepare(text, tokenize(text, session.dialect), session, {TAGS: tags})
        planned, stream = self.start(job)
        return read_all(QueryRecords(stream, planned.schema, planned.life, None))

    def aggregate_outer(
        self, text: str, tokens: list[Token], session: Session, plan: Callable[[], Records], above: Above
    ) -> OuterRecords:
        """Answer a query that computes something with aggregates from runs; OtherClause if it is none."""
        apart = self._take_apart(text, tokens, session)
        below = tokenize(apart.below, session.dialect)
        inner = self.aggregate(apart.below, below, session, {}, leave_to_planner)
        try:
            schema = self._outer_schema(text, tokens, apart, inner.schema, session)
            self._remember_outer(text, tokens, session, apart, inner, schema)
        except BaseException:
            inner.close()
            raise
        return OuterRecords(inner, lambda rows: above(apart.above, rows, session), schema, plan)

    def _remember_outer(
        self,
        text: str,
        tokens: list[Token],
        session: Session,
        apart: Apart,
        inner: AggregateRecords,
        schema: pa.Schema,
    ) -> None:
        (named,) = find_tables(Layout(text, tokens), session.dialect)
        # Bound expressions over tags are of this query alone; they are bound anew each time.
        fitted = inner.fitted
        if fitted.is_of_range:
            return
        where = shifted(fitted.where, apart.shift)
        meaning = SeenOuter(SeenAggregate(fitted, inner.schema, inner.schema.types), apart.above, schema)
        self._seen.remember(text, session, where, tuple(named.parts), fitted.table, lambda: meaning)

    def _take_apart(self, text: str, tokens: list[Token], session: Session) -> Apart:
        """Take a query that computes something with aggregates apart; OtherClause if it is none."""
        if not is_series_aggregate_on(session):
            raise OtherClause("series_aggregate is off in this session")
        named = find_tables(Layout(text, tokens), session.dialect)
        table = self.find_table(named[0].parts, session) if len(named) == 1 else None
        if table is None:
            raise OtherClause("it is not of one table")
        return take_apart(text, tokens, session.dialect, table.by_name)

    def _outer_schema(
        self, text: str, tokens: list[Token], apart: Apart, below: pa.Schema, session: Session
    ) -> pa.Schema:
        """Return the columns of a query that was taken apart; OtherClause if what is above has others."""
        try:
            schema = self._schema_of(text, tokens, session)
            planned = self.plan(
                self.prepare(apart.above, tokenize(apart.above, session.dialect), session, {CELLS: below.empty_table()})
            )
        except TsdbError as error:
            raise OtherClause(f"it cannot be taken apart: {error}") from error
        planned.life.end()
        if planned.schema.types != schema.types:
            raise OtherClause("its columns would be of other types")
        return schema

    def _schema_of(self, text: str, tokens: list[Token], session: Session) -> pa.Schema:
        planned = self.plan(self.prepare(text, tokens, session, {}))
        planned.life.end()
        return planned.schema

    def _source(
        self,
        life: QueryLife,
        session: Session,
        tables: Mapping[str, pa.Table],
        *,
        is_ordered: bool,
        is_single: bool,
        numbers_rows: int,
    ) -> TableSource:
        return TableSource(
            visible(self._catalog, session),
            self._regions,
            life,
            database=session.database,
            extra=tables,
            system_table=lambda database, name: self._system_table(database, name, session),
            is_ordered=is_ordered,
            is_single=is_single,
            numbers_rows=numbers_rows,
        )

    def start(self, job: Job) -> tuple[Planned, Any]:
        """Plan a query and let it run; returns the plan and the stream of its batches."""
        if not job.is_single or not job.is_small:
            self.unfinished.check()
            self._memory.check()
        if job.is_small:
            return self._start(job)
        return self._planning.run(self._watched(job), lambda: self._start(job), lambda found: found[0].give_up())

    def plan(self, job: Job) -> Planned:
        """Have DataFusion plan a query."""
        if job.is_small or job.session.hurry is not None:
            return self._plan(job)
        return self._planning.run(self._watched(job), lambda: self._plan(job), Planned.give_up)

    def _watched(self, job: Job) -> QueryLife:
        life = self._life(job)
        self._memory.watch(life)
        return life

    def _life(self, job: Job) -> QueryLife:
        session = job.session
        return QueryLife(self._clock, session.timeout or self._options.timeout, statement=session.statement)

    def close(self) -> None:
        """Stop the threads that plan."""
        self._planning.close()

    def _start(self, job: Job) -> tuple[Planned, Any]:
        planned = self._plan_numbers(job)
        try:
            try:
                return planned, planned.frame.execute_stream()
            except Exception as error:
                if not is_bridge_failure(error):
                    raise
                planned.life.end()
                planned = self._plan(job, has_filters=False)
                return planned, planned.frame.execute_stream()
        except BaseException as error:
            planned.life.end()
            raise _translated(error, planned.life, execution_error) from error

    def _plan(self, job: Job, *, has_filters: bool = True, numbers_rows: int = NUMBERS_ROWS) -> Planned:
        if job.session.hurry is not None:
            # Once it runs, nobody is asked until it has something to show.
            raise NotBrief
        life = self._life(job)
        if not job.is_single or not job.is_small:
            self._memory.watch(life)
        source = self._source(
            life,
            job.session,
            job.tables,
            is_ordered=job.is_ordered,
            is_single=job.is_single,
            numbers_rows=numbers_rows,
        )
        source.plan_view = lambda view: self._plan_view(view, job, source, life)
        try:
            context = self._context(job, source, life, has_filters=has_filters)
            frame = _plan_text(context, job)
            coerced = frame
            if _COERCED.search(job.text) is not None and not job.is_explained:
                coerced = coerced_frame(context, frame)
            schema = coerced.schema()
        except BaseException as error:
            life.end()
            raise self._with_near_table(_translated(error, life, planning_error), job.session) from error
        return Planned(frame, life, _with_headers(result_schema(schema)), coerced)

    def _with_near_table(self, error: BaseException, session: Session) -> BaseException:
        """Return an error; one about a missing table says which one was probably meant."""
        if isinstance(error, TableMissing) and _may_read(session, error.database):
            near = self._catalog.near_table(error.database, error.name)
            error.hint = None if near is None else f"did you mean {near}?"
        return error

    def _context(self, job: Job, source: TableSource, life: QueryLife, *, has_filters: bool = True) -> SessionContext:
        words = set(_WORD.findall(job.text.lower()))
        functions = functions_named(job.session, words)
        series = [name for name in SERIES_FUNCTIONS if name in words]
        functions += series_functions(series, life, is_joined=not words.isdisjoint(_JOIN_WORDS) or "," in job.text)
        if job.session.dialect is Dialect.POSTGRESQL and not _PG_FUNCTIONS.isdisjoint(words):
            known = pg_functions(self._information(job.session) if self._information is not None else None)
            functions += [each for each in known if each.name in words]
        return self._contexts.make(
            job.session,
            source,
            functions,
            is_ordered=job.is_ordered,
            is_single=job.is_single,
            has_filters=has_filters,
        )

    def _plan_numbers(self, job: Job) -> Planned:
        """Plan a query; one that takes more of `numbers` than there usually are gets them."""
        planned = self._plan(job)
        if job.limit is None or job.limit <= NUMBERS_ROWS:
            return planned
        try:
            match = _FETCH.search(planned.frame.optimized_logical_plan().display_indent())
        except BaseException as error:
            planned.life.end()
            raise _translated(error, planned.life, execution_error) from error
        if match is None:
            return planned
        planned.life.end()
        return self._plan(job, numbers_rows=min(int(match[1]), NUMBERS_ROWS_MAX))

    def _plan_view(self, view: ViewInfo, job: Job, source: TableSource, life: QueryLife) -> DataFrame:
        """Plan the query of a view over the tables of the query that names it."""
        prepared = self._prepare_view(view, job.session, job.views)
        prepared = replace(prepared, is_ordered=job.is_ordered, is_single=job.is_single)
        for name, rows in prepared.tables.items():
            source.add(view.database, name, rows)
        try:
            context = self._context(prepared, source, life)
            frame = context.sql_with_options(prepared.text, READ_ONLY)
            return frame if _COERCED.search(prepared.text) is None else coerced_frame(context, frame)
        except BaseException as error:
            raise _translated(error, None, planning_error) from error

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

    def columns_of_view(self, view: ViewInfo, session: Session) -> tuple[ColumnInfo, ...]:
        """Return the columns of a view; none of a view that cannot be planned, or that itself asks for columns."""
        if session.is_describing:
            return ()
        own = replace(session, is_describing=True, hurry=None)
        kinds = in_thread(lambda: self._view_columns(view, own, ViewChain()))
        return tuple(
            ColumnInfo(ColumnId(number), name, kind, Semantic.FIELD)
            for number, (name, kind) in enumerate(kinds.items())
        )


def session_variable(session: Session, name: str) -> str | int | None:
    """Return the value of a system variable, None if there is none of that name."""
    if name in ("time_zone", "system_time_zone", "timezone"):
        return "UTC" if name == "system_time_zone" else session.time_zone
    if session.channel is not Channel.MYSQL:
        return session.variables.get(name)
    if name == "max_execution_time":
        return 0 if session.timeout is None else int(session.timeout) // 1_000_000
    return mysql_variable(session, name)


def _may_read(session: Session, database: str) -> bool:
    """Whether to look into a database for hints. A table that may not be read is refused when it is opened."""
    return session.identity is None or session.identity.may_read(database)


def _certain(kinds: Mapping[str, set[DataType | None]]) -> ColumnTypes:
    known = {name: next(iter(found)) for name, found in kinds.items() if len(found) == 1}
    return ColumnTypes({"": {name: kind for name, kind in known.items() if kind is not None}})


def _plan_text(context: SessionContext, job: Job) -> DataFrame:
    """Have a text planned; result columns of one name are told apart, and get it back in `_with_headers`."""
    texts: Iterator[str] = iter((job.text,))
    refused: tuple[int, int] | None = None
    for _ in range(SAME_NAMES_MAX):
        text = next(texts, None)
        if text is None:
            break
        try:
            return context.sql_with_options(text, READ_ONLY)
        except Exception as error:
            match = _SAME_NAMES.search(str(error))
            if match is None:
                raise located(error, text, job.written, lambda each: _parse(context, each)) from error
            same = (int(match[1]), int(match[2]))
            if same != refused:
                # That one is another pair shows that the item of the pair before was found.
                refused, texts = same, rename_item(text, job.session.dialect, *same)
    return context.sql_with_options(job.text, READ_ONLY)


def _parse(context: SessionContext, text: str) -> object:
    return context.sql_with_options(text, READ_ONLY)


def _with_headers(schema: pa.Schema) -> pa.Schema:
    names: list[str] = []
    for field in schema:
        first = first_of_same(field.name)
        names.append(header_of(field.name) if first is None else names[first])
    return pa.schema([field.with_name(name) for field, name in zip(schema, names, strict=True)])


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _translated(
    error: BaseException, life: QueryLife | None, translate: Callable[[BaseException], TsdbError]
) -> BaseException:
    """Return the error to raise: our own as it was, DataFusion's by its text, an interrupt as it is."""
    if life is not None and isinstance(life.failure, TsdbError):
        return life.failure
    if isinstance(error, Exception) or is_panic(error):
        return translate(error)
    return error


__all__ = ["InformationSource", "Job", "Planned", "Planner", "session_variable"]
