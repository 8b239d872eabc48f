"""Regions that have left this node while its log still has unflushed rows of them.

A new owner reads these rows from this node's log, and may have to start over if it dies meanwhile. They are kept until
the manifest of the region says that they are in data files, or that the region is dropped. This applies to regions that
were closed, that another node took over, or that a start finds only in its log: a node that merely restarts must not
purge what other nodes still have to read.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass

from tsdb.engine.errors import ManifestNotFound
from tsdb.engine.listing import DROPPING
from tsdb.engine.manifest import Manifest, Takeover
from tsdb.engine.parallel import in_parallel
from tsdb.engine.region.context import EngineContext
from tsdb.errors import TsdbError
from tsdb.model import RegionId
from tsdb.store import ObjectNotFound, Purpose, requests_for
from tsdb.telemetry import get_logger

_log = get_logger("tsdb.region")
_PARALLELISM = 8


@dataclass(frozen=True, slots=True)
class LeftState:
    """What the manifest of a region says that is elsewhere."""

    flushed_entry_id: int
    takeovers: tuple[Takeover, ...] = ()
    is_removed: bool = False


_REMOVED = LeftState(0, is_removed=True)


def flushed_of(state: LeftState | None) -> int | None:
    """What the owner of a region has flushed, None if that is unknown."""
    return None if state is None else state.flushed_entry_id


class LeftRegions:
    """What is known of them. Thread-safe."""

    def __init__(self, context: EngineContext) -> None:
        self._context = context
        self._directories: dict[RegionId, str] = {}
        self._lock = threading.Lock()

    def add(self, region_id: RegionId, directory: str) -> None:
        """A region is not here any more."""
        with self._lock:
            self._directories[region_id] = directory

    def discard(self, region_id: RegionId) -> None:
        """A region is here again, or its rows are needed no more."""
        with self._lock:
            self._directories.pop(region_id, None)

    def find(self, directories: Mapping[RegionId, str | None]) -> dict[RegionId, LeftState | None]:
        """Return what the manifests of regions say, None where that is unknown; those that are dropped are left out."""
        regions = list(directories.items())
        found = in_parallel(self._find, regions, _PARALLELISM)
        states = {region_id: state for (region_id, _), state in zip(regions, found, strict=True)}
        return {region_id: state for region_id, state in states.items() if state is None or not state.is_removed}

    def _find_floors(self, directories: Mapping[RegionId, str | None]) -> dict[RegionId, int | None]:
        """Return what the owners of regions have flushed."""
        return {each: flushed_of(state) for each, state in self.find(directories).items()}

    def refresh(self) -> None:
        """Let the log go of rows that their new owners have flushed since."""
        with self._lock:
            directories = dict(self._directories)
        floors = self._find_floors(directories)
        for region_id in directories:
            last = self._context.wal.last_entry(region_id)
            if region_id not in floors and last is not None:
                self._context.wal.drop_region(region_id)
            floor = floors.get(region_id, last)
            node_log = self._context.wal.node_log
            if floor is not None and node_log is not None:
                node_log.floor_elsewhere(region_id, floor)
            elif floor is not None:
                self._context.wal.floor(region_id, floor)
            self._discard_flushed(region_id, floor)

    def _discard_flushed(self, region_id: RegionId, floor: int | None) -> None:
        with self._lock:
            # Asked again: it may have come and gone meanwhile.
            last = self._context.wal.last_entry(region_id)
            if last is None or (floor is not None and floor >= last):
                self._directories.pop(region_id, None)

    def _find(self, region: tuple[RegionId, str | None]) -> LeftState | None:
        region_id, directory = region
        if directory is None:
            _log.warning("the log has rows of a region whose directory is unknown", region=region_id)
            return None
        try:
            return _read_state(self._context, region_id, directory)
        except TsdbError as error:
            _log.warning("it is unknown what a region has flushed elsewhere", region=region_id, error=error)
            return None


@requests_for(Purpose.MANIFEST)
def _read_state(context: EngineContext, region_id: RegionId, directory: str) -> LeftState:
    """Return what the manifest of a region says; one that is dropped is removed, whatever is left of it."""
    try:
        context.store.head(f"{directory}/{DROPPING}")
    except ObjectNotFound:
        pass
    else:
        return _REMOVED
    try:
        state = Manifest.open(
            context.store, directory, region_id, epoch=0, checkpoint_distance=0, clock=context.clock, ids=context.ids
        ).state
    except ManifestNotFound:
        return _REMOVED
    return LeftState(state.flushed_entry_id, state.takeovers, state.is_removed)
