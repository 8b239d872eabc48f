"""Which way a query is answered, and why: one decision that queries and EXPLAIN share.

    Scan              columns of one table, read without a plan
    SeriesAggregate   aggregates by tags and a bucket of time, from runs of rows
    Over              a query over the few rows of such an aggregate
    Range             RANGE … ALIGN, taken apart into plain queries
    Planned           everything else, by DataFusion

`choose` is pure: it looks at the text, the table that the text names and the session, and reads no rows. A fast path
that does not fit is `Planned` with the reason, never an error: what is wrong with a query is for the planner to say.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

from tsdb.model import TableInfo
from tsdb.query._selection import PlainSelection, fit_selection
from tsdb.query.series_aggregate import FittedQuery, fit_query, is_series_aggregate_on
from tsdb.query.session import Session
from tsdb.sql.clauses import Condition, Declined, OtherClause
from tsdb.sql.lexer import Token, tokenize
from tsdb.sql.outer_query import Apart, take_apart
from tsdb.sql.range_query import RangeQuery, find_range
from tsdb.sql.rewrite import Layout, find_tables
from tsdb.sql.selection import read_selection
from tsdb.sql.terms import AGGREGATES, read_series_query

FindTable: TypeAlias = Callable[[Sequence[str]], TableInfo | None]
"""Returns the table of the catalog that a name stands for; None for views and tables of a query's own."""


@dataclass(frozen=True, slots=True, eq=False)
class Scan:
    """Columns of one table."""

    selection: PlainSelection
    where: Condition | None
    name: tuple[str, ...]
    """Of the table, as it was written."""
    reason: str = "it selects columns of one table"


@dataclass(frozen=True, slots=True, eq=False)
class SeriesAggregate:
    """Aggregates by tags and a bucket of time."""

    fitted: FittedQuery
    name: tuple[str, ...]
    shape: str
    """The text without its conditions."""
    reason: str = "it aggregates one table by tags and time"


@dataclass(frozen=True, slots=True, eq=False)
class Over:
    """A query over the rows of an aggregate."""

    below: SeriesAggregate
    apart: Apart
    reason: str = "it computes with aggregates of one table by tags and time"


@dataclass(frozen=True, slots=True, eq=False)
class Range:
    """A statement with range queries."""

    query: RangeQuery
    """The one to evaluate first."""
    reason: str = "it has ALIGN"


@dataclass(frozen=True, slots=True)
class Planned:
    """Everything else."""

    reason: str
    """Why no other way fits."""


Decision: TypeAlias = Scan | SeriesAggregate | Over | Range | Planned


def choose(text: str, tokens: list[Token], session: Session, find: FindTable) -> Decision:
    """Return how a query is answered. InvalidSyntax for RANGE and ALIGN that break their rules."""
    if (query := find_range(text, tokens)) is not None:
        return Range(query)
    if not is_series_aggregate_on(session):
        return Planned("series_aggregate is off in this session")
    scan = _choose_scan(tokens, session, find)
    if not isinstance(scan, Declined):
        return scan
    aggregate = _choose_aggregate(text, tokens, session, find)
    if not isinstance(aggregate, Declined):
        return aggregate
    over = _choose_over(text, tokens, session, find)
    if not isinstance(over, Declined):
        return over
    return Planned(aggregate.reason if _has_aggregates(tokens) else scan.reason)


def _has_aggregates(tokens: list[Token]) -> bool:
    return any(
        token.word == "GROUP" or (token.word.lower() in AGGREGATES and behind.text == "(")
        for token, behind in pairwise(tokens)
    )


def _choose_scan(tokens: list[Token], session: Session, find: FindTable) -> Scan | Declined:
    selection = read_selection(tokens, session.dialect)
    if isinstance(selection, Declined):
        return selection
    table = find(selection.table)
    if table is None:
        return Declined("it is not of one table")
    fitted = fit_selection(selection, table, session.time_zone)
    return fitted if isinstance(fitted, Declined) else Scan(fitted, selection.where, selection.table)


def _choose_aggregate(text: str, tokens: list[Token], session: Session, find: FindTable) -> SeriesAggregate | Declined:
    try:
        query = read_series_query(text, tokens, session.dialect)
        table = find(query.table)
        if table is None:
            return Declined("it is not of one table")
        return SeriesAggregate(fit_query(query, table, session.time_zone), query.table, query.shape)
    except OtherClause as error:
        return Declined(str(error))


def _choose_over(text: str, tokens: list[Token], session: Session, find: FindTable) -> Over | Declined:
    named = find_tables(Layout(text, tokens), session.dialect)
    table = find(named[0].parts) if len(named) == 1 else None
    if table is None:
        return Declined("it is not of one table")
    try:
        apart = take_apart(text, tokens, session.dialect, table.by_name)
    except OtherClause as error:
        return Declined(str(error))
    below = _choose_aggregate(apart.below, tokenize(apart.below, session.dialect), session, find)
    return below if isinstance(below, Declined) else Over(below, apart)
