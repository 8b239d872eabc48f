"""Aggregates by tags and time, answered from runs of rows instead of a plan.

    tsdb.sql.select ─▶ fit to the table ─▶ RegionReader.cells ─▶ finish, order, limit ─▶ rows

The rows of a series that fall into one bucket of time are neighbours in every source, so nothing is hashed and no row
is looked at on its own. Names and types of the answer are those that the planner gives the same text; it is asked once
per shape of a statement. Whatever is not recognised goes to the planner as before.
"""

from tsdb.query.series_aggregate._fit import FittedQuery, RunFilter, fit_query
from tsdb.query.series_aggregate._outer import OuterRecords
from tsdb.query.series_aggregate._over_tags import TAGS, TagValues, bind_expressions
from tsdb.query.series_aggregate._records import (
    AggregateRecords,
    AggregateRun,
    LentAggregate,
    NeedsPlanner,
    RepeatedAggregate,
    borrowed_records,
)
from tsdb.query.series_aggregate._shapes import VARIABLE, Shapes, is_series_aggregate_on

__all__ = [
    "TAGS",
    "VARIABLE",
    "AggregateRecords",
    "AggregateRun",
    "FittedQuery",
    "LentAggregate",
    "NeedsPlanner",
    "OuterRecords",
    "RepeatedAggregate",
    "RunFilter",
    "Shapes",
    "TagValues",
    "bind_expressions",
    "borrowed_records",
    "fit_query",
    "is_series_aggregate_on",
]
