"""The messages of a scan: each has a batch, or several small ones, and the last may say that it is the last."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from tsdb.clock import Clock
from tsdb.engine.reading import RegionReader, ScanRequest
from tsdb.remote._arrow import has_dictionary, lower_rows
from tsdb.remote._message import Part
from tsdb.units import Duration

SMALL_ROWS = 4096
"""Batches of fewer rows are sent together, and the end with them: a message costs more than to make such a batch."""
GATHER_MAX = Duration.of_seconds(0.002)


class RowMessages:
    """Makes a message each time it is asked."""

    def __init__(self, reader: RegionReader, request: ScanRequest, clock: Clock) -> None:
        self._reader = reader
        self._clock = clock
        self._batches = iter(reader.scan(request))
        self._ahead: pa.RecordBatch | Exception | None = None
        """The batch that follows, if it was made already, or why it could not be."""
        self.made = 0
        """How many batches were made into messages."""
        self.is_over = False

    def make(self) -> tuple[dict[str, Any], list[Part]]:
        """Return the next message: `rows`, `end`, or both."""
        head: dict[str, Any] = {}
        body: list[Part] = []
        batches = self._gather()
        if batches:
            batch = batches[0] if len(batches) == 1 else pa.concat_batches(batches)
            head["rows"] = batch.num_rows
            body = lower_rows(batch, is_first=not self.made)
            self.made += 1
        if self.is_over:
            head["end"] = True
        head["statistics"] = dict(self._reader.statistics())
        return head, body

    def _gather(self) -> list[pa.RecordBatch]:
        """Return the next batch, and those that follow as long as they are small and come at once."""
        gathered: list[pa.RecordBatch] = []
        rows = 0
        started_ns = self._clock.monotonic_ns()
        # Rows that are hard to find are not awaited: the client may have enough of those before them.
        while not gathered or (rows <= SMALL_ROWS and self._clock.monotonic_ns() - started_ns < GATHER_MAX):
            try:
                batch = self._take()
            except Exception as error:
                if not gathered:
                    raise
                # It is told when the rows before it have been sent.
                self._ahead = error
                break
            if batch is None:
                self.is_over = True
                break
            if gathered and (rows + batch.num_rows > SMALL_ROWS or not _may_join(batch, gathered[0])):
                self._ahead = batch
                break
            gathered.append(batch)
            rows += batch.num_rows
        return gathered

    def _take(self) -> pa.RecordBatch | None:
        found, self._ahead = self._ahead, None
        if isinstance(found, Exception):
            raise found
        return next(self._batches, None) if found is None else found


def _may_join(batch: pa.RecordBatch, other: pa.RecordBatch) -> bool:
    """Dictionaries of batches may differ, and batches without columns cannot be joined."""
    return batch.num_columns > 0 and not has_dictionary(batch) and batch.schema.equals(other.schema)
