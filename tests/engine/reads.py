"""Reading regions as queries do, through the verbs of `RegionReader`, for tests that compare with plain Python."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from tsdb.engine.reading import CellsRequest, CellsRun, RegionReader, RowFilter, RunQuery, ScanRequest
from tsdb.engine.region.reader import LocalReader
from tsdb.engine.scan import ScanStatistics, SeriesRegisters, Snapshot
from tsdb.model import RegionId


def reader_of(snapshot: Snapshot, *, parallelism: int = 1) -> LocalReader:
    """Read a snapshot as a query does."""
    return LocalReader(RegionId(1), snapshot, SeriesRegisters(), parallelism=parallelism)


def scan_batches(
    snapshot: Snapshot, columns: Sequence[str], filter: RowFilter = None, *, statistics: ScanStatistics | None = None
) -> Iterator[pa.RecordBatch]:
    """Plan a scan and yield its rows, one segment of time after the other, each sorted by series and time."""
    reader = reader_of(snapshot)
    plan = reader.plan_scan(filter)
    return _batches(reader, ScanRequest(plan.number, 0, columns), statistics)


def _batches(reader: RegionReader, request: ScanRequest, statistics: ScanStatistics | None) -> Iterator[pa.RecordBatch]:
    yield from reader.scan(request)
    if statistics is not None:
        statistics.add(**reader.statistics())


def count_rows(snapshot: Snapshot, *, statistics: ScanStatistics | None = None) -> int:
    """Return how many rows are visible, without reading a column."""
    return sum(batch.num_rows for batch in scan_batches(snapshot, [], statistics=statistics))


def newest_rows(snapshot: Snapshot, filter: RowFilter, columns: Sequence[str]) -> pa.RecordBatch:
    """Return the newest visible row of every series that matches, in the order of the tags."""
    schema = snapshot.schema
    tags = [tag.name for tag in schema.tags]
    others = tuple(name for name in columns if name not in tags)
    reader = reader_of(snapshot)
    query = RunQuery(tuple(tags), newest=others, is_counted=False)
    found = reader.cells(CellsRun(reader.plan_cells(CellsRequest(filter, query)).number))
    arrow = pa.schema([schema.arrow.field(name) for name in columns])
    if found.cells is None:
        return pa.RecordBatch.from_pylist([], arrow)
    ends, groups = found.cells.newest, found.cells.groups
    assert ends is not None
    keys = {name: found.groups.key(at, groups) for at, name in enumerate(tags)}
    arrays = [keys[name] if name in keys else ends.values[name] for name in columns]
    return pa.RecordBatch.from_arrays(arrays, schema=arrow)
