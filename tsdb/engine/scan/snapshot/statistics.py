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
    index_files: int = 0
    """Data files of which an inverted index was used instead of the whole series block."""
    series_excluded_by_index: int = 0
    """Series of these files that were skipped."""
    rows_excluded_by_index: int = 0
    """Rows that were not read because of skipping indexes."""
    rows_excluded_by_fulltext: int = 0
    """Rows that were not read because of full-text indexes."""
    index_bytes_read: int = 0
    """What the pages of indexes and series blocks take that had to be read."""
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    def add(
        self,
        *,
        sources_total: int = 0,
        sources_pruned_by_time: int = 0,
        sources_pruned_by_series: int = 0,
        series_total: int = 0,
        series_kept: int = 0,
        segments_direct: int = 0,
        segments_merged: int = 0,
        fragments: int = 0,
        rows_read: int = 0,
        rows_returned: int = 0,
        vector_hits: int = 0,
        vector_misses: int = 0,
        bytes_read: int = 0,
        index_files: int = 0,
        series_excluded_by_index: int = 0,
        rows_excluded_by_index: int = 0,
        rows_excluded_by_fulltext: int = 0,
        index_bytes_read: int = 0,
    ) -> None:
        """Add to some of the counters; spelt out, because small queries spend most of their time on calls."""
        with self._lock:
            self.sources_total += sources_total
            self.sources_pruned_by_time += sources_pruned_by_time
            self.sources_pruned_by_series += sources_pruned_by_series
            self.series_total += series_total
            self.series_kept += series_kept
            self.segments_direct += segments_direct
            self.segments_merged += segments_merged
            self.fragments += fragments
            self.rows_read += rows_read
            self.rows_returned += rows_returned
            self.vector_hits += vector_hits
            self.vector_misses += vector_misses
            self.bytes_read += bytes_read
            self.index_files += index_files
            self.series_excluded_by_index += series_excluded_by_index
            self.rows_excluded_by_index += rows_excluded_by_index
            self.rows_excluded_by_fulltext += rows_excluded_by_fulltext
            self.index_bytes_read += index_bytes_read

    def to_dict(self) -> dict[str, int]:
        """Return all counters by name."""
        return {each.name: getattr(self, each.name) for each in fields(self) if each.name != "_lock"}
