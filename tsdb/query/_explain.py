"""EXPLAIN: which way a query is answered and why, and with ANALYZE what that took.

A fast path is one row: what it reads or aggregates, and the reason for choosing it. A planned query is explained by
DataFusion; the row `planner` says why no fast path answers it. With ANALYZE the query runs, and the answer has one row
for how it ran (stage 0), one for each scan of a table (stage 1) with what the scan decided: which sources and series it
skipped, how many rows it read; and a last row with the number of rows the query gave.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from tsdb.errors import InvalidSyntax, Unsupported
from tsdb.query._datafusion_texts import ACTUAL_ROWS
from tsdb.query._fast_paths import FastRecords
from tsdb.query.choose import Range
from tsdb.query.errors import PlanQuery
from tsdb.query.selection import SelectionRecords
from tsdb.query.series_aggregate import AggregateRecords, OuterRecords
from tsdb.query.tables import TableDataset
from tsdb.sql.statements import Explain

_FORMATS = {"json": "pgjson", "pgjson": "pgjson", "text": "indent", "indent": "indent", "tree": "tree"}
_FORMATS["graphviz"] = "graphviz"
PLANNER = "planner"
"""The row of EXPLAIN that says why the planner answers."""

_WAYS = {SelectionRecords: "scan", AggregateRecords: "series_aggregate", OuterRecords: "series_aggregate"}
_EXPLAIN_SCHEMA = pa.schema(
    [pa.field("plan_type", pa.string(), nullable=False), pa.field("plan", pa.string(), nullable=False)]
)
ANALYZE_SCHEMA = pa.schema([("stage", pa.uint32()), ("node", pa.uint32()), ("plan", pa.string())])


def check_format(statement: Explain) -> None:
    """Refuse what no way of answering can print."""
    kind = None if statement.format is None else _FORMATS.get(statement.format)
    if statement.format is not None and kind is None:
        raise InvalidSyntax("there is no such format of EXPLAIN", format=statement.format, hint="use text or json")
    if not statement.is_analyze and statement.is_verbose and kind is not None:
        raise PlanQuery("EXPLAIN VERBOSE with FORMAT is not supported")
    if statement.is_analyze and kind in ("tree", "graphviz"):
        raise Unsupported("EXPLAIN ANALYZE does not print this format", format=statement.format)


def explain_prefix(statement: Explain) -> str:
    """Return what is put before a query so that DataFusion explains it."""
    kind = None if statement.format is None else _FORMATS[statement.format]
    if not statement.is_analyze:
        verbose = "VERBOSE " if statement.is_verbose else ""
        return f"EXPLAIN {verbose}{'' if kind is None else f'FORMAT {kind} '}"
    return "EXPLAIN ANALYZE FORMAT pgjson " if kind == "pgjson" else "EXPLAIN ANALYZE VERBOSE "


def explained_plan(statement: Explain, explained: pa.Table, scans: Sequence[Any], reason: str) -> pa.Table:
    """Return the answer for a planned query, from DataFusion's own and from what the scans counted."""
    if not statement.is_analyze:
        row = [PLANNER], [_formatted(statement, "Planner", f"Planner: {reason}")]
        return pa.concat_tables([explained, pa.table(row, schema=explained.schema)])
    plans = dict(zip(explained.column(0).to_pylist(), explained.column(1).to_pylist(), strict=True))
    key = "Plan with Full Metrics" if statement.is_verbose and statement.format is None else "Plan with Metrics"
    main = (plans.get(key) or plans.get("Plan with Metrics") or "").rstrip("\n")
    tables = [scan for scan in scans if isinstance(scan, TableDataset)]
    rows = plans.get("Output Rows") or _count_rows(main, tables)
    return _stages(statement, main if _is_json(statement) else f"{main}\nPlanner: {reason}", tables, int(rows))


def explained_fast_path(statement: Explain, records: FastRecords, reason: str) -> pa.Table:
    """Return how a fast path would answer a query: nothing of it is planned."""
    description = records.describe()
    return pa.table(
        [[_WAYS[type(records)]], [_formatted(statement, description.partition(":")[0], description, reason)]],
        schema=_EXPLAIN_SCHEMA,
    )


def analyzed_fast_path(statement: Explain, records: FastRecords, reason: str) -> pa.Table:
    """Return how a fast path answered a query: it is run, and its rows are counted."""
    rows = sum(batch.num_rows for batch in records)
    description = records.describe_run()
    main = _formatted(statement, description.partition(":")[0], description, reason)
    return _stages(statement, main, records.scans, rows)


def with_range(statement: Explain, explained: pa.Table, decision: Range) -> pa.Table:
    """Add to how a range query's rows are aggregated that they are ranged over afterwards."""
    calls = ", ".join(f"{call.text} RANGE {call.span.text}" for call in decision.query.calls)
    description = f"Range: align={decision.query.align.text}, aggregates=[{calls}], over the rows of the query below"
    text = _formatted(statement, "Range", description, decision.reason)
    if not statement.is_analyze:
        return pa.concat_tables([pa.table([["range"], [text]], schema=explained.schema), explained])
    own = pa.table([pa.array([0], pa.uint32()), pa.array([0], pa.uint32()), [text]], schema=ANALYZE_SCHEMA)
    return pa.concat_tables([own, explained])


def _stages(statement: Explain, main: str, scans: Sequence[TableDataset], rows: int) -> pa.Table:
    """Return the answer to EXPLAIN ANALYZE."""
    lines = [scan_json(scan) if _is_json(statement) else scan_text(scan) for scan in scans]
    stages = [0, *([1] * len(lines)), None]
    nodes = [0, *range(len(lines)), None]
    plans = [main, *lines, f"Total rows: {rows}"]
    columns = [pa.array(stages, pa.uint32()), pa.array(nodes, pa.uint32()), pa.array(plans, pa.string())]
    return pa.table(columns, schema=ANALYZE_SCHEMA)


def _is_json(statement: Explain) -> bool:
    return statement.format is not None and _FORMATS[statement.format] == "pgjson"


def _formatted(statement: Explain, node: str, description: str, reason: str = "") -> str:
    """Return a line about a fast path in the requested format."""
    kind = None if statement.format is None else _FORMATS[statement.format]
    if kind == "pgjson":
        return json.dumps([{"Plan": {"Node Type": node, "Description": description, "Reason": reason}}])
    text = f"{description}\n  Reason: {reason}" if reason else description
    return f"digraph {{ 0 [shape=box label={json.dumps(text)}] }}" if kind == "graphviz" else text


def _count_rows(plan: str, scans: list[TableDataset]) -> str:
    """Return how many rows a plan in JSON gave; one that does not say it hands on what its scan returned."""
    if (match := ACTUAL_ROWS.search(plan)) is not None:
        return match[1]
    return str(sum(scan_statistics(scan)["rows_returned"] for scan in scans))


def scan_statistics(scan: TableDataset) -> dict[str, int]:
    """Return what all regions of a table counted together."""
    total: dict[str, int] = {}
    for region in scan.regions.opened:
        for name, count in region.statistics().items():
            total[name] = total.get(name, 0) + count
    return total


def scan_text(scan: TableDataset) -> str:
    """Describe a scan in one line."""
    counts = scan_statistics(scan)
    pruned = counts["sources_pruned_by_time"] + counts["sources_pruned_by_series"]
    return (
        f"TableScan: {scan.table.full_name}, regions={_regions(scan)}, fragments={counts['fragments']}, "
        f"sources={counts['sources_total']} ({pruned} pruned: {counts['sources_pruned_by_time']} by time, "
        f"{counts['sources_pruned_by_series']} by series), series={counts['series_kept']} of {counts['series_total']}, "
        f"segments={counts['segments_direct']} direct and {counts['segments_merged']} merged, "
        f"rows_read={counts['rows_read']}, rows_returned={counts['rows_returned']}, "
        f"columns={counts['vector_hits']} decoded before and {counts['vector_misses']} now, "
        f"bytes_read={counts['bytes_read']}{_indexes(counts)}"
    )


def _indexes(counts: dict[str, int]) -> str:
    """Say what indexes excluded, if they were used."""
    said = []
    if counts["index_files"]:
        said.append(
            f"inverted indexes of {counts['index_files']} files excluded {counts['series_excluded_by_index']} series"
        )
    if counts["rows_excluded_by_index"]:
        said.append(f"skipping indexes excluded {counts['rows_excluded_by_index']} rows")
    if counts["rows_excluded_by_fulltext"]:
        said.append(f"full-text indexes excluded {counts['rows_excluded_by_fulltext']} rows")
    return "".join(f", {each}" for each in [*said, f"index_bytes_read={counts['index_bytes_read']}"]) if said else ""


def _regions(scan: TableDataset) -> str:
    """Say how many regions were read, and of how many if the filter ruled some out."""
    opened, total = len(scan.regions.opened), len(scan.regions)
    return str(total) if opened == total else f"{opened} of {total}"


def scan_json(scan: TableDataset) -> str:
    return json.dumps({"scan": scan.table.full_name, "regions": len(scan.regions.opened), **scan_statistics(scan)})
