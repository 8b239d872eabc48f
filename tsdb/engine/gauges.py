"""How full the engine is, for `/metrics`: computed at each scrape, from what the engine knows anyway.

Nothing is counted on the way of a write or a query, and no file is opened: sizes and numbers of data files are in the
manifests, those of the log and of the caches in their statistics. Only the free space is asked of the file system.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Protocol
from weakref import WeakSet

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from tsdb.engine.region.context import EngineContext
from tsdb.engine.region.region import Region
from tsdb.telemetry import CacheState, CacheStatistics, Family, collected

_BUFFER = Family(
    "tsdb_engine_write_buffer_bytes",
    "gauge",
    (),
    "Memory of rows that are not in data files yet; global_write_buffer_size bounds it.",
)
_KEPT = Family(
    "tsdb_engine_kept_series_bytes",
    "gauge",
    (),
    "Part of the write buffer used by series kept across flushes; at most a quarter.",
)
_LOG = Family("tsdb_engine_wal_bytes", "gauge", (), "Size of the write-ahead log on disk.")
_UNSHIPPED = Family(
    "tsdb_wal_shared_unshipped_bytes", "gauge", (), "Entries of a shared log that the object store does not have yet."
)
_LAG = Family("tsdb_wal_shared_lag_seconds", "gauge", (), "Age of the oldest unshipped entry.")
_REGIONS = Family("tsdb_engine_regions", "gauge", (), "Open regions.")
_FILES = Family("tsdb_engine_data_files", "gauge", (), "Data files of all regions.")
_QUARANTINED = Family(
    "tsdb_engine_quarantined_files",
    "gauge",
    (),
    "Damaged data files, which compactions skip; queries that need them fail.",
)
_BYTES = Family("tsdb_engine_data_bytes", "gauge", (), "Size of all data files and their indexes.")
_INDEX_BYTES = Family("tsdb_engine_index_bytes", "gauge", (), "Size of all index files.")
_ROWS = Family("tsdb_engine_data_rows", "gauge", (), "Rows of all data files, overwritten ones included.")
_SERIES = Family(
    "tsdb_engine_data_series",
    "gauge",
    (),
    "Series in data files: for each region the number of its file with the most.",
)
_CACHES = {
    "bytes": Family("tsdb_engine_cache_bytes", "gauge", ("cache",), "Memory used by a cache; for file, disk space."),
    "capacity_bytes": Family("tsdb_engine_cache_capacity_bytes", "gauge", ("cache",), "Capacity of a cache."),
    "entries": Family("tsdb_engine_cache_entries", "gauge", ("cache",), "Entries of a cache."),
    "hits": Family("tsdb_engine_cache_hits_total", "counter", ("cache",), "Lookups that a cache answered."),
    "misses": Family("tsdb_engine_cache_misses_total", "counter", ("cache",), "Lookups that a cache did not answer."),
    "evictions": Family("tsdb_engine_cache_evictions_total", "counter", ("cache",), "Entries evicted from a cache."),
    "errors": Family("tsdb_engine_cache_errors_total", "counter", ("cache",), "Disk errors of a cache."),
    "is_suspended": Family(
        "tsdb_engine_cache_suspended", "gauge", ("cache",), "1 while a cache is suspended because its disk has failed."
    ),
}
"""By what of the statistics of a cache each shows."""
_FREE = Family(
    "tsdb_engine_disk_free_bytes",
    "gauge",
    ("directory",),
    "Free space of the disk that holds the directory data, wal or cache.",
)


class HasRegions(Protocol):
    """An engine, as far as its gauges are concerned."""

    @property
    def context(self) -> EngineContext: ...

    @property
    def served_regions(self) -> list[Region]: ...

    def cache_statistics(self) -> list[CacheStatistics]: ...

    @property
    def directories(self) -> dict[str, Path]:
        """Where the data, the log and the file cache are, by these names, if they are on a disk."""


class _EngineCollector(Collector):
    def __init__(self) -> None:
        self.engines: WeakSet[HasRegions] = WeakSet()

    def collect(self) -> Iterable[Metric]:
        engines = list(self.engines)
        files = [
            handle.meta for engine in engines for region in engine.served_regions for handle in region.version.files
        ]
        yield _gauge(_BUFFER, sum(engine.context.buffer.used for engine in engines))
        yield _gauge(_KEPT, sum(engine.context.buffer.kept for engine in engines))
        logs = [engine.context.wal.statistics() for engine in engines]
        yield _gauge(_LOG, sum(log.total_bytes for log in logs))
        yield _gauge(_UNSHIPPED, sum(log.unshipped_bytes for log in logs))
        yield _gauge(_LAG, max((log.unshipped_seconds for log in logs), default=0.0))
        yield _gauge(_REGIONS, sum(len(engine.served_regions) for engine in engines))
        yield _gauge(_FILES, len(files))
        quarantined = sum(len(region.quarantined) for engine in engines for region in engine.served_regions)
        yield _gauge(_QUARANTINED, quarantined)
        yield _gauge(_BYTES, sum(meta.size_bytes + meta.index_size_bytes for meta in files))
        yield _gauge(_INDEX_BYTES, sum(meta.index_size_bytes for meta in files))
        yield _gauge(_ROWS, sum(meta.rows for meta in files))
        yield _gauge(_SERIES, sum(_series(region) for engine in engines for region in engine.served_regions))
        yield from _caches(engines)
        yield _free(engines)


_collector = _EngineCollector()
collected(
    _collector,
    *(_BUFFER, _KEPT, _LOG, _UNSHIPPED, _LAG, _REGIONS, _FILES, _QUARANTINED, _BYTES, _INDEX_BYTES, _ROWS, _SERIES),
    *(*_CACHES.values(), _FREE),
)


def watch_engine(engine: HasRegions) -> Callable[[], None]:
    """Let the gauges include an engine, until what is returned is called or the engine is gone."""
    _collector.engines.add(engine)
    return lambda: _collector.engines.discard(engine)


def _gauge(family: Family, value: float) -> Metric:
    return GaugeMetricFamily(family.name, family.help, value=value)


def _series(region: Region) -> int:
    return max((handle.meta.series for handle in region.version.files), default=0)


def _caches(engines: list[HasRegions]) -> Iterable[Metric]:
    found: dict[str, Counter[str]] = {}
    for engine in engines:
        for each in engine.cache_statistics():
            sums = found.setdefault(each.name, Counter())
            sums.update({what: getattr(each, what) for what in _CACHES if what != "is_suspended"})
            sums["is_suspended"] |= each.state is CacheState.SUSPENDED
    for what, family in _CACHES.items():
        make = CounterMetricFamily if family.type == "counter" else GaugeMetricFamily
        metric = make(family.name, family.help, labels=family.labels)
        for name, sums in found.items():
            metric.add_metric([name], sums[what])
        yield metric


def _free(engines: list[HasRegions]) -> Metric:
    free = GaugeMetricFamily(_FREE.name, _FREE.help, labels=_FREE.labels)
    found: dict[str, int] = {}
    for engine in engines:
        for name, directory in engine.directories.items():
            try:
                left = shutil.disk_usage(directory).free
            except OSError:
                continue  # a directory that is gone has no space to report
            found[name] = min(found.get(name, left), left)
    for name, left in found.items():
        free.add_metric([name], left)
    return free
