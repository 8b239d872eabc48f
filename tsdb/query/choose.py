"""Which way a query is answered, and why: one decision that queries and EXPLAIN share.

    Scan              columns of one table, read without a plan
    SeriesAggregate   aggregates by tags and a bucket of time, from runs of rows
    Over              a query over the few rows of such an aggregate
    Range             RANGE … ALIGN, taken apart into plain queries
    Planned           everything else, by DataFusion

`choose` is pure: it looks at a query that has been read, the table it names and the session, and at no rows. A fast
path that does not fit is `Planned` with the reason, never an error: the planner says what is wrong with a query.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from tsdb.model import TableInfo
from tsdb.query.selection import PlainSelection, fit_selection
from tsdb.query.series_aggregate import FittedQuery, fit_query, is_series_aggregate_on
from tsdb.query.session import Session
from tsdb.sql.clauses import Condition, Declined
from tsdb.sql.lexer import tokenize
from tsdb.sql.outer_query import Apart, take_apart
from tsdb.sql.range_query import RangeQuery
from tsdb.sql.select import Select, parse_select


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


def choose(query: Select | RangeQuery | Declined, table: TableInfo | None, session: Session) -> Decision:
    """Return how a query is answered; `table` is the one that a SELECT names, None if it is none of the catalog's."""
    if isinstance(query, RangeQuery):
        return Range(query)
    if not is_series_aggregate_on(session):
        return Planned("series_aggregate is off in this session")
    if isinstance(query, Declined):
        return Planned(query.reason)
    if table is None:
        return Planned("it does not read exactly one table")
    if not query.has_aggregates:
        selection = fit_selection(query, table, session.time_zone)
        if isinstance(selection, PlainSelection):
            where = query.plain_where()
            assert not isinstance(where, Declined)
            return Scan(selection, where, query.table)
        return _choose_over(query, table, session) or Planned(selection.reason)
    aggregate = _choose_aggregate(query, table, session)
    if isinstance(aggregate, SeriesAggregate):
        return aggregate
    return _choose_over(query, table, session) or Planned(aggregate.reason)


def _choose_aggregate(select: Select, table: TableInfo, session: Session) -> SeriesAggregate | Declined:
    fitted = fit_query(select, table, session.time_zone)
    return fitted if isinstance(fitted, Declined) else SeriesAggregate(fitted, select.table, select.shape)


def _choose_over(select: Select, table: TableInfo, session: Session) -> Over | None:
    apart = take_apart(select, table.by_name)
    if isinstance(apart, Declined):
        return None
    below = parse_select(apart.below, tokenize(apart.below, select.dialect), select.dialect)
    found = below if isinstance(below, Declined) else _choose_aggregate(below, table, session)
    return None if isinstance(found, Declined) else Over(found, apart)
