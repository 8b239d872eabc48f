"""How full the engine is, for `/metrics`: computed at each scrape, from what the engine knows anyway.

Nothing is counted on the way of a write or a query, and no file is opened: sizes and numbers of data files are in the
manifests, those of the log and of the caches in their statistics. Only the free space is asked of the file system.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Protocol
from weakref import WeakSet

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from tsdb.engine.region.context import EngineContext
from tsdb.engine.region.region import Region
from tsdb.telemetry import Family, collected

_BUFFER = Family("tsdb_engine_write_buffer_bytes", "gauge", (), "Memory of rows that are not in data files yet.")
_LOG = Family("tsdb_engine_wal_bytes", "gauge", (), "Size of the write-ahead log on disk.")
_REGIONS = Family("tsdb_engine_regions", "gauge", (), "Open regions.")
_FILES = Family("tsdb_engine_data_files", "gauge", (), "Data files of all regions.")
_QUARANTINED = Family("tsdb_engine_quarantined_files", "gauge", (), "Data files that are damaged and kept apart.")
_BYTES = Family("tsdb_engine_data_bytes", "gauge", (), "Size of all data files and their indexes.")
_ROWS = Family("tsdb_engine_data_rows", "gauge", (), "Rows of all data files, overwritten ones included.")
_SERIES = Family(
    "tsdb_engine_data_series", "gauge", (), "Series in data files: of each region as many as its file with the most."
)
_CACHE_BYTES = Family("tsdb_engine_cache_bytes", "gauge", ("cache",), "Memory that a cache holds.")
_CACHE_HITS = Family("tsdb_engine_cache_hits_total", "counter", ("cache",), "Lookups that a cache answered.")
_CACHE_MISSES = Family("tsdb_engine_cache_misses_total", "counter", ("cache",), "Lookups that a cache did not answer.")
_FREE = Family(
    "tsdb_engine_disk_free_bytes", "gauge", ("directory",), "Free space of the disk that holds the data or the wal."
)


class HasRegions(Protocol):
    """An engine, as far as its gauges are concerned."""

    @property
    def context(self) -> EngineContext: ...

    @property
    def open_regions(self) -> list[Region]: ...

    @property
    def directories(self) -> dict[str, Path]:
        """Where the data and the log are, by these names, if they are on a disk."""


class _EngineCollector(Collector):
    def __init__(self) -> None:
        self.engines: WeakSet[HasRegions] = WeakSet()

    def collect(self) -> Iterable[Metric]:
        engines = list(self.engines)
        files = [handle.meta for engine in engines for region in engine.open_regions for handle in region.version.files]
        yield _gauge(_BUFFER, sum(engine.context.buffer.used for engine in engines))
        yield _gauge(_LOG, sum(engine.context.wal.statistics().total_bytes for engine in engines))
        yield _gauge(_REGIONS, sum(len(engine.open_regions) for engine in engines))
        yield _gauge(_FILES, len(files))
        quarantined = sum(len(region.quarantined) for engine in engines for region in engine.open_regions)
        yield _gauge(_QUARANTINED, quarantined)
        yield _gauge(_BYTES, sum(meta.size_bytes + meta.index_size_bytes for meta in files))
        yield _gauge(_ROWS, sum(meta.rows for meta in files))
        yield _gauge(_SERIES, sum(_series(region) for engine in engines for region in engine.open_regions))
        yield from _caches(engines)
        yield _free(engines)


_collector = _EngineCollector()
collected(
    _collector,
    *(_BUFFER, _LOG, _REGIONS, _FILES, _QUARANTINED, _BYTES, _ROWS, _SERIES),
    *(_CACHE_BYTES, _CACHE_HITS, _CACHE_MISSES, _FREE),
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
    held = GaugeMetricFamily(_CACHE_BYTES.name, _CACHE_BYTES.help, labels=_CACHE_BYTES.labels)
    hits = CounterMetricFamily(_CACHE_HITS.name, _CACHE_HITS.help, labels=_CACHE_HITS.labels)
    misses = CounterMetricFamily(_CACHE_MISSES.name, _CACHE_MISSES.help, labels=_CACHE_MISSES.labels)
    found: dict[str, list[int]] = {}
    for engine in engines:
        for each in engine.context.caches.statistics():
            sums = found.setdefault(each.name, [0, 0, 0])
            found[each.name] = [sums[0] + each.bytes, sums[1] + each.hits, sums[2] + each.misses]
    for name, (size, hit, missed) in found.items():
        held.add_metric([name], size)
        hits.add_metric([name], hit)
        misses.add_metric([name], missed)
    return held, hits, misses


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
