"""Protocol bytes into rows of Arrow; pure, knows no engine and no catalog."""

from __future__ import annotations

from tsdb.ingest.rows import NewTable, Rejection, TableRows, WriteOutcome

__all__ = ["NewTable", "Rejection", "TableRows", "WriteOutcome"]
