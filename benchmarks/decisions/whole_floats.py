"""Floats that are whole numbers: stored as integers in steps, and with the best encodings of floats."""

from __future__ import annotations

import io
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks import Measurement, measure
from tsdb.engine.sst._encoding import DELTA
from tsdb.engine.sst._parquet import ZSTD_LEVEL

ROWS = 400_000


def make_values() -> pa.Array:
    random = np.random.default_rng(1)
    return pa.array(np.abs(np.cumsum(np.rint(random.normal(0, 1, ROWS))) % 200 - 100))


def write(values: pa.Array, encoding: str | None) -> bytes:
    sink = io.BytesIO()
    pq.write_table(
        pa.table({"v": values}),
        sink,
        compression="zstd",
        compression_level=ZSTD_LEVEL,
        use_dictionary=encoding is None,
        column_encoding=None if encoding is None else {"v": encoding},
        row_group_size=102_400,
    )
    return sink.getvalue()


def main() -> Iterator[Measurement]:
    floats = make_values()
    forms = {
        "integers, DELTA_BINARY_PACKED": (floats.cast(pa.int64()), DELTA),
        "floats, dictionary": (floats, None),
        "floats, BYTE_STREAM_SPLIT": (floats, "BYTE_STREAM_SPLIT"),
        "floats, PLAIN": (floats, "PLAIN"),
    }
    for name, (values, encoding) in forms.items():
        content = write(values, encoding)
        print(f"  {len(content) / ROWS:.2f} bytes a value: {name}")
        yield measure(f"read, {name}", lambda content=content: pq.read_table(io.BytesIO(content)), amount=ROWS)  # type: ignore[misc]
