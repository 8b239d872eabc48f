"""Errors of queries: their kinds, and the texts of DataFusion in words of SQL."""

from tsdb.query.errors._syntax import located, without_places
from tsdb.query.errors._translate import (
    OutOfMemory,
    PlanQuery,
    QueryPanic,
    TableMissing,
    execution_error,
    is_bridge_failure,
    is_panic,
    planning_error,
)

__all__ = [
    "OutOfMemory",
    "PlanQuery",
    "QueryPanic",
    "TableMissing",
    "execution_error",
    "is_bridge_failure",
    "is_panic",
    "located",
    "planning_error",
    "without_places",
]
