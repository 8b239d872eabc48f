"""What a frontend shows of its cluster while no metadata server answers."""

from __future__ import annotations

from typing import Any, NoReturn

from tsdb.clock import SystemClock
from tsdb.components._cluster_view import MetaCluster
from tsdb.kv import MemoryKv
from tsdb.meta.errors import MetasrvUnreachable
from tsdb.model import Peer, RegionId, region_id
from tsdb.query.information_schema import PeerRow


class SilentMeta:
    """Metadata servers of which none answers."""

    def __init__(self) -> None:
        self.asked = 0

    def nodes(self) -> NoReturn:
        self.asked += 1
        raise MetasrvUnreachable("no metadata server answered")


class Routes:
    """Where regions are, as the copy of the metadata says."""

    def peer_of(self, region_id: RegionId) -> Peer:
        return Peer(1, "127.0.0.1:3101")

    def is_moving(self, region_id: RegionId) -> bool:
        return False


def test_the_nodes_of_all_regions_are_asked_for_once() -> None:
    meta: Any = SilentMeta()
    routes: Any = Routes()
    view = MetaCluster(meta, MemoryKv(), routes, SystemClock())
    assert view.peers_of([region_id(1024, at) for at in range(50)]) == [PeerRow(1, "127.0.0.1:3101")] * 50
    assert meta.asked == 1
    assert view.peers_of([]) == []
    assert meta.asked == 1
