"""The roster: which regions an engine has, which it does not serve and why, and which are on their way in or out."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager

from tsdb.engine.errors import RegionBusy, RegionNotFound, RegionQuarantined
from tsdb.engine.region.region import Region
from tsdb.model import RegionId
from tsdb.units import Duration

TRANSIT_TIMEOUT = Duration.of_seconds(60)
"""How long a call waits for another one that creates or opens the same region."""


class Roster:
    """The regions of one engine. Thread-safe; reading it takes no lock."""

    def __init__(self) -> None:
        self._regions: dict[RegionId, Region] = {}
        self._quarantined: dict[RegionId, str] = {}
        self._directories: dict[RegionId, str] = {}
        """Where the regions are that are quarantined."""
        self._in_transit: set[RegionId] = set()
        """Regions that are being created, opened or closed: two objects for one region would not know of each other."""
        self._changed = threading.Condition()

    @property
    def quarantined(self) -> Mapping[RegionId, str]:
        """Regions that are not served, and why."""
        return self._quarantined

    def ids(self) -> tuple[RegionId, ...]:
        return tuple(self._regions)

    def regions(self) -> list[Region]:
        return list(self._regions.values())

    def get(self, region_id: RegionId) -> Region | None:
        return self._regions.get(region_id)

    def find(self, region_id: RegionId) -> Region:
        """Return a region that is served, or raise why it is not."""
        region = self._regions.get(region_id)
        if region is not None:
            return region
        self.check_not_quarantined(region_id)
        raise RegionNotFound(region_id=region_id)

    def check_not_quarantined(self, region_id: RegionId) -> None:
        reason = self._quarantined.get(region_id)
        if reason is not None:
            raise RegionQuarantined(region_id=region_id, reason=reason)

    def add(self, region: Region) -> None:
        """Serve a region."""
        self.end_quarantine(region.id)
        self._regions[region.id] = region

    def remove(self, region: Region) -> None:
        """Serve a region no more."""
        if self._regions.get(region.id) is region:
            del self._regions[region.id]

    def quarantine(self, region_id: RegionId, directory: str, reason: str) -> None:
        self._directories[region_id] = directory
        self._quarantined[region_id] = reason

    def directory_of_quarantined(self, region_id: RegionId) -> str | None:
        """Return where a quarantined region is; None if it is not quarantined."""
        return self._directories.get(region_id)

    def end_quarantine(self, region_id: RegionId) -> None:
        """Forget a quarantined region."""
        self._quarantined.pop(region_id, None)
        self._directories.pop(region_id, None)

    @contextmanager
    def transit(self, region_ids: Collection[RegionId], timeout: Duration = TRANSIT_TIMEOUT) -> Iterator[None]:
        """Create, open or close regions; no other call does so meanwhile. RegionBusy if one does for too long."""
        wanted = set(region_ids)
        with self._changed:
            if not self._changed.wait_for(lambda: not wanted & self._in_transit, timeout.seconds):
                raise RegionBusy("the region is being opened or closed", region_id=min(wanted & self._in_transit))
            self._in_transit |= wanted
        try:
            yield
        finally:
            self.end_transit(wanted)

    def begin_transit(self, region_id: RegionId) -> bool:
        """Reserve a region without waiting; False if another call has it."""
        with self._changed:
            if region_id in self._in_transit:
                return False
            self._in_transit.add(region_id)
            return True

    def end_transit(self, region_ids: Collection[RegionId]) -> None:
        with self._changed:
            self._in_transit -= set(region_ids)
            self._changed.notify_all()
