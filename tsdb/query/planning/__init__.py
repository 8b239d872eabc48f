"""DataFusion: a query's text is prepared, planned over its tables, and run."""

from __future__ import annotations

from tsdb.query.planning._context import Contexts, QueryOptions
from tsdb.query.planning._job import Described, Job, Planned, ViewChain
from tsdb.query.planning._plans import Plans
from tsdb.query.planning._prepare import Expand, Preparer, may_read
from tsdb.query.planning._records import QueryRecords, Waiter, convert_batch

__all__ = [
    "Contexts",
    "Described",
    "Expand",
    "Job",
    "Planned",
    "Plans",
    "Preparer",
    "QueryOptions",
    "QueryRecords",
    "ViewChain",
    "Waiter",
    "convert_batch",
    "may_read",
]
