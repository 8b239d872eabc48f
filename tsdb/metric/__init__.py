"""The metric engine: many logical tables, one for each metric, in the one region of a physical table.

    logical rows ─ make_series ─▶ (__table_id, __labels, time, value, histogram) ─▶ the physical table's region
    the region, opened with `TableInfo.view` ─▶ rows with the columns of a logical table

Thousands of small tables share one log, one memtable and one set of files. A new table or a new label is a change of
the catalog only.
"""

from tsdb.metric._rules import ON_PHYSICAL, check_writable, plan_column, plan_metric_table
from tsdb.metric._write import make_series
from tsdb.model import encode_labels

__all__ = [
    "ON_PHYSICAL",
    "check_writable",
    "encode_labels",
    "make_series",
    "plan_column",
    "plan_metric_table",
]
