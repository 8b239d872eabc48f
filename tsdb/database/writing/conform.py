"""Rows that were made for one description of a table, brought to the schema its region has by now.

A table can be altered between the moment an INSERT read its description and the moment its rows reach a region. Columns
are known by their ids, so that a rename keeps their values: what is gone is left out, what is new gets its default.
"""

from __future__ import annotations

import pyarrow as pa

from tsdb.database._defaults import default_array
from tsdb.errors import InvalidArguments
from tsdb.model import Column, ColumnInfo, OpType, RegionSchema, Semantic, TableInfo


def conform_rows(
    rows: pa.Table, made_for: TableInfo, newest: TableInfo, schema: RegionSchema, op: OpType, *, now_ns: int
) -> pa.Table:
    """Return rows, made for one description of a table, with the columns of a schema; of a delete only the keys.

    `newest` is the description that is published: while an alter is under way it may be older than the schema.
    """
    given = {column.id: column.name for column in made_for.columns if column.name in rows.column_names}
    described = {column.id: column for column in newest.columns} if newest.schema_version == schema.version else {}
    columns = {}
    for column in schema.columns:
        if op is OpType.DELETE and column.semantic is Semantic.FIELD:
            continue
        name = given.get(column.id)
        if name is None:
            columns[column.name] = _default(column, described.get(column.id), rows.num_rows, now_ns=now_ns)
        else:
            columns[column.name] = _cast(rows.column(name), column)
    return pa.table(columns)


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


def _cast(values: pa.ChunkedArray, column: Column) -> pa.ChunkedArray:
    try:
        return values.cast(column.type)
    except pa.ArrowException as error:
        raise InvalidArguments(
            f"column {column.name} has another type by now: {error}",
            column=column.name,
            expected=str(column.type),
            received=str(values.type),
        ) from error
