"""Columns of one table as rows to write: for INSERT, UPDATE, DELETE, COPY and frames.

The columns have the names and types that the table has now. They are completed with defaults, then each distinct set of
tags becomes a series.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from tsdb.database.writing.batches import ROWS_PER_BATCH
from tsdb.database.writing.defaults import default_array
from tsdb.errors import InvalidArguments
from tsdb.ingest import TableRows
from tsdb.model import OpType, TableInfo, distinct_series

BYTES_PER_BATCH = 64 << 20
"""Columns of more bytes are written in several batches: a log entry stays of a bearable size."""


def complete_rows(
    table: TableInfo, given: Mapping[str, pa.Array | pa.ChunkedArray], rows: int, *, now_ns: int
) -> pa.Table:
    """Return all columns of a table, in its order, for rows that name some of them."""
    columns = []
    for column in table.columns:
        values = given.get(column.name)
        if values is None:
            if column.default is None and not column.nullable:
                raise InvalidArguments(
                    f"column {column.name} of table {table.name} is not null and has no default: it needs a value",
                    column=column.name,
                )
            values = default_array(column, rows, now_ns=now_ns)
        elif not column.nullable and values.null_count:
            raise InvalidArguments(f"column {column.name} is not null but input has null", column=column.name)
        columns.append(values)
    return pa.table(columns, schema=table.arrow)


def make_rows(table: TableInfo, columns: pa.Table, op: OpType = OpType.PUT) -> list[TableRows]:
    """Return rows that have the columns of a table, or with DELETE its keys, in pieces that become one batch each."""
    step = min(ROWS_PER_BATCH, max(1, columns.num_rows * BYTES_PER_BATCH // max(1, columns.nbytes)))
    return [_make_piece(table, piece, op) for piece in columns.combine_chunks().to_batches(max_chunksize=step)]


def _make_piece(table: TableInfo, columns: pa.RecordBatch, op: OpType) -> TableRows:
    names = [tag.name for tag in table.tags]
    series, index = distinct_series([_tag(table, columns, name) for name in names], names, columns.num_rows)
    time = table.time_index
    times = _cast(columns.column(time.name), time.type.arrow).cast(pa.int64())
    fields = {} if op is OpType.DELETE else {field.name: columns.column(field.name) for field in table.fields}
    return TableRows(
        table=table.name,
        tags=series.read_tags(),
        series_index=index,
        times=times.to_numpy(zero_copy_only=False),
        unit=time.type.arrow.unit,
        fields=fields,
        database=table.database,
        made_for=table,
        op=op,
        made_series=series,
    )


def _tag(table: TableInfo, columns: pa.RecordBatch, name: str) -> pa.Array:
    kind = table.by_name[name].type.arrow
    if columns.schema.get_field_index(name) < 0:
        return pa.nulls(columns.num_rows, kind)
    return _cast(columns.column(name), kind)


def _cast(values: pa.Array, kind: pa.DataType) -> pa.Array:
    return values if values.type == kind else values.cast(kind)
