"""Series of the region of a physical table that writers name again and again: hashes ready, tags at hand.

Tags are read when somebody asks for them: the log packs them, a memtable reads them when it is flushed. Metrics of one
request mostly have the same labels, so each text is kept once for all that came with it.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tsdb import _kernels
from tsdb.model import METRIC_LABELS, METRIC_TABLE_ID, LateTags, RegionId, RegionSchema, SeriesTable

Positions = npt.NDArray[np.int64]


class RegionSeries:
    """Series that only grow: the place of a series stays. One thread at a time adds, any number read."""

    def __init__(self, region: RegionId, schema: RegionSchema) -> None:
        self.region = region
        self.schema = schema
        self._length = 0
        # By place. What a reader knows a place of is never written again.
        self._tsid = np.zeros(0, np.uint64)
        self._check = np.zeros(0, np.uint64)
        self._owner = np.zeros(0, np.uint32)
        self._text_of = np.zeros(0, np.int64)
        self._texts: tuple[pa.Array, ...] = ()

    def __len__(self) -> int:
        return self._length

    def add(self, series: SeriesTable) -> int:
        """Append series; the place of the first."""
        tags = series.tags
        labels = tags.column(METRIC_LABELS).dictionary_encode()
        start, stop = self._length, self._length + len(series)
        if stop > len(self._tsid):
            self._grow(max(stop, 2 * len(self._tsid)))
        self._tsid[start:stop], self._check[start:stop] = series.tsid, series.check
        self._owner[start:stop] = tags.column(METRIC_TABLE_ID).to_numpy()
        self._text_of[start:stop] = labels.indices.to_numpy() + sum(len(block) for block in self._texts)
        blocks = [*self._texts, labels.dictionary]
        while len(blocks) > 1 and 2 * len(blocks[-1]) >= len(blocks[-2]):
            blocks[-2:] = [pa.concat_arrays(blocks[-2:])]
        self._texts = tuple(blocks)
        self._length = stop
        return start

    def _grow(self, length: int) -> None:
        more = length - len(self._tsid)
        self._tsid = np.concatenate([self._tsid, np.zeros(more, np.uint64)])
        self._check = np.concatenate([self._check, np.zeros(more, np.uint64)])
        self._owner = np.concatenate([self._owner, np.zeros(more, np.uint32)])
        self._text_of = np.concatenate([self._text_of, np.zeros(more, np.int64)])

    def take(self, places: Positions) -> SeriesTable:
        """Return the series at places."""
        late = LateTags(self.schema.arrow_tags, places.astype(np.uint32), self._read_tags, self._pack_tags)
        return SeriesTable(self._tsid[places], self._check[places], late)

    def _read_tags(self, places: npt.NDArray[np.uint32]) -> pa.RecordBatch:
        columns = [pa.array(self._owner[places]), self._take_texts(self._text_of[places])]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema.arrow_tags)

    def _pack_tags(self, places: npt.NDArray[np.uint32]) -> pa.Buffer:
        """Return tags as the log holds them: of each column the distinct values, as texts, and which one it is."""
        packed = _kernels.pack_metric_tags(
            pa.array(self._owner[places]), pa.array(self._text_of[places]), self._all_texts()
        )
        return pa.array(packed).buffers()[1]

    def _take_texts(self, wanted: Positions) -> pa.Array:
        return self._all_texts().take(pa.array(wanted))

    def _all_texts(self) -> pa.Array:
        """Return the texts as one array. Blocks double in size, so that joining them is rare."""
        blocks = self._texts
        if len(blocks) == 1:
            return blocks[0]
        joined = pa.concat_arrays(blocks)
        # Somebody may have added to them meanwhile: then they stay as they are, and are joined another time.
        if self._texts is blocks:
            self._texts = (joined,)
        return joined
