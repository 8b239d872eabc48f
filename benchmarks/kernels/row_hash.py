"""Series ids of a million rows with ten tag columns, and of a small batch as a client sends it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks import Measurement, measure
from tsdb._kernels import row_hash

ROWS = 1_000_000
COLUMNS = 10
BATCH_ROWS = 1000
REPEATS_OF_BATCH = 100


def main() -> Iterator[Measurement]:
    random = np.random.default_rng(1)
    entries = pa.array([f"value_{index:06}" for index in range(1000)])
    codes = [pa.array(random.integers(0, 1000, ROWS), pa.int32()) for _ in range(COLUMNS)]
    columns = [pa.DictionaryArray.from_arrays(code, entries) for code in codes]
    repeated = pa.array(np.repeat(np.arange(ROWS // 100), 100), pa.int64())
    yield hash_all("dictionaries, every row differs", columns)
    yield hash_all("dictionaries, runs of 100 equal rows", [column.take(repeated) for column in columns])
    yield hash_all("strings", [column.cast(pa.string()) for column in columns])
    yield hash_all("integers", codes)
    yield hash_all("one dictionary", columns[:1])
    batch = [column.slice(5, BATCH_ROWS).cast(pa.string()).dictionary_encode() for column in columns]
    yield hash_batch(f"dictionaries, {REPEATS_OF_BATCH} batches of {BATCH_ROWS} rows", batch)


def hash_all(what: str, columns: list[Any]) -> Measurement:
    names = [f"label_{index}" for index in range(len(columns))]
    return measure(what, lambda: row_hash(columns, names), amount=ROWS * len(columns), unit="tags")


def hash_batch(what: str, columns: list[Any]) -> Measurement:
    names = [f"label_{index}" for index in range(len(columns))]

    def work() -> None:
        for _ in range(REPEATS_OF_BATCH):
            row_hash(columns, names)

    return measure(what, work, amount=REPEATS_OF_BATCH * BATCH_ROWS * len(columns), unit="tags")
