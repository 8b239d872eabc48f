"""Sizes inside the region engine that no configuration sets.

They are handed down from `EngineOptions` to the code that uses them, so that a test can open an engine with small ones.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tsdb.units import Size

ARRAY_BYTES = 1024
"""What an array takes besides its values: 15,000 writes of one row with two tags and ten fields took 19 kB each, of
which 1.5 kB were values."""


@dataclass(frozen=True, slots=True)
class MemtableTuning:
    """When rows in memory are sorted, and when sorted runs are merged."""

    freeze_rows: int = 65_536
    """So many raw rows of a window are sorted into a run."""
    tier_runs: int = 8
    """So many overlapping runs of about one size are merged."""
    runs_max: int = 32
    """So many runs are merged even if they do not overlap."""
    pile_bytes: int = 8 << 20
    """Raw rows whose arrays take so much besides their values are sorted: a run has one array for each column."""

    raw_bytes_max: int = 16 << 20
    """With `partition_tree`, raw rows of a window that take so much are compressed, however few each shard has."""

    def is_pile(self, rows: int, arrays: int) -> bool:
        """Tell whether raw rows should be sorted before a reader needs them."""
        return rows >= self.freeze_rows or arrays * ARRAY_BYTES >= self.pile_bytes


@dataclass(frozen=True, slots=True)
class MergeTuning:
    """How much a flush or a compaction holds in memory."""

    stripe_bytes_max: int = 16 << 20
    """What the rows of one stripe may take; a compaction holds a few stripes at a time."""
    ahead_rows_min: int = 1024
    """How many rows of each source are compared at least, where one series is merged in pieces of time."""
    row_group_bytes_max: int = 32 << 20
    """What a row group may take in memory; in tables with very many columns it has fewer rows. A compaction holds one
    row group of each input."""


@dataclass(frozen=True, slots=True)
class ScanTuning:
    """How a scan is cut up."""

    partition_rows_min: int = 8192
    """A segment of fewer rows is read by one partition."""
    look_rows_max: int = 1 << 22
    """If series that several sources have at the same time have no more rows than this, their times are compared."""
    cut_rows_min: int = 1024
    """So many rows must be spared the merge for a range of time to be cut out of it: what is read alone has a price of
    its own."""
    split_rows_min: int = 65_536
    """If so many rows are to be merged, series that are contested for long are told apart from others."""
    group_rows: int = 1 << 20
    """Series are narrowed to the time range in groups of about so many rows, which bounds what is read for it."""
    probe_rows_min: int = 1 << 20
    """A row range longer than this is searched by probing: all of its times would take more memory than a scan has."""
    block_rows_min: int = 4096
    """A block has so many rows even if memory is short."""
    batch_rows_max: int = 65_536
    """Over 3.4 M rows, DataFusion took 22 ms of CPU for sums in batches of 8 k rows and 15 ms in batches of 64 k: a
    batch that comes from Python has a price of its own."""
    index_series_min: int = 2048
    """The values of a tag of fewer series are indexed as they are, not by their hashes."""
    skip_bytes_ratio: float = 1.0
    """Filters of a skipping index are read if they take no more than so many times what their column takes in the same
    rows."""
    index_few_max: int = 16
    """So many series are compared one by one in less time than it takes to begin with all together."""


@dataclass(frozen=True, slots=True)
class IndexTuning:
    """Sizes of index files that no configuration sets."""

    series_min: int = 8192
    """A file of fewer series has no inverted indexes: its series block is read with one small request."""
    page_series: int = 2048
    """How many series are in one page of a series block that has several."""
    page_values: int = 2048
    """How many values of a tag are in one page of its inverted index."""
    page_postings: int = 16_384
    """A page with so many postings takes no more values."""


@dataclass(frozen=True, slots=True)
class EngineTuning:
    """The internal sizes of one engine."""

    memtable: MemtableTuning = field(default_factory=MemtableTuning)
    merge: MergeTuning = field(default_factory=MergeTuning)
    scan: ScanTuning = field(default_factory=ScanTuning)
    index: IndexTuning = field(default_factory=IndexTuning)
    idle_bytes_min: Size = Size(16 << 20)
    """A region with so much in memory is flushed when it is no longer written to."""
