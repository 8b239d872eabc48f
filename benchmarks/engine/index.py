"""What inverted indexes cost and spare: a table of 100,000 series with a hundred rows each, in one data file.

Queries are cold: the engine is opened again before each, with empty caches. The store counts the bytes that they read.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks import Measurement, measure
from tsdb.clock import SystemClock
from tsdb.engine.index import IndexOptions
from tsdb.engine.reading import ScanRequest
from tsdb.engine.region.reader import LocalReader
from tsdb.engine.rows.cache import Caches
from tsdb.engine.rows.merge import Merge, Selection
from tsdb.engine.rows.run import Run, make_run
from tsdb.engine.scan import SeriesRegisters, Snapshot
from tsdb.engine.sst import ROW_GROUP_ROWS, DataFile, WrittenFile, write_sst
from tsdb.engine.tuning import IndexTuning
from tsdb.model import RegionId, RegionOptions, RegionSchema, Semantic, SeriesTable
from tsdb.store import LocalStore

SERIES = 100_000
ROWS_PER_SERIES = 100
RACKS = 5_000
NO_INDEX = IndexOptions(tuning=replace(IndexTuning(), series_min=SERIES + 1))
FILTERS: dict[str, Any] = {
    "host = 'host_077777'": pc.field("host") == "host_077777",
    "rack = 'rack_1234'": pc.field("rack") == "rack_1234",
    "host >= 'host_099990'": pc.field("host") >= "host_099990",
}


class CountingStore(LocalStore):
    """Counts the bytes that are read."""

    bytes_read = 0

    def get_range(self, path: str, offset: int, length: int) -> bytes:
        self.bytes_read += length
        return super().get_range(path, offset, length)


def make_schema() -> RegionSchema:
    return RegionSchema.create(
        [
            ("host", pa.string(), Semantic.TAG),
            ("rack", pa.string(), Semantic.TAG),
            ("ts", pa.timestamp("ms"), Semantic.TIMESTAMP),
            ("usage", pa.float64(), Semantic.FIELD),
            ("requests", pa.int64(), Semantic.FIELD),
        ]
    )


def make_rows(schema: RegionSchema) -> Run:
    random = np.random.default_rng(7)
    hosts = pa.array([f"host_{number:06}" for number in range(SERIES)])
    racks = pa.array([f"rack_{number}" for number in random.integers(0, RACKS, SERIES)])
    rows = SERIES * ROWS_PER_SERIES
    times = np.tile(np.arange(ROWS_PER_SERIES, dtype=np.int64) * 10_000 + 1_700_000_000_000, SERIES)
    return make_run(
        schema,
        SeriesTable.of_tags(schema, [hosts, racks], SERIES),
        np.repeat(np.arange(SERIES, dtype=np.uint32), ROWS_PER_SERIES),
        times,
        np.arange(rows, dtype=np.uint64),
        None,
        {
            schema.by_name["usage"].id: pa.array(random.normal(50, 10, rows).round(3)),
            schema.by_name["requests"].id: pa.array(random.integers(0, 1000, rows).cumsum()),
        },
        is_unique=True,
    )


def write(store: LocalStore, schema: RegionSchema, run: Run, index: IndexOptions) -> WrittenFile:
    options = RegionOptions()
    written = write_sst(
        Merge(schema, options, [Selection.all_of(run)], keep_tombstones=False),
        schema=schema,
        options=options,
        store=store,
        directory="data",
        write_buffer_bytes=8 << 20,
        level=0,
        clock=SystemClock(),
        row_group_rows=ROW_GROUP_ROWS,
        index=index,
    )
    assert written is not None
    return written


def ask(store: CountingStore, schema: RegionSchema, written: WrittenFile, filter: Any, *, applies_index: bool) -> int:
    """Run a query with empty caches; return the number of rows."""
    caches = Caches.of(sst_meta_bytes=128 << 20, vector_bytes=512 << 20, page_bytes=512 << 20)
    source = DataFile(written.meta, store=store, directory="data", caches=caches, applies_index=applies_index)
    reader = LocalReader(RegionId(1), Snapshot(schema, RegionOptions(), (source,)), SeriesRegisters())
    plan = reader.plan_scan(filter)
    columns = ["host", "rack", "ts", "usage", "requests"]
    return sum(batch.num_rows for batch in reader.scan(ScanRequest(plan.number, 0, columns)))


def main() -> Iterator[Measurement]:
    schema = make_schema()
    rows = make_rows(schema)
    with tempfile.TemporaryDirectory() as root:
        store = CountingStore(Path(root))
        for name, index in (("without indexes", NO_INDEX), ("with indexes", IndexOptions())):
            start = time.process_time()
            written = write(store, schema, rows, index)
            took = time.process_time() - start
            print(f"  written {name}: {took:.2f} s of CPU, index file {written.meta.index_size_bytes / 1e6:.1f} MB")
        total = written.meta.size_bytes + written.meta.index_size_bytes
        for text, filter in FILTERS.items():
            for name, applies_index in (("series block", False), ("index", True)):
                query = partial(ask, store, schema, written, filter, applies_index=applies_index)
                store.bytes_read = 0
                found = query()
                share = 100 * store.bytes_read / total
                print(f"  {text} by {name}: {store.bytes_read:,} bytes, {share:.2f} % of the table, {found} rows")
                yield measure(f"cold {text} by {name}", query, amount=1, unit="queries", repeats=3)
