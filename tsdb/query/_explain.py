"""EXPLAIN: how a query would run, and with ANALYZE how it did.

DataFusion explains its own plan. With ANALYZE the answer has one row for that plan (stage 0), one row for each scan of
a table (stage 1) with what the scan decided: which sources and series it skipped, how many rows it read; and a last
row with the number of rows the query gave. An aggregate that runs answer has no plan of DataFusion's that is run: its
stage 0 is `SeriesAggregate`; below any other plan stands why it is not.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from tsdb.errors import InvalidSyntax, Unsupported
from tsdb.query._table_dataset import TableDataset
from tsdb.query.errors import PlanQuery
from tsdb.query.series_aggregate import AggregateRecords, OuterRecords
from tsdb.sql.statements import Explain

_FORMATS = {"json": "pgjson", "pgjson": "pgjson", "text": "indent", "indent": "indent", "tree": "tree"}
_FORMATS["graphviz"] = "graphviz"
ANALYZE_SCHEMA = pa.schema([("stage", pa.uint32()), ("node", pa.uint32()), ("plan", pa.string())])
_ACTUAL_ROWS = re.compile(r'"Actual Rows": (\d+)')


def explain_prefix(statement: Explain) -> str:
    """Return what is put before a query so that DataFusion explains it."""
    kind = None if statement.format is None else _FORMATS.get(statement.format)
    if statement.format is not None and kind is None:
        raise InvalidSyntax("there is no such format of EXPLAIN", format=statement.format, hint="use text or json")
    if not statement.is_analyze:
        if statement.is_verbose and kind is not None:
            raise PlanQuery("EXPLAIN VERBOSE with FORMAT is not supported")
        verbose = "VERBOSE " if statement.is_verbose else ""
        return f"EXPLAIN {verbose}{'' if kind is None else f'FORMAT {kind} '}"
    if kind in ("tree", "graphviz"):
        raise Unsupported("EXPLAIN ANALYZE does not print this format", format=statement.format)
    return "EXPLAIN ANALYZE FORMAT pgjson " if kind == "pgjson" else "EXPLAIN ANALYZE VERBOSE "


def analyzed(statement: Explain, explained: pa.Table, scans: Sequence[Any]) -> pa.Table:
    """Return the answer to EXPLAIN ANALYZE from DataFusion's and from what the scans counted."""
    plans = dict(zip(explained.column(0).to_pylist(), explained.column(1).to_pylist(), strict=True))
    key = "Plan with Full Metrics" if statement.is_verbose and statement.format is None else "Plan with Metrics"
    main = plans.get(key) or plans.get("Plan with Metrics") or ""
    tables = [scan for scan in scans if isinstance(scan, TableDataset)]
    is_json = statement.format in ("json", "pgjson")
    lines = [scan_json(scan) if is_json else scan_text(scan) for scan in tables]
    rows = plans.get("Output Rows") or _count_rows(main, tables)
    stages = [0, *([1] * len(lines)), None]
    nodes = [0, *range(len(lines)), None]
    return pa.table(
        [
            pa.array(stages, pa.uint32()),
            pa.array(nodes, pa.uint32()),
            pa.array([main.rstrip("\n"), *lines, f"Total rows: {rows}"], pa.string()),
        ],
        schema=ANALYZE_SCHEMA,
    )


def analyzed_aggregate(records: AggregateRecords | OuterRecords) -> pa.Table:
    """Return the answer to EXPLAIN ANALYZE of an aggregate from runs: it is run, and its rows are counted."""
    rows = sum(batch.num_rows for batch in records)
    lines = [scan_text(scan) for scan in records.scans]
    plans = [records.describe_run(), *lines, f"Total rows: {rows}"]
    stages = [0, *([1] * len(lines)), None]
    nodes = [0, *range(len(lines)), None]
    columns = [pa.array(stages, pa.uint32()), pa.array(nodes, pa.uint32()), pa.array(plans, pa.string())]
    return pa.table(columns, schema=ANALYZE_SCHEMA)


def with_aggregate(explained: pa.Table, description: str) -> pa.Table:
    """Add to the plans of EXPLAIN how runs answer the query instead."""
    own = pa.table([["series_aggregate"], [description]], schema=explained.schema)
    return pa.concat_tables([explained, own])


def with_reason(explained: pa.Table, reason: str) -> pa.Table:
    """Say below the plan of EXPLAIN ANALYZE why runs did not answer the query."""
    plans = explained.column("plan").to_pylist()
    plans[0] = f"{plans[0]}\nSeriesAggregate: not used, {reason}"
    return explained.set_column(2, "plan", pa.array(plans, pa.string()))


def _count_rows(plan: str, scans: list[TableDataset]) -> str:
    """Return how many rows a plan in JSON gave; one that does not say it hands on what its scan returned."""
    if (match := _ACTUAL_ROWS.search(plan)) is not None:
        return match[1]
    return str(sum(scan_statistics(scan)["rows_returned"] for scan in scans))


def scan_statistics(scan: TableDataset) -> dict[str, int]:
    """Return what all regions of a table counted together."""
    total: dict[str, int] = {}
    for region in scan.regions:
        for name, count in region.statistics.to_dict().items():
            total[name] = total.get(name, 0) + count
    return total


def scan_text(scan: TableDataset) -> str:
    """Describe a scan in one line."""
    counts = scan_statistics(scan)
    pruned = counts["sources_pruned_by_time"] + counts["sources_pruned_by_series"]
    return (
        f"TableScan: {scan.table.full_name}, regions={len(scan.regions)}, fragments={counts['fragments']}, "
        f"sources={counts['sources_total']} ({pruned} pruned: {counts['sources_pruned_by_time']} by time, "
        f"{counts['sources_pruned_by_series']} by series), series={counts['series_kept']} of {counts['series_total']}, "
        f"segments={counts['segments_direct']} direct and {counts['segments_merged']} merged, "
        f"rows_read={counts['rows_read']}, rows_returned={counts['rows_returned']}, "
        f"columns={counts['vector_hits']} decoded before and {counts['vector_misses']} now, "
        f"bytes_read={counts['bytes_read']}"
    )


def scan_json(scan: TableDataset) -> str:
    return json.dumps({"scan": scan.table.full_name, "regions": len(scan.regions), **scan_statistics(scan)})
