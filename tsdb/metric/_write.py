"""Rows of a logical table on their way into the region of its physical table."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tsdb.model import Batch, OpType, RegionSchema, SeriesTable, TableInfo, encode_labels, group_series, hash_tags


def write_batch(schema: RegionSchema, table: TableInfo, rows: pa.RecordBatch, op: OpType = OpType.PUT) -> Batch:
    """Return what rows of a logical table are to the region of its physical table, which has this schema.

    Labels are made into text once for every distinct set of them.
    """
    names = [tag.name for tag in table.tags]
    labels = [rows.column(name).cast(pa.string()) for name in names]
    first, index = group_series(*hash_tags(labels, names, rows.num_rows))
    distinct = {name: column.take(pa.array(first)) for name, column in zip(names, labels, strict=True)}
    owners = pa.array(np.full(len(first), table.id, dtype=np.uint32))
    times = rows.column(schema.time.name).cast(schema.time.type).cast(pa.int64())
    fields = {}
    if op is OpType.PUT:
        given = [field for field in schema.fields if field.name in rows.schema.names]
        fields = {field.name: rows.column(field.name).cast(field.type) for field in given}
    return Batch(
        make_series(schema, owners, encode_labels(distinct, len(first))),
        index,
        times.to_numpy(zero_copy_only=False),
        fields,
        op,
    )


def make_series(schema: RegionSchema, table_ids: pa.Array, labels: pa.Array) -> SeriesTable:
    """Return series of any number of logical tables, which must be distinct, by their tables and encoded labels.

    For those who know the series of each row already and write several tables with one batch.
    """
    return SeriesTable.of_tags(schema, [table_ids, labels], len(table_ids))
