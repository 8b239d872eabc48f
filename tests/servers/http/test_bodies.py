"""The bodies of all requests together have a bound; those that are announced wait for their turn."""

from __future__ import annotations

import asyncio

import pytest

from tsdb.errors import Busy
from tsdb.servers.http.wire._bodies import BodyMemory


async def _settled(*tasks: asyncio.Task[None]) -> list[bool]:
    for _ in range(5):
        await asyncio.sleep(0)
    return [each.done() for each in tasks]


async def test_bodies_wait_in_order_of_arrival() -> None:
    bodies = BodyMemory(100)
    await bodies.reserve(80)
    large = asyncio.create_task(bodies.reserve(60))
    await asyncio.sleep(0)
    small = asyncio.create_task(bodies.reserve(10))
    assert await _settled(large, small) == [False, False]
    bodies.give_back(80)
    assert await _settled(large, small) == [True, True]
    assert bodies.held == 70


async def test_a_body_alone_may_be_larger_than_the_bound() -> None:
    bodies = BodyMemory(100)
    await bodies.reserve(500)
    assert bodies.held == 500


async def test_a_request_that_gives_up_leaves_nothing_behind() -> None:
    bodies = BodyMemory(100)
    await bodies.reserve(80)
    first, second = (asyncio.create_task(bodies.reserve(size)) for size in (60, 40))
    await asyncio.sleep(0)
    first.cancel()
    assert await _settled(first, second) == [True, False]
    bodies.give_back(80)
    assert await _settled(second) == [True]
    assert bodies.held == 40
    # One that is cancelled in the moment in which it gets its turn.
    third = asyncio.create_task(bodies.reserve(90))
    await asyncio.sleep(0)
    bodies.give_back(40)
    third.cancel()
    await _settled(third)
    assert bodies.held == 0


async def test_a_body_that_is_not_announced_is_refused_when_there_is_no_room() -> None:
    bodies = BodyMemory(100)
    bodies.reserve_now(150, 0)
    bodies.reserve_now(50, 150)
    with pytest.raises(Busy, match="bodies of the requests in progress"):
        bodies.reserve_now(1, 0)
    bodies.give_back(200)
    bodies.reserve_now(1, 0)


async def test_less_memory_lets_fewer_in_and_more_lets_them_go_on() -> None:
    bodies = BodyMemory(100)
    bodies.limit_memory(0.5)
    await bodies.reserve(40)
    waiting = asyncio.create_task(bodies.reserve(40))
    assert await _settled(waiting) == [False]
    bodies.limit_memory(1.0)
    assert await _settled(waiting) == [True]
