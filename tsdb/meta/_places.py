"""The nodes of regions and the addresses of nodes, from the metadata: read from the store, or from a copy.

`PlaceIndex` follows a `MirrorKv`; its answers are as current as the copy. `StoreRoutes` reads the store for each
request, because the next step of the leader must see what it has just written.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping

import orjson

from tsdb.catalog import PLACES, place_key, places_of, read_places
from tsdb.engine.errors import RegionNotFound
from tsdb.errors import TsdbError
from tsdb.kv import KvStore, MirrorKv
from tsdb.meta._keys import node_key, nodes_prefix
from tsdb.meta.errors import NodeNotKnown
from tsdb.model import NodeRole, Peer, RegionId, RegionPlace, region_id, table_id_of
from tsdb.telemetry import get_logger

_log = get_logger("tsdb.meta")
_DATANODES = nodes_prefix(NodeRole.DATANODE)
_NUMBER_MASK = (1 << 32) - 1


def region_number(region: RegionId) -> int:
    return region & _NUMBER_MASK


class PlaceIndex:
    """The places of all regions and the addresses of all datanodes, in a copy of the metadata."""

    def __init__(self, mirror: MirrorKv) -> None:
        self._tables: dict[int, dict[int, RegionPlace]] = {}
        self._regions: defaultdict[int, set[RegionId]] = defaultdict(set)
        self._addresses: dict[int, str] = {}
        self._lock = threading.Lock()
        mirror.subscribe([PLACES, _DATANODES], self._follow)

    def place_of(self, region: RegionId) -> RegionPlace | None:
        return self._tables.get(table_id_of(region), {}).get(region_number(region))

    def missing_on(self, node_id: int, regions: Collection[RegionId]) -> set[RegionId]:
        """Return the regions of a node that are not among these."""
        with self._lock:
            return self._regions[node_id].difference(regions)

    def address_of(self, node_id: int) -> str | None:
        return self._addresses.get(node_id)

    def peers(self) -> list[Peer]:
        """All datanodes, by id."""
        return [Peer(node_id, address) for node_id, address in sorted(self._addresses.copy().items())]

    def region_counts(self) -> dict[int, int]:
        """How many regions are on each node that has any."""
        with self._lock:
            return {node_id: len(regions) for node_id, regions in self._regions.items() if regions}

    def _follow(self, changed: Mapping[str, bytes | None]) -> None:
        with self._lock:
            for key, value in changed.items():
                if key.startswith(PLACES):
                    self._take_table(int(key.removeprefix(PLACES)), value)
                else:
                    self._take_node(int(key.removeprefix(_DATANODES)), value)

    def _take_table(self, table_id: int, value: bytes | None) -> None:
        try:
            places = {} if value is None else read_places(place_key(table_id), value)
        except TsdbError as error:
            _log.error("the places of a table cannot be read", error=error)
            return
        for number, place in self._tables.pop(table_id, {}).items():
            self._regions[place.node_id].discard(region_id(table_id, number))
        for number, place in places.items():
            self._regions[place.node_id].add(region_id(table_id, number))
        if places:
            self._tables[table_id] = places

    def _take_node(self, node_id: int, value: bytes | None) -> None:
        if value is None:
            self._addresses.pop(node_id, None)
        else:
            self._addresses[node_id] = str(orjson.loads(value)["address"])


class StoreRoutes:
    """Ways to datanodes for the leader itself."""

    def __init__(self, kv: KvStore, check_alive: Callable[[int], None]) -> None:
        """`check_alive` raises if a node cannot be expected to answer: a dead one must not hold others up."""
        self._kv = kv
        self._check_alive = check_alive

    def peer_of(self, region_id: RegionId) -> Peer:
        """Return the datanode of a region; RegionNotFound if it has no place."""
        place = places_of(self._kv, table_id_of(region_id)).get(region_number(region_id))
        if place is None:
            raise RegionNotFound(region_id=region_id)
        self._check_alive(place.node_id)
        found = self._kv.get(node_key(NodeRole.DATANODE, place.node_id))
        if found is None:
            raise NodeNotKnown("the address of a datanode is not known", node_id=place.node_id, region_id=region_id)
        return Peer(place.node_id, str(orjson.loads(found)["address"]))

    def peers(self) -> list[Peer]:
        """All datanodes, by id."""
        found = [
            Peer(int(key.removeprefix(_DATANODES)), str(orjson.loads(value)["address"]))
            for key, value in self._kv.scan(_DATANODES)
        ]
        return sorted(found, key=lambda peer: peer.node_id)

    def is_placed(self, region_id: RegionId) -> bool:
        """The leader itself changes what exists: it is told what datanodes say."""
        return False

    def refresh(self, region_id: RegionId) -> bool:
        """Each question is answered from the store: there is nothing newer."""
        return False

    def catch_up(self) -> None:
        """The store is always as new as it can be."""
