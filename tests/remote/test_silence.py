"""A datanode that hangs: what waits for it ends, and what comes later is told at once."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace
from pathlib import Path

import pytest

from tests.proxy import Proxy, running_proxy
from tests.remote.world import QUICK, REGION, World, open_world
from tsdb.errors import TsdbError
from tsdb.remote import RemoteRegions
from tsdb.remote._errors import NodeUnavailable
from tsdb.remote._links import _Failure
from tsdb.remote._pulse import Pulse
from tsdb.units import Duration

SETTINGS = replace(QUICK, silence_timeout=Duration.of_seconds(2), connect_timeout=Duration.of_seconds(2))
"""A connection that is silent is given up after about four seconds."""


class Stream:
    """A datanode that answers while it is there."""

    def __init__(self) -> None:
        self.heard = 0
        self.is_there = True
        self.pings = 0

    def ping(self) -> bool:
        self.pings += 1
        self.heard += self.is_there
        return True


def looks_until_silent(pulse: Pulse, stream: Stream, looks_max: int, *, is_awaited: bool = True) -> int | None:
    return next((at for at in range(looks_max) if pulse.is_silent(stream, is_awaited=is_awaited)), None)


def test_a_datanode_that_answers_is_asked_now_and_then() -> None:
    stream = Stream()
    assert looks_until_silent(Pulse(Duration.of_seconds(10)), stream, 1000) is None
    assert 40 <= stream.pings <= 50


def test_a_datanode_is_not_asked_while_nobody_waits() -> None:
    stream = Stream()
    assert looks_until_silent(Pulse(Duration.of_seconds(10)), stream, 1000, is_awaited=False) is None
    assert stream.pings == 0


def test_a_datanode_that_does_not_answer_is_given_up() -> None:
    stream, pulse = Stream(), Pulse(Duration.of_seconds(10))
    assert looks_until_silent(pulse, stream, 100) is None
    stream.is_there = False
    found = looks_until_silent(pulse, stream, 100)
    assert found is not None
    assert 40 <= found <= 61


@pytest.mark.parametrize(
    ("timeout", "asked", "counts"),
    [(20, 5, True), (20, 20, True), (20, 30, True), (20, 31, False), (21, 20, True), (22, 20, True), (22, 21, False)],
)
def test_a_failure_counts_for_as_long_as_it_took_if_that_was_long(timeout: int, asked: int, counts: bool) -> None:
    failure = _Failure("no answer", began_ns=10, ended_ns=20)
    assert failure.counts(asked, Duration(timeout)) is counts


@pytest.fixture
def hanging(tmp_path: Path) -> Iterator[tuple[World, Proxy, RemoteRegions]]:
    with open_world(tmp_path) as world:
        world.create()
        port = int(world.server.address.rpartition(":")[2])
        with running_proxy(port) as proxy:
            world.routes.default = proxy.address
            regions = RemoteRegions(world.routes, settings=SETTINGS)
            yield world, proxy, regions
            proxy.thaw()
            regions.close()


def test_a_query_without_a_deadline_ends_when_its_datanode_hangs(
    hanging: tuple[World, Proxy, RemoteRegions],
) -> None:
    _, proxy, regions = hanging
    reader = regions.open_reader(REGION)
    assert reader.plan_scan(None).shares >= 0
    proxy.freeze()
    with pytest.raises(NodeUnavailable, match="does not answer"):
        reader.bounds(None)
    reader.release()


def test_those_who_wait_share_one_attempt(hanging: tuple[World, Proxy, RemoteRegions]) -> None:
    _, proxy, regions = hanging
    proxy.freeze()
    begun = threading.Barrier(8)

    def ask() -> str:
        begun.wait(60)
        try:
            regions.stat(REGION)
        except TsdbError as error:
            return type(error).__name__
        return "answered"

    with ThreadPoolExecutor(8) as pool:
        found = [job.result(60) for job in [pool.submit(ask) for _ in range(8)]]
    assert found == ["NodeUnavailable"] * 8
    assert proxy.accepted <= 4, "one attempt, and another one after a while"
    proxy.thaw()


def test_a_busy_datanode_is_waited_for_longer_than_one_that_is_not_there(tmp_path: Path) -> None:
    """Once a session has begun, a new stream is not subject to the time for connecting."""
    settings = replace(QUICK, connect_timeout=Duration.of_seconds(1))
    with open_world(tmp_path) as world:
        world.create()
        with running_proxy(int(world.server.address.rpartition(":")[2])) as proxy:
            world.routes.default = proxy.address
            regions = RemoteRegions(world.routes, settings=settings)
            regions.schema(REGION)  # begins the session and a stream for calls
            proxy.freeze()
            with ThreadPoolExecutor(3) as pool:
                jobs = [pool.submit(regions.stat, REGION) for _ in range(3)]
                wait([*jobs], timeout=3)
                assert not any(job.done() for job in jobs)
                proxy.thaw()
                assert [job.result(60) for job in jobs] == [world.engine.stat(REGION)] * 3
            regions.close()
