"""Queries: DataFusion over regions, the functions of the dialect, and the tables that describe the database."""

from __future__ import annotations

from tsdb.query.session import Affected, Channel, Output, Records, Session, TableRecords, read_all

__all__ = ["Affected", "Channel", "Output", "Records", "Session", "TableRecords", "read_all"]
