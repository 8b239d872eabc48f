"""Batches as log entries: the series and the rows, each an Arrow schema and an Arrow record batch.

    u32 × 3: bytes of series schema, series batch, rows schema │ series schema │ series batch │ rows schema │ rows batch

Columns are named by their id, so that an entry survives renaming, and carry their type, so that it survives widening.
Which columns existed when it was written is told by the schema version of its frame. Schemas are encoded once and kept,
so that an entry costs no more than its buffers.
"""

from __future__ import annotations

import functools
import struct
from typing import Any

import numpy.typing as npt
import pyarrow as pa

from tsdb.engine.wal import EncodedPayload, FrameKind, encode_frame_payload
from tsdb.model import Batch, ColumnId, OpType, RegionSchema, SeriesTable, make_tags

_LENGTHS = struct.Struct("<III")
_SERIES_KEYS = (pa.field("tsid", pa.uint64()), pa.field("check", pa.uint64()))
_ROW_KEYS = (pa.field("series", pa.uint32()), pa.field("time", pa.int64()))
_SCHEMAS_MAX = 1024

FRAME_KINDS = {OpType.PUT: FrameKind.DATA, OpType.DELETE: FrameKind.DELETE}

_Named = tuple[tuple[int, pa.DataType], ...]


def encode_batch(schema: RegionSchema, batch: Batch) -> EncodedPayload:
    """Make the payload of a log entry; runs in the thread of the request."""
    series_schema, series_header = _schema(_SERIES_KEYS, tuple((tag.id, tag.type) for tag in schema.tags))
    columns = [schema.by_name[name] for name in batch.fields]
    rows_schema, rows_header = _schema(_ROW_KEYS, tuple((column.id, column.type) for column in columns))
    series = pa.RecordBatch.from_arrays(
        [pa.array(batch.series.tsid), pa.array(batch.series.check), *batch.series.tags.columns], schema=series_schema
    ).serialize()
    rows = pa.RecordBatch.from_arrays(
        [pa.array(batch.series_index), pa.array(batch.times), *batch.fields.values()], schema=rows_schema
    ).serialize()
    lengths = _LENGTHS.pack(len(series_header), series.size, len(rows_header))
    return encode_frame_payload([lengths, series_header, series, rows_header, rows])


def decode_batch(schema: RegionSchema, payload: pa.Buffer, kind: FrameKind, *, version: int) -> Batch:
    """Read an entry, written under a schema version, as a batch of the schema given.

    Columns that are gone since are left out; hashes of tags that may have been renamed since are made anew.
    """
    series, rows = _read(payload)
    tags = [_column(series, tag.id, tag.type) for tag in schema.tags]
    if version == schema.version:
        named = make_tags(tags, [tag.name for tag in schema.tags], series.num_rows)
        table = SeriesTable(_numpy(series.column(0)), _numpy(series.column(1)), named)
    else:
        table = SeriesTable.of_tags(schema, tags, series.num_rows)
    fields = {}
    for position, name in enumerate(rows.schema.names):
        column = schema.by_id.get(ColumnId(int(name))) if name.isdecimal() else None
        if column is not None:
            values = rows.column(position)
            fields[column.name] = values if values.type == column.type else values.cast(column.type)
    op = OpType.DELETE if kind is FrameKind.DELETE else OpType.PUT
    return Batch(table, _numpy(rows.column(0)), _numpy(rows.column(1)), fields, op)


@functools.lru_cache(_SCHEMAS_MAX)
def _schema(keys: tuple[pa.Field, ...], columns: _Named) -> tuple[pa.Schema, bytes]:
    """Return the schema of a part of an entry, and its encoded form."""
    schema = pa.schema([*keys, *(pa.field(str(column), kind) for column, kind in columns)])
    return schema, schema.serialize().to_pybytes()


@functools.lru_cache(_SCHEMAS_MAX)
def _parse_schema(encoded: bytes) -> pa.Schema:
    return pa.ipc.read_schema(pa.py_buffer(encoded))


def _read(payload: pa.Buffer) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    lengths = _LENGTHS.unpack(payload.slice(0, _LENGTHS.size).to_pybytes())
    parts, start = [], _LENGTHS.size
    for length in (*lengths, payload.size - _LENGTHS.size - sum(lengths)):
        parts.append(payload.slice(start, length))
        start += length
    series_schema, series, rows_schema, rows = parts
    return (
        pa.ipc.read_record_batch(series, _parse_schema(series_schema.to_pybytes())),
        pa.ipc.read_record_batch(rows, _parse_schema(rows_schema.to_pybytes())),
    )


def _column(batch: pa.RecordBatch, column: ColumnId, kind: pa.DataType) -> pa.Array:
    """Return a column by its id; nulls where the entry does not have it."""
    position = batch.schema.get_field_index(str(column))
    if position < 0:
        return pa.nulls(batch.num_rows, kind)
    values = batch.column(position)
    return values if values.type == kind else values.cast(kind)


def _numpy(column: pa.Array) -> npt.NDArray[Any]:
    values: npt.NDArray[Any] = column.to_numpy()
    return values
