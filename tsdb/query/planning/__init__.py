"""DataFusion: a query's text is prepared, planned over its tables, and run."""

from tsdb.query.planning._context import Contexts, QueryEngineOptions
from tsdb.query.planning._job import Job, PlannedQuery, QueryDescription, ViewChain
from tsdb.query.planning._plans import Plans
from tsdb.query.planning._prepare import Expand, Preparer, may_read
from tsdb.query.planning._records import QueryRecords, Waiter, convert_batch

__all__ = [
    "Contexts",
    "Expand",
    "Job",
    "PlannedQuery",
    "Plans",
    "Preparer",
    "QueryDescription",
    "QueryEngineOptions",
    "QueryRecords",
    "ViewChain",
    "Waiter",
    "convert_batch",
    "may_read",
]
