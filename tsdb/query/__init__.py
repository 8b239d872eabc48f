"""Queries: DataFusion over regions, the functions of the dialect, and the tables that describe the database."""

from __future__ import annotations

from tsdb.query._context import QueryOptions
from tsdb.query._engine import QueryEngine
from tsdb.query._life import Checkpoint, checked_by
from tsdb.query._visible import visible
from tsdb.query._write_token import WriteToken
from tsdb.query.errors import ExecuteQuery, OutOfMemory, PlanQuery, QueryPanic, TableMissing
from tsdb.query.series_aggregate import VARIABLE as SERIES_AGGREGATE
from tsdb.query.session import Affected, Channel, Output, Records, Session, TableRecords, read_all

__all__ = [
    "SERIES_AGGREGATE",
    "Affected",
    "Channel",
    "Checkpoint",
    "ExecuteQuery",
    "OutOfMemory",
    "Output",
    "PlanQuery",
    "QueryEngine",
    "QueryOptions",
    "QueryPanic",
    "Records",
    "Session",
    "TableMissing",
    "TableRecords",
    "WriteToken",
    "checked_by",
    "read_all",
    "visible",
]
