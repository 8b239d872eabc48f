"""`memory_usage`: what the parts of the server hold, and how near the server is to its memory limit."""

from __future__ import annotations

import pyarrow as pa

from tsdb.memory import LEAST_SHARE, MemoryReport, MemoryUse
from tsdb.query.information_schema._build import build_table
from tsdb.query.information_schema._context import InformationContext
from tsdb.query.information_schema._schemas import information_schema_of


def memory_usage_table(context: InformationContext) -> pa.Table:
    report = context.memory()
    known = sum(each.bytes for each in report.uses)
    rows = [
        *report.uses,
        # The interpreter, libraries, requests under way, and what the C library and Arrow keep for the next request.
        MemoryUse("other", max(report.held_bytes - known, 0)),
        MemoryUse("all_processes", report.held_bytes, report.limit_bytes),
    ]
    state, reason = _state(report)
    columns = {
        "owner": [each.owner for each in rows],
        "bytes": [each.bytes for each in rows],
        "limit_bytes": [each.limit_bytes for each in rows],
        "state": [state if each.limit_bytes is not None else "ok" for each in rows],
        "reason": [reason if each.limit_bytes is not None else None for each in rows],
        "since": pa.array([report.since_ms] * len(rows), pa.int64()).cast(pa.timestamp("ms")),
    }
    return build_table(information_schema_of("memory_usage"), len(rows), columns)


def _state(report: MemoryReport) -> tuple[str, str | None]:
    if report.share >= 1:
        return "ok", None
    reason = f"memory is tight: owners have {report.share:.0%} of their shares"
    if report.share <= LEAST_SHARE:
        return "short", f"{reason}, and no large query begins"
    return "limited", reason
