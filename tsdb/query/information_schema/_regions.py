"""`partitions`, `region_info`, `region_statistics` and what regions do: the parts tables are stored in.

A table has one row for each of its regions, a table without partitions one. Tables whose rows are stored elsewhere
(external files, logical tables of the metric engine without regions of their own) have none.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import pyarrow as pa

from tsdb.engine import JobStatus, RegionStat
from tsdb.errors import TsdbError
from tsdb.model import CATALOG, RegionId, TableInfo
from tsdb.query.information_schema._build import ColumnValues, build_table
from tsdb.query.information_schema._context import InformationContext
from tsdb.query.information_schema._schemas import information_schema_of
from tsdb.query.information_schema._tables import regions_of
from tsdb.units import Duration

SEQUENCE_BITS = 24
"""The low bits of a region's number count; the high byte is the group."""


def _stat(context: InformationContext, region_id: RegionId) -> RegionStat | None:
    """None for a region that is not available now; the rows of all others are still worth showing."""
    try:
        return context.regions.stat(region_id)
    except TsdbError:
        return None


def partitions_table(context: InformationContext) -> pa.Table:
    regions = regions_of(context)
    columns = {
        "table_catalog": CATALOG,
        "table_schema": [table.database for table, _, _ in regions],
        "table_name": [table.name for table, _, _ in regions],
        "partition_name": [f"p{position}" for _, position, _ in regions],
        "partition_ordinal_position": [position + 1 for _, position, _ in regions],
        "partition_method": "RANGE",
        "partition_expression": [", ".join(table.partition_columns) or None for table, _, _ in regions],
        "partition_description": [_rule(table, position) for table, position, _ in regions],
        "create_time": [table.created_ms // 1000 for table, _, _ in regions],
        "tsdb_partition_id": [region_id for _, _, region_id in regions],
    }
    return build_table(information_schema_of("partitions"), len(regions), columns)


def _rule(table: TableInfo, position: int) -> str | None:
    return table.partition_rules[position] if position < len(table.partition_rules) else None


def region_statistics_table(context: InformationContext) -> pa.Table:
    """Also regions that are not available: they have a state and a reason, and nothing else."""
    regions = regions_of(context)
    found = [_stat_or_reason(context, region_id) for _, _, region_id in regions]
    stats = [stat for stat, _ in found]
    columns = {
        "region_id": [region_id for _, _, region_id in regions],
        "table_id": [table.id for table, _, _ in regions],
        "region_number": [region_id & 0xFFFFFFFF for _, _, region_id in regions],
        "region_rows": [stat and stat.memtable_rows + stat.file_rows for stat in stats],
        "written_bytes_since_open": [stat and stat.written_bytes for stat in stats],
        "disk_size": [stat and stat.file_bytes + stat.index_bytes + stat.manifest_bytes for stat in stats],
        "memtable_size": [stat and stat.memtable_bytes for stat in stats],
        "manifest_size": [stat and stat.manifest_bytes for stat in stats],
        "sst_size": [stat and stat.file_bytes for stat in stats],
        "sst_num": [stat and stat.files for stat in stats],
        "index_size": [stat and stat.index_bytes for stat in stats],
        "engine": [table.engine for table, _, _ in regions],
        "region_role": "Leader",
        **{name: [stat and getattr(stat, name) for stat in stats] for name in _AS_THEY_ARE},
        "state": ["unavailable" if stat is None else stat.state for stat in stats],
        "reason": [reason if stat is None else stat.reason or None for stat, reason in found],
        "since": [stat and stat.since_ms for stat in stats],
        **_job_columns("flush", [None if stat is None else stat.flush for stat in stats]),
        **_job_columns("compaction", [None if stat is None else stat.compaction for stat in stats]),
    }
    return build_table(information_schema_of("region_statistics"), len(regions), columns)


_AS_THEY_ARE = (
    "memtable_rows",
    "unflushed_seconds",
    "windows",
    "window_files_max",
    "window_runs_max",
    "write_amplification",
    "quarantined_files",
)


def _job_columns(name: str, jobs: Sequence[JobStatus | None]) -> dict[str, ColumnValues]:
    """The columns about one kind of background job."""
    return {
        f"{name}_state": [job and job.state for job in jobs],
        f"{name}_reason": [job and job.reason for job in jobs],
        f"{name}_since": [job and job.since_ms for job in jobs],
        f"last_{name}_result": [job and job.last_result for job in jobs],
        f"last_{name}_time": [job and job.last_ended_ms for job in jobs],
        f"last_{name}_error": [job and job.last_error for job in jobs],
    }


def _stat_or_reason(context: InformationContext, region_id: RegionId) -> tuple[RegionStat | None, str | None]:
    try:
        return context.regions.stat(region_id), None
    except TsdbError as error:
        return None, str(error)


def compaction_history_table(context: InformationContext) -> pa.Table:
    """The compactions of tables that are there, the newest last; those that run are among them."""
    tables = {region_id: table for table, _, region_id in regions_of(context)}
    records = [each for each in context.regions.compactions() if each.region_id in tables]
    columns = {
        "compaction_id": [each.number for each in records],
        "region_id": [each.region_id for each in records],
        "table_id": [tables[each.region_id].id for each in records],
        "region_number": [each.region_id & 0xFFFFFFFF for each in records],
        "table_schema": [tables[each.region_id].database for each in records],
        "table_name": [tables[each.region_id].name for each in records],
        "state": [each.result.value for each in records],
        "reason": [each.reason for each in records],
        "start_time": [each.started_ms for each in records],
        "end_time": [each.ended_ms for each in records],
        "duration_millis": [each.duration_ms for each in records],
        "progress": [each.progress for each in records],
        "input_files": [len(each.input_ids) for each in records],
        "output_files": [len(each.output_ids) for each in records],
        "input_rows": [each.input_rows for each in records],
        "rows_written": [each.rows_written for each in records],
        "input_bytes": [each.input_bytes for each in records],
        "output_bytes": [each.output_bytes for each in records],
        "write_amplification": [each.amplification for each in records],
        "error": [each.error for each in records],
        "node_id": [context.node.id if each.node_id is None else each.node_id for each in records],
    }
    return build_table(information_schema_of("compaction_history"), len(records), columns)


def wal_segments_table(context: InformationContext) -> pa.Table:
    """The segments of the log, which all tables share: only for those who may see all of them."""
    identity = context.session.identity
    is_shown = identity is None or identity.sees_all
    segments = context.regions.wal_segments() if is_shown else []
    columns = {
        "segment": [f"{facts.number:016x}" for _, facts in segments],
        "file_path": [path for path, _ in segments],
        "size": [facts.size_bytes for _, facts in segments],
        "entries": [facts.entries for _, facts in segments],
        "state": [facts.state for _, facts in segments],
        "reason": [facts.reason for _, facts in segments],
        "since": [facts.since_ms or None for _, facts in segments],
        "last_error": [facts.last_error for _, facts in segments],
        "pinning_regions": [json.dumps(facts.pinning) for _, facts in segments],
        "node_id": [context.node.id if facts.node_id is None else facts.node_id for _, facts in segments],
    }
    return build_table(information_schema_of("wal_segments"), len(segments), columns)


def _window(stat: RegionStat) -> str | None:
    """The windows that the engine chose."""
    seconds = stat.compaction_window_seconds
    return None if seconds is None else str(Duration.of_seconds(seconds))


def _flushed(context: InformationContext, region_id: RegionId) -> int | None:
    """The greatest sequence of a row that is in a data file."""
    try:
        return max((facts.sequence for facts in context.regions.files(region_id)), default=0)
    except TsdbError:
        return None


def region_info_table(context: InformationContext) -> pa.Table:
    """Only regions that are available: all columns are about their state."""
    found = [(table, region_id, _stat(context, region_id)) for table, _, region_id in regions_of(context)]
    rows = [(table, region_id, stat) for table, region_id, stat in found if stat is not None]
    numbers = [region_id & 0xFFFFFFFF for _, region_id, _ in rows]
    options = [context.catalog.effective_options(table) for table, _, _ in rows]
    columns = {
        "region_id": [region_id for _, region_id, _ in rows],
        "table_id": [table.id for table, _, _ in rows],
        "region_number": numbers,
        "region_group": [number >> SEQUENCE_BITS for number in numbers],
        "region_sequence": [number & ((1 << SEQUENCE_BITS) - 1) for number in numbers],
        "state": [stat.state for _, _, stat in rows],
        "role": "Leader",
        "writable": [stat.state == "writable" for _, _, stat in rows],
        "committed_sequence": [stat.last_sequence for _, _, stat in rows],
        "flushed_sequence": [_flushed(context, region_id) for _, region_id, _ in rows],
        "manifest_version": [stat.manifest_version for _, _, stat in rows],
        "compaction_time_window": [
            each.get("compaction.twcs.time_window") or _window(stat)
            for each, (_, _, stat) in zip(options, rows, strict=True)
        ],
        "region_options": [json.dumps(each, sort_keys=True) for each in options],
        "sst_format": [each.get("sst_format", "flat") for each in options],
        "node_id": [context.cluster_view.node_of(region_id) for _, region_id, _ in rows],
    }
    return build_table(information_schema_of("region_info"), len(rows), columns)
