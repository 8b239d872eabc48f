"""Rules for tables of the metric engine and their changes. Pure.

    physical   a time index, one DOUBLE field, labels                 WITH (physical_metric_table = '')
    logical    the same time index and field, labels of its own       WITH (on_physical_table = 'phy')

Labels are STRING columns of the primary key. Beside its value, a table may have the VARBINARY field `tsdb_histogram` of
native histograms; a physical one gets it with the first logical one that has it. A logical table shows its columns in
the order of their names, and its options are those of the physical table. A physical table may be partitioned by
labels; a logical table that lacks one of them has no value there.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tsdb.errors import InvalidArguments, Unsupported
from tsdb.model import (
    HISTOGRAM_COLUMN,
    METRIC_LABELS,
    METRIC_TABLE_ID,
    METRIC_TSID,
    ColumnId,
    ColumnInfo,
    Kind,
    Semantic,
    TableInfo,
)

RESERVED_NAMES = frozenset({METRIC_TABLE_ID, METRIC_TSID, METRIC_LABELS})
"""Columns that the engine has itself."""

ON_PHYSICAL = "on_physical_table"
PHYSICAL = "physical_metric_table"

_LOGICAL_OPTIONS = frozenset({ON_PHYSICAL, "table_data_model", "otlp_metric_compat", "timeout", "wait"})
_LOGICAL_PREFIXES = ("tsdb.semantic.", "greptime.semantic.")


def plan_metric_table(draft: TableInfo, physical: TableInfo | None, said: Iterable[str]) -> TableInfo:
    """Check a new table and return its description; `said` are the options that its statement names.

    `physical` is the table that `on_physical_table` names, None if the new table is a physical one.
    """
    _check_names(draft)
    if physical is not None:
        return _plan_logical(draft, physical, frozenset(said))
    if PHYSICAL not in draft.options:
        raise InvalidArguments(
            f"table {draft.name} of the metric engine says neither {PHYSICAL} nor {ON_PHYSICAL}",
            hint=f"WITH ({PHYSICAL} = '') creates the physical table for others with {ON_PHYSICAL} = '{draft.name}'",
        )
    return _check_physical(draft)


def _check_names(draft: TableInfo) -> None:
    taken = sorted(RESERVED_NAMES & draft.by_name.keys())
    if taken:
        raise InvalidArguments(f"column {taken[0]} is reserved for the metric engine", table=draft.name)


def _check_physical(draft: TableInfo) -> TableInfo:
    for name in draft.partition_columns:
        if draft.by_name[name].semantic is not Semantic.TAG:
            raise InvalidArguments(
                f"a physical table is partitioned by labels, {name} is none", hint="name columns of its primary key"
            )
    if len(draft.value_fields) != 1 or draft.value_fields[0].type.kind is not Kind.FLOAT64:
        found = ", ".join(f"{column.name} {column.type.name}" for column in draft.value_fields) or "none"
        raise InvalidArguments(f"a physical table has exactly one field, of type Float64; here: {found}")
    _check_histogram(draft.histogram)
    for label in draft.tags:
        _check_label(label)
    return draft


def _plan_logical(draft: TableInfo, physical: TableInfo, said: frozenset[str]) -> TableInfo:
    if PHYSICAL in said:
        raise InvalidArguments(f"a table is physical or logical: {PHYSICAL} and {ON_PHYSICAL} exclude each other")
    if not physical.is_physical:
        raise InvalidArguments(f"table {physical.name} is not a physical table of the metric engine")
    unknown = [key for key in sorted(said) if key not in _LOGICAL_OPTIONS and not key.startswith(_LOGICAL_PREFIXES)]
    if unknown:
        raise InvalidArguments(
            f"a logical table has no option {unknown[0]} of its own", hint=f"set it for {physical.name}"
        )
    if draft.partition_columns:
        raise InvalidArguments(
            f"the rows of {draft.name} are in the regions of {physical.name}: a logical table has no partitions",
            hint=f"partition {physical.name}",
        )
    for label in draft.tags:
        _check_label(label)
    _check_time(draft.time_index, physical.time_index)
    _check_value(draft, physical.value_fields[0])
    _check_histogram(draft.histogram)
    return replace(
        draft,
        columns=_sorted(replace(column, id=ColumnId(at)) for at, column in enumerate(draft.columns)),
        primary_key=tuple(sorted(draft.primary_key, key=str.encode)),
        options={key: value for key, value in draft.options.items() if key in said},
        region_numbers=(),
        physical_table_id=physical.id,
    )


def _check_label(label: ColumnInfo) -> None:
    if label.type.kind is not Kind.STRING:
        raise InvalidArguments(f"Column type mismatch. Expect String, got {label.type.name}", column=label.name)
    if label.name == HISTOGRAM_COLUMN:
        raise InvalidArguments(f"a label cannot be called {label.name}: that is the field of native histograms")


def _check_histogram(column: ColumnInfo | None) -> None:
    if column is not None and (not column.nullable or column.default is not None):
        raise InvalidArguments(
            f"the field {column.name} of native histograms must be nullable and without a default", column=column.name
        )


def _check_time(time: ColumnInfo, physical: ColumnInfo) -> None:
    if time.name != physical.name:
        raise InvalidArguments(f"the time index is {time.name}, that of the physical table {physical.name}")
    if time.type != physical.type:
        raise InvalidArguments(
            f"the time index {time.name} has the type {time.type.name}, that of the physical table {physical.type.name}"
        )


def _check_value(draft: TableInfo, physical: ColumnInfo) -> None:
    for column in draft.value_fields:
        if column.name != physical.name:
            raise InvalidArguments(
                f"Adding field column {column.name} to physical table",
                hint=f"the only field is {physical.name}; labels belong to the primary key",
            )
        if column.type != physical.type:
            raise InvalidArguments(f"Column type mismatch. Expect {physical.type.name}, got {column.type.name}")
    if not draft.value_fields:
        raise InvalidArguments(f"table {draft.name} lacks the field {physical.name} of its physical table")


def _sorted(columns: Iterable[ColumnInfo]) -> tuple[ColumnInfo, ...]:
    return tuple(sorted(columns, key=lambda column: column.name.encode()))


def check_writable(table: TableInfo) -> None:
    """Refuse rows for a physical table: they could be of no logical one."""
    if table.is_physical:
        raise Unsupported(f"table {table.name} is physical: rows are written and deleted in the logical tables on it")


def plan_column(table: TableInfo, column: ColumnInfo) -> TableInfo:
    """Return a logical table with one more label, or with the field of native histograms, that it lacks."""
    if column.name in RESERVED_NAMES:
        raise InvalidArguments(f"column {column.name} is reserved for the metric engine", table=table.name)
    key = table.primary_key
    if column.is_histogram:
        _check_histogram(column)
    elif column.semantic is not Semantic.TAG:
        raise InvalidArguments(
            f"Adding field column {column.name} to physical table", hint="labels belong to the primary key"
        )
    else:
        _check_label(column)
        key = tuple(sorted((*key, column.name), key=str.encode))
    return replace(
        table,
        columns=_sorted((*table.columns, column)),
        primary_key=key,
        next_column_id=max(table.next_column_id, column.id + 1),
    )
