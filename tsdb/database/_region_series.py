"""Series of the region of a physical table that writers name again and again: hashes ready, tags at hand.

Tags are read when somebody asks for them: the log packs them, a memtable reads them when it is flushed. Metrics of one
request mostly have the same labels, so each text is kept once for all that came with it.
"""

from __future__ import annotations

import struct

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tsdb.model import METRIC_LABELS, METRIC_TABLE_ID, LateTags, RegionId, RegionSchema, SeriesTable

Positions = npt.NDArray[np.int64]

_READS_BEFORE_JOIN = 16
"""After so many reads without new series, the labels become one array."""

_PACKED_COLUMN = struct.Struct("<4I")
_WIDTHS = ((0xFF, 1, np.uint8), (0xFFFF, 2, np.uint16), (0xFFFF_FFFF, 4, np.uint32))


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
        self._reads = 0

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
        self._reads = 0
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
        owners = pa.array(self._owner[places]).dictionary_encode()
        texts = pa.array(self._text_of[places]).dictionary_encode()
        parts = _pack_column(owners.dictionary.cast(pa.string()), owners.indices.to_numpy())
        parts += _pack_column(self._take_texts(texts.dictionary.to_numpy()), texts.indices.to_numpy())
        return pa.py_buffer(b"".join(parts))

    def _take_texts(self, wanted: Positions) -> pa.Array:
        blocks = self._texts
        if len(blocks) == 1:
            return blocks[0].take(pa.array(wanted))
        self._reads += 1
        if self._reads >= _READS_BEFORE_JOIN:
            joined = pa.concat_arrays(blocks)
            # Somebody may have added to them meanwhile: then they stay as they are, and are joined another time.
            if self._texts is blocks:
                self._texts = (joined,)
        return pa.chunked_array(blocks, pa.string()).take(pa.array(wanted)).combine_chunks()


def _pack_column(values: pa.Array, codes: npt.NDArray[np.int32]) -> list[bytes]:
    count = len(values)
    width, kind = next((width, kind) for most, width, kind in _WIDTHS if count < most)
    _, offsets, text = values.buffers()
    bounds = offsets.slice(0, 4 * (count + 1)).to_pybytes()
    size = int.from_bytes(bounds[-4:], "little")
    content = b"" if text is None else text.slice(0, size).to_pybytes()
    head = _PACKED_COLUMN.pack(count, size, width, 0)
    return [head, *_padded(bounds), *_padded(content), *_padded(codes.astype(kind).tobytes())]


def _padded(content: bytes) -> tuple[bytes, bytes]:
    return content, bytes(-len(content) % 8)
