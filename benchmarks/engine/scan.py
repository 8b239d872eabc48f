"""How fast a region is read: through DataFusion, beside DataFusion's own table in memory, and for PromQL.

3.4 M rows of host metrics, 4,000 hosts with ten tags and ten fields every 100 s, in four sorted runs of six hours each
that do not overlap. The same rows as record batches are what DataFusion's table in memory gets.
"""

from __future__ import annotations

from collections.abc import Iterator

import datafusion
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks import Measurement, measure
from tests.engine.reads import count_rows, newest_rows, reader_of, scan_batches
from tests.engine.region_dataset import RegionDataset
from tsdb.engine.reading import SeriesRequest
from tsdb.engine.rows.run import Run, make_run
from tsdb.engine.scan import Snapshot
from tsdb.model import RegionOptions, RegionSchema, Semantic, SeriesTable, TimeRange

HOSTS = 4000
RUNS = 4
STEPS = 216
STEP_MS = 100_000
ROWS = HOSTS * RUNS * STEPS
START_MS = 1_700_000_000_000
THREADS = 2
TAGS = ("hostname", "region", "datacenter", "rack", "os", "arch", "team", "service", "service_version", "environment")
FIELDS = tuple(f"usage_{number}" for number in range(10))
HOUR = "date_bin(interval '1 hour', ts)"


def make_schema() -> RegionSchema:
    return RegionSchema.create(
        [
            *((tag, pa.string(), Semantic.TAG) for tag in TAGS),
            ("ts", pa.timestamp("ms"), Semantic.TIMESTAMP),
            *((field, pa.float64(), Semantic.FIELD) for field in FIELDS),
        ]
    )


def make_series(schema: RegionSchema) -> SeriesTable:
    hosts = sorted(f"host_{number}" for number in range(HOSTS))
    others = [[f"{tag}_{number % (7 * at + 3)}" for number in range(HOSTS)] for at, tag in enumerate(TAGS[1:])]
    return SeriesTable.of_tags(schema, [pa.array(column) for column in (hosts, *others)], HOSTS)


def make_source(schema: RegionSchema, series: SeriesTable, number: int, *, shift: int = 0) -> Run:
    random = np.random.default_rng(number)
    ranks = np.repeat(np.arange(HOSTS, dtype=np.uint32), STEPS)
    steps = np.arange(STEPS) + number * STEPS - shift
    times = np.tile(steps * STEP_MS + START_MS, HOSTS)
    sequences = np.arange(len(times), dtype=np.uint64) + number * len(times)
    fields = {column.id: pa.array(random.random(len(times)) * 100) for column in schema.fields}
    return make_run(schema, series, ranks, times, sequences, None, fields, is_unique=True)


def make_context() -> datafusion.SessionContext:
    return datafusion.SessionContext(datafusion.SessionConfig().with_target_partitions(THREADS))


def run_query(snapshot: Snapshot, query: str) -> list[pa.RecordBatch]:
    """Run a query of DataFusion's over the reader of a region."""
    context = make_context()
    context.register_dataset("t", RegionDataset(reader_of(snapshot, parallelism=THREADS)))
    batches: list[pa.RecordBatch] = context.sql(query).collect()
    return batches


def make_queries() -> dict[str, str]:
    means = ", ".join(f"avg({field})" for field in FIELDS)
    low, high = START_MS + 40 * STEP_MS, START_MS + 76 * STEP_MS
    hour = f"ts >= to_timestamp_millis({low}) and ts < to_timestamp_millis({high})"
    eight = ", ".join(f"'host_{number}'" for number in range(100, 108))
    maxima = f"select {HOUR}, max(usage_0) from t where {hour}"
    return {
        "one series, one hour": f"{maxima} and hostname = 'host_77' group by 1",
        "eight series, one hour": f"{maxima} and hostname in ({eight}) group by 1",
        "all series, one hour": f"select hostname, max(usage_0) from t where {hour} group by 1",
        "mean of ten fields by host and hour": f"select hostname, {HOUR}, {means} from t group by 1, 2",
        "eight series": f"select max(usage_0) from t where hostname in ({eight})",
        "count and sums": "select count(*), sum(usage_0), sum(usage_1) from t",
        "count": "select count(*) from t",
        "a field above 90": "select count(*), max(ts) from t where usage_0 > 90.0",
        "max by host": "select hostname, max(usage_0) from t group by hostname",
    }


def measure_queries(snapshot: Snapshot) -> Iterator[Measurement]:
    """Measure queries over the region, each with a context of its own, and over a table that is there already."""
    batches = list(scan_batches(snapshot, snapshot.schema.arrow.names))
    table = make_context()
    table.register_record_batches("t", [batches[: len(batches) // 2], batches[len(batches) // 2 :]])
    for what, query in make_queries().items():
        yield measure(what, lambda query=query: run_query(snapshot, query), amount=ROWS, repeats=15)
        theirs = f"{what}, DataFusion's table"
        yield measure(theirs, lambda query=query: table.sql(query).collect(), amount=ROWS, repeats=15)


def main() -> Iterator[Measurement]:
    schema = make_schema()
    series = make_series(schema)
    sources = tuple(make_source(schema, series, number) for number in range(RUNS))
    snapshot = Snapshot(schema, RegionOptions(), sources)
    yield from measure_queries(snapshot)
    every = SeriesRequest(None, TimeRange.ALL, ["usage_0"])
    one = SeriesRequest(pc.field("hostname") == "host_77", TimeRange.ALL, ["usage_0"])
    yield measure("series scan, all", lambda: reader_of(snapshot).series(every), amount=ROWS)
    yield measure("series scan, one", lambda: reader_of(snapshot).series(one), amount=RUNS * STEPS)
    yield measure("newest rows", lambda: newest_rows(snapshot, None, TAGS + FIELDS), amount=HOSTS)
    yield measure("count of rows", lambda: count_rows(snapshot), amount=ROWS)
    overlapping = (*sources[:3], make_source(schema, series, 3, shift=STEPS // 2))
    merged = Snapshot(schema, RegionOptions(), overlapping)
    names = ["hostname", "ts", "usage_0"]
    yield measure("batches, a quarter of the rows merged", lambda: list(scan_batches(merged, names)), amount=ROWS)
