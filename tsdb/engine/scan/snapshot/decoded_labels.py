"""Labels that were decoded before: what queries of the same tables share.

Files keep their series for as long as they live, and the files and memtables of one table mostly have the same ones. So
decoded columns are found by the hashes of their series, which are what identifies series everywhere.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tsdb.memory import MemoryUse
from tsdb.model import decode_labels
from tsdb.telemetry import CacheCounts, CacheStatistics, gauge, report_cache
from tsdb.units import Size

Hashes = npt.NDArray[np.uint64]
Key = tuple[bytes, bytes, tuple[str, ...]]

DECODED_BYTES_MAX = Size.parse("64MiB")
"""Room for about 250,000 series of ten labels."""

_BYTES = gauge("tsdb_metric_decoded_labels_bytes", "Memory used by decoded labels of metric tables.")


class DecodedLabels:
    """A bounded cache of columns of labels; the ones used longest ago go first."""

    def __init__(self, bytes_max: int) -> None:
        self._full_bytes = self._bytes_max = bytes_max
        self._lock = threading.Lock()
        self._found: OrderedDict[Key, tuple[dict[str, pa.Array], int]] = OrderedDict()
        self._bytes = 0
        self._counts = CacheCounts()
        report_cache(self, DecodedLabels.statistics)

    @property
    def nbytes(self) -> int:
        return self._bytes

    def memory_use(self) -> Iterator[MemoryUse]:
        yield MemoryUse("decoded_labels", self._bytes, self._bytes_max)

    def limit_memory(self, share: float) -> None:
        with self._lock:
            self._bytes_max = int(self._full_bytes * share)
            self._evict()

    def resize(self, bytes_max: int) -> None:
        """Keep so much from now on."""
        self._full_bytes = bytes_max
        self.limit_memory(1.0)

    def statistics(self) -> CacheStatistics:
        with self._lock:
            return self._counts.of("decoded_labels", self._bytes_max, self._bytes, len(self._found))

    def columns(self, tsid: Hashes, check: Hashes, texts: pa.Array, names: Sequence[str]) -> dict[str, pa.Array]:
        """Return the columns of labels for series with these hashes and texts."""
        key = (tsid.tobytes(), check.tobytes(), tuple(names))
        with self._lock:
            if key in self._found:
                self._counts.hits += 1
                self._found.move_to_end(key)
                return self._found[key][0]
            self._counts.misses += 1
        columns = dict(zip(names, decode_labels(texts, names), strict=True))
        self._keep(key, columns)
        return columns

    def _keep(self, key: Key, columns: dict[str, pa.Array]) -> None:
        size = len(key[0]) + len(key[1]) + sum(column.nbytes for column in columns.values())
        if size > self._bytes_max:
            return
        with self._lock:
            if key not in self._found:
                self._found[key] = (columns, size)
                self._bytes += size
            self._evict()

    def _evict(self) -> None:
        while self._bytes > self._bytes_max:
            _, (_, gone) = self._found.popitem(last=False)
            self._bytes -= gone
            self._counts.evictions += 1
        _BYTES.set(self._bytes)


DECODED = DecodedLabels(DECODED_BYTES_MAX)
"""Of this process."""
