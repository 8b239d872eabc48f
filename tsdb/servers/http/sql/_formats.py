"""The formats of results over HTTP.

A format encodes results piece by piece, so that a result of any size needs little memory. Row counts and the execution
time follow the rows. The exception is `table`, whose columns are as wide as their widest cell: it is refused when it is
too large to keep.

    tsdb_v1                 {"output":[{"records":{…}}],"execution_time_ms":4}     any number of statements
    influxdb_v1             {"results":[{"statement_id":0,"series":[…]}], …}       any number of statements
    json                    {"data":[{"host":"h1"}],"execution_time_ms":4}
    csv, csvwithnames, …    lines
    table                   lines of a box
    arrow                   an Arrow IPC stream
    null                    the number of rows
"""

from __future__ import annotations

import contextvars
import os
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, TypeAlias

import orjson
import pyarrow as pa

from tsdb._kernels import UnsupportedType, encode_json_objects, encode_json_rows
from tsdb.errors import Unsupported
from tsdb.model import type_name
from tsdb.query import Affected, Output, Records, threads_max

CHUNK_BYTES = 1 << 20
"""About how much of an answer is made before it is sent."""
TEXT_BYTES_MAX = 4 << 20
"""The size of a piece of text; usually it is one chunk, which is sent as it is."""

PARALLEL_ROWS_MIN = 16_384
"""A smaller batch is text before a second thread has begun."""
PIECE_ROWS = 8192
"""How many rows one thread takes at a time."""
TABLE_BYTES_MAX = 64 << 20
PIECES_AHEAD = 4
"""How many pieces of an answer are encoded, or being encoded, before they are sent."""
ENCODERS_MAX = 4
AHEAD_ROWS_MIN = 2048
"""Behind a smaller batch there is mostly none."""
READERS_MAX = 32
HEADS_MAX = 256
"""How many heads of answers are remembered, the one used longest ago goes first; none that is long."""
HEAD_BYTES_MAX = 16_384

Epoch: TypeAlias = Literal["s", "ms", "us", "ns"]
TextPiece: TypeAlias = tuple[bytes, int]
"""Text of rows, and how many."""
RowEncoder: TypeAlias = Callable[[Any, int, bool], tuple[bytes, int]]
"""Takes a batch, a row, and whether rows came before it; returns the text of some rows from there on and the row to go
on with."""


@dataclass(frozen=True, slots=True)
class FormatOptions:
    """The options of a format."""

    elapsed_ms: Callable[[], int]
    limit: int | None = None
    """How many rows of a result are sent at most; None for all."""
    epoch: Epoch | None = None
    """The unit of timestamps in influxdb_v1, csv and table; None leaves them in their own, or as text."""
    compression: Literal["zstd", "lz4"] | None = None
    """Of arrow."""
    time_zone: str = "UTC"
    """The zone of times that are shown as text."""
    table_bytes_max: int = TABLE_BYTES_MAX
    """The memory of a result in the format table, which is laid out as a whole."""


Encoder: TypeAlias = Callable[[Iterator[Output], FormatOptions], Iterator[bytes]]


def encode_tsdb_v1(outputs: Iterator[Output], options: FormatOptions) -> Iterator[bytes]:
    """Yield `{"output":[…],"execution_time_ms":n}`; without outputs there is no such member."""
    before = b'{"output":['
    for output in outputs:
        yield before
        before = b","
        if isinstance(output, Affected):
            yield b'{"affectedrows":%d}' % output.rows
        else:
            yield from _encode_records(output, options)
    yield b"{" if before != b"," else b"],"
    yield b'"execution_time_ms":%d}' % options.elapsed_ms()


def _encode_records(records: Records, options: FormatOptions) -> Iterator[bytes]:
    yield _records_head(records.schema)
    total = 0
    for text, rows in encode_rows(records, json_rows, options.limit):
        yield text
        total += rows
    yield b'],"total_rows":%d}}' % total


class _Heads:
    """What comes before the rows, by schema: statements of one shape share theirs, and telling types takes time.

    A schema that is kept here keeps its place in memory, so that no other one can be mistaken for it.
    """

    def __init__(self) -> None:
        self._known: OrderedDict[int, tuple[pa.Schema, bytes]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, schema: pa.Schema) -> bytes:
        with self._lock:
            known = self._known.get(id(schema))
            if known is not None:
                self._known.move_to_end(id(schema))
                return known[1]
        columns = [{"name": field.name, "data_type": type_name(field)} for field in schema]
        head = b'{"records":{"schema":{"column_schemas":%s},"rows":[' % orjson.dumps(columns)
        if len(head) > HEAD_BYTES_MAX:
            return head
        with self._lock:
            self._known[id(schema)] = schema, head
            if len(self._known) > HEADS_MAX:
                self._known.popitem(last=False)
        return head


_records_head = _Heads().get


def json_rows(batch: Any, start: int, continues: bool) -> tuple[bytes, int]:
    return encode_json_rows(batch, start=start, bytes_max=TEXT_BYTES_MAX, continues=continues)


def encode_influxdb_v1(outputs: Iterator[Output], options: FormatOptions) -> Iterator[bytes]:
    """Yield `{"results":[{"statement_id":0,"series":[…]}],"execution_time_ms":n}`."""
    yield b'{"results":['
    for number, output in enumerate(outputs):
        yield b'%s{"statement_id":%d,"series":[' % (b"," if number else b"", number)
        if not isinstance(output, Affected):
            yield from _encode_series(output, options.epoch)
        yield b"]}"
    yield b'],"execution_time_ms":%d}' % options.elapsed_ms()


def _encode_series(records: Records, epoch: Epoch | None) -> Iterator[bytes]:
    def encode(batch: Any, start: int, continues: bool) -> tuple[bytes, int]:
        return encode_json_rows(batch, start=start, bytes_max=TEXT_BYTES_MAX, epoch=epoch, continues=continues)

    is_empty = True
    for text, _ in encode_rows(records, encode, None):
        if is_empty:
            # A result without rows has no columns either, so they wait for the first row.
            yield _series_head(records.schema.names)
        yield text
        is_empty = False
    if is_empty:
        yield _series_head([])
    yield b"]}"


def _series_head(columns: list[str]) -> bytes:
    return b'{"name":"","columns":%s,"values":[' % orjson.dumps(columns)


def encode_json(outputs: Iterator[Output], options: FormatOptions) -> Iterator[bytes]:
    """Yield `{"data":[{…}],"execution_time_ms":n}`, for a statement without rows also `"affected_rows"`."""

    def encode(batch: Any, start: int, continues: bool) -> tuple[bytes, int]:
        return encode_json_objects(batch, start=start, bytes_max=TEXT_BYTES_MAX, continues=continues)

    output = next(outputs, None)
    yield b'{"data":['
    if isinstance(output, Affected):
        yield b'],"affected_rows":%d' % output.rows
    else:
        for text, _ in () if output is None else encode_rows(output, encode, options.limit):
            yield text
        yield b"]"
    yield b',"execution_time_ms":%d}' % options.elapsed_ms()


def encode_rows(
    records: Records,
    encode: RowEncoder,
    limit: int | None,
    convert: Callable[[pa.RecordBatch], pa.RecordBatch] | None = None,
) -> Iterator[TextPiece]:
    """Yield the text of the rows in pieces, each with the number of its rows, and close the records.

    `convert` changes each batch before it is made into text.

    Several threads encode a large batch, while another one reads the next batch, unless other queries need the cores.
    """
    waiting: deque[Future[list[TextPiece]]] = deque()
    continues = False
    batches = read_ahead(records, limit)
    try:
        for found in batches:
            batch = found if convert is None else convert(found)
            if batch.num_rows < PARALLEL_ROWS_MIN or threads_max(2) < 2:
                yield from _encode_batch(batch, encode, continues=continues)
                continues = True
                continue
            for start in range(0, batch.num_rows, PIECE_ROWS):
                if len(waiting) == PIECES_AHEAD:
                    yield from waiting.popleft().result()
                part = batch.slice(start, PIECE_ROWS)
                waiting.append(_encoders().submit(_encode_whole, part, encode, continues=continues))
                continues = True
            while waiting:
                yield from waiting.popleft().result()
    finally:
        for each in waiting:
            each.cancel()
        batches.close()


def _encode_whole(batch: pa.RecordBatch, encode: RowEncoder, *, continues: bool) -> list[TextPiece]:
    return list(_encode_batch(batch, encode, continues=continues))


def _encode_batch(batch: pa.RecordBatch, encode: RowEncoder, *, continues: bool) -> Iterator[TextPiece]:
    row = 0
    while row < batch.num_rows:
        try:
            text, following = encode(batch, row, continues or row > 0)
        except UnsupportedType as error:
            raise Unsupported(str(error)) from error
        yield text, following - row
        row = following


@cache
def _encoders() -> ThreadPoolExecutor:
    """The threads that make text of rows, for all answers together: more than there are cores would only wait."""
    return ThreadPoolExecutor(min(ENCODERS_MAX, os.cpu_count() or 1), thread_name_prefix="tsdb-encode")


@cache
def _readers() -> ThreadPoolExecutor:
    """The threads that read ahead, one per result, so that a slow one delays no other."""
    return ThreadPoolExecutor(READERS_MAX, thread_name_prefix="tsdb-read-ahead")


def read_ahead(records: Records, limit: int | None) -> Generator[pa.RecordBatch, None, None]:
    """As `read_batches`; after a large batch the next one is read ahead, unless other queries need the cores."""
    batches = read_batches(records, limit)
    reading: Future[pa.RecordBatch | None] | None = None
    try:
        while True:
            batch = next(batches, None) if reading is None else reading.result()
            reading = None
            if batch is None:
                return
            if batch.num_rows >= AHEAD_ROWS_MIN and threads_max(2) > 1:
                reading = _readers().submit(contextvars.copy_context().run, _next, batches)
            yield batch
    finally:
        if reading is not None and not reading.cancel():
            # A generator cannot be closed while it runs: what it reads is stopped first.
            records.close()
            wait([reading])
        batches.close()


def _next(batches: Iterator[pa.RecordBatch]) -> pa.RecordBatch | None:
    return next(batches, None)


def read_batches(records: Records, limit: int | None) -> Generator[pa.RecordBatch, None, None]:
    """Yield the batches that have rows, up to a number of rows, and close the records."""
    try:
        left = limit
        for batch in records if left != 0 else ():
            part = batch if left is None else batch.slice(0, left)
            if part.num_rows:
                yield part
            if left is not None:
                left -= part.num_rows
                if left == 0:
                    return
    finally:
        records.close()
