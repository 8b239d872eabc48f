"""Regions that have left this node while its log still holds rows of them that were not flushed here.

A new owner reads those rows from our log, and may have to begin again when it dies in the middle. So they are kept
until the manifest of the region says that they are in data files, or that the region is dropped. That holds for a
region that was closed, for one that another node took away, and for those that a start finds in its log and not among
its regions: a node that merely restarts must not purge what others are about to read.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping

from tsdb.engine.errors import ManifestNotFound
from tsdb.engine.listing import DROPPING
from tsdb.engine.manifest import Manifest
from tsdb.engine.parallel import in_parallel
from tsdb.engine.region.context import EngineContext
from tsdb.errors import TsdbError
from tsdb.model import RegionId
from tsdb.store import ObjectNotFound, Purpose, requests_for
from tsdb.telemetry import get_logger

_log = get_logger("tsdb.region")
_PARALLELISM = 8
DROPPED = -1


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

    def find_floors(self, directories: Mapping[RegionId, str | None]) -> dict[RegionId, int | None]:
        """Return what the owners of regions have flushed, None where that is unknown; dropped ones are left out."""
        regions = list(directories.items())
        found = in_parallel(self._find_floor, regions, _PARALLELISM)
        floors = {region_id: floor for (region_id, _), floor in zip(regions, found, strict=True)}
        return {region_id: floor for region_id, floor in floors.items() if floor != DROPPED}

    def refresh(self) -> None:
        """Let the log go of rows that their new owners have flushed since."""
        with self._lock:
            directories = dict(self._directories)
        floors = self.find_floors(directories)
        for region_id in directories:
            last = self._context.wal.last_entry(region_id)
            if region_id not in floors and last is not None:
                self._context.wal.drop_region(region_id)
            floor = floors.get(region_id, last)
            if floor is not None:
                self._context.wal.floor(region_id, floor)
            self._discard_flushed(region_id, floor)

    def _discard_flushed(self, region_id: RegionId, floor: int | None) -> None:
        with self._lock:
            # Asked again: it may have come and gone meanwhile.
            last = self._context.wal.last_entry(region_id)
            if last is None or (floor is not None and floor >= last):
                self._directories.pop(region_id, None)

    def _find_floor(self, region: tuple[RegionId, str | None]) -> int | None:
        region_id, directory = region
        if directory is None:
            _log.warning("the log holds rows of a region, and nothing says where that is", region=region_id)
            return None
        try:
            return _read_floor(self._context, region_id, directory)
        except TsdbError as error:
            _log.warning("it is unknown what a region has flushed elsewhere", region=region_id, error=error)
            return None


@requests_for(Purpose.MANIFEST)
def _read_floor(context: EngineContext, region_id: RegionId, directory: str) -> int:
    """Return what is flushed of a region, or that it is dropped."""
    try:
        context.store.head(f"{directory}/{DROPPING}")
    except ObjectNotFound:
        pass
    else:
        return DROPPED
    try:
        state = Manifest.open(
            context.store, directory, region_id, epoch=0, checkpoint_distance=0, clock=context.clock, ids=context.ids
        ).state
    except ManifestNotFound:
        return DROPPED
    return DROPPED if state.is_removed else state.flushed_entry_id
