"""How index files are built."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from tsdb.engine.tuning import IndexTuning


@dataclass(frozen=True, slots=True)
class IndexOptions:
    """The settings of `[region_engine.mito.inverted_index]` that index builds use."""

    memory_bytes_max: int | None = None
    """What the pairs of value and series may take in memory; more are sorted in runs on disk. None: no limit."""
    spill_directory: Path | None = None
    """Where these runs are; None: everything is sorted in memory."""
    tuning: IndexTuning = field(default_factory=IndexTuning)
