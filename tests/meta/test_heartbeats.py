"""A datanode that is back lets go of regions that others have before its lease counts."""

from __future__ import annotations

from typing import Any

from tests.meta.clusters import datanode
from tsdb.clock import ManualClock
from tsdb.meta import LEASE
from tsdb.meta.client import Heartbeats, NodeReport
from tsdb.meta.client._client import HeartbeatReply
from tsdb.model import RegionId, region_id

REGION = region_id(1024, 0)


class Leader:
    """Says that a region is elsewhere."""

    def heartbeat(self, *_: object, **__: object) -> HeartbeatReply:
        return HeartbeatReply(is_registered=True, lease=LEASE, close=(REGION,))


def test_regions_that_are_elsewhere_are_closed_before_the_lease_counts() -> None:
    leader: Any = Leader()
    closed: list[tuple[RegionId, bool]] = []
    heartbeats = Heartbeats(
        leader,
        datanode(1),
        ManualClock(10**18),
        report=lambda: NodeReport(regions=[REGION]),
        on_close=lambda regions: closed.extend((each, heartbeats.has_lease()) for each in regions),
    )
    assert heartbeats.beat()
    assert closed == [(REGION, False)]
    assert heartbeats.has_lease()
