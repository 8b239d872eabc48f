"""Pages of Parquet made and read by kernels, against Arrow's writer and reader with the same encodings.

One row group: 100,000 rows of 200 series with ten tags, steady times, a percentage that walks and a counter.
"""

from __future__ import annotations

import io
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks import Measurement, measure
from tsdb.engine.sst._encoding import DELTA, Encodings
from tsdb.engine.sst._parquet import ZSTD_LEVEL, ParquetWriter
from tsdb.engine.sst._plain import PlainDecoder, PlainLeaf

ROWS, SERIES = 100_000, 200
TAGS = [f"tag_{number}" for number in range(10)]
NUMBERS = ("ts", "percentage", "counter")


def make_rows() -> pa.Table:
    random = np.random.default_rng(1)
    steps = ROWS // SERIES
    series = np.repeat(np.arange(SERIES), steps)
    columns = {
        **{tag: _tag(series % (SERIES - 19 * place)) for place, tag in enumerate(TAGS)},
        "ts": pa.array(np.tile(np.arange(steps), SERIES) * 10_000 + 1_700_000_000_000),
        "percentage": pa.array(np.abs(np.cumsum(random.integers(-3, 4, ROWS)) % 200 - 100)),
        "counter": pa.array(np.cumsum(random.integers(0, 3_000, ROWS))),
    }
    fields = [pa.field(name, values.type, nullable=False) for name, values in columns.items()]
    return pa.table(list(columns.values()), schema=pa.schema(fields))


def _tag(numbers: npt.NDArray[np.int64]) -> pa.Array:
    values = pa.array([f"value_{number:04}" for number in range(SERIES)])
    return pa.DictionaryArray.from_arrays(pa.array(numbers, pa.int32()), values)


def by_kernel(rows: pa.Table) -> bytes:
    sink = io.BytesIO()
    writer = ParquetWriter(sink, rows.schema, Encodings(TAGS, dict.fromkeys(NUMBERS, DELTA)))
    writer.write(rows)
    writer.finish({})
    return sink.getvalue()


def by_arrow(rows: pa.Table) -> bytes:
    sink = io.BytesIO()
    pq.write_table(
        rows,
        sink,
        compression="zstd",
        compression_level=ZSTD_LEVEL,
        use_dictionary=TAGS,
        column_encoding=dict.fromkeys(NUMBERS, DELTA),
        row_group_size=ROWS,
        data_page_version="2.0",
    )
    return sink.getvalue()


def read_by_kernel(content: bytes) -> None:
    metadata = pq.read_metadata(io.BytesIO(content))
    decoder = PlainDecoder(metadata, lambda start, size: content[start : start + size])
    for leaf in range(len(TAGS), len(TAGS) + len(NUMBERS)):
        assert decoder.decode(0, PlainLeaf(leaf, 8, is_nullable=False, type=pa.int64()), ROWS) is not None


def read_by_arrow(content: bytes) -> None:
    pq.ParquetFile(io.BytesIO(content)).read_row_group(0, columns=list(NUMBERS), use_threads=False)


def main() -> Iterator[Measurement]:
    rows = make_rows()
    own, arrows = by_kernel(rows), by_arrow(rows)
    print(f"  bytes a row: kernel {len(own) / ROWS:.2f}, Arrow {len(arrows) / ROWS:.2f}")
    assert pq.read_table(io.BytesIO(own)).column("counter").equals(rows.column("counter"))
    yield measure("write, kernel", lambda: by_kernel(rows), amount=ROWS)
    yield measure("write, Arrow", lambda: by_arrow(rows), amount=ROWS)
    yield measure("read three columns of numbers, kernel", lambda: read_by_kernel(own), amount=ROWS)
    yield measure("read three columns of numbers, Arrow", lambda: read_by_arrow(own), amount=ROWS)
