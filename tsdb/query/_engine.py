"""Queries: text in, rows out.

    text ─▶ tokens ─▶ limits ─▶ tables named ─▶ edits ─▶ DataFusion plans ─▶ rows as they come
                   └▶ RANGE … ALIGN ─▶ tsdb.query.range, which comes back here with plain SQL

Planning happens in the thread that asks; rows are computed by DataFusion's threads and waited for by `QueryRecords`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from tsdb.clock import Clock
from tsdb.engine import Regions
from tsdb.model import ColumnInfo, TableInfo, ViewInfo
from tsdb.query._context import QueryOptions
from tsdb.query._explain import analyzed, analyzed_aggregate, explain_prefix, with_aggregate, with_reason
from tsdb.query._fast_paths import FastPaths
from tsdb.query._planner import InformationSource, Planner
from tsdb.query._prepare import Expand
from tsdb.query._providers import TableCatalog
from tsdb.query._range import SessionRunner
from tsdb.query.range import run_range
from tsdb.query.series_aggregate import AggregateRecords, LeftToPlanner, OuterRecords, leave_to_planner
from tsdb.query.session import Records, Session, TableRecords, read_all
from tsdb.query.syntax_errors import without_places
from tsdb.sql.clauses import OtherClause
from tsdb.sql.lexer import Token, tokenize
from tsdb.sql.outer_query import CELLS
from tsdb.sql.range_query import find_range
from tsdb.sql.statements import Explain, Query


class QueryEngine:
    """Runs queries over the tables of a catalog."""

    def __init__(
        self,
        catalog: TableCatalog,
        regions: Regions,
        clock: Clock,
        options: QueryOptions | None = None,
        *,
        information: InformationSource | None = None,
    ) -> None:
        self.clock = clock
        self._planner = Planner(catalog, regions, clock, options or QueryOptions(), information)
        self._fast_paths = FastPaths(self._planner)

    def expand_with(self, expand: Expand) -> None:
        """Let `expand` take out of every query, those of views too, what is not SQL."""
        self._planner.expand_with(expand)

    def query(self, text: str, session: Session, *, tables: Mapping[str, pa.Table] | None = None) -> Records:
        """Run a SELECT, WITH, VALUES; `tables` are visible by their bare names to this query alone."""
        if not tables:
            again = self._fast_paths.answer_seen(text, session, lambda: self._plan(text, session), self._run_above)
            if again is not None:
                return again
        text, extra = self._expanded(text, session, tables)
        tokens = tokenize(text, session.dialect)
        if (records := self._fast_paths.select(text, tokens, session, extra)) is not None:
            return records
        if not isinstance(found := self._find_aggregate(text, tokens, session, extra), str):
            return found
        if find_range(text, tokens) is not None:
            return TableRecords(run_range(text, tokens, SessionRunner(self, session, extra)))
        return self._run(text, tokens, session, extra)

    def aggregate(self, text: str, session: Session, *, tables: Mapping[str, pa.Table]) -> pa.Table | None:
        """Answer an aggregate from runs; None for any other query, and if only a planner can tell the answer."""
        records = None if tables else self._fast_paths.answer_seen(text, session, leave_to_planner, self._run_above)
        try:
            if records is None:
                records = self._fast_paths.aggregate(
                    text, tokenize(text, session.dialect), session, tables, leave_to_planner
                )
            return read_all(records)
        except (OtherClause, LeftToPlanner):
            return None

    def schema_of(self, text: str, session: Session, *, tables: Mapping[str, pa.Table] | None = None) -> pa.Schema:
        """Return the columns a query would answer with."""
        text, extra = self._expanded(text, session, tables)
        tokens = tokenize(text, session.dialect)
        if find_range(text, tokens) is not None:
            return run_range(text, tokens, SessionRunner(self, session, extra)).schema
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
        prefix = explain_prefix(statement)
        inner = statement.statement.text.text if isinstance(statement.statement, Query) else text
        inner, tables = self._expanded(inner, session, None)
        tokens = tokenize(inner, session.dialect)
        if find_range(inner, tokens) is not None:
            runner = SessionRunner(self, session, tables)
            run_range(inner, tokens, runner)
            assert runner.first is not None, "a range query runs at least one query"
            inner, tables = runner.first
            tokens = tokenize(inner, session.dialect)
        found = self._find_aggregate(inner, tokens, session, tables)
        if not statement.is_analyze:
            explained = self._run(inner, tokens, session, tables, prefix=prefix)
            if isinstance(found, str):
                return explained
            description = found.describe()
            found.close()
            if statement.format is not None:
                return explained
            return TableRecords(with_aggregate(read_all(explained), description))
        if not isinstance(found, str):
            if statement.format is None:
                return TableRecords(analyzed_aggregate(found))
            found.close()
        records = self._planner.run(self._planner.prepare(inner, tokens, session, tables, prefix=prefix))
        explained = read_all(records)
        answer = analyzed(statement, explained, records.scans)
        return TableRecords(with_reason(answer, found) if isinstance(found, str) and not statement.format else answer)

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

    def _find_aggregate(
        self, text: str, tokens: list[Token], session: Session, tables: Mapping[str, pa.Table]
    ) -> AggregateRecords | OuterRecords | str:
        """Return the answer to an aggregate by tags and time from runs, or why it is none."""

        def plan() -> Records:
            return self._run(text, tokens, session, tables)

        try:
            return self._fast_paths.aggregate(text, tokens, session, tables, plan)
        except OtherClause as reason:
            plain_reason = str(reason)
        try:
            if tables:
                return plain_reason
            return self._fast_paths.aggregate_outer(text, tokens, session, plan, self._run_above)
        except OtherClause:
            return plain_reason

    def _run_above(self, text: str, cells: pa.Table, session: Session) -> Records:
        return self._run(text, tokenize(text, session.dialect), session, {CELLS: cells})

    def _plan(self, text: str, session: Session) -> Records:
        """Have a query planned that something else could have answered."""
        return self._run(text, tokenize(text, session.dialect), session, {})

    def _run(
        self,
        text: str,
        tokens: list[Token],
        session: Session,
        tables: Mapping[str, pa.Table],
        *,
        prefix: str = "",
    ) -> Records:
        return self._planner.run(self._planner.prepare(text, tokens, session, tables, prefix=prefix))
