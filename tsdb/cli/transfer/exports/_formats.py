"""The formats of an export: batches of rows as bytes that are appended to a file.

Whatever an encoder returns for a batch can be cut off between two batches, and more can be appended later. Parquet is
not like that, as its index is at the end: rows on their way to Parquet are kept as Arrow, and become Parquet when all
of them are there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from io import BufferedReader
from typing import BinaryIO, Protocol

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq
import pyarrow.types as pt

from tsdb.cli.shown import TimeStyle, csv_head, csv_lines, json_lines
from tsdb.cli.transfer.exports._line_texts import line_texts
from tsdb.errors import InvalidArguments

ROW_GROUP_ROWS = 100_000


@dataclass(frozen=True)
class ExportLayout:
    """What the formats need to know besides the rows."""

    zone: str
    measurement: str = ""
    time: str | None = None
    tags: Sequence[str] = ()


class RowEncoder(Protocol):
    """Makes bytes of rows."""

    def head(self, schema: pa.Schema) -> bytes:
        """Return what comes before all rows."""

    def encode(self, batch: pa.RecordBatch) -> tuple[Iterable[bytes], int]:
        """Return rows in pieces, and how many of them cannot be said in the format and are left out."""


def encoder_of(kind: str, layout: ExportLayout) -> RowEncoder:
    """Return the encoder of a format; that of Parquet makes Arrow, for `write_parquet`."""
    if kind == "csv":
        return _CsvEncoder(layout)
    if kind == "jsonl":
        return _JsonEncoder(layout)
    return _LineEncoder(layout) if kind == "line" else _ArrowEncoder()


@dataclass(frozen=True)
class _CsvEncoder:
    layout: ExportLayout

    def head(self, schema: pa.Schema) -> bytes:
        return csv_head(schema)

    def encode(self, batch: pa.RecordBatch) -> tuple[Iterable[bytes], int]:
        return [csv_lines(batch, self.layout.zone, TimeStyle.RFC3339)], 0


@dataclass(frozen=True)
class _JsonEncoder:
    layout: ExportLayout

    def head(self, _schema: pa.Schema) -> bytes:
        return b""

    def encode(self, batch: pa.RecordBatch) -> tuple[Iterable[bytes], int]:
        return json_lines(batch, self.layout.zone), 0


@dataclass(frozen=True)
class _LineEncoder:
    layout: ExportLayout

    def head(self, _schema: pa.Schema) -> bytes:
        return b""

    def encode(self, batch: pa.RecordBatch) -> tuple[Iterable[bytes], int]:
        layout = self.layout
        time = layout.time or _first_time(batch.schema)
        text, left_out = line_texts(batch, measurement=layout.measurement, time=time, tags=layout.tags)
        return [text], left_out


def _first_time(schema: pa.Schema) -> str:
    for each in schema:
        if pt.is_timestamp(each.type):
            return str(each.name)
    raise InvalidArguments("the result has no timestamp column", hint="name the time with --time-column")


class _ArrowEncoder:
    """Each batch is an Arrow stream of its own, so that what was cut off can be continued without knowing more."""

    def head(self, _schema: pa.Schema) -> bytes:
        return b""

    def encode(self, batch: pa.RecordBatch) -> tuple[Iterable[bytes], int]:
        sink = pa.BufferOutputStream()
        options = pa.ipc.IpcWriteOptions(compression="zstd")
        with pa.ipc.new_stream(sink, batch.schema, options=options) as writer:
            writer.write_batch(batch)
        return [sink.getvalue().to_pybytes()], 0


def kept_batches(file: BufferedReader) -> Iterator[pa.RecordBatch]:
    """Read what the encoder for Parquet has made, up to the end of the file."""
    while file.peek(1):
        with pa.ipc.open_stream(file) as reader:
            yield from reader


def write_parquet(file: BinaryIO, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
    """Write a whole Parquet file."""
    with pq.ParquetWriter(file, schema, compression="zstd") as writer:
        waiting: list[pa.RecordBatch] = []

        def flush() -> None:
            if waiting:
                writer.write_table(pa.Table.from_batches(waiting), row_group_size=ROW_GROUP_ROWS)
                waiting.clear()

        for batch in batches:
            waiting.append(batch)
            if sum(each.num_rows for each in waiting) >= ROW_GROUP_ROWS:
                flush()
        flush()
