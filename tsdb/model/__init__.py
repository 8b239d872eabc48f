"""Values without I/O: what tables, regions and rows are made of."""

from __future__ import annotations

from tsdb.model._alter import (
    AddColumn,
    ColumnExists,
    ColumnNotFound,
    DropColumn,
    RenameColumn,
    SchemaChange,
    WidenColumn,
    alter,
    can_widen,
)
from tsdb.model._batch import Batch, OpType
from tsdb.model._region import MergeMode, RegionId, RegionOptions, region_id, table_id_of
from tsdb.model._schema import Column, ColumnId, RegionSchema, Semantic
from tsdb.model._series import SeriesTable, group_series, hash_tags, make_tags, take_tags
from tsdb.model._time import TimeRange

__all__ = [
    "AddColumn",
    "Batch",
    "Column",
    "ColumnExists",
    "ColumnId",
    "ColumnNotFound",
    "DropColumn",
    "MergeMode",
    "OpType",
    "RegionId",
    "RegionOptions",
    "RegionSchema",
    "RenameColumn",
    "SchemaChange",
    "Semantic",
    "SeriesTable",
    "TimeRange",
    "WidenColumn",
    "alter",
    "can_widen",
    "group_series",
    "hash_tags",
    "make_tags",
    "region_id",
    "table_id_of",
    "take_tags",
]
