"""Reading a region: snapshots of its sources, pruned, merged and handed out in batches.

`RegionDataset` is for DataFusion, `SeriesRegister` and `scan_series` for PromQL; all see exactly the newest version of
every key. Filters are expressions of Arrow over the region's columns, or trees of `Call`, `Ref` and `Literal`, and mean
what they mean in SQL.
"""

from __future__ import annotations

from tsdb.engine.scan._aggregate import Aggregated, RegionScan, RunPlan
from tsdb.engine.scan._count import count_rows
from tsdb.engine.scan._dataset import TAG_TYPE, RegionDataset
from tsdb.engine.scan._expression import Call, Literal, Node, Ref, joined
from tsdb.engine.scan._filter import Conditions, TagCheck, TagIs, make_filter
from tsdb.engine.scan._last_rows import last_rows
from tsdb.engine.scan._parts import matching_rows, rows_within
from tsdb.engine.scan._pieces import RunStatistics
from tsdb.engine.scan._plan import Share, scan_batches
from tsdb.engine.scan._run_query import Cells, ComputedKey, Ends, RunQuery, sortable_bits
from tsdb.engine.scan._series_register import Registered, SeriesRegister
from tsdb.engine.scan._series_scan import SeriesScan, scan_series
from tsdb.engine.scan._snapshot import Snapshot
from tsdb.engine.scan._statistics import ScanStatistics

__all__ = [
    "TAG_TYPE",
    "Aggregated",
    "Call",
    "Cells",
    "ComputedKey",
    "Conditions",
    "Ends",
    "Literal",
    "Node",
    "Ref",
    "RegionDataset",
    "RegionScan",
    "Registered",
    "RunPlan",
    "RunQuery",
    "RunStatistics",
    "ScanStatistics",
    "SeriesRegister",
    "SeriesScan",
    "Share",
    "Snapshot",
    "TagCheck",
    "TagIs",
    "count_rows",
    "joined",
    "last_rows",
    "make_filter",
    "matching_rows",
    "rows_within",
    "scan_batches",
    "scan_series",
    "sortable_bits",
]
