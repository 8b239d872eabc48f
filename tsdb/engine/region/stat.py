"""What is known of a region without reading its rows."""

from __future__ import annotations

import json
from dataclasses import dataclass

from tsdb.engine.manifest import FileMeta, data_path, index_path
from tsdb.engine.region.region import Region
from tsdb.model import TimeRange


@dataclass(frozen=True, slots=True)
class RegionStat:
    """A region in numbers."""

    state: str
    schema_version: int
    memtable_rows: int
    memtable_bytes: int
    files: int
    file_rows: int
    file_bytes: int
    flush_failures: int
    last_entry_id: int
    last_sequence: int
    index_bytes: int = 0
    """Of all index files."""
    manifest_version: int = 0
    manifest_bytes: int = 0
    """Of the newest checkpoint and the versions behind it."""
    written_bytes: int = 0
    """Bytes of rows that were written since the region was opened, as the write buffer counts them."""
    compaction_window_seconds: int | None = None
    """How long the windows of time are in which files are merged; None until that is chosen."""
    compaction_failures: int = 0
    options: str = "{}"
    """The options that differ from their defaults, as JSON."""


@dataclass(frozen=True, slots=True)
class FileFacts:
    """A data file of a region."""

    file_id: str
    path: str
    size_bytes: int
    index_path: str | None
    index_bytes: int
    rows: int
    row_groups: int
    series: int
    time_range: TimeRange
    """In the unit of the time column, half open."""
    sequence: int
    """The greatest sequence of a row."""
    level: int
    created_ms: int


def stat_region(region: Region) -> RegionStat:
    """Describe a region."""
    version = region.version
    files = [handle.meta for handle in version.files]
    return RegionStat(
        state=region.access.state.value,
        schema_version=version.schema.version,
        memtable_rows=sum(memtable.rows for memtable in version.memtables),
        memtable_bytes=version.memtable_bytes,
        files=len(files),
        file_rows=sum(file.rows for file in files),
        file_bytes=sum(file.size_bytes for file in files),
        flush_failures=region.flush.failures,
        last_entry_id=region.written.entry_id,
        last_sequence=region.written.sequence,
        index_bytes=sum(file.index_size_bytes for file in files),
        manifest_version=region.manifest.state.version,
        manifest_bytes=region.manifest.size_bytes,
        written_bytes=region.written.nbytes,
        compaction_window_seconds=region.window_seconds,
        compaction_failures=region.compaction.failures,
        options=json.dumps(version.options.to_json()),
    )


def find_time_range(region: Region) -> TimeRange | None:
    """Return a range that holds the times of all rows, those of deleted ones included; None if there are none."""
    version = region.version
    found = None
    for span in (
        *(memtable.time_range for memtable in version.memtables),
        *(handle.meta.time_range for handle in version.files),
    ):
        if span is not None:
            found = span if found is None else found.union(span)
    return found


def describe_files(region: Region) -> list[FileFacts]:
    """Describe the data files of a region, in the order of time."""
    metas = sorted((handle.meta for handle in region.version.files), key=lambda meta: meta.time_range.start)
    return [_describe(region.directory, meta) for meta in metas]


def _describe(directory: str, meta: FileMeta) -> FileFacts:
    return FileFacts(
        file_id=meta.file_id,
        path=data_path(directory, meta.file_id),
        size_bytes=meta.size_bytes,
        index_path=index_path(directory, meta.file_id) if meta.has_index else None,
        index_bytes=meta.index_size_bytes,
        rows=meta.rows,
        row_groups=meta.row_groups,
        series=meta.series,
        time_range=meta.time_range,
        sequence=meta.sequence_max,
        level=meta.level,
        created_ms=meta.created_ms,
    )
