"""Routes of frontends while regions move: who asks again asks when the region is open again."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest

from tests.meta.clusters import datanode
from tsdb.catalog import put_places
from tsdb.clock import SystemClock
from tsdb.kv import MemoryKv, MirrorKv
from tsdb.meta._nodes import NodeRegistry
from tsdb.meta.client import MirrorRoutes
from tsdb.model import RegionId, RegionPlace, region_id

REGION = region_id(7, 0)


@dataclass
class Followed:
    """Metadata, and the routes of one who follows it."""

    kv: MemoryKv
    mirror: MirrorKv
    routes: MirrorRoutes

    def place(self, place: RegionPlace) -> None:
        assert self.kv.transact([], [put_places(7, {0: place})])
        self.mirror.wait_for(self.kv.snapshot("").revision, 30)


@pytest.fixture
def followed() -> Iterator[Followed]:
    kv = MemoryKv()
    nodes = NodeRegistry(kv, SystemClock())
    for node_id in (1, 2):
        nodes.register(datanode(node_id))
    mirror = MirrorKv(kv.watch("__"), lambda *_: None)
    mirror.start(30)

    class Metadata:
        def version(self) -> int:
            return kv.snapshot("").revision

    found = Followed(kv, mirror, MirrorRoutes(mirror, Metadata(), refresh_seconds=30))
    found.place(RegionPlace(1))
    yield found
    mirror.close()
    kv.close()


def test_the_end_of_a_move_is_waited_for(followed: Followed) -> None:
    """It is marked first, and at that time nobody serves the region: a newer place alone is not enough."""
    followed.place(RegionPlace(1, 1, is_moving=True))
    with ThreadPoolExecutor() as threads:
        refreshed = threads.submit(followed.routes.refresh, REGION)
        with pytest.raises(TimeoutError):
            refreshed.result(0.3)
        followed.place(RegionPlace(2, 1))
        assert refreshed.result(30)
    assert followed.routes.peer_of(REGION).node_id == 2
    # Who comes a little later need not wait: it has asked the old place.
    assert followed.routes.refresh(REGION)


def test_a_move_that_takes_long_is_waited_for_no_longer_than_the_deadline(followed: Followed) -> None:
    followed.routes._refresh_seconds = 0.1
    followed.place(RegionPlace(1, 1, is_moving=True))
    assert followed.routes.refresh(REGION)
    assert followed.routes.is_moving(REGION)


def test_what_is_placed_exists(followed: Followed) -> None:
    assert followed.routes.is_placed(REGION)
    assert not followed.routes.is_placed(RegionId(REGION + 1))
