"""Regions of other nodes are not lent to processes of this machine."""

from __future__ import annotations

from tests.remote.world import REGION, World
from tsdb.engine.lending import Lender, SharedRuns


def test_a_remote_reader_is_declined_without_a_request(world: World) -> None:
    reader = world.regions.open_reader(REGION)
    assert Lender(SharedRuns()).lend(reader) is None
    assert len(world.server.readers) == 0
    reader.release()
