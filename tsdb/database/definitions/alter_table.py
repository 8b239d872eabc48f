"""ALTER TABLE: each operation makes the next description of the table, and says what its regions must do.

All operations of one statement happen together or not at all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from tsdb.catalog import CatalogOutdated, TableAlreadyExists
from tsdb.database._names import check_new_name, check_writable, resolve
from tsdb.database._options import ALTERABLE, check_altered_options, check_modes
from tsdb.database._services import Services
from tsdb.database.definitions.create_table import make_column
from tsdb.database.writing.defaults import default_scalar, make_default, retyped_default
from tsdb.errors import InvalidArguments, Unsupported
from tsdb.metric import plan_column
from tsdb.model import (
    AddColumn,
    ColumnExists,
    ColumnId,
    ColumnIndex,
    ColumnInfo,
    ColumnNotFound,
    DropColumn,
    RenameColumn,
    RetypeColumn,
    SchemaChange,
    Semantic,
    TableInfo,
    is_castable,
)
from tsdb.query import Affected, Session
from tsdb.sql import statements as sql

ATTEMPTS_MAX = 5
"""How often a change is planned again after a concurrent change of the table."""


class _Change:
    """A table on its way to its next description."""

    def __init__(self, table: TableInfo, services: Services, session: Session) -> None:
        self.before = table
        self.table = table
        self.services = services
        self.session = session
        self.regions: list[SchemaChange] = []

    def column(self, name: str) -> ColumnInfo:
        found = self.table.by_name.get(name)
        if found is None:
            raise ColumnNotFound.of(self.table.name, name, self.table.by_name)
        return found

    def invalid(self, reason: str) -> InvalidArguments:
        return InvalidArguments(f"Invalid alter table({self.table.name}) request: {reason}")

    def replace_column(self, old: ColumnInfo, new: ColumnInfo) -> None:
        columns = tuple(new if column is old else column for column in self.table.columns)
        self.table = replace(self.table, columns=columns)


def alter_table(statement: sql.AlterTable, services: Services, session: Session) -> Affected:
    """Change a table. After a concurrent change, this one is planned again on top of it."""
    database, name = resolve(statement.name, session)
    check_writable(database)
    if statement.if_exists and services.catalog.find_table(database, name) is None:
        return Affected(0)
    for attempt in range(ATTEMPTS_MAX):
        try:
            _alter_once(statement, services.catalog.table(database, name), services, session)
            break
        except CatalogOutdated:
            if attempt == ATTEMPTS_MAX - 1:
                raise
    return Affected(0)


def _alter_once(statement: sql.AlterTable, table: TableInfo, services: Services, session: Session) -> None:
    change = _Change(table, services, session)
    for operation in statement.operations:
        _check_metric(operation, change)
        _OPERATIONS[type(operation)](operation, change)
    if change.table == table and not change.regions:
        return
    new = change.table.changed()
    if change.regions:
        new = replace(new, schema_version=table.schema_version + 1)
    services.catalog.alter_table(table, new, change.regions)


_PHYSICAL_OPERATIONS = (sql.SetOptionsOp, sql.UnsetOptionsOp, sql.RenameTableOp)


def _check_metric(operation: Any, change: _Change) -> None:
    """Refuse what tables of the metric engine cannot do: their columns are those of all tables on one region."""
    if change.table.is_physical and not isinstance(operation, _PHYSICAL_OPERATIONS):
        raise Unsupported(f"the columns of the physical table {change.table.name} are those of its logical tables")
    if not change.table.is_logical:
        return
    if not isinstance(operation, sql.AddColumnOp):
        raise change.invalid("a logical table can only get more labels, and the field of native histograms")
    if operation.position is not None:
        raise change.invalid("columns of a logical table are in the order of their names")
    if operation.column.default is not None or operation.column.is_nullable is False:
        raise change.invalid(f"column {operation.column.name} must be nullable and without a default")


def _add_column(operation: sql.AddColumnOp, change: _Change) -> None:
    said, table = operation.column, change.table
    if said.name in table.by_name:
        if operation.if_not_exists:
            return
        raise ColumnExists(f"Column {said.name} already exists in table {table.name}")
    if said.is_time_index:
        raise change.invalid("a table has one time index only")
    keys = (*table.primary_key, said.name) if said.is_primary_key else table.primary_key
    column = make_column(said, ColumnId(table.next_column_id), keys, None, change.session.time_zone)
    if not column.nullable and column.default is None:
        raise change.invalid(f"no default value for column {said.name}, which is not null")
    if table.is_logical:
        change.table = plan_column(table, column)
        return
    now_ns = change.services.clock.now_ns()
    scalar = default_scalar(column, now_ns=now_ns)
    change.regions.append(
        AddColumn(column.name, column.type.arrow, column.semantic, column.nullable, _python_value(scalar))
    )
    change.table = replace(
        table,
        columns=_placed(table, column, operation, change),
        primary_key=keys,
        next_column_id=table.next_column_id + 1,
    )


def _python_value(scalar: pa.Scalar | None) -> Any:
    """A value as Arrow takes it back, timestamps as counts so that nothing is lost."""
    if scalar is None:
        return None
    return scalar.value if pt.is_timestamp(scalar.type) else scalar.as_py()


def _placed(
    table: TableInfo, column: ColumnInfo, operation: sql.AddColumnOp, change: _Change
) -> tuple[ColumnInfo, ...]:
    columns = list(table.columns)
    if operation.position == "first":
        columns.insert(0, column)
    elif operation.position == "after":
        assert operation.after is not None
        columns.insert(columns.index(change.column(operation.after)) + 1, column)
    else:
        columns.append(column)
    return tuple(columns)


def _drop_column(operation: sql.DropColumnOp, change: _Change) -> None:
    column = change.column(operation.name)
    if column.semantic is not Semantic.FIELD:
        raise change.invalid(f"column {column.name} is part of the key and cannot be dropped")
    if column.name in change.table.partition_columns:
        raise change.invalid(f"the table is partitioned by column {column.name}")
    change.regions.append(DropColumn(column.name))
    change.table = replace(change.table, columns=tuple(each for each in change.table.columns if each is not column))


def _modify_type(operation: sql.ModifyTypeOp, change: _Change) -> None:
    column = change.column(operation.name)
    if column.semantic is Semantic.TIMESTAMP:
        raise change.invalid(f"Not allowed to change timestamp index column '{column.name}' datatype")
    if column.semantic is Semantic.TAG:
        raise change.invalid(f"Not allowed to change primary key index column '{column.name}'")
    if not is_castable(column.type.arrow, operation.type.arrow):
        raise change.invalid(f"column '{column.name}' cannot be cast automatically to type '{operation.type.name}'")
    if not column.nullable:
        raise change.invalid(f"column '{column.name}' must be nullable to ensure safe conversion.")
    if operation.type == column.type:
        return
    default = retyped_default(column, operation.type)
    change.regions.append(RetypeColumn(column.name, operation.type.arrow))
    change.replace_column(column, replace(column, type=operation.type, default=default))


def _set_default(operation: sql.SetDefaultOp, change: _Change) -> None:
    column = change.column(operation.name)
    if operation.default.kind == "null" and not column.nullable:
        raise change.invalid(f"column {column.name} is not null: its default cannot be NULL")
    default = make_default(column.name, column.type, operation.default, change.session.time_zone)
    change.replace_column(column, replace(column, default=default))


def _drop_default(operation: sql.DropDefaultOp, change: _Change) -> None:
    column = change.column(operation.name)
    if not column.nullable:
        raise change.invalid(f"column {column.name} is not nullable and `default` cannot be dropped")
    change.replace_column(column, replace(column, default=None))


def _set_index(operation: sql.SetIndexOp, change: _Change) -> None:
    column = change.column(operation.name)
    if operation.index.kind == "fulltext" and not column.type.is_string:
        raise change.invalid(f"a fulltext index needs a string column, {column.name} is {column.type.name}")
    old = column.index(operation.index.kind)
    if old is not None and operation.index.kind == "fulltext":
        _check_same_analysis(column, old, operation.index, change)
    others = tuple(index for index in column.indexes if index.kind != operation.index.kind)
    change.replace_column(column, replace(column, indexes=(*others, operation.index)))


def _check_same_analysis(column: ColumnInfo, old: ColumnIndex, new: ColumnIndex, change: _Change) -> None:
    before, after = dict(old.options), dict(new.options)
    for key in ("analyzer", "case_sensitive"):
        if before.get(key) != after.get(key):
            raise change.invalid(f"cannot change {key} of the fulltext index of column {column.name}")


def _unset_index(operation: sql.UnsetIndexOp, change: _Change) -> None:
    column = change.column(operation.name)
    kept = tuple(index for index in column.indexes if index.kind != operation.kind)
    change.replace_column(column, replace(column, indexes=kept))


def _rename_column(operation: sql.RenameColumnOp, change: _Change) -> None:
    column = change.column(operation.name)
    if operation.new_name in change.table.by_name:
        raise ColumnExists(f"Column {operation.new_name} already exists in table {change.table.name}")
    if column.name in change.table.partition_columns:
        raise change.invalid(f"the table is partitioned by column {column.name}")
    change.regions.append(RenameColumn(column.name, operation.new_name))
    change.replace_column(column, replace(column, name=operation.new_name))
    keys = tuple(operation.new_name if key == column.name else key for key in change.table.primary_key)
    change.table = replace(change.table, primary_key=keys)


def _rename_table(operation: sql.RenameTableOp, change: _Change) -> None:
    table = change.table
    name = operation.new_name.last
    check_new_name(name)
    if len(operation.new_name.parts) > 1 and operation.new_name.parts[-2] != table.database:
        raise Unsupported("a table cannot be renamed into another database")
    catalog = change.services.catalog
    if catalog.find_table(table.database, name) or catalog.find_view(table.database, name):
        raise TableAlreadyExists(table.database, name)
    change.table = replace(table, name=name)


def _set_options(operation: sql.SetOptionsOp, change: _Change) -> None:
    checked = check_altered_options(operation.options)
    options = dict(change.table.options)
    for key, value in checked.items():
        _check_option_change(key, value, change)
        if value is None:
            options.pop(key, None)
        else:
            options[key] = value
        if key == "append_mode" and value == "true":
            options.pop("merge_mode", None)
    if any(key.startswith("compaction.twcs.") for key in options):
        options["compaction.type"] = "twcs"
    check_modes(options)
    change.table = replace(change.table, options=options)


def _check_option_change(key: str, value: str | None, change: _Change) -> None:
    if key == "append_mode" and value != "true" and change.table.is_append:
        raise InvalidArguments("Only allow changing append_mode from false to true")
    if key == "skip_wal" and value != "true":
        raise InvalidArguments("skip_wal can only be changed to true")


def _unset_options(operation: sql.UnsetOptionsOp, change: _Change) -> None:
    options = dict(change.table.options)
    for key in operation.keys:
        if key in ("auto_flush_interval", "append_mode", "skip_wal"):
            raise InvalidArguments(f"Invalid unset table option request: {key} cannot be unset")
        if key not in ALTERABLE and key not in options:
            raise InvalidArguments(f"Invalid unset table option request: key {key}")
        options.pop(key, None)
    if not any(key.startswith("compaction.twcs.") for key in options):
        options.pop("compaction.type", None)
    change.table = replace(change.table, options=options)


_OPERATIONS: dict[type, Callable[[Any, _Change], None]] = {
    sql.AddColumnOp: _add_column,
    sql.DropColumnOp: _drop_column,
    sql.ModifyTypeOp: _modify_type,
    sql.SetDefaultOp: _set_default,
    sql.DropDefaultOp: _drop_default,
    sql.SetIndexOp: _set_index,
    sql.UnsetIndexOp: _unset_index,
    sql.RenameColumnOp: _rename_column,
    sql.RenameTableOp: _rename_table,
    sql.SetOptionsOp: _set_options,
    sql.UnsetOptionsOp: _unset_options,
}
