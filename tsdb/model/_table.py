"""The catalog entries of a database, a table and a view.

A `TableInfo` holds a table's columns twice over in one list: in the order users see, with ids that never change.
The regions of the table hold the same columns by the same ids, tags in the order of the primary key.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import pyarrow as pa

from tsdb.model._partition import PartitionRule
from tsdb.model._region import RegionId, region_id
from tsdb.model._schema import Column, ColumnId, RegionSchema, Semantic
from tsdb.model._types import DataType, Kind
from tsdb.model._view import MetricView

CATALOG = "tsdb"
"""The only catalog."""
CATALOG_NAMES = (CATALOG, "greptime")
"""Its names for clients."""

DEFAULT_DATABASE = "public"

USER_TABLE_ID_MIN = 1024
"""Ids below belong to tables of the system."""

METRIC_ENGINE = "metric"
"""The engine that keeps many logical tables in the one region of a physical table."""

METRIC_TABLE_ID = "__table_id"
METRIC_LABELS = "__labels"
"""The tags of a physical table's region: which logical table a row is of, and all its labels in one text."""

HISTOGRAM_COLUMN = "tsdb_histogram"
"""The field that holds native histograms, in rows whose value is null."""


@dataclass(frozen=True, slots=True)
class ColumnDefault:
    """The default of a column: a literal, or a function called for each statement."""

    literal: str | None = None
    """The value as text, in a form `CAST(text AS type)` reads; None with `function` None means NULL."""
    function: str | None = None
    """`now()` or `current_timestamp()`."""

    def to_json(self) -> dict[str, str | None]:
        return {"literal": self.literal, "function": self.function}


@dataclass(frozen=True, slots=True)
class ColumnIndex:
    """A declared index: `fulltext`, `skipping`, `inverted` or `vector`, with its options in full."""

    kind: str
    options: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class ColumnInfo:
    """One column of a table."""

    id: ColumnId
    name: str
    type: DataType
    semantic: Semantic
    nullable: bool = True
    default: ColumnDefault | None = None
    comment: str | None = None
    indexes: tuple[ColumnIndex, ...] = ()

    @property
    def field(self) -> pa.Field:
        return self.type.field(self.name, nullable=self.nullable)

    @property
    def is_histogram(self) -> bool:
        """Whether it holds native histograms."""
        is_field = self.semantic is Semantic.FIELD
        return is_field and self.name == HISTOGRAM_COLUMN and self.type.kind is Kind.BINARY

    def index(self, kind: str) -> ColumnIndex | None:
        return next((each for each in self.indexes if each.kind == kind), None)

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "name": self.name,
            "type": self.type.to_text(),
            "semantic": self.semantic.value,
            "nullable": self.nullable,
            "default": None if self.default is None else self.default.to_json(),
            "comment": self.comment,
            "indexes": [[index.kind, dict(index.options)] for index in self.indexes] if self.indexes else [],
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> ColumnInfo:
        return cls(
            id=ColumnId(value["id"]),
            name=value["name"],
            type=DataType.from_text(value["type"]),
            semantic=Semantic(value["semantic"]),
            nullable=value["nullable"],
            default=None if value["default"] is None else ColumnDefault(**value["default"]),
            comment=value["comment"],
            indexes=tuple(ColumnIndex(kind, tuple(options.items())) for kind, options in value["indexes"]),
        )


@dataclass(frozen=True)
class TableInfo:
    """A table as the catalog stores it."""

    id: int
    database: str
    name: str
    columns: tuple[ColumnInfo, ...]
    """In the order users see."""
    primary_key: tuple[str, ...] = ()
    """The tags, in the order of the key."""
    engine: str = "mito"
    options: Mapping[str, str] = field(default_factory=dict)
    """The options of `WITH (…)`, keys in lower case, values in canonical form, without those of the database."""
    partition_columns: tuple[str, ...] = ()
    partition_rules: tuple[str, ...] = ()
    """One expression per region, in the order of region numbers; none for a table of one region."""
    region_numbers: tuple[int, ...] = (0,)
    comment: str | None = None
    created_ms: int = 0
    version: int = 0
    """Grows with every change of the table's description."""
    next_column_id: int = 0
    schema_version: int = 0
    """The version of the regions' schema that belongs to these columns."""
    physical_table_id: int | None = None
    """Of a logical table of the metric engine: the table whose region holds its rows."""

    @cached_property
    def time_index(self) -> ColumnInfo:
        return next(column for column in self.columns if column.semantic is Semantic.TIMESTAMP)

    @cached_property
    def tags(self) -> tuple[ColumnInfo, ...]:
        """The tags, in the order of the primary key."""
        return tuple(self.by_name[name] for name in self.primary_key)

    @cached_property
    def fields(self) -> tuple[ColumnInfo, ...]:
        return tuple(column for column in self.columns if column.semantic is Semantic.FIELD)

    @cached_property
    def histogram(self) -> ColumnInfo | None:
        """The field of native histograms; None for a table that has none."""
        found = self.by_name.get(HISTOGRAM_COLUMN)
        return found if found is not None and found.is_histogram else None

    @cached_property
    def value_fields(self) -> tuple[ColumnInfo, ...]:
        """The fields beside that of native histograms."""
        return tuple(column for column in self.fields if not column.is_histogram)

    @cached_property
    def by_name(self) -> dict[str, ColumnInfo]:
        return {column.name: column for column in self.columns}

    @cached_property
    def free_tags(self) -> frozenset[str] | None:
        """The tags, if all of them are strings that any row may have or lack."""
        is_free = all(
            tag.type.is_string and tag.type.arrow == pa.string() and tag.nullable and tag.default is None
            for tag in self.tags
        )
        return frozenset(self.primary_key) if is_free else None

    @cached_property
    def arrow(self) -> pa.Schema:
        """The table's columns in the order users see, with the metadata of their SQL types."""
        return pa.schema([column.field for column in self.columns])

    @cached_property
    def region_ids(self) -> tuple[RegionId, ...]:
        return tuple(region_id(self.id, number) for number in self.region_numbers)

    @property
    def is_append(self) -> bool:
        return self.options.get("append_mode") == "true"

    @property
    def is_logical(self) -> bool:
        """Whether its rows are in the region of another table."""
        return self.physical_table_id is not None

    @property
    def is_physical(self) -> bool:
        """Whether its region holds the rows of logical tables."""
        return self.engine == METRIC_ENGINE and self.physical_table_id is None

    @cached_property
    def partition_rule(self) -> PartitionRule | None:
        """How rows are divided among regions; None for a table of one region."""
        if len(self.region_numbers) < 2 or not self.partition_rules:
            return None
        types = {name: self.by_name[name].type for name in self.partition_columns}
        return PartitionRule.parse(self.partition_columns, self.partition_rules, types)

    @cached_property
    def view(self) -> MetricView | None:
        """How the region shows a table of the metric engine; None for other tables, which are what the region holds."""
        if self.engine != METRIC_ENGINE:
            return None
        tags = tuple((tag.name, tag.type.arrow) for tag in self.tags)
        return MetricView(self.id if self.is_logical else None, tags, tuple(field.name for field in self.fields))

    @property
    def full_name(self) -> str:
        return f"{CATALOG}.{self.database}.{self.name}"

    def first_region_schema(self) -> RegionSchema:
        """The schema with which the regions of a new table are created."""
        if self.is_physical:
            return self._metric_region_schema()
        others = [column for column in self.columns if column.semantic is not Semantic.TAG]
        columns = tuple(
            Column(column.id, column.name, column.type.arrow, column.semantic, nullable=column.nullable)
            for column in (*self.tags, *others)
        )
        return RegionSchema(columns, version=self.schema_version, next_column_id=self.next_column_id)

    def _metric_region_schema(self) -> RegionSchema:
        """The same columns however many labels there are: a new label changes no region. The value comes first."""
        fields = [*self.value_fields, *(column for column in self.fields if column.is_histogram)]
        return RegionSchema.create(
            [
                (METRIC_TABLE_ID, pa.uint32(), Semantic.TAG),
                (METRIC_LABELS, pa.string(), Semantic.TAG),
                *((each.name, each.type.arrow, each.semantic) for each in (self.time_index, *fields)),
            ]
        )

    def changed(self, **changes: Any) -> TableInfo:
        """Return the next version of the description."""
        return replace(self, version=self.version + 1, **changes)

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "database": self.database,
            "name": self.name,
            "columns": [column.to_json() for column in self.columns],
            "primary_key": list(self.primary_key),
            "engine": self.engine,
            "options": dict(self.options),
            "partition_columns": list(self.partition_columns),
            "partition_rules": list(self.partition_rules),
            "region_numbers": list(self.region_numbers),
            "comment": self.comment,
            "created_ms": self.created_ms,
            "version": self.version,
            "next_column_id": self.next_column_id,
            "schema_version": self.schema_version,
            "physical_table_id": self.physical_table_id,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> TableInfo:
        given = dict(value)
        given["columns"] = tuple(ColumnInfo.from_json(each) for each in value["columns"])
        for name in ("primary_key", "partition_columns", "partition_rules", "region_numbers"):
            given[name] = tuple(value[name])
        return cls(**given)


@dataclass(frozen=True, slots=True)
class DatabaseInfo:
    """A database: a namespace of tables, and the options they inherit."""

    name: str
    options: Mapping[str, str] = field(default_factory=dict)
    created_ms: int = 0

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "options": dict(self.options), "created_ms": self.created_ms}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> DatabaseInfo:
        return cls(**value)


@dataclass(frozen=True, slots=True)
class ViewInfo:
    """A view: a query under a name."""

    id: int
    database: str
    name: str
    definition: str
    """The whole statement, as `SHOW CREATE VIEW` prints it."""
    query: str
    """The query of the view, ready to be planned: `*` expanded, names qualified by their database."""
    columns: tuple[str, ...] = ()
    """The names given to its columns, none when the query's own are kept."""
    tables: tuple[str, ...] = ()
    """`database.table` of what it reads."""
    created_ms: int = 0

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "database": self.database,
            "name": self.name,
            "definition": self.definition,
            "query": self.query,
            "columns": list(self.columns),
            "tables": list(self.tables),
            "created_ms": self.created_ms,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> ViewInfo:
        return cls(**{**value, "columns": tuple(value["columns"]), "tables": tuple(value["tables"])})
