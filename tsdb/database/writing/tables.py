"""The tables that a request needs: descriptions of new ones, columns that are added to those that are there. Pure.

A new table has its columns in the order in which the request had them; tags are the primary key, in that order. What
a table has already is never changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.types as pt

from tsdb.database._options import COLUMNS_MAX, INHERITED_AT_CREATION, UnexpectedOption, check_table_options
from tsdb.errors import InvalidArguments
from tsdb.ingest import NewTable, TableRows
from tsdb.metric import ON_PHYSICAL, plan_column, plan_metric_table
from tsdb.model import (
    HISTOGRAM_COLUMN,
    METRIC_ENGINE,
    AddColumn,
    ColumnId,
    ColumnInfo,
    DataType,
    Kind,
    Semantic,
    TableInfo,
    type_of_arrow,
)

_HINTED_OPTIONS = ("ttl", "append_mode", "merge_mode", "skip_wal")
_MODES = frozenset({"append_mode", "merge_mode"})
_TIMES = {
    "s": Kind.TIMESTAMP_SECOND,
    "ms": Kind.TIMESTAMP_MILLISECOND,
    "us": Kind.TIMESTAMP_MICROSECOND,
    "ns": Kind.TIMESTAMP_NANOSECOND,
}


def creation_options(
    new_table: NewTable, hints: Mapping[str, str], inherited: Mapping[str, str], *, said: Mapping[str, str]
) -> dict[str, str]:
    """The options of a new table: the protocol's defaults, then the database's, then those that the request `said`."""
    options = dict(new_table.options)
    for layer in (
        {key: value for key, value in inherited.items() if key in INHERITED_AT_CREATION},
        {**said, **{key: hints[key] for key in _HINTED_OPTIONS if key in hints}},
    ):
        # How rows with the same key are merged is one decision: a layer that makes it replaces all of it.
        if _MODES & layer.keys():
            options = {key: value for key, value in options.items() if key not in _MODES}
        options.update(layer)
    try:
        return check_table_options(options.items())
    except UnexpectedOption as error:
        raise InvalidArguments(str(error)) from error


def field_names(rows: TableRows, table: TableInfo, new_table: NewTable) -> dict[str, str]:
    """How the table calls fields that the protocol has its own name for: its only field takes the only value."""
    values = [name for name in rows.fields if name != HISTOGRAM_COLUMN]
    if not new_table.single_value or len(values) != 1 or len(table.value_fields) != 1:
        return {}
    (given,) = values
    own = table.value_fields[0].name
    return {} if given in table.by_name else {given: own}


def draft_table(
    rows: TableRows, database: str, new_table: NewTable, options: Mapping[str, str], *, created_ms: int
) -> TableInfo:
    """Describe the table that rows need."""
    columns = _new_columns(rows, new_table)
    rules = new_table.partition_rules
    return TableInfo(
        id=0,
        database=database,
        name=rows.table,
        columns=columns,
        primary_key=tuple(rows.tag_names),
        options=options,
        partition_columns=new_table.partition_columns if rules else (),
        partition_rules=rules,
        region_numbers=tuple(range(max(1, len(rules)))),
        comment=new_table.comment,
        created_ms=created_ms,
        next_column_id=len(columns),
    )


def _new_columns(rows: TableRows, new_table: NewTable) -> tuple[ColumnInfo, ...]:
    tags = rows.tag_names
    _check_names([*tags, *rows.fields, new_table.time_column])
    order = dict.fromkeys((*rows.columns, *tags, *rows.fields, ""))
    time = DataType(_TIMES[new_table.time_unit])
    columns = []
    for number, name in enumerate(order):
        if name == "":
            column = ColumnInfo(ColumnId(number), new_table.time_column, time, Semantic.TIMESTAMP, nullable=False)
        else:
            semantic = Semantic.TAG if name in tags else Semantic.FIELD
            column = ColumnInfo(ColumnId(number), name, _column_type(rows, name), semantic)
        columns.append(column)
    return tuple(columns)


def _check_names(names: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if not name:
            raise InvalidArguments("a column needs a name")
        if name in seen:
            raise InvalidArguments(f"column name `{name}` is duplicated: it is a tag, a field or the time at once")
        seen.add(name)
    _check_count(len(seen))


def _check_count(columns: int) -> None:
    if columns > COLUMNS_MAX:
        raise InvalidArguments(f"a table has at most {COLUMNS_MAX} columns, this one would have {columns}")


def _column_type(rows: TableRows, name: str) -> DataType:
    said = rows.types.get(name)
    if said is not None:
        return said
    if name not in rows.fields and rows.known is not None:
        return DataType(Kind.STRING)
    values: pa.Array = rows.fields[name] if name in rows.fields else rows.read_tags().column(name)
    if pt.is_null(values.type):
        return DataType(Kind.STRING)
    kind = type_of_arrow(values.type)
    if kind is None:
        raise InvalidArguments(f"column {name} has the type {values.type}, which tables do not support")
    return kind


def physical_draft(database: str, new_table: NewTable, options: Mapping[str, str], *, created_ms: int) -> TableInfo:
    """Describe the physical table on which logical ones are created."""
    time = DataType(_TIMES[new_table.time_unit])
    draft = TableInfo(
        id=0,
        database=database,
        name=new_table.physical_table,
        columns=(
            ColumnInfo(ColumnId(0), new_table.time_column, time, Semantic.TIMESTAMP, nullable=False),
            ColumnInfo(ColumnId(1), new_table.value_column, DataType(Kind.FLOAT64), Semantic.FIELD),
        ),
        engine=METRIC_ENGINE,
        options={**options, "physical_metric_table": ""},
        comment=new_table.comment,
        created_ms=created_ms,
        next_column_id=2,
    )
    return plan_metric_table(draft, None, draft.options)


def logical_draft(
    rows: TableRows, database: str, new_table: NewTable, physical: TableInfo, *, created_ms: int
) -> TableInfo:
    """Describe the logical table that rows of one value need; time and value are called as the physical table says."""
    values = [name for name in rows.fields if name != HISTOGRAM_COLUMN]
    if len(values) > 1:
        raise InvalidArguments("a metric has one value", columns=", ".join(values))
    own = [physical.time_index, physical.value_fields[0]]
    if HISTOGRAM_COLUMN in rows.fields:
        own.append(ColumnInfo(ColumnId(0), HISTOGRAM_COLUMN, DataType(Kind.BINARY), Semantic.FIELD))
    labels = rows.tag_names
    _check_names([*labels, *(column.name for column in own)])
    shown = (*own, *(ColumnInfo(ColumnId(0), name, DataType(Kind.STRING), Semantic.TAG) for name in labels))
    draft = TableInfo(
        id=0,
        database=database,
        name=rows.table,
        columns=tuple(replace(column, id=ColumnId(number)) for number, column in enumerate(shown)),
        primary_key=tuple(labels),
        engine=METRIC_ENGINE,
        options={ON_PHYSICAL: physical.name},
        comment=new_table.comment,
        created_ms=created_ms,
        next_column_id=len(shown),
    )
    return plan_metric_table(draft, physical, {ON_PHYSICAL})


def widen_table(rows: TableRows, table: TableInfo, names: Mapping[str, str]) -> tuple[TableInfo, tuple[AddColumn, ...]]:
    """Add the columns that a table lacks; the same table when it has them all."""
    fields = [names.get(name, name) for name in rows.fields]
    known, tags = table.by_name, rows.tag_names
    wanted = {*tags, *fields}
    if not known.keys() >= wanted:
        return _widened(rows, table, tags, [name for name in rows.fields if names.get(name, name) not in known])
    if len(wanted) != len(tags) + len(fields):
        _check_names([*tags, *fields])
    return table, ()


def _widened(
    rows: TableRows, table: TableInfo, tags: Sequence[str], fields: Sequence[str]
) -> tuple[TableInfo, tuple[AddColumn, ...]]:
    _check_names([*tags, *rows.fields])
    new, changes = table, []
    in_order = [name for name in dict.fromkeys((*rows.columns, *tags, *fields)) if name in tags or name in fields]
    for name in in_order:
        if name in table.by_name:
            continue
        semantic = Semantic.TAG if name in tags else Semantic.FIELD
        column = ColumnInfo(ColumnId(new.next_column_id), name, _column_type(rows, name), semantic)
        if table.is_logical:
            new = plan_column(new, column)
            continue
        changes.append(AddColumn(name, column.type.arrow, semantic))
        new = replace(
            new,
            columns=(*new.columns, column),
            primary_key=(*new.primary_key, name) if semantic is Semantic.TAG else new.primary_key,
            next_column_id=new.next_column_id + 1,
        )
    _check_count(len(new.columns))
    return new, tuple(changes)
