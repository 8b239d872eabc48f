"""Pinning a region for a copy: one version of its manifest, with data files that stay while it is held.

The state is captured on the worker, between two commits. Rows that were acknowledged and flushed before are in its
files; rows that are only in memory are not. A copy of these files with a manifest of this state (`place_region`) is a
region that any server can open: its log continues after what is flushed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from tsdb.engine.errors import RegionNotFound
from tsdb.engine.manifest import ManifestState, data_path, index_path, write_checkpoint
from tsdb.engine.region.context import EngineContext
from tsdb.engine.region.region import Region
from tsdb.engine.region.version import FileHandle
from tsdb.model import RegionId
from tsdb.store import ObjectStore, Purpose, requests_for


@dataclass(frozen=True, slots=True)
class PinnedFile:
    """A file that a copy of a region needs."""

    file_id: str
    path: str
    size_bytes: int
    is_index: bool
    """An index may be missing: queries are slower without it."""


class PinnedRegion:
    """What a region consists of at one version of its manifest."""

    def __init__(self, region: Region, state: ManifestState, damaged: frozenset[str]) -> None:
        self.region_id = region.id
        self.directory = region.directory
        self.table = region.table
        self.damaged = damaged
        """The ids of files that are quarantined."""
        self._state = state
        self._handles: tuple[FileHandle, ...] = region.version.files

    @property
    def rows(self) -> int:
        """How many rows its data files have."""
        return sum(meta.rows for meta in self._state.files.values())

    @property
    def manifest(self) -> dict[str, Any]:
        """The state of the manifest, as `place_region` takes it.

        A copy has had no owner: the epochs and takeovers of a cluster mean nothing where it is opened.
        """
        return replace(self._state, removed_files=(), epoch=0, takeovers=()).to_json()

    @property
    def schema_version(self) -> int:
        return self._state.schema.version

    @property
    def truncated_entry_id(self) -> int | None:
        """The last entry that a truncation made void."""
        return self._state.truncated_entry_id

    def files(self) -> list[PinnedFile]:
        """Return the data files and their indexes."""
        return list(files_of(self._state, self.directory))

    def release(self) -> None:
        """Let go of the files: those that left the region meanwhile are deleted."""
        self._handles = ()


def files_of(state: ManifestState, directory: str) -> Iterator[PinnedFile]:
    """Yield the files of a state of a manifest."""
    for meta in state.files.values():
        yield PinnedFile(meta.file_id, data_path(directory, meta.file_id), meta.size_bytes, is_index=False)
        if meta.has_index:
            yield PinnedFile(meta.file_id, index_path(directory, meta.file_id), meta.index_size_bytes, is_index=True)


def start_pin(context: EngineContext, region: Region) -> Future[PinnedRegion]:
    """Pin a region as its manifest has it now."""
    return region.worker.call(partial(_pin, context, region))


def _pin(context: EngineContext, region: Region) -> PinnedRegion:
    if region.access.is_gone:
        raise RegionNotFound(region_id=region.id)
    region.resolve(context)
    return PinnedRegion(region, region.manifest.state, frozenset(region.quarantined))


@requests_for(Purpose.BACKUP)
def place_region(store: ObjectStore, region_id: RegionId, directory: str, manifest: Mapping[str, Any]) -> None:
    """Write the manifest of a region whose files are in place; from then on it can be opened."""
    state = ManifestState.from_json(dict(manifest))
    if state.region_id != region_id:
        raise ValueError(f"the manifest is of region {state.region_id}, not of region {region_id}")
    write_checkpoint(store, directory, state)


def files_of_manifest(manifest: Mapping[str, Any], directory: str) -> list[PinnedFile]:
    """Return the files of a manifest that `PinnedRegion.manifest` returned, as they are below a directory."""
    return list(files_of(ManifestState.from_json(dict(manifest)), directory))
