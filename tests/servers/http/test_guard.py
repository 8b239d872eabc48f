"""The guards of requests: whose clients are watched."""

from __future__ import annotations

import asyncio
from typing import cast

from tsdb.servers.http._guard import Interruption, RequestGuard
from tsdb.servers.http.wire import Request


class Asked:
    """A request whose body is complete; counts who waits for its client to leave."""

    is_body_complete = True

    def __init__(self) -> None:
        self.watchers = 0
        self.has_left = asyncio.Event()

    async def wait_disconnected(self) -> None:
        self.watchers += 1
        await self.has_left.wait()


async def test_the_client_of_a_request_is_watched_from_the_second_visit_of_the_timer_on() -> None:
    request = Asked()
    task = asyncio.ensure_future(asyncio.sleep(60))
    guard = RequestGuard(task, cast(Request, request))
    guard.check(0.0)
    await asyncio.sleep(0)
    assert request.watchers == 0
    for _ in range(2):
        guard.check(0.0)
        await asyncio.sleep(0)
        assert request.watchers == 1
    request.has_left.set()
    await asyncio.wait([task])
    assert task.cancelled()
    assert guard.reason is Interruption.DISCONNECT
    guard.close()


async def test_the_first_visit_of_the_timer_already_ends_a_request_whose_time_is_up() -> None:
    task = asyncio.ensure_future(asyncio.sleep(60))
    guard = RequestGuard(task, cast(Request, Asked()))
    guard.start_clock(1.0)
    guard.check(task.get_loop().time() + 2.0)
    await asyncio.wait([task])
    assert task.cancelled()
    assert guard.reason is Interruption.TIMEOUT
    guard.close()
