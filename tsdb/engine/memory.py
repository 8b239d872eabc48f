"""The memory of the engine, by owner: what is held now, and how less of it is held when the server runs short."""

from __future__ import annotations

from collections.abc import Iterator

from tsdb.engine.region.context import EngineContext
from tsdb.engine.scan import SeriesRegisters
from tsdb.memory import MemoryUse


class EngineMemory:
    """The memory that regions share."""

    def __init__(self, context: EngineContext, registers: SeriesRegisters) -> None:
        self._context = context
        self._registers = registers

    def memory_use(self) -> Iterator[MemoryUse]:
        buffer, merges = self._context.buffer, self._context.merge_memory
        yield MemoryUse("write_buffer", buffer.used, int(buffer.size))
        for each in self._context.caches.statistics():
            yield MemoryUse(f"{each.name}_cache", each.bytes, each.capacity_bytes)
        yield MemoryUse("merges", merges.used, merges.bytes_max)
        yield MemoryUse("series_registers", self._registers.nbytes, self._registers.bytes_max)

    def drop_unused_columns(self) -> None:
        """Forget decoded columns that nobody here has used since the last call."""
        self._context.caches.vectors.drop_unused()

    def limit_memory(self, share: float) -> None:
        self._context.caches.limit_to(share)
        self._registers.limit_to(share)
        self._context.merge_memory.limit_to(share)
        # Last: it lets regions be flushed.
        self._context.buffer.limit_to(share)
