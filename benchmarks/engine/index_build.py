"""What building an index adds to the writing of a data file: a million rows of ten fields, with few and many series.

The same rows are written with and without an index, in turns, because a machine is not equally fast all the time; the
medians of CPU seconds are compared. Three tags; where it says so, a skipping index on a field of request ids, or a
full-text index on lines of logs.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks import Measurement
from tsdb.clock import SystemClock
from tsdb.engine.index import IndexOptions
from tsdb.engine.rows.merge import Merge, Selection
from tsdb.engine.rows.run import Run, make_run
from tsdb.engine.sst import ROW_GROUP_ROWS, WrittenFile, write_sst
from tsdb.model import FulltextIndex, RegionOptions, RegionSchema, Semantic, SeriesTable, SkippingIndex
from tsdb.store import LocalStore

ROWS = 1_000_000
FIELDS = 10
TURNS = 7


@dataclass(frozen=True)
class Table:
    """Rows that are written, and the indexes that are declared."""

    name: str
    series: int
    text: str | None = None
    """The field that has an index: `id` or `msg`."""

    def schema(self) -> RegionSchema:
        tags = [(tag, pa.string(), Semantic.TAG) for tag in ("host", "rack", "os")]
        fields = [(f"field_{number}", pa.float64(), Semantic.FIELD) for number in range(FIELDS)]
        texts = [] if self.text is None else [(self.text, pa.string(), Semantic.FIELD)]
        return RegionSchema.create([*tags, ("ts", pa.timestamp("ms"), Semantic.TIMESTAMP), *fields, *texts])

    def options(self, schema: RegionSchema) -> RegionOptions:
        if self.text == "id":
            return RegionOptions(skipping=(SkippingIndex(schema.by_name["id"].id, 10_240, 0.01),))
        if self.text == "msg":
            declared = FulltextIndex(schema.by_name["msg"].id, 10_240, 0.01, "English", False)
            return RegionOptions(fulltext=(declared,))
        return RegionOptions()


TABLES = (
    Table("4,000 series", 4_000),
    Table("20,000 series", 20_000),
    Table("100,000 series", 100_000),
    Table("4,000 series, skipping index", 4_000, "id"),
    Table("4,000 series, full-text index", 4_000, "msg"),
)


def make_run_of(table: Table, schema: RegionSchema) -> Run:
    random = np.random.default_rng(7)
    numbers = range(table.series)
    tags = [
        pa.array([f"host_{number:06}" for number in numbers]),
        pa.array([f"rack_{number}" for number in random.integers(0, table.series // 20, table.series)]),
        pa.array([f"os_{number % 5}" for number in numbers]),
    ]
    points = ROWS // table.series
    walks = [np.abs(np.cumsum(random.normal(0, 1, ROWS)) % 200 - 100) for _ in range(FIELDS)]
    fields = {
        schema.by_name[f"field_{place}"].id: pa.array(walk.round() if place % 2 else walk)
        for place, walk in enumerate(walks)
    }
    if table.text is not None:
        ids = [f"{number:016x}" for number in random.integers(0, 1 << 62, ROWS)]
        texts = ids if table.text == "id" else [f"request {each} took {len(each)} ms" for each in ids]
        fields[schema.by_name[table.text].id] = pa.array(texts)
    return make_run(
        schema,
        SeriesTable.of_tags(schema, tags, table.series),
        np.repeat(np.arange(table.series, dtype=np.uint32), points),
        np.tile(np.arange(points, dtype=np.int64) * 10_000 + 1_700_000_000_000, table.series),
        np.arange(ROWS, dtype=np.uint64),
        None,
        fields,
        is_unique=True,
    )


def write(store: LocalStore, schema: RegionSchema, options: RegionOptions, run: Run, index: IndexOptions | None) -> int:
    """Write a file and delete it; return the size of its index."""
    written: WrittenFile | None = write_sst(
        Merge(schema, options, [Selection.all_of(run)], keep_tombstones=True),
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
    for each in list(store.list("data")):
        store.delete(each.path)
    return written.meta.index_size_bytes


def main() -> Iterator[Measurement]:
    for table in TABLES:
        yield from compare(table)


def compare(table: Table) -> Iterator[Measurement]:
    schema = table.schema()
    options, run = table.options(schema), make_run_of(table, schema)
    took: dict[bool, list[tuple[float, float]]] = {True: [], False: []}
    with tempfile.TemporaryDirectory() as root:
        store = LocalStore(Path(root))
        write(store, schema, options, run, IndexOptions())
        for _ in range(TURNS):
            for is_indexed in (False, True):
                started, cpu = time.perf_counter(), time.process_time()
                size = write(store, schema, options, run, IndexOptions() if is_indexed else None)
                took[is_indexed].append((time.perf_counter() - started, time.process_time() - cpu))
    walls, cpus = ({each: statistics.median(one[at] for one in took[each]) for each in took} for at in (0, 1))
    print(
        f"  {table.name}: CPU {cpus[False]:.3f} s, with index {cpus[True]:.3f} s "
        f"({100 * (cpus[True] / cpus[False] - 1):+.1f} %), index {size / 1e6:.2f} MB"
    )
    for is_indexed in (False, True):
        name = f"{table.name}, {'with' if is_indexed else 'without'} index"
        yield Measurement(name, walls[is_indexed], ROWS, "rows")
        yield Measurement(f"{name}: CPU", cpus[is_indexed], ROWS, "rows")
