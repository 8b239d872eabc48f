"""Results as an Arrow IPC stream, encoded while it is sent."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.ipc

from tsdb.query import Affected, Output, Records
from tsdb.servers.http.sql._formats import FormatOptions, read_batches
from tsdb.servers.http.wire import ByteSink

MESSAGE_ROWS_MAX = 65_536
"""A larger batch is sent as several."""


def encode_arrow(outputs: Iterator[Output], options: FormatOptions) -> Iterator[bytes]:
    """Yield the messages of the stream; nothing for a statement without rows."""
    for output in outputs:
        if not isinstance(output, Affected):
            yield from _encode_stream(output, options)


def _encode_stream(records: Records, options: FormatOptions) -> Iterator[bytes]:
    sink = ByteSink()
    settings = pa.ipc.IpcWriteOptions(compression=options.compression)
    with pa.ipc.new_stream(pa.PythonFile(sink, "w"), records.schema, options=settings) as writer:
        yield sink.take()
        for batch in read_batches(records, None):
            for start in range(0, batch.num_rows, MESSAGE_ROWS_MAX):
                writer.write_batch(batch.slice(start, MESSAGE_ROWS_MAX))
                yield sink.take()
    yield sink.take()
