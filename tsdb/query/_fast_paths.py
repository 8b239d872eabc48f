"""Queries that need no planner: plain selections, aggregates by tags and time, and what is computed with these.

A text is compared with the shapes of queries seen before; then it is read as a selection, an aggregate, or a query over
an aggregate. `OtherClause` says why a query is none of these.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pyarrow as pa

from tsdb.errors import TsdbError
from tsdb.model import METRIC_ENGINE
from tsdb.query._job import SeenAggregate, SeenOuter
from tsdb.query._planner import Planner
from tsdb.query._records import QueryRecords
from tsdb.query._seen import Misfit, SeenShapes, shifted
from tsdb.query._selection import PlainSelection, SelectionRecords, fit_selection
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
from tsdb.query.session import Records, Session, read_all
from tsdb.sql.clauses import OtherClause
from tsdb.sql.lexer import Token, tokenize
from tsdb.sql.outer_query import CELLS, Apart, take_apart
from tsdb.sql.rewrite import Layout, find_tables
from tsdb.sql.selection import find_selection
from tsdb.sql.series_query import read_series_query

Above = Callable[[str, pa.Table, Session], Records]


class FastPaths:
    """Answers queries of known kinds from the regions."""

    def __init__(self, planner: Planner) -> None:
        self._planner = planner
        self._shapes = Shapes()
        self._tag_values = TagValues(self._evaluate)
        self._seen: SeenShapes[PlainSelection | SeenAggregate | SeenOuter] = SeenShapes()

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
        table = self._planner.find_table(template.name, session)
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
        table = self._planner.find_table(selection.table, session)
        if table is None or table.engine == "file" or table.is_physical:
            return None
        fitted = fit_selection(selection, table, session.time_zone)
        if fitted is None:
            return None
        if not tables and table.engine != METRIC_ENGINE:
            self._seen.remember(text, session, selection.where, selection.table, table, lambda: fitted)
        return self._start_selection(fitted, session)

    def _start_selection(self, fitted: PlainSelection, session: Session) -> SelectionRecords:
        life = self._planner.short_life(session)
        source = self._planner.source(life, session, {}, is_ordered=True, is_single=True)
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
            table = self._planner.find_table(query.table, session)
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
        life = self._planner.short_life(session)
        source = self._planner.source(life, session, {}, is_ordered=False, is_single=True)
        try:
            return AggregateRecords(
                fitted,
                bound,
                source.dataset(fitted.table),
                life,
                meaning.schema,
                meaning.kinds,
                threads=self._planner.parallelism,
                plan=plan,
            )
        except BaseException:
            life.end()
            raise

    def _evaluate(self, text: str, tags: pa.Table, session: Session) -> pa.Table:
        """Run a query over tags of series, in the thread that wants its answer."""
        job = self._planner.prepare(text, tokenize(text, session.dialect), session, {TAGS: tags})
        planned, stream = self._planner.start(job)
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
        table = self._planner.find_table(named[0].parts, session) if len(named) == 1 else None
        if table is None:
            raise OtherClause("it is not of one table")
        return take_apart(text, tokens, session.dialect, table.by_name)

    def _outer_schema(
        self, text: str, tokens: list[Token], apart: Apart, below: pa.Schema, session: Session
    ) -> pa.Schema:
        """Return the columns of a query that was taken apart; OtherClause if what is above has others."""
        try:
            schema = self._schema_of(text, tokens, session)
            tokens = tokenize(apart.above, session.dialect)
            job = self._planner.prepare(apart.above, tokens, session, {CELLS: below.empty_table()})
            planned = self._planner.describe(job).schema
        except TsdbError as error:
            raise OtherClause(f"it cannot be taken apart: {error}") from error
        if planned.types != schema.types:
            raise OtherClause("its columns would be of other types")
        return schema

    def _schema_of(self, text: str, tokens: list[Token], session: Session) -> pa.Schema:
        return self._planner.describe(self._planner.prepare(text, tokens, session, {})).schema
