"""Reading a region: snapshots of its sources, pruned, merged and handed out.

    filters ─▶ snapshot ─▶ plan ─▶ readers ─▶ queries

| package    | what it has                                                                               |
|------------|-------------------------------------------------------------------------------------------|
| `filters`  | expressions, and what a filter says about series, time and rows                           |
| `snapshot` | sources that stay as they are for a query, views of them, counters                        |
| `plan`     | `plan_scan`: parts (what pruning leaves of each source) and segments (what is merged)     |
| `cells`    | what an aggregation asks for, its groups and its cells                                    |
| `readers`  | `blocks` for rows, `pieces` for columns as they lie in memory, `ends` for newest rows     |
| `queries`  | rows in batches, `RunPlan` for aggregates, `scan_series` and registers for whole series   |

A package imports only those before it. All readers see exactly the newest version of every key. Filters are expressions
of Arrow over the region's columns, or trees of `Call`, `Ref` and `Constant`, and mean what they mean in SQL.
"""

from tsdb.engine.scan.cells.groups import GroupKeys
from tsdb.engine.scan.cells.run_query import Cells, ComputedKey, Ends, RunQuery, sortable_bits
from tsdb.engine.scan.filters.evaluate import is_understood
from tsdb.engine.scan.filters.expression import (
    Call,
    Constant,
    Node,
    Ref,
    Undecodable,
    decode_expression,
    decode_serialised,
    joined,
)
from tsdb.engine.scan.filters.filter import (
    Conditions,
    Evaluate,
    RowExpression,
    RowFilter,
    ScanFilter,
    TagIs,
    TagMatch,
    TagsAsked,
    make_filter,
)
from tsdb.engine.scan.filters.texts import text_test
from tsdb.engine.scan.plan.parts import matching_rows, rows_within
from tsdb.engine.scan.plan.plan import plan_scan
from tsdb.engine.scan.queries.aggregate import Aggregated, RegionScan, RunPlan, merge_aggregated
from tsdb.engine.scan.queries.registers import LearnedSeries, SeriesRegisters
from tsdb.engine.scan.queries.rows import Partition, partition_scan
from tsdb.engine.scan.queries.series_register import SeriesRegister
from tsdb.engine.scan.queries.series_scan import list_series, scan_series
from tsdb.engine.scan.readers.pieces import RunStatistics
from tsdb.engine.scan.readers.projection import Projection
from tsdb.engine.scan.snapshot.snapshot import Snapshot
from tsdb.engine.scan.snapshot.statistics import ScanStatistics
from tsdb.engine.scan.snapshot.view import view_snapshot, visible_rows

__all__ = [
    "Aggregated",
    "Call",
    "Cells",
    "ComputedKey",
    "Conditions",
    "Constant",
    "Ends",
    "Evaluate",
    "GroupKeys",
    "LearnedSeries",
    "Node",
    "Partition",
    "Projection",
    "Ref",
    "RegionScan",
    "RowExpression",
    "RowFilter",
    "RunPlan",
    "RunQuery",
    "RunStatistics",
    "ScanFilter",
    "ScanStatistics",
    "SeriesRegister",
    "SeriesRegisters",
    "Snapshot",
    "TagIs",
    "TagMatch",
    "TagsAsked",
    "Undecodable",
    "decode_expression",
    "decode_serialised",
    "is_understood",
    "joined",
    "list_series",
    "make_filter",
    "matching_rows",
    "merge_aggregated",
    "partition_scan",
    "plan_scan",
    "rows_within",
    "scan_series",
    "sortable_bits",
    "text_test",
    "view_snapshot",
    "visible_rows",
]
