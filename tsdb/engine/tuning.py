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
class EngineTuning:
    """The internal sizes of one engine."""

    memtable: MemtableTuning = field(default_factory=MemtableTuning)
    merge: MergeTuning = field(default_factory=MergeTuning)
    idle_bytes_min: Size = Size(16 << 20)
    """A region with so much in memory is flushed when it is no longer written to."""
