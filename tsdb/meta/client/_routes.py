"""The ways to datanodes, from a copy of the metadata."""

from __future__ import annotations

import time
from typing import Protocol

from tsdb.catalog import PLACES
from tsdb.engine.errors import RegionNotFound
from tsdb.errors import TsdbError
from tsdb.kv import MirrorKv
from tsdb.meta._places import PlaceIndex
from tsdb.meta.errors import NodeNotKnown
from tsdb.model import Peer, RegionId, table_id_of
from tsdb.telemetry import get_logger

REFRESH_SECONDS = 3.0
"""How long it is waited for a newer place of a region."""
RECENT_SECONDS = 5.0
"""A place that changed this recently may be newer than the one that the caller used."""

_LOG = get_logger(__name__)


class _Versioned(Protocol):
    def version(self) -> int: ...


class MirrorRoutes:
    """Places of regions and addresses of datanodes. Any thread may ask."""

    def __init__(self, mirror: MirrorKv, meta: _Versioned, *, refresh_seconds: float = REFRESH_SECONDS) -> None:
        self._mirror = mirror
        self._meta = meta
        self._refresh_seconds = refresh_seconds
        self._places = PlaceIndex(mirror)
        self._changed: dict[int, float] = {}
        """By table, when its places changed last."""
        self._is_first = True
        mirror.subscribe([PLACES], self._note)

    def peer_of(self, region_id: RegionId) -> Peer:
        """Return the datanode of a region; RegionNotFound if it has no place."""
        place = self._places.place_of(region_id)
        if place is None:
            raise RegionNotFound(region_id=region_id)
        address = self._places.address_of(place.node_id)
        if address is None:
            raise NodeNotKnown("the address of a datanode is not known", node_id=place.node_id, region_id=region_id)
        return Peer(place.node_id, address)

    def is_moving(self, region_id: RegionId) -> bool:
        """Whether a region is on its way to another datanode."""
        place = self._places.place_of(region_id)
        return place is not None and place.is_moving

    def is_placed(self, region_id: RegionId) -> bool:
        """Whether a region exists: whatever its datanode says, it has one."""
        return self._places.place_of(region_id) is not None

    def peers(self) -> list[Peer]:
        """All datanodes, by id."""
        return self._places.peers()

    def refresh(self, region_id: RegionId) -> bool:
        """Wait for a newer place of a region, and for the end of a move; return whether there is a newer one."""
        table_id = table_id_of(region_id)
        before = self._known(region_id)
        is_recent = time.monotonic() - self._changed.get(table_id, float("-inf")) < RECENT_SECONDS
        if is_recent and not self.is_moving(region_id):
            return True
        self.catch_up()
        deadline = time.monotonic() + self._refresh_seconds
        while self._known(region_id) == before or self.is_moving(region_id):
            seen = self._mirror.seen
            if self._known(region_id) != before and not self.is_moving(region_id):
                break
            if not self._mirror.wait_after(seen, deadline - time.monotonic()):
                return is_recent or self._known(region_id) != before
        return True

    def catch_up(self) -> None:
        """Wait until the copy is as new as the metadata is now; without a metadata server it stays as it is."""
        try:
            self._mirror.wait_for(self._meta.version(), self._refresh_seconds)
        except TsdbError as error:
            _LOG.warning("the metadata may be older than it is elsewhere", error=error)

    def _known(self, region_id: RegionId) -> tuple[object, object]:
        place = self._places.place_of(region_id)
        return place, None if place is None else self._places.address_of(place.node_id)

    def _note(self, changed: object) -> None:
        assert isinstance(changed, dict)
        now = float("-inf") if self._is_first else time.monotonic()
        self._is_first = False
        for key, value in changed.items():
            table_id = int(key.removeprefix(PLACES))
            if value is None:
                self._changed.pop(table_id, None)
            else:
                self._changed[table_id] = now
