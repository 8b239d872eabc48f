"""Protocol bytes into rows of Arrow; pure, knows no engine and no catalog."""

from __future__ import annotations

from tsdb.ingest._builder import single_value_rows
from tsdb.ingest._survivors import drop_rejected
from tsdb.ingest.rows import (
    IngestRejected,
    NewTable,
    NumberedSeries,
    ParsedTags,
    Rejection,
    TableRows,
    WriteOutcome,
)

__all__ = [
    "IngestRejected",
    "NewTable",
    "NumberedSeries",
    "ParsedTags",
    "Rejection",
    "TableRows",
    "WriteOutcome",
    "drop_rejected",
    "single_value_rows",
]
