"""Series of the region of a physical table that writers name again and again: hashes ready, tags at hand.

Tags are read when somebody asks for them: the log packs them, a memtable reads them when it is flushed.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tsdb import _kernels
from tsdb.model import METRIC_LABELS, METRIC_TABLE_ID, LateTags, RegionId, RegionSchema, SeriesTable

Positions = npt.NDArray[np.int64]
Places = npt.NDArray[np.uint32]


class RegionSeries:
    """Series that only grow: the place of a series stays. One thread at a time adds, any number read."""

    def __init__(self, region: RegionId, schema: RegionSchema) -> None:
        self.region = region
        self.schema = schema
        self._kept = _kernels.MetricSeries()

    def __len__(self) -> int:
        return len(self._kept)

    def add(self, series: SeriesTable) -> int:
        """Append series; the place of the first."""
        tags = series.tags
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
        late = LateTags(self.schema.arrow_tags, places, self._read_tags, self._pack_tags)
        return SeriesTable(np.frombuffer(tsid, np.uint64), np.frombuffer(check, np.uint64), late)

    def _read_tags(self, places: Places) -> pa.RecordBatch:
        columns = [pa.array(column) for column in self._kept.tags(places.tobytes())]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema.arrow_tags)

    def _pack_tags(self, places: Places) -> bytes:
        """Return tags as the log holds them: of each column the distinct values, as texts, and which one it is."""
        return self._kept.pack(places.tobytes())
