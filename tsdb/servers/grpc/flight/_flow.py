"""Message streams with one message of read-ahead in each direction."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Generator
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from tsdb.servers._steps import StepPool, Steps
from tsdb.servers.grpc._calls import GrpcCall

_T = TypeVar("_T")


@asynccontextmanager
async def ahead(take: Callable[[], Coroutine[Any, Any, _T | None]]) -> AsyncIterator[AsyncIterator[_T]]:
    """Yield the results of `take` until it returns None, with one of read-ahead."""
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
            pending.exception()  # the result is no longer needed


async def send_all(
    call: GrpcCall, workers: StepPool, pieces: Generator[bytes, None, None], *, cancel: Callable[[], None]
) -> None:
    """Send the messages that a generator makes on threads, at the speed at which the client reads.

    Busy if that cannot begin before the deadline of the call.
    """
    steps = Steps(
        workers,
        lambda: pieces,
        cancel,
        chunk_bytes=1,
        reads_ahead=True,
        seconds_max=call.seconds_left,
        is_guarded=True,  # gRPC cancels a call at its deadline
    )
    try:
        while message := await steps.next_chunk():
            await call.send(message)
    finally:
        steps.abandon()
