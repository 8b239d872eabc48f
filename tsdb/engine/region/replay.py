"""Replaying entries of a log into memtables, obeying the write buffer. Rows get the sequences they had."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor

from tsdb.engine.entry import decode_batch
from tsdb.engine.log import LogReading, ReplayedFrame
from tsdb.engine.metrics import REPLAYED_ROWS
from tsdb.engine.region.context import EngineContext
from tsdb.engine.region.flush import start_flush
from tsdb.engine.region.region import Region
from tsdb.engine.rows.read_ahead import one_ahead
from tsdb.errors import TsdbError
from tsdb.model import RegionId, RegionOptions, RegionSchema
from tsdb.telemetry import get_logger

_log = get_logger("tsdb.recovery")

_PROGRESS_NS = 1_000_000_000

Regions = Mapping[RegionId, Region]


def replay(context: EngineContext, regions: Regions, reading: LogReading) -> int:
    """Put the entries of regions into memtables; return how many rows that were."""
    with ThreadPoolExecutor(1, thread_name_prefix="tsdb-replay") as executor:
        rows = _apply_all(context, regions, one_ahead(iter(reading), executor))
    for region in regions.values():
        # The next rows come into a memtable of the current schema.
        _use_memtable(context, region, region.version.schema, region.version.options)
    if rows:
        _log.info("replayed the log", rows=rows, regions=len(regions))
    return rows


def _apply_all(context: EngineContext, regions: Regions, batches: Iterator[list[ReplayedFrame]]) -> int:
    """Put all entries into memtables; the next batch is read and decompressed meanwhile."""
    rows, reported_ns = 0, context.clock.monotonic_ns()
    for frames in batches:
        for frame in frames:
            region = regions.get(RegionId(frame.region_id))
            if region is not None:
                _apply(context, region, frame)
                rows += frame.rows
                _relieve(context, regions)
        REPLAYED_ROWS.set(rows)
        if context.clock.monotonic_ns() - reported_ns > _PROGRESS_NS:
            reported_ns = context.clock.monotonic_ns()
            _log.info("replaying the log", rows=rows)
    return rows


def _apply(context: EngineContext, region: Region, frame: ReplayedFrame) -> None:
    """Put the rows of an entry into a memtable of the schema they were written under, and of their kind of options."""
    schema = region.version.schema.as_of(frame.schema_version)
    options = region.version.options.at(frame.base_seq)
    _use_memtable(context, region, schema, options)
    batch = decode_batch(schema, frame.payload, frame.kind, version=frame.schema_version)
    region.version.mutable.append(batch, frame.base_seq, nbytes=frame.payload.size)
    region.written.entry_id = frame.entry_id
    region.written.sequence = max(region.written.sequence, frame.base_seq + frame.rows - 1)


def _use_memtable(context: EngineContext, region: Region, schema: RegionSchema, options: RegionOptions) -> None:
    """Let the next rows come into a memtable of a schema and options."""
    mutable = region.version.mutable
    if (mutable.schema is not schema and mutable.schema != schema) or mutable.options != options:
        region.use_memtable(context, schema, options)


def _relieve(context: EngineContext, regions: Regions) -> None:
    """Flush the largest regions while the replayed rows take more memory than writing would be allowed.

    If that fails, the replay goes on as far as writing could have come without a flush.
    """
    while context.buffer.should_flush:
        now, must_flush = context.clock.monotonic_ns(), context.buffer.should_reject(0)
        able = [region for region in regions.values() if must_flush or now >= region.flush.not_before_ns]
        region = max(able, key=lambda each: each.version.memtable_bytes, default=None)
        if region is None or not region.version.memtable_bytes:
            return
        try:
            start_flush(context, region).result()
        except TsdbError:
            if must_flush:
                raise
