"""The columns of a region, with identities that survive renaming.

- A column's id never changes and is never used again: data files know columns by id, so a rename is free and a
  dropped column does not come back under a new one's name.
- The order of tags is the order of the primary key, and so the sort order of series.
- `version` grows with every change; a data file or log entry says under which version it was written.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property, lru_cache
from typing import Any, NewType

import pyarrow as pa

ColumnId = NewType("ColumnId", int)

_TYPES_MAX = 1024
"""How many types are remembered with their stored form."""

_UNITS = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


class Semantic(StrEnum):
    """The role of a column."""

    TAG = "tag"
    FIELD = "field"
    TIMESTAMP = "timestamp"


@dataclass(frozen=True, slots=True)
class PastType:
    """A type that a column had once; rows written under it are stored with it."""

    until: int
    """The last schema version in which the column had it."""
    type: pa.DataType
    default: Any = None
    """The column's default in this type."""

    def to_json(self) -> dict[str, Any]:
        return {"until": self.until, **_type_to_json(self.type, self.default)}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> PastType:
        return cls(value["until"], *_type_from_json(value))


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a region."""

    id: ColumnId
    name: str
    type: pa.DataType
    semantic: Semantic
    nullable: bool = True
    default: Any = None
    """The value rows have that were written before the column was there; a Python value of the column's type."""
    since: int = 0
    """The schema version that brought the column; rows written under an older one have its default."""
    past: tuple[PastType, ...] = ()
    """The types it had before, oldest first."""

    @property
    def first(self) -> Column:
        """The column with the type and the default that it came with."""
        return self.as_of(self.since)

    def as_of(self, version: int) -> Column:
        """The column with the type and the default that it had in a schema version."""
        for past in self.past:
            if version <= past.until:
                return replace(self, type=past.type, default=past.default)
        return self

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "name": self.name,
            **_type_to_json(self.type, self.default),
            "type_name": str(self.type),
            "semantic": self.semantic.value,
            "nullable": self.nullable,
            **({"since": self.since} if self.since else {}),
            **({"past": [past.to_json() for past in self.past]} if self.past else {}),
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Column:
        kind, default = _type_from_json(value)
        return cls(
            id=ColumnId(value["id"]),
            name=value["name"],
            type=kind,
            semantic=Semantic(value["semantic"]),
            nullable=value["nullable"],
            default=default,
            since=value.get("since", 0),
            past=tuple(PastType.from_json(past) for past in value.get("past", ())),
        )


def _type_to_json(kind: pa.DataType, default: Any) -> dict[str, str]:
    encoded = {"type": _encode_type(kind)}
    return encoded if default is None else {**encoded, "default": _encode_scalar(pa.scalar(default, kind))}


def _type_from_json(value: dict[str, Any]) -> tuple[pa.DataType, Any]:
    return _decode_type(value["type"]), _decode_scalar(value["default"]) if "default" in value else None


# A table of thousands of columns has few types, and every change of it writes all of them.
@lru_cache(_TYPES_MAX)
def _encode_type(kind: pa.DataType) -> str:
    return base64.b64encode(pa.schema([pa.field("c", kind)]).serialize()).decode("ascii")


@lru_cache(_TYPES_MAX)
def _decode_type(text: str) -> pa.DataType:
    return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text))).field(0).type


def _encode_scalar(scalar: pa.Scalar) -> str:
    batch = pa.record_batch([pa.array([scalar.as_py()], scalar.type)], names=["v"])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return base64.b64encode(sink.getvalue()).decode("ascii")


def _decode_scalar(text: str) -> Any:
    reader = pa.ipc.open_stream(base64.b64decode(text))
    return reader.read_next_batch().column(0)[0].as_py()


@dataclass(frozen=True)
class RegionSchema:
    """All columns of a region, in the order of the table."""

    columns: tuple[Column, ...]
    version: int = 0
    next_column_id: int = 0
    """The id of the next column that is added."""

    def __post_init__(self) -> None:
        names = [column.name for column in self.columns]
        if len(set(names)) != len(names):
            raise ValueError(f"column names are not unique: {names}")
        if len(self._of(Semantic.TIMESTAMP)) != 1:
            raise ValueError("a region has exactly one time column")
        if not pa.types.is_timestamp(self.time.type):
            raise ValueError(f"the time column {self.time.name} is not a timestamp but {self.time.type}")

    @classmethod
    def create(cls, columns: list[tuple[str, pa.DataType, Semantic]]) -> RegionSchema:
        """Make a first schema, ids in order; tags and fields may be null."""
        made = tuple(
            Column(ColumnId(position), name, kind, semantic, nullable=semantic is not Semantic.TIMESTAMP)
            for position, (name, kind, semantic) in enumerate(columns)
        )
        return cls(made, version=0, next_column_id=len(made))

    def _of(self, semantic: Semantic) -> tuple[Column, ...]:
        return tuple(column for column in self.columns if column.semantic is semantic)

    @cached_property
    def time(self) -> Column:
        return self._of(Semantic.TIMESTAMP)[0]

    @cached_property
    def tags(self) -> tuple[Column, ...]:
        """The primary key, in its order."""
        return self._of(Semantic.TAG)

    @cached_property
    def tag_names(self) -> frozenset[str]:
        return frozenset(tag.name for tag in self.tags)

    @cached_property
    def tags_key(self) -> tuple[tuple[int, str, str], ...]:
        """Equal for schemas whose series tables look the same; cheap to compare, because every scan does."""
        return tuple((tag.id, tag.name, str(tag.type)) for tag in self.tags)

    @cached_property
    def fields(self) -> tuple[Column, ...]:
        return self._of(Semantic.FIELD)

    @cached_property
    def by_name(self) -> dict[str, Column]:
        return {column.name: column for column in self.columns}

    @cached_property
    def by_id(self) -> dict[ColumnId, Column]:
        return {column.id: column for column in self.columns}

    @cached_property
    def arrow(self) -> pa.Schema:
        """The schema as readers see it."""
        return pa.schema([pa.field(column.name, column.type, column.nullable) for column in self.columns])

    @cached_property
    def arrow_tags(self) -> pa.Schema:
        """The schema of the tags of a series table."""
        return pa.schema([pa.field(tag.name, tag.type) for tag in self.tags])

    @property
    def ticks_per_second(self) -> int:
        """How many units of the time column make a second."""
        return _UNITS[self.time.type.unit]

    def as_of(self, version: int) -> RegionSchema:
        """Return the schema for rows written under a version: without columns that came later, with the types of then.

        Names, and what is gone since, are those of this schema.
        """
        kept = tuple(column.as_of(version) for column in self.columns if column.since <= version)
        return self if kept == self.columns else replace(self, columns=kept)

    def with_columns(self, columns: tuple[Column, ...], *, next_column_id: int | None = None) -> RegionSchema:
        """Return the next version with other columns."""
        return replace(
            self, columns=columns, version=self.version + 1, next_column_id=next_column_id or self.next_column_id
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "version": self.version,
            "next_column_id": self.next_column_id,
            "columns": [column.to_json() for column in self.columns],
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> RegionSchema:
        columns = tuple(Column.from_json(each) for each in value["columns"])
        return cls(columns, value["version"], value["next_column_id"])
