"""The work behind a request, and its response.

If the first step completes the result, the response is sent as a whole, and every error has its own status; otherwise
the rest is streamed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator, Hashable

from tsdb.query import WriteToken
from tsdb.servers._inline import Candidate
from tsdb.servers._settle import settle
from tsdb.servers._steps import StepPool, Steps
from tsdb.servers.fast_workers import FastAnswer
from tsdb.servers.http.sql._formats import CHUNK_BYTES
from tsdb.servers.http.wire import AnyResponse, Response, StreamingResponse


class ResponseWork(Steps):
    """Steps that are used as the chunks of a `StreamingResponse`."""

    def __init__(
        self,
        pool: StepPool,
        make: Callable[[], Generator[bytes, None, None]],
        cancel: Callable[[], None],
        *,
        token: WriteToken | None = None,
        candidate: Candidate | None = None,
        elsewhere: Callable[[Hashable], Awaitable[FastAnswer | None]] | None = None,
        seconds_max: float | None = None,
    ) -> None:
        """`token` is what the statements write under."""
        super().__init__(
            pool,
            make,
            cancel,
            chunk_bytes=CHUNK_BYTES,
            reads_ahead=True,
            candidate=candidate,
            elsewhere=elsewhere,
            seconds_max=seconds_max,
            is_guarded=True,
        )
        self._token = token
        self._first: bytes | None = None

    async def respond(
        self, *, content_type: str, headers: Callable[[], list[tuple[str, str]]], is_packed: bool
    ) -> AnyResponse:
        """Return the response; `headers` is called when the first chunk is there."""
        chunk = await self._first_chunk()
        if self.is_over:
            return Response(chunk, content_type=content_type, headers=headers(), is_packed=is_packed)
        self._first = chunk
        return StreamingResponse(self, content_type=content_type, headers=headers(), is_packed=is_packed)

    async def _first_chunk(self) -> bytes:
        try:
            return await self.next_chunk()
        except asyncio.CancelledError:
            step = self.step
            if self._token is None or step is None:
                raise
            chunk, is_over = await settle(self._token, asyncio.wrap_future(step))
            if not is_over:
                raise
            return chunk

    def __aiter__(self) -> ResponseWork:
        return self

    async def __anext__(self) -> bytes:
        if self._first is not None:
            first, self._first = self._first, None
            return first
        chunk = await self.next_chunk()
        if not chunk:
            raise StopAsyncIteration
        return chunk

    async def aclose(self) -> None:
        """Stop the work if it has not reached its end."""
        self.abandon()
