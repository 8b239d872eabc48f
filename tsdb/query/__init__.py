"""Queries: DataFusion over regions, the functions of the dialect, and the tables that describe the database."""

from tsdb.query._checkpoint import run_checked, threads_max
from tsdb.query._engine import QueryEngine
from tsdb.query._recent import RecentStatement
from tsdb.query._write_token import WriteToken
from tsdb.query.errors import PlanQuery, TableMissing
from tsdb.query.planning import QueryEngineOptions
from tsdb.query.series_aggregate import VARIABLE as SERIES_AGGREGATE
from tsdb.query.session import Affected, Channel, Output, Records, Session, TableRecords, read_all
from tsdb.query.tables import matching_regions, visible

__all__ = [
    "SERIES_AGGREGATE",
    "Affected",
    "Channel",
    "Output",
    "PlanQuery",
    "QueryEngine",
    "QueryEngineOptions",
    "RecentStatement",
    "Records",
    "Session",
    "TableMissing",
    "TableRecords",
    "WriteToken",
    "matching_regions",
    "read_all",
    "run_checked",
    "threads_max",
    "visible",
]
