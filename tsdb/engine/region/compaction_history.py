"""What compactions did, and what they are doing: the rows of `information_schema.compaction_history`.

Kept in memory, the newest `KEPT_MAX`; a start begins with none. The record of a job is changed by the thread that
writes its files and by the region's worker, never by both at a time. Readers see numbers of different moments at worst.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from tsdb.engine.manifest import FileMeta
from tsdb.model import RegionId

KEPT_MAX = 1000
"""How many compactions are remembered."""


class CompactionResult(StrEnum):
    """How a compaction stands."""

    RUNNING = "running"
    SUCCESS = "success"
    FAILURE = "failure"
    CANCELLED = "cancelled"


@dataclass(slots=True, eq=False)
class CompactionRecord:
    """One compaction."""

    number: int
    region_id: RegionId
    reason: str
    """Why these files were chosen."""
    started_ms: int
    input_ids: tuple[str, ...]
    input_rows: int
    input_bytes: int
    largest_bytes: int
    """The size of the largest input."""
    result: CompactionResult = CompactionResult.RUNNING
    ended_ms: int | None = None
    duration_ms: int | None = None
    rows_written: int = 0
    """Grows while the compaction runs."""
    output_ids: tuple[str, ...] = ()
    output_bytes: int = 0
    error: str | None = None
    node_id: int | None = None
    """The datanode that it runs on; None for this process."""

    @property
    def amplification(self) -> float | None:
        """Bytes written for each byte that was merged into the largest input; None before the end."""
        merged = self.input_bytes - self.largest_bytes
        if self.result is not CompactionResult.SUCCESS:
            return None
        return self.output_bytes / max(1, merged or self.input_bytes)

    @property
    def progress(self) -> float:
        """How much of it is done, from 0 to 1: rows that were written, of those that are read."""
        if self.result is CompactionResult.SUCCESS:
            return 1.0
        return min(1.0, self.rows_written / max(1, self.input_rows))

    def end(self, result: CompactionResult, now_ms: int, *, elapsed_ms: int, error: str | None = None) -> None:
        self.ended_ms, self.duration_ms, self.error = now_ms, elapsed_ms, error
        self.result = result


class CompactionHistory:
    """The newest compactions of all regions. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._records: deque[CompactionRecord] = deque(maxlen=KEPT_MAX)
        self._numbers = 0

    def begin(
        self, region_id: RegionId, reason: str, files: Sequence[FileMeta], *, started_ms: int
    ) -> CompactionRecord:
        """Remember a compaction that begins."""
        sizes = [meta.size_bytes for meta in files]
        with self._lock:
            self._numbers += 1
            record = CompactionRecord(
                number=self._numbers,
                region_id=region_id,
                reason=reason,
                started_ms=started_ms,
                input_ids=tuple(meta.file_id for meta in files),
                input_rows=sum(meta.rows for meta in files),
                input_bytes=sum(sizes),
                largest_bytes=max(sizes, default=0),
            )
            self._records.append(record)
        return record

    def all(self) -> list[CompactionRecord]:
        """Return the records, oldest first."""
        with self._lock:
            return list(self._records)
