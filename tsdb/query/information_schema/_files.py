"""`ssts_manifest`, `ssts_storage`, `ssts_index_meta`: the data files of tables and the index files beside them.

A region that is not available has no rows here.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from posixpath import dirname
from typing import Literal

import pyarrow as pa

from tsdb.engine import FileFacts
from tsdb.errors import TsdbError
from tsdb.model import RegionId, TableInfo
from tsdb.query.information_schema._build import ColumnValues, build_table
from tsdb.query.information_schema._context import InformationContext
from tsdb.query.information_schema._regions import SEQUENCE_BITS
from tsdb.query.information_schema._schemas import information_schema_of
from tsdb.query.information_schema._tables import regions_of

_NS_PER_UNIT = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}
_NS_MAX = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class _RegionFile:
    """A data file and the region it belongs to."""

    table: TableInfo
    region_id: RegionId
    facts: FileFacts

    @property
    def number(self) -> int:
        return self.region_id & 0xFFFFFFFF

    def ns(self, time: int) -> int | None:
        """A time of the file in nanoseconds, None if they cannot count it."""
        found = time * _NS_PER_UNIT[self.table.time_index.type.arrow.unit]
        return found if abs(found) <= _NS_MAX else None

    def window_edge(self, edge: Literal["start", "end"]) -> int | None:
        """The beginning or the end of the window of time that the file is merged in."""
        window = self.facts.window
        return None if window is None else self.ns(getattr(window, edge))


def _files(context: InformationContext) -> list[_RegionFile]:
    found = []
    for table, _, region_id in regions_of(context):
        try:
            found += [_RegionFile(table, region_id, facts) for facts in context.regions.files(region_id)]
        except TsdbError:
            continue
    return found


def _owner(files: list[_RegionFile], context: InformationContext) -> dict[str, ColumnValues]:
    """The columns that say where a file belongs."""
    return {
        "table_dir": [f"{dirname(dirname(each.facts.path))}/" for each in files],
        "region_id": [each.region_id for each in files],
        "table_id": [each.table.id for each in files],
        "region_number": [each.number for each in files],
        "region_group": [each.number >> SEQUENCE_BITS for each in files],
        "region_sequence": [each.number & ((1 << SEQUENCE_BITS) - 1) for each in files],
        "file_id": [each.facts.file_id for each in files],
        "node_id": [context.cluster_view.node_of(each.region_id) for each in files],
    }


def ssts_manifest_table(context: InformationContext) -> pa.Table:
    files = _files(context)
    columns = {
        **_owner(files, context),
        "index_version": 0,
        "level": [each.facts.level for each in files],
        "file_path": [each.facts.path for each in files],
        "file_size": [each.facts.size_bytes for each in files],
        "index_file_path": [each.facts.index_path for each in files],
        "index_file_size": [each.facts.index_bytes or None for each in files],
        "num_rows": [each.facts.rows for each in files],
        "num_row_groups": [each.facts.row_groups for each in files],
        "num_series": [each.facts.series for each in files],
        "min_ts": [each.ns(each.facts.time_range.start) for each in files],
        "max_ts": [each.ns(each.facts.time_range.end - 1) for each in files],
        "sequence": [each.facts.sequence for each in files],
        "origin_region_id": [each.region_id for each in files],
        "visible": True,
        "window_start": [each.window_edge("start") for each in files],
        "window_end": [each.window_edge("end") for each in files],
        "state": [each.facts.state for each in files],
        "reason": [each.facts.reason for each in files],
        "since": [each.facts.since_ms for each in files],
        "last_error": [each.facts.last_error for each in files],
    }
    return build_table(information_schema_of("ssts_manifest"), len(files), columns)


def ssts_storage_table(context: InformationContext) -> pa.Table:
    stored = [
        (path, size, each.facts.created_ms, context.cluster_view.node_of(each.region_id))
        for each in _files(context)
        for path, size in ((each.facts.path, each.facts.size_bytes), (each.facts.index_path, each.facts.index_bytes))
        if path is not None
    ]
    columns = {
        "file_path": [path for path, _, _, _ in stored],
        "file_size": [size for _, size, _, _ in stored],
        "last_modified_ms": [created_ms for _, _, created_ms, _ in stored],
        "node_id": [node_id for _, _, _, node_id in stored],
    }
    return build_table(information_schema_of("ssts_storage"), len(stored), columns)


def ssts_index_meta_table(context: InformationContext) -> pa.Table:
    """The series block of each file: its series with the rows they have there, by their tags."""
    files = [each for each in _files(context) if each.facts.index_path is not None]
    keys = [list(each.table.primary_key) for each in files]
    columns = {
        **_owner(files, context),
        "index_file_path": [each.facts.index_path for each in files],
        "index_file_size": [each.facts.index_bytes for each in files],
        "index_type": "series_block",
        "target_type": "primary_key",
        "target_key": [", ".join(key) for key in keys],
        "target_json": [json.dumps({"primary_key": key}) for key in keys],
        "blob_size": [each.facts.index_bytes for each in files],
        "meta_json": [json.dumps({"series": each.facts.series, "rows": each.facts.rows}) for each in files],
    }
    return build_table(information_schema_of("ssts_index_meta"), len(files), columns)
