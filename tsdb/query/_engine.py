"""Queries: text in, rows out.

    text ─▶ shape seen before ─▶ fast path
         └▶ tokens ─▶ choose ─┬▶ fast path: Scan, SeriesAggregate, Over
                              ├▶ Range: tsdb.query.range, which comes back here with plain SQL
                              └▶ Planned: limits ─▶ tables named ─▶ edits ─▶ DataFusion plans ─▶ rows as they come

Planning happens in the calling thread; rows are computed by DataFusion's threads and waited for by `QueryRecords`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa

from tsdb.clock import Clock
from tsdb.engine import Regions
from tsdb.memory import MemoryUse
from tsdb.model import ColumnInfo, TableInfo, ViewInfo
from tsdb.query._explain import (
    analyzed_fast_path,
    check_format,
    explain_prefix,
    explained_fast_path,
    explained_plan,
    with_range,
)
from tsdb.query._fast_paths import FastPath, FastPaths
from tsdb.query._planner import InformationSource, QueryPlanner
from tsdb.query._recent import RecentStatement
from tsdb.query.choose import Planned, Range
from tsdb.query.errors import without_places
from tsdb.query.planning import Expand, QueryEngineOptions
from tsdb.query.range import SessionRunner, SlotMemory, run_range
from tsdb.query.series_aggregate import AggregateRun, RepeatedAggregate
from tsdb.query.session import Records, Session, TableRecords, read_all
from tsdb.query.tables import TableCatalog
from tsdb.sql.clauses import Declined
from tsdb.sql.lexer import Token, tokenize
from tsdb.sql.outer_query import CELLS
from tsdb.sql.range_query import RangeQuery, find_range
from tsdb.sql.statements import Explain, Query


class QueryEngine:
    """Runs queries over the tables of a catalog."""

    def __init__(
        self,
        catalog: TableCatalog,
        regions: Regions,
        clock: Clock,
        options: QueryEngineOptions | None = None,
        *,
        information: InformationSource | None = None,
    ) -> None:
        self.clock = clock
        options = options or QueryEngineOptions()
        self._planner = QueryPlanner(catalog, regions, clock, options, information)
        self._slot_memory = SlotMemory(int(options.memory_bytes) // 2)
        self._fast_paths = FastPaths(self._planner, self._run_above)

    def memory_use(self) -> Iterator[MemoryUse]:
        yield from self._planner.memory_use()
        yield from self._slot_memory.memory_use()

    def limit_memory(self, share: float) -> None:
        """Hold less memory; at the least share no large query begins."""
        self._planner.limit_memory(share)
        self._slot_memory.limit_memory(share)

    def return_free_memory(self) -> None:
        """Return what queries have left to the system."""
        self._planner.return_free_memory()

    def expand_with(self, expand: Expand) -> None:
        """Let `expand` take out of every query, those of views too, what is not SQL."""
        self._planner.expand_with(expand)

    def query(self, text: str, session: Session, *, tables: Mapping[str, pa.Table] | None = None) -> Records:
        """Run a SELECT, WITH, VALUES; `tables` are visible by their bare names to this query alone."""
        if not tables and (seen := self._fast_paths.find_seen(text, session)) is not None:
            return self._fast_paths.start(seen, session, lambda: self._plan(text, session))
        text, extra = self._expanded(text, session, tables)
        tokens = tokenize(text, session.dialect)
        chosen = self._fast_paths.choose(text, tokens, session, extra)
        if isinstance(chosen, Planned):
            return self._run(text, tokens, session, extra)
        if isinstance(chosen, Range):
            return TableRecords(self._run_range(chosen.query, session, extra)[0])
        return self._fast_paths.start(chosen, session, lambda: self._run(text, tokens, session, extra))

    def find_repeated(self, text: str, session: Session) -> RepeatedAggregate | None:
        """Return an aggregate of a known shape that needs nothing but its table; None for anything else."""
        return self._fast_paths.find_repeated(text, session)

    def recent_statements(self) -> list[RecentStatement]:
        """Return queries that were asked last: one of each shape, the latest one first, and then those before them."""
        return self._fast_paths.recent()

    def aggregate(self, text: str, session: Session, *, tables: Mapping[str, pa.Table]) -> pa.Table | None:
        """Answer an aggregate from runs; None for any other query, and if only the planner can answer it."""
        seen = None if tables else self._fast_paths.find_seen(text, session)
        chosen = seen or self._fast_paths.choose(text, tokenize(text, session.dialect), session, tables)
        if not isinstance(chosen, FastPath) or not isinstance(chosen.run, AggregateRun):
            return None
        found = self._fast_paths.start_aggregate(chosen.run, chosen.filter, session).aggregate()
        return None if isinstance(found, Declined) else pa.Table.from_batches([found])

    def schema_of(self, text: str, session: Session, *, tables: Mapping[str, pa.Table] | None = None) -> pa.Schema:
        """Return the columns a query would answer with."""
        text, extra = self._expanded(text, session, tables)
        tokens = tokenize(text, session.dialect)
        if (query := find_range(text, tokens)) is not None:
            return self._run_range(query, session, extra)[0].schema
        return self._planner.describe(self._planner.prepare(text, tokens, session, extra)).schema

    def evaluate(self, expressions: Sequence[str], session: Session) -> list[pa.Scalar]:
        """Return the values of constant expressions."""
        if not expressions:
            return []
        items = ", ".join(f"({each}\n) AS c{number}" for number, each in enumerate(expressions))
        with without_places():
            rows = read_all(self.query(f"SELECT {items}", session))
        return [rows.column(number)[0] for number in range(len(expressions))]

    def explain(self, statement: Explain, text: str, session: Session) -> Records:
        """Show how a query would run, with ANALYZE how it ran. `text` is the text of the query that is explained."""
        check_format(statement)
        inner = statement.statement.text.text if isinstance(statement.statement, Query) else text
        inner, tables = self._expanded(inner, session, None)
        tokens = tokenize(inner, session.dialect)
        decision = self._fast_paths.decide(inner, tokens, session, tables)
        if not isinstance(decision, Range):
            return TableRecords(self._explain(statement, inner, session, tables))
        _, runner = self._run_range(decision.query, session, tables)
        assert runner.first is not None, "a range query runs at least one query"
        first, visible = runner.first
        return TableRecords(with_range(statement, self._explain(statement, first, session, visible), decision))

    def _explain(self, statement: Explain, text: str, session: Session, tables: Mapping[str, pa.Table]) -> pa.Table:
        """Explain a query that holds no range queries."""
        tokens = tokenize(text, session.dialect)
        chosen = self._fast_paths.choose(text, tokens, session, tables)
        assert not isinstance(chosen, Range), "range queries are taken apart into queries without ALIGN"
        if isinstance(chosen, Planned):
            planned = self._planner.run(
                self._planner.prepare(text, tokens, session, tables, prefix=explain_prefix(statement))
            )
            return explained_plan(statement, read_all(planned), planned.scans, chosen.reason)
        records = self._fast_paths.start(chosen, session, lambda: self._run(text, tokens, session, tables))
        try:
            if statement.is_analyze:
                return analyzed_fast_path(statement, records, chosen.reason)
            return explained_fast_path(statement, records, chosen.reason)
        finally:
            records.close()

    def _expanded(
        self, text: str, session: Session, tables: Mapping[str, pa.Table] | None
    ) -> tuple[str, Mapping[str, pa.Table]]:
        text, found = self._planner.expand(text, session)
        return text, {**(tables or {}), **found}

    def find_table(self, parts: Sequence[str], session: Session) -> TableInfo | None:
        """Return the table that a name of one to three parts stands for in a session; None for anything else."""
        return self._planner.find_table(parts, session)

    def columns_of_view(self, view: ViewInfo, session: Session) -> tuple[ColumnInfo, ...]:
        """Return the columns of a view as its query has them now; none of a view that cannot be planned."""
        return self._planner.columns_of_view(view, session)

    def close(self) -> None:
        """Stop the threads and processes of queries."""
        self._planner.close()

    def _run_range(
        self, query: RangeQuery, session: Session, tables: Mapping[str, pa.Table]
    ) -> tuple[pa.Table, SessionRunner]:
        life = self._planner.life_of(session)
        runner = SessionRunner(self, session, tables, life.check, self._slot_memory)
        try:
            return run_range(query, runner), runner
        finally:
            runner.slots.release()
            life.end()

    def _run_above(self, text: str, cells: pa.Table, session: Session) -> Records:
        return self._run(text, tokenize(text, session.dialect), session, {CELLS: cells})

    def _plan(self, text: str, session: Session) -> Records:
        """Have a query planned that something else could have answered."""
        return self._run(text, tokenize(text, session.dialect), session, {})

    def _run(self, text: str, tokens: list[Token], session: Session, tables: Mapping[str, pa.Table]) -> Records:
        return self._planner.run(self._planner.prepare(text, tokens, session, tables))
