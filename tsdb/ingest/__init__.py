"""Protocol bytes into rows of Arrow; pure, knows no engine and no catalog."""

from tsdb.ingest._builder import single_value_rows
from tsdb.ingest._survivors import drop_rejected, rows_with
from tsdb.ingest.rows import (
    IngestRejected,
    NewTable,
    NumberedSeries,
    ParsedTags,
    PlannedRows,
    Rejection,
    TableRows,
    WriteOutcome,
)

__all__ = [
    "IngestRejected",
    "NewTable",
    "NumberedSeries",
    "ParsedTags",
    "PlannedRows",
    "Rejection",
    "TableRows",
    "WriteOutcome",
    "drop_rejected",
    "rows_with",
    "single_value_rows",
]
