"""Rows of logical tables as batches of a physical region, one table at a time: for tests."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tsdb.metric import encode_labels, make_series
from tsdb.model import Batch, OpType, RegionSchema, TableInfo, distinct_series


def write_batch(schema: RegionSchema, table: TableInfo, rows: pa.RecordBatch, op: OpType = OpType.PUT) -> Batch:
    """Return what rows of a logical table are to the region of its physical table, which has this schema."""
    names = [tag.name for tag in table.tags]
    distinct, index = distinct_series([rows.column(name).cast(pa.string()) for name in names], names, rows.num_rows)
    labels = distinct.read_tags()
    named = dict(zip(names, labels.columns, strict=True))
    owners = pa.array(np.full(labels.num_rows, table.id, dtype=np.uint32))
    series = make_series(schema, owners, encode_labels(named, labels.num_rows))
    times = rows.column(schema.time.name).cast(schema.time.type).cast(pa.int64()).to_numpy(zero_copy_only=False)
    given = [field for field in schema.fields if op is OpType.PUT and field.name in rows.schema.names]
    return Batch(series, index, times, {field.name: rows.column(field.name).cast(field.type) for field in given}, op)
