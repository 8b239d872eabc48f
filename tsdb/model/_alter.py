"""Changes of a region's schema, as pure functions from one version to the next.

Data files are never rewritten: a column is known by its id, an added one has its default in older rows, one of another
type is cast when it is read. So every change must be one that reading can undo: tags are not dropped, and their types
only grow. Values are stored in the type they were written in and cast to the current one, whatever types were in
between; so a column remembers the types it had.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from tsdb.errors import InvalidArguments, Status
from tsdb.model._cast import cast_value_or_null, is_castable
from tsdb.model._schema import Column, ColumnId, PastType, RegionSchema, Semantic
from tsdb.nearest import nearest


class ColumnExists(InvalidArguments):
    """A column of this name is there already."""

    status = Status.TABLE_COLUMN_EXISTS


class ColumnNotFound(InvalidArguments):
    """There is no column of this name."""

    status = Status.TABLE_COLUMN_NOT_FOUND

    @classmethod
    def of(cls, table: str, column: str, columns: Iterable[str]) -> ColumnNotFound:
        """The error for a column that a table does not have; `columns` are those that it has."""
        near = nearest(column, columns)
        hint = None if near is None else f"did you mean {near}?"
        return cls(f"Column {column} does not exist in table {table}", hint=hint)


@dataclass(frozen=True, slots=True)
class AddColumn:
    """Add a tag or field; older rows have its default."""

    name: str
    type: pa.DataType
    semantic: Semantic = Semantic.FIELD
    nullable: bool = True
    default: Any = None


@dataclass(frozen=True, slots=True)
class DropColumn:
    """Drop a field; its values are gone for good."""

    name: str


@dataclass(frozen=True, slots=True)
class RenameColumn:
    """Rename a column."""

    name: str
    new_name: str


@dataclass(frozen=True, slots=True)
class WidenColumn:
    """Widen the type of a column."""

    name: str
    type: pa.DataType


@dataclass(frozen=True, slots=True)
class RetypeColumn:
    """Change the type of a field to one it can be cast to; values that cannot be cast are read as null."""

    name: str
    type: pa.DataType


SchemaChange = AddColumn | DropColumn | RenameColumn | WidenColumn | RetypeColumn


def alter(schema: RegionSchema, changes: list[SchemaChange]) -> RegionSchema:
    """Apply changes in order and return the next version; an impossible one changes nothing."""
    columns, next_id, version = list(schema.columns), schema.next_column_id, schema.version + 1
    for change in changes:
        match change:
            case AddColumn():
                columns.append(_added(columns, change, ColumnId(next_id), version))
                next_id += 1
            case DropColumn():
                column = _find(columns, change.name)
                if column.semantic is not Semantic.FIELD:
                    raise InvalidArguments("only fields can be dropped", column=change.name)
                columns.remove(column)
            case RenameColumn():
                column = _find(columns, change.name)
                if any(other.name == change.new_name for other in columns):
                    raise ColumnExists("the column exists already", column=change.new_name)
                columns[columns.index(column)] = replace(column, name=change.new_name)
            case WidenColumn():
                column = _find(columns, change.name)
                columns[columns.index(column)] = _widened(column, change.type, until=schema.version)
            case RetypeColumn():
                column = _find(columns, change.name)
                columns[columns.index(column)] = _retyped(column, change.type, until=schema.version)
    return schema.with_columns(tuple(columns), next_column_id=next_id)


def can_widen(old: pa.DataType, new: pa.DataType) -> bool:
    """Return whether every value of one type can be shown in another."""
    if old == new or pt.is_string(new) or pt.is_large_string(new):
        return (not pt.is_nested(old) and not pt.is_binary(old)) or old == new
    if pt.is_integer(old) and pt.is_integer(new):
        if pt.is_signed_integer(old) == pt.is_signed_integer(new):
            return bool(new.bit_width >= old.bit_width)
        return bool(pt.is_signed_integer(new) and new.bit_width > old.bit_width)
    if pt.is_floating(new):
        return bool(pt.is_integer(old) and new.bit_width == 64) or bool(
            pt.is_floating(old) and new.bit_width >= old.bit_width
        )
    return False


def _find(columns: list[Column], name: str) -> Column:
    for column in columns:
        if column.name == name:
            return column
    raise ColumnNotFound("there is no such column", column=name)


def _added(columns: list[Column], change: AddColumn, column_id: ColumnId, version: int) -> Column:
    if any(column.name == change.name for column in columns):
        raise ColumnExists("the column exists already", column=change.name)
    if change.semantic is Semantic.TIMESTAMP:
        raise InvalidArguments("a time column cannot be added", column=change.name)
    if not change.nullable and change.default is None:
        raise InvalidArguments(
            "a column that may not be null needs a default", column=change.name, hint="give it a default value"
        )
    return Column(
        id=column_id,
        name=change.name,
        type=change.type,
        semantic=change.semantic,
        nullable=change.nullable,
        default=change.default,
        since=version,
    )


def _widened(column: Column, kind: pa.DataType, *, until: int) -> Column:
    if column.semantic is Semantic.TIMESTAMP or not can_widen(column.type, kind):
        raise InvalidArguments(
            "the new type does not hold every value of the old one",
            column=column.name,
            old=str(column.type),
            new=str(kind),
        )
    return _with_type(column, kind, until=until)


def _retyped(column: Column, kind: pa.DataType, *, until: int) -> Column:
    if column.semantic is not Semantic.FIELD:
        raise InvalidArguments("only fields can be given another type", column=column.name)
    if not column.nullable:
        raise InvalidArguments(
            "only a column that may be null can be given another type, because values that cannot be cast become null",
            column=column.name,
        )
    if not is_castable(column.type, kind):
        raise InvalidArguments(
            "the old type cannot be cast to the new one", column=column.name, old=str(column.type), new=str(kind)
        )
    return _with_type(column, kind, until=until)


def _with_type(column: Column, kind: pa.DataType, *, until: int) -> Column:
    """Change the type of a column and remember the old one."""
    if column.type == kind:
        return column
    past = column.past
    if column.since <= until and not (past and past[-1].until == until):
        past = (*past, PastType(until, column.type, column.default))
    if not past:  # it comes with this very version, so no row has its old type
        return replace(column, type=kind, default=cast_value_or_null(column.default, column.type, kind))
    first = past[0]
    return replace(column, type=kind, default=cast_value_or_null(first.default, first.type, kind), past=past)
