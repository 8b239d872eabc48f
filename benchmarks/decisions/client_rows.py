"""Rows for clients of PostgreSQL and MySQL: encoded by a kernel from Arrow, and row by row in Python.

Row by row is what a protocol library asks for that takes rows as Python objects: it is measured without the library,
converting to Python and joining the texts of a row alone.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from benchmarks import Measurement, measure
from tsdb._kernels import encode_mysql_rows, encode_postgres_rows

ROWS, FIELDS = 100_000, 8
CHUNK_BYTES = 256 << 10


def make_batch() -> pa.RecordBatch:
    random = np.random.default_rng(1)
    columns = {"host": pa.array([f"host_{number % 100}" for number in range(ROWS)])}
    columns["n"] = pa.array(np.arange(ROWS))
    columns |= {f"f{number}": pa.array(random.random(ROWS).round(3)) for number in range(FIELDS)}
    return pa.record_batch(columns)


def postgres(batch: pa.RecordBatch) -> None:
    at = 0
    while at < batch.num_rows:
        _, at = encode_postgres_rows(
            batch,
            binary=[False] * batch.num_columns,
            style="iso,mdy,postgres,hex",
            is_copy=False,
            start=at,
            bytes_max=CHUNK_BYTES,
        )


def mysql(batch: pa.RecordBatch) -> None:
    at, sequence = 0, 0
    while at < batch.num_rows:
        _, at, sequence = encode_mysql_rows(batch, sequence & 255, is_binary=False, start=at, bytes_max=CHUNK_BYTES)


def python(batch: pa.RecordBatch) -> None:
    columns = [column.to_pylist() for column in batch.columns]
    for row in zip(*columns, strict=True):
        b"".join(str(cell).encode() for cell in row)


def main() -> Iterator[Measurement]:
    batch = make_batch()
    yield measure("PostgreSQL, kernel", lambda: postgres(batch), amount=ROWS)
    yield measure("MySQL, kernel", lambda: mysql(batch), amount=ROWS)
    yield measure("texts of rows in Python, without a protocol", lambda: python(batch), amount=ROWS, repeats=3)
