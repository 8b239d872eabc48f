"""Queries that wait for a datanode that hangs leave the places of their protocol to others."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path

import pytest

from tests.proxy import Proxy, running_proxy
from tests.remote.world import QUICK, REGION, World, open_world, rows_of
from tsdb.remote import RemoteRegions
from tsdb.servers._scheduler import QueryScheduler
from tsdb.servers._turns import TurnLimits
from tsdb.units import Duration

SECONDS = 60
NEVER = replace(QUICK, silence_timeout=Duration.of_seconds(3600), connect_timeout=Duration.of_seconds(3600))
"""A datanode that hangs is never given up: what ends while it hangs has not waited for it."""


@pytest.fixture
def world(tmp_path: Path) -> Iterator[tuple[World, Proxy, RemoteRegions]]:
    """A datanode, a way to it that can be frozen, and a client that uses that."""
    with open_world(tmp_path) as world:
        world.create()
        world.put([{"host": "a", "ts": 1, "a": 1.0}])
        with running_proxy(int(world.server.address.rpartition(":")[2])) as proxy:
            world.routes.default = proxy.address
            regions = RemoteRegions(world.routes, settings=NEVER)
            try:
                yield world, proxy, regions
            finally:
                proxy.thaw()
                regions.close()


@pytest.mark.timeout(300)
def test_others_of_the_protocol_are_answered_while_a_datanode_hangs(
    world: tuple[World, Proxy, RemoteRegions],
) -> None:
    _, proxy, regions = world
    lane = QueryScheduler(TurnLimits(1)).lane(2)

    def count_rows() -> Future[int]:
        return lane.submit(lambda work: work(), lambda: len(rows_of(regions, ["a"], REGION)))

    assert count_rows().result(SECONDS) == 1
    proxy.freeze()
    hanging = [count_rows() for _ in range(5)]
    for _ in range(20):
        assert lane.submit(lambda work: work(), lambda: "other").result(SECONDS) == "other"
    assert not any(each.done() for each in hanging)
    proxy.thaw()
    assert [each.result(SECONDS) for each in hanging] == [1] * 5
    lane.close()
