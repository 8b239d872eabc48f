"""The formats of the shell.

table       a table for people
vertical    a block for each row
csv         RFC 4180 with a line of names; strings are quoted, null is an empty field without quotes
json        one object per line; timestamps are RFC 3339, NaN is null
arrow       an Arrow IPC stream
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable
from typing import BinaryIO

import pyarrow as pa
import pyarrow.csv
import pyarrow.ipc
import pyarrow.types as pt

from tsdb._kernels import encode_json_lines
from tsdb.cli.shown._cells import TimeStyle, cell_texts
from tsdb.cli.shown._table import write_records, write_table


class TextSink:
    """Where results go: text and bytes in one stream."""

    def __init__(self, stream: BinaryIO) -> None:
        self.stream = stream

    def write(self, text: str) -> None:
        self.stream.write(text.encode("utf-8", "replace"))

    def flush(self) -> None:
        self.stream.flush()


Show = Callable[[pa.Schema, Iterable[pa.RecordBatch], TextSink, str], int]


def show_rows(name: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch], sink: TextSink, *, zone: str) -> int:
    """Print rows in a format; return their number."""
    return _FORMATS[name](schema, batches, sink, zone)


def _table(schema: pa.Schema, batches: Iterable[pa.RecordBatch], sink: TextSink, zone: str) -> int:
    return write_table(schema, batches, sink.write, zone=zone)


def _vertical(schema: pa.Schema, batches: Iterable[pa.RecordBatch], sink: TextSink, zone: str) -> int:
    return write_records(schema, batches, sink.write, zone=zone)


def _csv(schema: pa.Schema, batches: Iterable[pa.RecordBatch], sink: TextSink, zone: str) -> int:
    sink.stream.write(csv_head(schema))
    rows = 0
    for batch in batches:
        sink.stream.write(csv_lines(batch, zone, TimeStyle.PLAIN))
        rows += batch.num_rows
    return rows


def csv_head(schema: pa.Schema) -> bytes:
    """The line of names."""
    return ",".join('"' + name.replace('"', '""') + '"' for name in schema.names).encode() + b"\n"


def csv_lines(batch: pa.RecordBatch, zone: str, style: TimeStyle) -> bytes:
    """Rows as CSV: strings are in quotes, so that an empty one is not a null."""
    columns = [_csv_column(column, zone, style) for column in batch.columns]
    target = io.BytesIO()
    options = pa.csv.WriteOptions(include_header=False, quoting_style="needed")
    pa.csv.write_csv(pa.RecordBatch.from_arrays(columns, batch.schema.names), target, options)
    return target.getvalue()


def _csv_column(column: pa.Array, zone: str, style: TimeStyle) -> pa.Array:
    kind = column.type
    return (
        column
        if pt.is_integer(kind) or pt.is_floating(kind) or pt.is_boolean(kind)
        else cell_texts(column, zone, style)
    )


def _json(schema: pa.Schema, batches: Iterable[pa.RecordBatch], sink: TextSink, zone: str) -> int:
    rows = 0
    for batch in batches:
        for text in json_lines(batch, zone):
            sink.stream.write(text)
        rows += batch.num_rows
    return rows


def json_lines(batch: pa.RecordBatch, zone: str) -> Iterable[bytes]:
    """Rows as one JSON object per line, in pieces."""
    columns = [_json_column(column, zone) for column in batch.columns]
    fields = [
        field if column.type == field.type else pa.field(field.name, column.type)
        for field, column in zip(batch.schema, columns, strict=True)
    ]
    shown, row = pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields)), 0
    while row < shown.num_rows:
        text, row = encode_json_lines(shown, start=row)
        yield text


def _json_column(column: pa.Array, zone: str) -> pa.Array:
    kind = column.type
    is_text = pt.is_temporal(kind) or pt.is_binary(kind) or pt.is_large_binary(kind)
    return cell_texts(column, zone, TimeStyle.RFC3339) if is_text else column


def _arrow(schema: pa.Schema, batches: Iterable[pa.RecordBatch], sink: TextSink, zone: str) -> int:
    rows = 0
    with pa.ipc.new_stream(sink.stream, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
            rows += batch.num_rows
    return rows


_FORMATS: dict[str, Show] = {"table": _table, "vertical": _vertical, "csv": _csv, "json": _json, "arrow": _arrow}
FORMAT_NAMES = tuple(_FORMATS)
