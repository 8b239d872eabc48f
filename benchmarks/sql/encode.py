"""Rows of a metrics table as JSON, CSV and a table: ten tags, ten floats or integers, one timestamp."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks import Measurement, measure
from tsdb._kernels import encode_csv_rows, encode_json_objects, encode_json_rows, encode_table_rows, measure_table_cells

ROWS = 170_000
SERIES = 400
TAGS = 10
FIELDS = 10
CHUNK_BYTES = 1 << 21


def main() -> Iterator[Measurement]:
    dictionaries = make_batch(lambda column: column)
    strings = make_batch(lambda column: column.cast(pa.string()))
    yield encode_all("JSON, tags in dictionaries", encode_json_rows, dictionaries)
    yield encode_all("JSON, tags as strings", encode_json_rows, strings)
    yield encode_all("JSON, short floats", encode_json_rows, make_batch(lambda column: column, digits=2))
    yield encode_all("JSON objects", encode_json_objects, dictionaries)
    yield encode_all("CSV", encode_csv_rows, dictionaries)
    series = make_series()
    yield encode_all("JSON, integers of series one after the other", encode_json_rows, series)
    yield encode_all("CSV, integers of series one after the other", encode_csv_rows, series)
    yield measure("table", lambda: encode_table(dictionaries), amount=ROWS, unit="rows")


def make_batch(encode_tag: Callable[[Any], Any], *, digits: int = 15) -> pa.RecordBatch:
    random = np.random.default_rng(1)
    entries = pa.array([f"value_{index:06}" for index in range(1000)])
    columns: dict[str, Any] = {"ts": pa.array(1_700_000_000_000 + np.arange(ROWS), pa.timestamp("ms"))}
    for index in range(TAGS):
        codes = pa.array(random.integers(0, 1000, ROWS), pa.int32())
        columns[f"tag_{index}"] = encode_tag(pa.DictionaryArray.from_arrays(codes, entries))
    for index in range(FIELDS):
        columns[f"field_{index}"] = pa.array((random.random(ROWS) * 100).round(digits))
    return pa.record_batch(columns)


def make_series() -> pa.RecordBatch:
    """Rows as a scan has them: those of one series follow each other."""
    random = np.random.default_rng(1)
    owners = np.sort(random.integers(0, SERIES, ROWS))
    columns: dict[str, Any] = {}
    for index in range(TAGS):
        entries = pa.array([f"value_{index + 7 * series:03}" for series in range(SERIES)])
        columns[f"tag_{index}"] = entries.take(pa.array(owners))
    for index in range(FIELDS):
        columns[f"field_{index}"] = pa.array(random.integers(0, 100, ROWS))
    columns["ts"] = pa.array(1_700_000_000_000 + np.arange(ROWS), pa.timestamp("ms"))
    return pa.record_batch(columns)


def encode_all(what: str, encode: Callable[..., tuple[bytes, int]], batch: pa.RecordBatch) -> Measurement:
    def work() -> None:
        row = 0
        while row < batch.num_rows:
            _, row = encode(batch, start=row, bytes_max=CHUNK_BYTES)

    return measure(what, work, amount=ROWS, unit="rows")


def encode_table(batch: pa.RecordBatch) -> None:
    widths, row = measure_table_cells(batch), 0
    while row < batch.num_rows:
        _, row = encode_table_rows(batch, widths, start=row, bytes_max=CHUNK_BYTES)
