"""The metric engine: many logical tables, one for each metric, in the one region of a physical table.

    logical rows ─ make_series ─▶ (__table_id, __labels, time, value, histogram) ─▶ the physical table's region
    the region's snapshot ─ view_snapshot ─▶ rows with the columns of a logical table

Thousands of small tables share one log, one memtable and one set of files. A new table or a new label is a change of
the catalog only. `view_snapshot` is for readers of whole series, `open_table` for queries.
"""

from __future__ import annotations

from tsdb.metric._labels import decode_labels, encode_labels
from tsdb.metric._rules import ON_PHYSICAL, RESERVED_NAMES, check_writable, plan_column, plan_metric_table
from tsdb.metric._view import open_table, view_snapshot, view_sources
from tsdb.metric._write import make_series

__all__ = [
    "ON_PHYSICAL",
    "RESERVED_NAMES",
    "check_writable",
    "decode_labels",
    "encode_labels",
    "make_series",
    "open_table",
    "plan_column",
    "plan_metric_table",
    "view_snapshot",
    "view_sources",
]
