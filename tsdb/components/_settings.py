"""From the configuration to the settings of the parts: the sections as each part takes them."""

from __future__ import annotations

import os
from pathlib import Path

from tsdb.components._local import SPILL_DIRECTORY, SharedLogOptions
from tsdb.components._stores import OpenStores
from tsdb.config import FrontendConfig, IndexMode, MitoOptions, SlowQueryOptions, StandaloneConfig, WalOptions
from tsdb.database import RecordType, SlowQuerySettings
from tsdb.engine import DECODED, Acknowledge, EngineOptions, SharedSettings, TreeOptions, WalSettings
from tsdb.memory import MemoryOwner
from tsdb.model import MemtableKind
from tsdb.processes.fork_server import Forker
from tsdb.processes.known_results import KnownResults
from tsdb.query import QueryEngineOptions
from tsdb.units import Size

ServingConfig = StandaloneConfig | FrontendConfig
"""The configuration of a component with protocol servers."""

MERGE_BYTES_MAX, MERGE_PART = 256 << 20, 16
"""What flushes and compactions may hold while they merge, where a sixteenth of the memory limit is not less."""

SERIES_MEMORY_MAX, SERIES_MEMORY_PART = 64 << 20, 32
"""What may be kept of the series of tables, where a thirty-second of the memory limit is not less."""

RESULTS_LIMIT = 4 << 30
"""Caches of schemas and expressions have their full size from this memory limit on, and less in proportion below."""

UNSHIPPED_BYTES_MAX, UNSHIPPED_PART = 256 << 20, 8
"""What a shared log may hold that is not shipped, where an eighth of the memory limit is not less."""


def slow_query_options(options: SlowQueryOptions) -> SlowQuerySettings:
    """The settings of `[slow_query]` as the database takes them."""
    return SlowQuerySettings(
        is_enabled=options.enable,
        record_type=RecordType(options.record_type.value),
        threshold=options.threshold,
        sample_ratio=options.sample_ratio,
        ttl=str(options.ttl),
    )


def query_options(
    config: ServingConfig, home: Path, forker: Forker | None, *, reads_remotely: bool
) -> QueryEngineOptions:
    """The settings of `[query]` as the query engine takes them."""
    return QueryEngineOptions(
        memory_bytes=query_memory(config.memory.limit),
        spill_dir=home / SPILL_DIRECTORY,
        workers=query_workers(config),
        forker=forker,
        reads_remotely=reads_remotely,
    )


def query_workers(config: ServingConfig) -> int:
    """How many worker processes of each kind there are: as many as cores, if the configuration does not say."""
    count = config.query.workers
    return (os.cpu_count() or 1) if count < 0 else count


def query_memory(limit: Size) -> Size:
    """What all queries together may take before they spill: half of the memory limit."""
    return Size(limit // 2)


def engine_options(mito: MitoOptions, limit: Size) -> EngineOptions:
    """The settings of `[region_engine.mito]` as the engine takes them."""
    return EngineOptions(
        num_workers=mito.num_workers,
        manifest_checkpoint_distance=mito.manifest_checkpoint_distance,
        max_background_jobs=mito.max_background_jobs,
        auto_flush_interval=mito.auto_flush_interval,
        global_write_buffer_size=mito.global_write_buffer_size,
        global_write_buffer_reject_size=mito.global_write_buffer_reject_size,
        sst_meta_cache_size=mito.sst_meta_cache_size,
        vector_cache_size=mito.vector_cache_size,
        page_cache_size=mito.page_cache_size,
        sst_write_buffer_size=mito.sst_write_buffer_size,
        scan_parallelism=mito.scan_parallelism,
        index_on_flush=mito.inverted_index.create_on_flush is IndexMode.AUTO,
        index_on_compaction=mito.inverted_index.create_on_compaction is IndexMode.AUTO,
        index_on_query=mito.inverted_index.apply_on_query is IndexMode.AUTO,
        index_memory_size=mito.inverted_index.mem_threshold_on_create,
        index_intermediate_path=Path(mito.inverted_index.intermediate_path),
        merge_memory_size=Size(min(MERGE_BYTES_MAX, limit // MERGE_PART)),
        series_registers_size=series_memory(limit),
        memtable_type=MemtableKind(mito.memtable.type),
        tree=TreeOptions(
            shard_keys=mito.memtable.index_max_keys_per_shard,
            freeze_rows=mito.memtable.data_freeze_threshold,
            fork_bytes=mito.memtable.fork_dictionary_bytes,
        ),
    )


def series_memory(limit: Size) -> Size:
    """What may be kept of the series of tables, once for SQL and once for PromQL."""
    return Size(min(SERIES_MEMORY_MAX, limit // SERIES_MEMORY_PART))


def process_caches(limit: Size) -> list[MemoryOwner]:
    """Fit the caches that belong to the process to the memory limit, and return them."""
    DECODED.resize(series_memory(limit))
    return [DECODED, KnownResults(min(1.0, limit / RESULTS_LIMIT))]


def wal_options(wal: WalOptions) -> WalSettings:
    """The settings of `[wal]` as the log takes them."""
    return WalSettings(
        file_size=wal.file_size,
        sync_write=wal.sync_write,
        purge_interval=wal.purge_interval,
        purge_threshold=wal.purge_threshold,
        read_batch_size=wal.read_batch_size,
    )


def shared_log_options(wal: WalOptions, stores: OpenStores, limit: Size, *, node: int = 0) -> SharedLogOptions | None:
    """The settings of `[wal.shared]` as the log takes them; None if it is not shared. StartError if it cannot be."""
    shared = wal.shared
    if shared.enable is not True:
        return None
    store, place = stores.find_for_log(shared.storage)
    settings = SharedSettings(
        node=node,
        acknowledge=Acknowledge(shared.acknowledge.value),
        interval=shared.interval,
        max_batch=shared.max_batch,
        in_flight=shared.in_flight,
        retention=shared.retention,
        buffer_bytes_max=Size(min(UNSHIPPED_BYTES_MAX, limit // UNSHIPPED_PART)),
        purge_interval=wal.purge_interval,
        purge_threshold=wal.purge_threshold,
        read_batch_size=wal.read_batch_size,
    )
    return SharedLogOptions(store, place, settings)
