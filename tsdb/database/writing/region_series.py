"""Series of the region of a physical table that requests name again and again, with their hashes and tags.

Tags are read when they are needed, for instance by the flush of a memtable; log entries are made by the kernel that
keeps them.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tsdb import _kernels
from tsdb.engine.entry import EntrySealer
from tsdb.model import METRIC_LABELS, METRIC_TABLE_ID, LateTags, RegionId, RegionSchema, SeriesTable

Positions = npt.NDArray[np.int64]
Places = npt.NDArray[np.uint32]


class RegionSeries(EntrySealer):
    """Series that only grow: the place of a series stays. One thread at a time adds, any number read."""

    def __init__(self, region: RegionId, schema: RegionSchema) -> None:
        self.region = region
        self.schema = schema
        self._kept = _kernels.MetricSeries()

    def __len__(self) -> int:
        return len(self._kept)

    def add(self, series: SeriesTable) -> int:
        """Append series; the place of the first."""
        tags = series.read_tags()
        labels = tags.column(METRIC_LABELS).dictionary_encode()
        return self._kept.add(
            pa.array(series.tsid),
            pa.array(series.check),
            tags.column(METRIC_TABLE_ID),
            labels.indices,
            labels.dictionary,
        )

    def take(self, places: Places) -> SeriesTable:
        """Return the series at places."""
        tsid, check = self._kept.hashes(places.tobytes())
        late = LateTags(self.schema.arrow_tags, places, self)
        return SeriesTable(np.frombuffer(tsid, np.uint64), np.frombuffer(check, np.uint64), late)

    def read_tags(self, numbers: Places) -> pa.RecordBatch:
        columns = [pa.array(column) for column in self._kept.tags(numbers.tobytes())]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema.arrow_tags)

    def seal(
        self,
        numbers: Places,
        headers: tuple[bytes, bytes],
        fields: memoryview,
        fields_form: int,
        times: memoryview,
        index: memoryview,
        *,
        compress_from: int,
    ) -> tuple[bytes, int, bool, int]:
        """Make a log entry of rows, in one call of the kernel that keeps the tags."""
        return self._kept.seal(
            numbers.tobytes(), headers, fields, fields_form, times, index, compress_from=compress_from
        )
