"""What all parts of the engine use: the store, the log, the buffer, the threads, the options."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tsdb.clock import Clock
from tsdb.engine.index import IndexOptions
from tsdb.engine.log import LogStore
from tsdb.engine.region.background import Background
from tsdb.engine.region.compaction_history import CompactionHistory
from tsdb.engine.region.names import RegionNames
from tsdb.engine.rows.cache import Caches
from tsdb.engine.rows.memtable import Memtable
from tsdb.engine.rows.merge_memory import MergeMemory
from tsdb.engine.rows.partition_tree import PartitionTree, TreeOptions
from tsdb.engine.rows.write_buffer import WriteBuffer
from tsdb.engine.tuning import EngineTuning
from tsdb.ids import Ids
from tsdb.model import MemtableKind, RegionId, RegionOptions, RegionSchema
from tsdb.store import ObjectStore
from tsdb.units import Duration, Size

WINDOW_SECONDS = 86_400
"""The window of time of memtables and of the files they become, as long as no compaction has chosen another."""

WINDOW_SECONDS_MIN = 3600
"""Memtables are not divided into shorter ones, however short those of files are: each costs a sort of its own."""


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """The settings of `[region_engine.mito]` that the engine itself looks at."""

    num_workers: int = 8
    manifest_checkpoint_distance: int = 10
    max_background_jobs: int = 4
    auto_flush_interval: Duration = Duration.of_seconds(3600)
    global_write_buffer_size: Size = Size(1 << 30)
    global_write_buffer_reject_size: Size = Size(2 << 30)
    sst_meta_cache_size: Size = Size(128 << 20)
    vector_cache_size: Size = Size(512 << 20)
    page_cache_size: Size = Size(512 << 20)
    sst_write_buffer_size: Size = Size(8 << 20)
    scan_parallelism: int = 0
    index_on_flush: bool = True
    index_on_compaction: bool = True
    index_on_query: bool = True
    index_memory_size: Size | None = None
    """What sorting the values of a tag may take in memory when an index is built; None: all it needs."""
    index_intermediate_path: Path | None = None
    """Where values are sorted that take more."""
    merge_memory_size: Size = Size(256 << 20)
    """What flushes and compactions may hold together while they merge; compactions wait for it."""
    series_registers_size: Size = Size(64 << 20)
    """What is kept of the series of tables."""
    memtable_type: MemtableKind = MemtableKind.TIME_SERIES
    tree: TreeOptions = field(default_factory=TreeOptions)
    """The settings of memtables of type `partition_tree`."""
    stall_timeout: Duration = Duration.of_seconds(30)
    """How long a write may wait for memory when its request has no deadline of its own."""
    tuning: EngineTuning = field(default_factory=EngineTuning)

    @property
    def index(self) -> IndexOptions:
        """How index files are built."""
        return IndexOptions(self.index_memory_size, self.index_intermediate_path, self.tuning.index)


@dataclass(slots=True, eq=False)
class EngineEvents:
    """Events for the owner of an engine. Receivers are called on any thread and must not wait."""

    on_lost: Callable[[RegionId], None] = lambda region_id: None
    """Another writer has the region: it takes no writes any more and should be closed."""


@dataclass(frozen=True, slots=True, eq=False)
class EngineContext:
    """The shared objects of one engine."""

    options: EngineOptions
    store: ObjectStore
    wal: LogStore
    buffer: WriteBuffer
    background: Background
    caches: Caches
    clock: Clock
    ids: Ids
    merge_memory: MergeMemory
    names: RegionNames = field(default_factory=RegionNames)
    events: EngineEvents = field(default_factory=EngineEvents)
    compactions: CompactionHistory = field(default_factory=CompactionHistory)

    def now_ms(self) -> int:
        """The time of day."""
        return self.clock.now_ns() // 1_000_000

    def new_memtable(
        self,
        schema: RegionSchema,
        options: RegionOptions,
        window_seconds: int | None = None,
        *,
        after: Memtable | None = None,
    ) -> Memtable:
        """Make an empty memtable that is charged to the write buffer; its windows are those of the region's files.

        It may take over the keys of the one before it (`after`), which takes no more rows.
        """
        ticks = max(window_seconds or WINDOW_SECONDS, WINDOW_SECONDS_MIN) * schema.ticks_per_second
        tuning, charge = self.options.tuning.memtable, self.buffer.charge
        own, default = options.memtable, self.options
        if (own.type or default.memtable_type) is MemtableKind.TIME_SERIES:
            return Memtable(schema, options, window_ticks=ticks, tuning=tuning, on_bytes=charge)
        tree = TreeOptions(
            shard_keys=own.shard_keys or default.tree.shard_keys,
            freeze_rows=own.freeze_rows or default.tree.freeze_rows,
            fork_bytes=default.tree.fork_bytes if own.fork_bytes is None else own.fork_bytes,
        )
        memtable = PartitionTree(
            schema,
            options,
            window_ticks=ticks,
            tuning=tuning,
            tree=tree,
            caches=self.caches,
            on_bytes=charge,
            on_kept=self.buffer.keep,
        )
        if after is not None:
            memtable.take_over(after, self.buffer.room_to_keep)
        return memtable
