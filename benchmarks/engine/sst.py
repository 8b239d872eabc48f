"""How fast data files are written from sorted runs and read back.

The rows are host metrics: 4,000 series of ten tags, ten fields of which half are whole percentages and half are floats,
2 M rows in eight runs that follow each other in time, as memtables hold them. Two threads where it says so.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa

from benchmarks import Measurement, measure
from tsdb.clock import SystemClock
from tsdb.engine.rows.cache import Caches
from tsdb.engine.rows.merge import Merge, Selection
from tsdb.engine.rows.run import Run, make_run
from tsdb.engine.rows.series import SeriesBlock
from tsdb.engine.rows.slices import Slices
from tsdb.engine.sst import ROW_GROUP_ROWS, DataFile, FileReader, WrittenFile, write_sst
from tsdb.model import RegionOptions, RegionSchema, Semantic, SeriesTable
from tsdb.store import LocalStore, ObjectStore

SERIES = 4_000
ROWS_PER_SERIES = 500
RUNS = 8
FIELDS = 10
TAGS = ("host", "region", "dc", "rack", "os", "arch", "team", "service", "version", "env")
WRITE_BUFFER_BYTES = 8 << 20


def make_schema() -> RegionSchema:
    tags = [(tag, pa.string(), Semantic.TAG) for tag in TAGS]
    fields = [(f"field_{number}", pa.float64(), Semantic.FIELD) for number in range(FIELDS)]
    return RegionSchema.create([*tags, ("ts", pa.timestamp("ms"), Semantic.TIMESTAMP), *fields])


def make_series(schema: RegionSchema) -> SeriesTable:
    hosts = pa.array([f"host_{number:05}" for number in range(SERIES)])
    others = [
        pa.array([f"{tag}_{number % (7 * place + 3)}" for number in range(SERIES)])
        for place, tag in enumerate(TAGS[1:], start=1)
    ]
    return SeriesTable.of_tags(schema, [hosts, *others], SERIES)


def make_runs(schema: RegionSchema) -> list[Run]:
    """Make runs of the same series, one after the other in time."""
    series = make_series(schema)
    random = np.random.default_rng(7)
    steps = ROWS_PER_SERIES // RUNS
    runs = []
    for number in range(RUNS):
        length = steps if number < RUNS - 1 else ROWS_PER_SERIES - steps * (RUNS - 1)
        rows = SERIES * length
        ranks = np.repeat(np.arange(SERIES, dtype=np.uint32), length)
        times = np.tile(np.arange(length, dtype=np.int64) + number * steps, SERIES) * 10_000 + 1_700_000_000_000
        walks = [np.abs(np.cumsum(random.normal(0, 1, rows)) % 200 - 100) for _ in range(FIELDS)]
        fields = {
            column.id: pa.array(walk.round() if place % 2 else walk)
            for place, (column, walk) in enumerate(zip(schema.fields, walks, strict=True))
        }
        sequences = np.arange(number * rows, (number + 1) * rows, dtype=np.uint64)
        runs.append(make_run(schema, series, ranks, times, sequences, None, fields, is_unique=True))
    return runs


def write(schema: RegionSchema, runs: list[Run], store: ObjectStore) -> WrittenFile:
    options = RegionOptions()
    merge = Merge(schema, options, [Selection.all_of(run) for run in runs], keep_tombstones=True)
    written = write_sst(
        merge,
        schema=schema,
        options=options,
        store=store,
        directory="data",
        write_buffer_bytes=WRITE_BUFFER_BYTES,
        level=0,
        clock=SystemClock(),
        row_group_rows=ROW_GROUP_ROWS,
    )
    assert written is not None
    return written


def read_all(file: FileReader, *, threads: int) -> None:
    """Read times, sequences and all fields, each thread its share of the row groups."""
    file.block  # noqa: B018
    offsets = file.footer.row_offsets
    bounds = np.linspace(0, len(offsets) - 1, threads + 1).astype(int)

    def read(part: int) -> None:
        rows = Slices.one(int(offsets[bounds[part]]), int(offsets[bounds[part + 1]]))
        file.times(rows)
        file.sequences(rows)
        for column in file.schema.fields:
            file.field(column.id, rows)

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(read, range(threads)))


def main() -> Iterator[Measurement]:
    schema = make_schema()
    runs = make_runs(schema)
    rows = SERIES * ROWS_PER_SERIES
    with tempfile.TemporaryDirectory() as directory:
        store = LocalStore(directory)
        yield measure("write 10 tags, 10 fields", lambda: write(schema, runs, store), amount=rows, repeats=3)
        written = write(schema, runs, store)
        stored = written.meta.size_bytes + written.meta.index_size_bytes
        print(f"  {stored / rows:.1f} bytes a row, index {written.meta.index_size_bytes / SERIES:.1f} bytes a series")

        def cold() -> FileReader:
            return _open(written, store, Caches.of(sst_meta_bytes=1 << 30, vector_bytes=0, page_bytes=0))

        yield measure("read all columns, no cache, 1 thread", lambda: read_all(cold(), threads=1), amount=rows)
        yield measure("read all columns, no cache, 2 threads", lambda: read_all(cold(), threads=2), amount=rows)
        yield from measure_cached(written, store)


def measure_cached(written: WrittenFile, store: ObjectStore) -> Iterator[Measurement]:
    caches = Caches.of(sst_meta_bytes=1 << 30, vector_bytes=1 << 30, page_bytes=0)
    file = _open(written, store, caches)
    read_all(file, threads=2)
    rows = written.meta.rows
    yield measure("read all columns, cached", lambda: read_all(file, threads=1), amount=rows)
    offsets = file.block.offsets
    column = file.schema.fields[0].id
    one = Slices.one(int(offsets[SERIES // 2]), int(offsets[SERIES // 2 + 1]))

    def read_series() -> None:
        for _ in range(1000):
            file.field(column, one)

    yield measure("slice of one series, one field, cached", read_series, amount=1000, unit="slices")

    def read_block() -> SeriesBlock:
        return _open(written, store, Caches.disabled()).block

    yield measure("open: footer and series block", read_block, amount=SERIES, unit="series")


def _open(written: WrittenFile, store: ObjectStore, caches: Caches) -> FileReader:
    return DataFile(written.meta, store=store, directory="data", caches=caches).reader()
