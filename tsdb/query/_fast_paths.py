"""Runs what `choose` has chosen: scans, aggregates by tags and time, and queries over these.

Names and types of an aggregate's columns are those that the planner gives the same text. It plans each shape of a text
once; the decision is cached under the shape, so that a text which differs only in the literals of its conditions is
neither parsed nor planned again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import pyarrow as pa

from tsdb.errors import Busy, Cancelled, DeadlineExceeded, TsdbError
from tsdb.model import METRIC_ENGINE
from tsdb.query._planner import QueryPlanner
from tsdb.query._recent import RecentStatement
from tsdb.query._seen import SeenShapes, shifted
from tsdb.query.choose import Decision, Over, Planned, Range, Scan, SeriesAggregate, choose
from tsdb.query.planning import QueryRecords
from tsdb.query.selection import PlainSelection, SelectionRecords
from tsdb.query.series_aggregate import (
    TAGS,
    AggregateRecords,
    AggregateRun,
    OuterRecords,
    RepeatedAggregate,
    RunFilter,
    Shapes,
    TagValues,
    bind_expressions,
    is_series_aggregate_on,
)
from tsdb.query.session import Records, Session, read_all
from tsdb.sql.lexer import Token, tokenize
from tsdb.sql.outer_query import CELLS
from tsdb.sql.select import Select, parse_query

Above: TypeAlias = Callable[[str, pa.Table, Session], Records]
"""Runs a query over the rows of an aggregate."""


@dataclass(frozen=True, slots=True, eq=False)
class OverRun:
    """A query over an aggregate with the columns of its answer, whatever the aggregate's conditions are."""

    below: AggregateRun
    above: str
    schema: pa.Schema


FastRun: TypeAlias = PlainSelection | AggregateRun | OverRun
FastRecords: TypeAlias = SelectionRecords | AggregateRecords | OuterRecords


@dataclass(slots=True, eq=False)
class FastPath:
    """What answers a query: a run, under which conditions, and why it was chosen."""

    run: FastRun
    filter: RunFilter
    reason: str


class FastPaths:
    """Chooses how queries are answered, and answers those that need no planner from the regions."""

    def __init__(self, planner: QueryPlanner, above: Above) -> None:
        self._planner = planner
        self._above = above
        self._shapes = Shapes()
        self._tag_values = TagValues(self._evaluate)
        self._seen: SeenShapes[FastRun] = SeenShapes()

    def find_seen(self, text: str, session: Session) -> FastPath | None:
        """Return what a text of a known shape means, with its own literals; None for any other."""
        if not is_series_aggregate_on(session):
            return None
        known = self._seen.find(text, session)
        if known is None:
            return None
        template, shape = known
        table = self._planner.find_table(template.name, session)
        if table is None or not template.is_of(table):
            return None
        filter = template.where.bind(shape.literals)
        return None if filter is None else FastPath(template.meaning, filter, "its shape was seen before")

    def find_repeated(self, text: str, session: Session) -> RepeatedAggregate | None:
        """Return an aggregate of a known shape that needs nothing but its table; None for anything else."""
        seen = self.find_seen(text, session)
        if seen is None or not isinstance(seen.run, AggregateRun) or not RepeatedAggregate.can_be(seen.run):
            return None
        if not self._planner.is_patient(session):
            return None
        run, filter = seen.run, seen.filter
        start = partial(self.start_aggregate, run, filter, session)
        return RepeatedAggregate(run, run, filter, self._planner.open_reader, start)

    def recent(self) -> list[RecentStatement]:
        """Return the last statements of the shapes that were asked last."""
        return self._seen.recent.statements()

    def choose(
        self, text: str, tokens: list[Token], session: Session, tables: Mapping[str, pa.Table]
    ) -> FastPath | Range | Planned:
        """Return how a query is answered: by a fast path, or another way."""
        decision = self.decide(text, tokens, session, tables)
        if isinstance(decision, Range | Planned):
            return decision
        if isinstance(decision, Scan):
            selection = decision.selection
            if not tables and selection.table.engine != METRIC_ENGINE:
                self._seen.remember(text, session, decision.where, decision.name, selection.table, selection)
            return FastPath(selection, selection.filter, decision.reason)
        if isinstance(decision, SeriesAggregate):
            fitted = decision.fitted
            run = self._aggregate_run(decision, text, tokens, session)
            if not tables and not fitted.is_of_range:
                self._seen.remember(text, session, fitted.where, decision.name, fitted.table, run)
            return FastPath(run, fitted.filter, decision.reason)
        return self._choose_over(decision, text, tokens, session, is_kept=not tables)

    def decide(self, text: str, tokens: list[Token], session: Session, tables: Mapping[str, pa.Table]) -> Decision:
        """Return what the text, the table and the session alone decide."""
        query = parse_query(text, tokens, session.dialect)
        table = None
        if isinstance(query, Select) and (len(query.table) > 1 or query.table[0] not in tables):
            table = self._planner.find_table(query.table, session)
        return choose(query, table, session)

    def start(self, chosen: FastPath, session: Session, plan: Callable[[], Records]) -> FastRecords:
        """Answer a query; `plan` runs the fallback for the rare answer that only the planner can give."""
        run, filter = chosen.run, chosen.filter
        if isinstance(run, PlainSelection):
            return self._start_scan(run.where(filter), session)
        if isinstance(run, AggregateRun):
            return self.start_aggregate(run, filter, session, plan)
        below = self.start_aggregate(run.below, filter, session)
        return OuterRecords(below, lambda rows: self._above(run.above, rows, session), run.schema, plan)

    def _start_scan(self, selection: PlainSelection, session: Session) -> SelectionRecords:
        life = self._planner.short_life(session)
        source = self._planner.source(life, session, {}, is_ordered=True, is_single=True)
        try:
            return SelectionRecords(selection, source.dataset(selection.table), life)
        except BaseException:
            life.end()
            raise

    def start_aggregate(
        self, run: AggregateRun, filter: RunFilter, session: Session, plan: Callable[[], Records] | None = None
    ) -> AggregateRecords:
        """Answer an aggregate; without a `plan` the caller reads its rows by `aggregate`."""
        fitted = run.fitted
        bound = bind_expressions(fitted, filter, lambda each, tags: self._tag_values.of(each, tags, session))
        life = self._planner.short_life(session)
        source = self._planner.source(life, session, {}, is_ordered=False, is_single=True)
        try:
            dataset = source.dataset(fitted.table)
            return AggregateRecords(run, bound, dataset, life, threads=self._planner.parallelism, plan=plan)
        except BaseException:
            life.end()
            raise

    def _evaluate(self, text: str, tags: pa.Table, session: Session) -> pa.Table:
        """Run a query over tags of series, in the thread that wants its answer."""
        job = self._planner.prepare(text, tokenize(text, session.dialect), session, {TAGS: tags})
        planned, stream = self._planner.start(job)
        return read_all(QueryRecords(stream, planned.schema, planned.life, None))

    def _aggregate_run(
        self, decision: SeriesAggregate, text: str, tokens: list[Token], session: Session
    ) -> AggregateRun:
        table = decision.fitted.table
        schema = self._shapes.schema(
            (table.id, table.version, session.database, session.dialect, session.time_zone, decision.shape),
            lambda: self._schema_of(text, tokens, session),
        )
        return AggregateRun(decision.fitted, schema, schema.types)

    def _choose_over(
        self, decision: Over, text: str, tokens: list[Token], session: Session, *, is_kept: bool
    ) -> FastPath | Planned:
        """Return how a query over an aggregate runs; Planned if its two halves do not make the whole."""
        apart, fitted = decision.apart, decision.below.fitted
        below = self._aggregate_run(decision.below, apart.below, tokenize(apart.below, session.dialect), session)
        try:
            schema = self._schema_of(text, tokens, session)
            job = self._planner.prepare(
                apart.above, tokenize(apart.above, session.dialect), session, {CELLS: below.schema.empty_table()}
            )
            planned = self._planner.describe(job).schema
        except (Cancelled, DeadlineExceeded, Busy):
            raise
        except TsdbError as error:
            return Planned(f"it cannot be decomposed: {error}")
        if planned.types != schema.types:
            return Planned("its columns would have other types")
        run = OverRun(below, apart.above, schema)
        if is_kept and not fitted.is_of_range:
            where = shifted(fitted.where, apart.shift)
            self._seen.remember(text, session, where, decision.below.name, fitted.table, run)
        return FastPath(run, fitted.filter, decision.reason)

    def _schema_of(self, text: str, tokens: list[Token], session: Session) -> pa.Schema:
        return self._planner.describe(self._planner.prepare(text, tokens, session, {})).schema
