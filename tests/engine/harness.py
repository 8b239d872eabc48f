"""An engine over a temporary directory, and reading it back row by row, for tests that compare with a dictionary."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from tests.engine.reads import scan_batches
from tsdb.clock import Clock
from tsdb.engine.engine import Engine, region_directory
from tsdb.engine.log import LogStore
from tsdb.engine.reading import RowFilter
from tsdb.engine.region.context import EngineOptions
from tsdb.engine.region.snapshot import sources_of
from tsdb.engine.rows.merge import Merge, Selection
from tsdb.engine.wal import Wal, WalSettings
from tsdb.ids import SYSTEM_IDS, Ids
from tsdb.model import Batch, OpType, RegionId, RegionOpening, RegionOptions, RegionSchema, Semantic, region_id
from tsdb.store import Files, LocalStore, ObjectStore
from tsdb.units import Size

REGION = region_id(1024, 0)
DIRECTORY = region_directory("tsdb", "public", 1024, 0)
SCHEMA = RegionSchema.create(
    [
        ("host", pa.string(), Semantic.TAG),
        ("dc", pa.string(), Semantic.TAG),
        ("ts", pa.timestamp("ms"), Semantic.TIMESTAMP),
        ("a", pa.float64(), Semantic.FIELD),
        ("b", pa.int64(), Semantic.FIELD),
    ]
)
OPTIONS = EngineOptions(num_workers=1, max_background_jobs=2)
WAL_OPTIONS = WalSettings(ballast_bytes=Size(0))

Row = dict[str, Any]


def open_engine(
    root: Path,
    *,
    options: EngineOptions = OPTIONS,
    wal_options: WalSettings = WAL_OPTIONS,
    files: Files | None = None,
    clock: Clock | None = None,
    ids: Ids = SYSTEM_IDS,
    has_housekeeping: bool = False,
    log: LogStore | None = None,
    store: ObjectStore | None = None,
    regions: Sequence[RegionOpening] | None = None,
) -> Engine:
    """Open the engine of a directory; without `store`, the data files are in it."""
    return Engine.open(
        store or LocalStore(root, files=files, ids=ids),
        log or Wal.open(root / "wal", wal_options, files, clock)[0],
        options=options,
        clock=clock,
        ids=ids,
        has_housekeeping=has_housekeeping,
        regions=regions,
    )


def create(engine: Engine, schema: RegionSchema = SCHEMA, options: RegionOptions | None = None) -> None:
    engine.create_region(REGION, DIRECTORY, schema, options)


def batch_of(schema: RegionSchema, rows: Iterable[Row], op: OpType = OpType.PUT) -> Batch:
    """Make a batch of dictionaries; a key that a row lacks is null."""
    rows = list(rows)
    wanted = [*schema.tags, schema.time, *(schema.fields if op is OpType.PUT else ())]
    arrays = [
        pa.array([row.get(column.name) for row in rows], pa.int64()).cast(column.type)
        if column is schema.time
        else pa.array([row.get(column.name) for row in rows], column.type)
        for column in wanted
    ]
    return Batch.from_arrow(schema, pa.RecordBatch.from_arrays(arrays, names=[c.name for c in wanted]), op)


def put(engine: Engine, rows: Iterable[Row], region: RegionId = REGION) -> int:
    return engine.write(region, batch_of(engine.schema(region), rows)).result(timeout=30)


def delete(engine: Engine, keys: Iterable[Row], region: RegionId = REGION) -> int:
    return engine.write(region, batch_of(engine.schema(region), keys, OpType.DELETE)).result(timeout=30)


def read(engine: Engine, region: RegionId = REGION) -> list[Row]:
    """Return every visible row, times as integers, by merging all sources."""
    version = engine._region(region).version
    sources = sources_of(version)
    if not sources:
        return []
    selections = [Selection.all_of(source.reader()) for source in sources]
    merge = Merge(version.schema, version.options, selections, keep_tombstones=False)
    tags = merge.series.read_tags().to_pylist()
    rows: list[Row] = []
    for stripe in merge.stripes():
        fields = {column.name: stripe.read(column).to_pylist() for column in version.schema.fields}
        for position in range(stripe.rows):
            rows.append(
                {
                    **tags[stripe.ranks[position]],
                    version.schema.time.name: int(stripe.times[position]),
                    **{name: values[position] for name, values in fields.items()},
                }
            )
    return rows


def scan(engine: Engine, region: RegionId = REGION, *, filter: RowFilter = None) -> list[Row]:
    """Return every visible row that fulfils a condition, times as integers, as a query gets them."""
    snapshot = engine.snapshot(region)
    time = snapshot.schema.time.name
    rows: list[Row] = []
    for batch in scan_batches(snapshot, [column.name for column in snapshot.schema.columns], filter):
        times = batch.column(time).cast(pa.int64()).to_pylist()
        others = batch.drop_columns([time]).to_pylist() if batch.num_columns > 1 else [{}] * batch.num_rows
        rows += [{**row, time: at} for row, at in zip(others, times, strict=True)]
    return rows
