"""What is known of a region without reading its rows."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field

from tsdb.engine.manifest import FileMeta, data_path, index_path
from tsdb.engine.region.compaction_history import CompactionRecord
from tsdb.engine.region.context import EngineContext
from tsdb.engine.region.region import Region
from tsdb.engine.region.status import JobStatus, compaction_status, count_runs, flush_status
from tsdb.model import TimeRange

_NS = 1_000_000_000


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
    """The length of the time windows in which files are merged; None until it is chosen."""
    compaction_failures: int = 0
    options: str = "{}"
    """The options that differ from their defaults, as JSON."""
    reason: str = ""
    """Why the region takes no writes."""
    since_ms: int | None = None
    """Since when it takes none."""
    unflushed_seconds: float | None = None
    """For how long the oldest rows in memory have been there, about; None if there are none."""
    windows: int = 0
    """How many windows of time have files."""
    window_files_max: int = 0
    """The most files of a window."""
    window_runs_max: int = 0
    """The most files of a window that overlap at one time: so many a query has to merge."""
    write_amplification: float | None = None
    """Bytes written to data files for each byte that was flushed, since the region was opened."""
    quarantined_files: int = 0
    flush: JobStatus = field(default_factory=JobStatus)
    compaction: JobStatus = field(default_factory=JobStatus)


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
    window: TimeRange | None = None
    """The window of time in which it is merged, in the same unit; None until windows are chosen."""
    state: str = "ok"
    """ok, compacting or quarantined."""
    reason: str | None = None
    since_ms: int | None = None
    last_error: str | None = None


def stat_region(context: EngineContext, region: Region) -> RegionStat:
    """Describe a region."""
    version = region.version
    files = [handle.meta for handle in version.files]
    windows = _windows(region, files)
    flushed, merged = region.flush.written_bytes, region.compaction.written_bytes
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
        reason="" if region.access.is_writable else region.access.reason,
        since_ms=None if region.access.is_writable else region.access.since_ms or None,
        unflushed_seconds=_unflushed_seconds(context, region),
        windows=len(windows),
        window_files_max=max(map(len, windows), default=0),
        window_runs_max=max(map(count_runs, windows), default=0),
        write_amplification=(flushed + merged) / flushed if flushed else None,
        quarantined_files=len(region.quarantined),
        flush=flush_status(context, region),
        compaction=compaction_status(context, region),
    )


def _unflushed_seconds(context: EngineContext, region: Region) -> float | None:
    if not region.version.memtable_bytes:
        return None
    # Housekeeping moves it on as long as there are no rows in memory.
    return max(0, context.clock.monotonic_ns() - region.flush.last_ns) / _NS


def _windows(region: Region, files: Sequence[FileMeta]) -> list[list[FileMeta]]:
    """Return the files of each window; one window until their length is chosen."""
    ticks = _window_ticks(region)
    found: dict[int, list[FileMeta]] = {}
    for meta in files:
        found.setdefault(meta.time_range.last // ticks if ticks else 0, []).append(meta)
    return list(found.values())


def _window_ticks(region: Region) -> int | None:
    seconds = region.window_seconds
    return None if seconds is None else seconds * region.version.schema.ticks_per_second


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


def describe_files(context: EngineContext, region: Region) -> list[FileFacts]:
    """Describe the data files of a region, in the order of time."""
    metas = sorted((handle.meta for handle in region.version.files), key=lambda meta: meta.time_range.start)
    running = [each for each in context.compactions.all() if each.region_id == region.id and each.ended_ms is None]
    merging = {file_id: record for record in running for file_id in record.input_ids}
    return [_describe(region, meta, merging.get(meta.file_id)) for meta in metas]


def _describe(region: Region, meta: FileMeta, merging: CompactionRecord | None) -> FileFacts:
    directory, quarantined = region.directory, region.quarantined.get(meta.file_id)
    state, reason, since_ms = "ok", None, None
    if quarantined is not None:
        state, reason, since_ms = "quarantined", quarantined.reason, quarantined.since_ms
    elif merging is not None:
        state, reason, since_ms = "compacting", merging.reason, merging.started_ms
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
        window=_window(meta, _window_ticks(region)),
        state=state,
        reason=reason,
        since_ms=since_ms,
        last_error=None if quarantined is None else quarantined.reason,
    )


def _window(meta: FileMeta, ticks: int | None) -> TimeRange | None:
    if ticks is None:
        return None
    number = meta.time_range.last // ticks
    return TimeRange(number * ticks, (number + 1) * ticks)
