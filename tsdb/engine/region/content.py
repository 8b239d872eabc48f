"""What a region shows, in two numbers: how many rows, and a checksum of all of their values.

Flushes, compactions, restarts and moves to other nodes change neither: who compares them before and after sees that
every row is still there, and no other. The order of rows, and in which files they are, makes no difference. Writes,
deletes and the time to live change them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from tsdb.engine.region.context import EngineContext
from tsdb.engine.region.region import Region
from tsdb.engine.region.snapshot import take_snapshot
from tsdb.engine.rows.cache import Caches
from tsdb.engine.rows.source import Source
from tsdb.engine.scan import Projection, ScanStatistics, Snapshot, make_filter, partition_scan, plan_scan
from tsdb.engine.sst import DataFile
from tsdb.model import hash_tags

_META_BYTES = 64 << 20
"""For footers and series blocks, which are read again and again; rows are read once, past the caches."""
_BATCH_BYTES_MAX = 64 << 20
"""What the rows may take that are held at a time."""
_MODULUS = 1 << 64


@dataclass(frozen=True, slots=True)
class Content:
    """The visible rows of a region."""

    rows: int
    checksum: int
    """The sum of the hashes of all rows, of 64 bits."""


def content_of(context: EngineContext, region: Region, check: Callable[[], None]) -> Content:
    """Read all visible rows; `check` is called between batches, and ends that by raising. On a background thread."""
    pinned = take_snapshot(context, region)
    try:
        caches = Caches.of(sst_meta_bytes=_META_BYTES, vector_bytes=0, page_bytes=0)
        return _read(replace(pinned, sources=tuple(_past_caches(each, caches) for each in pinned.sources)), check)
    finally:
        pinned.release()


def _past_caches(source: Source, caches: Caches) -> Source:
    return source.with_caches(caches) if isinstance(source, DataFile) else source


def _read(snapshot: Snapshot, check: Callable[[], None]) -> Content:
    names = [column.name for column in snapshot.schema.columns]
    projection = Projection(snapshot, names)
    plan = plan_scan(snapshot, make_filter(snapshot.schema, None), ScanStatistics())
    rows = checksum = 0
    for partition in partition_scan(plan, 1):
        for batch in partition.batches(projection, memory_bytes_max=_BATCH_BYTES_MAX):
            check()
            hashes, _ = hash_tags(batch.columns, batch.schema.names, batch.num_rows)
            rows += batch.num_rows
            checksum = (checksum + int(hashes.sum(dtype=np.uint64))) % _MODULUS
    return Content(rows, checksum)
