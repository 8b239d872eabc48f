"""Messages both ways, one ahead: while one is sent or worked on, the next is made or comes in; no more than that."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Generator
from contextlib import aclosing, asynccontextmanager
from typing import Any, TypeVar

from tsdb.servers.grpc._calls import Call
from tsdb.servers.grpc._work import Workers

_T = TypeVar("_T")


@asynccontextmanager
async def ahead(take: Callable[[], Coroutine[Any, Any, _T | None]]) -> AsyncIterator[AsyncIterator[_T]]:
    """Give what `take` gives until it gives None, always with the next one under way."""
    pending = asyncio.ensure_future(take())

    async def each() -> AsyncIterator[_T]:
        nonlocal pending
        while (taken := await pending) is not None:
            pending = asyncio.ensure_future(take())
            yield taken

    try:
        yield each()
    finally:
        pending.cancel()
        await asyncio.wait([pending])
        if not pending.cancelled():
            pending.exception()  # nobody is interested any more


async def send_all(
    call: Call, workers: Workers, pieces: Generator[bytes, None, None], *, cancel: Callable[[], None]
) -> None:
    """Send what a generator makes on threads, at the speed at which the client reads."""
    stream = workers.stream(pieces, cancel=cancel)
    assert isinstance(stream, AsyncGenerator)
    async with aclosing(stream):

        async def take() -> bytes | None:
            return await anext(stream, None)

        async with ahead(take) as messages:
            async for message in messages:
                await call.send(message)
