"""Values of the metadata as bytes, and changes of a schema as JSON."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import orjson

from tsdb.catalog._errors import CatalogCorrupted
from tsdb.errors import InvalidArguments
from tsdb.model import (
    AddColumn,
    Column,
    ColumnId,
    DropColumn,
    RenameColumn,
    RetypeColumn,
    SchemaChange,
    Semantic,
    TableInfo,
    WidenColumn,
)

T = TypeVar("T")


def encode(value: Any) -> bytes:
    try:
        return orjson.dumps(value)
    except TypeError as error:
        # Text from a client may hold half a surrogate pair, which is no text.
        raise InvalidArguments(f"the description cannot be stored: {error}") from error


def decode(key: str, value: bytes, make: Callable[[Any], T]) -> T:
    """Read the value of a key; CatalogCorrupted if it is not what belongs there."""
    try:
        return make(orjson.loads(value))
    except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        raise CatalogCorrupted(key, f"{type(error).__name__}: {error}") from error


def encode_route(table: TableInfo) -> bytes:
    rules = table.partition_rules or (None,) * len(table.region_numbers)
    pairs = zip(table.region_numbers, rules, strict=True)
    return encode({"regions": [{"number": number, "rule": rule} for number, rule in pairs]})


def change_to_json(change: SchemaChange) -> dict[str, Any]:
    if isinstance(change, AddColumn):
        column = Column(
            ColumnId(0), change.name, change.type, change.semantic, nullable=change.nullable, default=change.default
        )
        return {"change": "add", "column": column.to_json()}
    if isinstance(change, DropColumn):
        return {"change": "drop", "name": change.name}
    if isinstance(change, RenameColumn):
        return {"change": "rename", "name": change.name, "new_name": change.new_name}
    kind = "widen" if isinstance(change, WidenColumn) else "retype"
    return {"change": kind, "column": Column(ColumnId(0), change.name, change.type, Semantic.FIELD).to_json()}


def change_from_json(value: dict[str, Any]) -> SchemaChange:
    match value["change"]:
        case "add":
            column = Column.from_json(value["column"])
            return AddColumn(
                column.name, column.type, column.semantic, nullable=column.nullable, default=column.default
            )
        case "drop":
            return DropColumn(value["name"])
        case "rename":
            return RenameColumn(value["name"], value["new_name"])
        case "widen" | "retype" as kind:
            column = Column.from_json(value["column"])
            change = WidenColumn if kind == "widen" else RetypeColumn
            return change(column.name, column.type)
        case unknown:
            raise ValueError(f"unknown schema change {unknown!r}")
