"""`partitions`, `region_peers`, `region_statistics`, `region_info`: the parts tables are stored in.

A table has one row for each of its regions, a table without partitions one. Tables whose rows are stored elsewhere
(external files, logical tables of the metric engine without regions of their own) have none.
"""

from __future__ import annotations

import json

import pyarrow as pa

from tsdb.engine import RegionStat
from tsdb.errors import TsdbError
from tsdb.model import CATALOG, RegionId, TableInfo
from tsdb.query.information_schema._build import build_table
from tsdb.query.information_schema._context import InformationContext
from tsdb.query.information_schema._schemas import information_schema_of
from tsdb.query.information_schema._tables import base_tables
from tsdb.units import Duration

SEQUENCE_BITS = 24
"""The low bits of a region's number count; the high byte is the group."""


def regions_of(context: InformationContext) -> list[tuple[TableInfo, int, RegionId]]:
    """Table, position and id of every region."""
    return [
        (table, position, region_id)
        for table in base_tables(context)
        for position, region_id in enumerate(table.region_ids)
    ]


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


def region_peers_table(context: InformationContext) -> pa.Table:
    regions = regions_of(context)
    columns = {
        "table_catalog": CATALOG,
        "table_schema": [table.database for table, _, _ in regions],
        "table_name": [table.name for table, _, _ in regions],
        "region_id": [region_id for _, _, region_id in regions],
        "peer_id": context.node.id,
        "peer_addr": context.node.address,
        "is_leader": "Yes",
        "status": "ALIVE",
    }
    return build_table(information_schema_of("region_peers"), len(regions), columns)


def region_statistics_table(context: InformationContext) -> pa.Table:
    regions = regions_of(context)
    stats = [_stat(context, region_id) for _, _, region_id in regions]
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
    }
    return build_table(information_schema_of("region_statistics"), len(regions), columns)


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
        "node_id": context.node.id,
    }
    return build_table(information_schema_of("region_info"), len(rows), columns)
