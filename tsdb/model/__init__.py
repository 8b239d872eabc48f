"""Values without I/O: what tables, regions and rows are made of."""

from __future__ import annotations

from tsdb.model._alter import (
    AddColumn,
    ColumnExists,
    ColumnNotFound,
    DropColumn,
    RenameColumn,
    RetypeColumn,
    SchemaChange,
    WidenColumn,
    alter,
    can_widen,
)
from tsdb.model._batch import Batch, OpType
from tsdb.model._cast import cast_or_null, is_castable
from tsdb.model._metric import METRIC_TSID, add_labels
from tsdb.model._partition import PartitionRule
from tsdb.model._region import MergeMode, RegionId, RegionOptions, region_id, table_id_of
from tsdb.model._schema import Column, ColumnId, PastType, RegionSchema, Semantic
from tsdb.model._series import LateTags, SeriesTable, group_series, hash_tags, make_tags, take_tags
from tsdb.model._table import (
    CATALOG,
    DEFAULT_DATABASE,
    METRIC_ENGINE,
    METRIC_LABELS,
    METRIC_TABLE_ID,
    USER_TABLE_ID_MIN,
    ColumnDefault,
    ColumnIndex,
    ColumnInfo,
    DatabaseInfo,
    TableInfo,
    ViewInfo,
)
from tsdb.model._time import TimeRange
from tsdb.model._types import TYPE_KEY, DataType, Kind, type_name, type_of_arrow, type_of_field
from tsdb.model._zone import (
    InvalidTimestamp,
    InvalidTimeZone,
    canonical_zone,
    check_range,
    parse_date,
    parse_timestamp,
    parse_timestamps,
    to_unit,
    zone_of,
)

__all__ = [
    "CATALOG",
    "DEFAULT_DATABASE",
    "METRIC_ENGINE",
    "METRIC_LABELS",
    "METRIC_TABLE_ID",
    "METRIC_TSID",
    "TYPE_KEY",
    "USER_TABLE_ID_MIN",
    "AddColumn",
    "Batch",
    "Column",
    "ColumnDefault",
    "ColumnExists",
    "ColumnId",
    "ColumnIndex",
    "ColumnInfo",
    "ColumnNotFound",
    "DataType",
    "DatabaseInfo",
    "DropColumn",
    "InvalidTimeZone",
    "InvalidTimestamp",
    "Kind",
    "LateTags",
    "MergeMode",
    "OpType",
    "PartitionRule",
    "PastType",
    "RegionId",
    "RegionOptions",
    "RegionSchema",
    "RenameColumn",
    "RetypeColumn",
    "SchemaChange",
    "Semantic",
    "SeriesTable",
    "TableInfo",
    "TimeRange",
    "ViewInfo",
    "WidenColumn",
    "add_labels",
    "alter",
    "can_widen",
    "canonical_zone",
    "cast_or_null",
    "check_range",
    "group_series",
    "hash_tags",
    "is_castable",
    "make_tags",
    "parse_date",
    "parse_timestamp",
    "parse_timestamps",
    "region_id",
    "table_id_of",
    "take_tags",
    "to_unit",
    "type_name",
    "type_of_arrow",
    "type_of_field",
    "zone_of",
]
