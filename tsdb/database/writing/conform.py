"""Rows that were made for one description of a table, brought to the schema that its region has by now.

A table can be altered between the moment a statement reads its description and the moment its rows reach a region.
Columns are known by their ids, so that a rename keeps their values: dropped columns are left out, new ones get their
defaults.
"""

from __future__ import annotations

import pyarrow as pa

from tsdb.database.writing.defaults import default_array
from tsdb.database.writing.values import Fitted
from tsdb.errors import InvalidArguments
from tsdb.model import Batch, Column, ColumnInfo, OpType, RegionSchema, SeriesTable, TableInfo


def conform_rows(fitted: Fitted, newest: TableInfo, schema: RegionSchema, *, now_ns: int) -> Batch:
    """Return rows as a batch of a schema; of a delete only the keys. Series may occur twice in it.

    `newest` is the published description of the table: while it is being altered, that may be older than the schema.
    """
    rows, given = fitted.rows, {column.id: column.name for column in fitted.table.columns}
    described = {column.id: column for column in newest.columns} if newest.schema_version == schema.version else {}

    def find(column: Column, values: dict[str, pa.Array], count: int) -> pa.Array:
        name = given.get(column.id)
        if name is not None and name in values:
            return _cast(values[name], column)
        return _default(column, described.get(column.id), count, now_ns=now_ns)

    series = SeriesTable.of_tags(schema, [find(tag, fitted.tags, fitted.series) for tag in schema.tags], fitted.series)
    time = _cast(pa.array(fitted.times).cast(fitted.table.time_index.type.arrow), schema.time)
    fields = {}
    if rows.op is OpType.PUT:
        fields = {column.name: find(column, fitted.fields, rows.rows) for column in schema.fields}
    return Batch(series, rows.series_index, time.cast(pa.int64()).to_numpy(zero_copy_only=False), fields, rows.op)


def _default(column: Column, described: ColumnInfo | None, rows: int, *, now_ns: int) -> pa.Array:
    if described is not None:
        values = default_array(described, rows, now_ns=now_ns)
    else:
        values = pa.repeat(pa.scalar(column.default, column.type), rows)
    if not column.nullable and values.null_count:
        raise InvalidArguments(
            f"column {column.name} was added meanwhile and is not null: it needs a value", column=column.name
        )
    return values


def _cast(values: pa.Array, column: Column) -> pa.Array:
    try:
        return values.cast(column.type)
    except pa.ArrowException as error:
        raise InvalidArguments(
            f"column {column.name} has another type by now: {error}",
            column=column.name,
            expected=str(column.type),
            received=str(values.type),
        ) from error
