"""What a scan did: for EXPLAIN ANALYZE, metrics and tests."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, fields


@dataclass(slots=True)
class ScanStatistics:
    """Counters of one scan; fragments add to them from several threads."""

    sources_total: int = 0
    sources_pruned_by_time: int = 0
    sources_pruned_by_series: int = 0
    series_total: int = 0
    """Series of the sources that time did not prune."""
    series_kept: int = 0
    segments_direct: int = 0
    segments_merged: int = 0
    fragments: int = 0
    rows_read: int = 0
    """Rows that were sliced or merged, before checks on rows."""
    rows_returned: int = 0
    vector_hits: int = 0
    """Columns of row groups that were found decoded."""
    vector_misses: int = 0
    """Columns of row groups that had to be read and decoded."""
    bytes_read: int = 0
    """What those take in their files."""
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    def add(self, **counts: int) -> None:
        """Add to some of the counters."""
        with self._lock:
            for name, count in counts.items():
                setattr(self, name, getattr(self, name) + count)

    def to_dict(self) -> dict[str, int]:
        """Return all counters by name."""
        return {each.name: getattr(self, each.name) for each in fields(self) if each.name != "_lock"}
