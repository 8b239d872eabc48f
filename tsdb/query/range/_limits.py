"""How long a result may become when slots are made here, beyond the reach of the query engine's memory limit."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np

from tsdb.errors import InvalidArguments, Status
from tsdb.memory import MemoryUse
from tsdb.query.errors import OutOfMemory

ROWS_MAX = 20_000_000
ROW_BYTES = 64
CELL_BYTES = 32
"""Bytes that a slot takes while gaps are filled and the select list runs, beside its columns and for each of them."""


class TooManySlots(InvalidArguments):
    """The slots are so close, or the gaps and ranges so wide, that no result could hold them."""

    status = Status.RUNTIME_RESOURCES_EXHAUSTED


class SlotMemory:
    """The memory that the slots of all running range queries share."""

    def __init__(self, bytes_max: int) -> None:
        """0 for no bound."""
        self._full_bytes = self._bytes_max = bytes_max
        self._taken_bytes = 0
        self._lock = threading.Lock()

    def memory_use(self) -> Iterator[MemoryUse]:
        yield MemoryUse("range_queries", self._taken_bytes, self._bytes_max)

    def limit_memory(self, share: float) -> None:
        self._bytes_max = int(self._full_bytes * share)

    def take(self, size: int) -> None:
        """Take so many bytes more, or raise OutOfMemory."""
        with self._lock:
            free = self._bytes_max - self._taken_bytes
            if self._bytes_max and size > free:
                raise OutOfMemory(
                    f"the range query needs about {size >> 20} MiB for its slots, {max(free, 0) >> 20} MiB of the "
                    f"{self._bytes_max >> 20} MiB for all range queries are free",
                    hint="choose a wider ALIGN, less time or fewer series",
                )
            self._taken_bytes += size

    def give_back(self, size: int) -> None:
        with self._lock:
            self._taken_bytes -= size


class Slots:
    """What the slots of one statement hold of the memory, until they are released."""

    def __init__(self, memory: SlotMemory) -> None:
        self._memory = memory
        self._bytes = 0

    def reserve(self, counts: np.ndarray, columns: int) -> None:
        """Refuse to make more slots than allowed; `counts` are those of each series or row range, of any size."""
        rows = counts.astype(np.float64).sum()
        if rows > ROWS_MAX:
            raise TooManySlots(
                f"the range query has more than {ROWS_MAX} slots",
                hint="choose a wider ALIGN, less time or fewer series",
            )
        size = int(rows) * (ROW_BYTES + CELL_BYTES * columns)
        if size > self._bytes:
            self._memory.take(size - self._bytes)
            self._bytes = size

    def release(self) -> None:
        self._memory.give_back(self._bytes)
        self._bytes = 0
