"""The sections of the storage engine: write-ahead log, region engine with its index and memtable options."""

from __future__ import annotations

from pydantic import Field

from tsdb.config._fields import (
    AcknowledgeMode,
    AcknowledgeModeValue,
    AutomaticFlagValue,
    CountValue,
    DurationValue,
    FlagValue,
    IndexMode,
    IndexModeValue,
    MemtableType,
    MemtableTypeValue,
    OptionalSizeValue,
    PositiveDurationValue,
    PositiveSizeValue,
    PositiveValue,
    Section,
    SizeValue,
    StringValue,
)
from tsdb.units import Duration, Size


class SharedWalOptions(Section):
    """The log in an object store."""

    enable: AutomaticFlagValue = Field(
        default="auto",
        description="Ship the write-ahead log to an object store, so that unflushed rows survive the loss of the disk. "
        "auto: true for a datanode whose storage type is not File, false for a standalone server.",
    )
    acknowledge: AcknowledgeModeValue = Field(
        default=AcknowledgeMode.STORE,
        description="When a write is acknowledged: store (the object store has it; no local log is written) or local "
        "(the local log has it; it is shipped later).",
    )
    interval: PositiveDurationValue = Field(
        default=Duration.parse("100ms"),
        description="Interval between objects under load. If no object is being uploaded, a write is sent at once.",
    )
    max_batch: PositiveSizeValue = Field(
        default=Size.parse("8MB"), description="Size at which an object is sent without waiting for the interval."
    )
    in_flight: PositiveValue = Field(default=4, description="Maximum number of concurrent uploads.")
    retention: DurationValue = Field(
        default=Duration(0),
        description="How long objects are kept after they were stored, even if their rows are in data files. Backups "
        "younger than this can be rolled forward to a point in time. 0s: objects are deleted when no longer needed.",
    )
    storage: StringValue = Field(
        default="", description="Name of the storage provider that holds the log. Empty: the storage of the data files."
    )


class WalOptions(Section):
    """The write-ahead log."""

    dir: StringValue = Field(
        default="",
        description="Directory of the write-ahead log. Empty: {data_home}/wal with storage type File; required with "
        "any other type.",
    )
    file_size: PositiveSizeValue = Field(default=Size.parse("256MB"), description="Maximum size of one log file.")
    purge_threshold: SizeValue = Field(
        default=Size.parse("4GB"),
        description="Total log size above which the regions that retain the oldest log files are flushed.",
    )
    purge_interval: PositiveDurationValue = Field(
        default=Duration.parse("10m"),
        description="Interval for deleting log files whose rows are all flushed.",
    )
    read_batch_size: PositiveValue = Field(default=128, description="Number of log entries per batch during replay.")
    sync_write: FlagValue = Field(
        default=False,
        description="Sync to disk before a write is acknowledged; false: sync once a second.",
    )
    shared: SharedWalOptions = Field(default=SharedWalOptions(), description="The write-ahead log in an object store.")


class InvertedIndexOptions(Section):
    """Inverted indexes of data files."""

    create_on_flush: IndexModeValue = Field(
        default=IndexMode.AUTO, description="Write index files on flush: auto or disable."
    )
    create_on_compaction: IndexModeValue = Field(
        default=IndexMode.AUTO, description="Write index files on compaction: auto or disable."
    )
    apply_on_query: IndexModeValue = Field(
        default=IndexMode.AUTO, description="Use indexes of data files in queries: auto or disable."
    )
    mem_threshold_on_create: OptionalSizeValue = Field(
        default=Size.parse("64M"),
        description="Memory threshold for external sorting during index creation. Empty: sort in memory only.",
    )
    intermediate_path: StringValue = Field(
        default="",
        description="Directory for external sorting. Empty: {data_home}/index_intermediate.",
    )


class MemtableOptions(Section):
    """The write buffer of one region."""

    type: MemtableTypeValue = Field(
        default=MemtableType.TIME_SERIES,
        description="time_series, or partition_tree (experimental): less memory with very many series, slower reads.",
    )
    index_max_keys_per_shard: PositiveValue = Field(
        default=8192,
        description="Maximum number of keys in one shard; partition_tree only.",
    )
    data_freeze_threshold: PositiveValue = Field(
        default=32768,
        description="Maximum number of rows in the active buffer of one shard; partition_tree only.",
    )
    fork_dictionary_bytes: SizeValue = Field(
        default=Size.parse("1GiB"),
        description="Maximum size of key dictionaries kept across flushes; partition_tree only.",
    )


class MitoOptions(Section):
    """The `mito` region engine."""

    num_workers: PositiveValue = Field(default=8, description="Number of region workers.")
    manifest_checkpoint_distance: CountValue = Field(
        default=10, description="Number of manifest updates that triggers a new checkpoint. 0: never."
    )
    max_background_jobs: PositiveValue = Field(
        default=4, description="Maximum number of concurrent background jobs (flush, compaction)."
    )
    auto_flush_interval: PositiveDurationValue = Field(
        default=Duration.parse("1h"),
        description="Flush a region that has not been flushed for this long.",
    )
    global_write_buffer_size: PositiveSizeValue = Field(
        default=Size.parse("1GB"),
        description="Write buffer of all regions together; writes above it wait for a flush. "
        "Unset: 1/4 of memory.limit, at most 1GiB.",
    )
    global_write_buffer_reject_size: PositiveSizeValue = Field(
        default=Size.parse("2GB"),
        description="Write buffer size above which writes are rejected; must exceed global_write_buffer_size. "
        "Unset: twice global_write_buffer_size.",
    )
    sst_meta_cache_size: SizeValue = Field(
        default=Size.parse("128MB"),
        description="Cache for data file metadata. 0: disabled. Unset: 1/32 of memory.limit, at most 128MiB.",
    )
    vector_cache_size: SizeValue = Field(
        default=Size.parse("512MB"),
        description="Cache for decoded columns. 0: disabled. Unset: 1/8 of memory.limit, at most 512MiB.",
    )
    page_cache_size: SizeValue = Field(
        default=Size.parse("512MB"),
        description="Cache for data file pages. 0: disabled. Unset: 1/8 of memory.limit, at most 512MiB.",
    )
    sst_write_buffer_size: PositiveSizeValue = Field(
        default=Size.parse("8MB"), description="Buffer size for writing data files."
    )
    scan_parallelism: CountValue = Field(
        default=0,
        description="Threads per region scan. 0: a quarter of the CPU cores; 1: the calling thread only.",
    )
    inverted_index: InvertedIndexOptions = Field(
        default=InvertedIndexOptions(), description="Inverted indexes of data files."
    )
    memtable: MemtableOptions = Field(default=MemtableOptions(), description="The write buffer of one region.")


class RegionEngineOptions(Section):
    """One entry of `[[region_engine]]`; `mito` is the engine that has options."""

    mito: MitoOptions = Field(default=MitoOptions(), description="The mito region engine.")
