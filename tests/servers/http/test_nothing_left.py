"""What a request has read is free when the request is over: it does not wait for the garbage collector."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

from tsdb.servers.http._guard import Timeouts
from tsdb.servers.http.wire._connection import Exchange
from tsdb.servers.http.wire._messages import Request
from tsdb.servers.http.wire._protocol import Head, parse_head


class Rows:
    """Stands for what a request has read."""


class Connection:
    """A client that sends nothing more and stays."""

    is_lost = False

    def resume_reading(self) -> None:
        """There is nothing to read."""


@pytest.fixture(autouse=True)
def _without_the_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def _head() -> Head:
    head = parse_head(b"GET / HTTP/1.1\r\nhost: h\r\n\r\n")
    assert head is not None
    return head


async def _serve(timeouts: Timeouts, rows: Rows) -> None:
    task = asyncio.current_task()
    assert task is not None
    scope: dict[str, Any] = {"method": "GET", "path": "/", "headers": [], "rows": rows}
    exchange = Exchange(Connection(), scope, _head())  # type: ignore[arg-type]
    await exchange.receive()
    guard = timeouts.enter(task, Request(scope, exchange.receive, body_limit=0))
    try:
        guard.watch()
        await asyncio.sleep(0)
    finally:
        timeouts.leave(guard)


async def test_a_request_whose_client_was_watched_leaves_nothing() -> None:
    rows = Rows()
    left = weakref.ref(rows)
    task = asyncio.create_task(_serve(Timeouts(), rows))
    del rows
    await task
    del task
    for _ in range(3):
        await asyncio.sleep(0)
    assert left() is None
