"""What readers see of a region: its memtables and its data files at one moment."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tsdb.engine.manifest import FileMeta
from tsdb.engine.region.background import Priority
from tsdb.engine.region.context import EngineContext
from tsdb.engine.rows.memtable import Memtable
from tsdb.engine.sst import DataFile, delete_files
from tsdb.model import RegionOptions, RegionSchema

if TYPE_CHECKING:
    from tsdb.engine.region.region import Region


class FileHandle:
    """A data file of a version; once it is obsolete, it is deleted after its last reader."""

    __slots__ = ("__weakref__", "_fate", "meta", "source")

    def __init__(self, context: EngineContext, region: Region, meta: FileMeta) -> None:
        self.meta = meta
        # Not the region itself: what `finalize` holds lives as long as the handle, which the region holds.
        owner = weakref.ref(region)

        def note_damage(reason: str) -> None:
            region = owner()
            if region is not None:
                region.note_damage(context, meta.file_id, reason)

        self.source = DataFile(
            meta,
            store=context.store,
            directory=region.directory,
            caches=context.caches,
            applies_index=context.options.index_on_query,
            on_damage=note_damage,
        )
        self._fate = _Fate()
        weakref.finalize(self, _let_go, self._fate, context, owner, region.directory, meta).atexit = False

    def obsolete(self) -> None:
        """The file belongs to no version any more."""
        self._fate.is_obsolete = True


@dataclass(slots=True)
class _Fate:
    is_obsolete: bool = False


def _let_go(fate: _Fate, context: EngineContext, owner: weakref.ref[Region], directory: str, meta: FileMeta) -> None:
    """Delete an obsolete file, on a background thread: the last reader may be one that must not wait.

    Here nothing else may be done: the garbage collector can call this anywhere, also inside the lock of a cache.
    """
    if not fate.is_obsolete:
        return

    def delete() -> None:
        context.caches.evict_file(meta.file_id)
        delete_files(context.store, directory, meta.file_id)
        region = owner()
        if region is not None:
            region.forget([meta.file_id])

    context.background.submit(Priority.DELETE, delete)


@dataclass(frozen=True, slots=True, eq=False)
class FrozenMemtable:
    """A memtable that takes no more rows, with what is durable once it is flushed."""

    memtable: Memtable
    entry_id: int
    sequence: int
    nbytes: int


@dataclass(frozen=True, slots=True, eq=False)
class Version:
    """All that readers see of a region."""

    schema: RegionSchema
    options: RegionOptions
    mutable: Memtable
    frozen: tuple[FrozenMemtable, ...]
    files: tuple[FileHandle, ...]

    @property
    def memtables(self) -> tuple[Memtable, ...]:
        """Oldest first."""
        return (*(each.memtable for each in self.frozen), self.mutable)

    @property
    def memtable_bytes(self) -> int:
        return sum(memtable.nbytes for memtable in self.memtables)
