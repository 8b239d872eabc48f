"""The work behind a request, and the answer that it becomes.

If the first step reaches the end, the answer is sent whole, and every error so far has its own status; otherwise the
rest is sent as it is made.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from math import inf
from typing import NamedTuple

from tsdb.errors import NotBrief
from tsdb.query import Session, WriteToken
from tsdb.servers._brief import BriefTurn
from tsdb.servers._settle import settle
from tsdb.servers._work import Work
from tsdb.servers.http._formats import CHUNK_BYTES
from tsdb.servers.http._messages import AnyResponse, Response, StreamingResponse


class Brief(NamedTuple):
    """What it takes to make an answer on the event loop, and to begin again elsewhere."""

    turn: BriefTurn
    session: Session
    pieces: Callable[[], Generator[bytes, None, None]]


class ResponseWork(Work):
    """Work that is used as the chunks of a `StreamingResponse`."""

    def __init__(
        self,
        pool: ThreadPoolExecutor,
        pieces: Generator[bytes, None, None],
        cancel: Callable[[], None],
        *,
        token: WriteToken | None = None,
    ) -> None:
        """`token` is what the statements write under."""
        super().__init__(pool, pieces, cancel, chunk_bytes=CHUNK_BYTES, goes_ahead=True)
        self._token = token
        self._first: bytes | None = None

    async def respond(
        self, *, content_type: str, headers: Callable[[], list[tuple[str, str]]], brief: Brief | None = None
    ) -> AnyResponse:
        """Return the answer; `headers` is called when the first chunk is there.

        What is `brief` is made on the event loop.
        """
        chunk = None if brief is None else self._make_here(brief)
        if chunk is None:
            chunk = await self._first_chunk()
            if brief is not None and not brief.turn.is_brief:
                brief.turn.note(self.step_seconds if self.is_over else inf)
        if self.is_over:
            return Response(chunk, content_type=content_type, headers=headers())
        self._first = chunk
        return StreamingResponse(self, content_type=content_type, headers=headers())

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

    def _make_here(self, brief: Brief) -> bytes | None:
        """Return the first chunk if it can be made at once; None if another thread has to do it."""
        if not brief.turn.is_brief:
            return None

        def make(hurry: Callable[[], None]) -> bytes:
            brief.session.hurry = hurry
            return self.next_chunk_here()

        try:
            return brief.turn.run(make)
        except NotBrief:
            self.begin_again(brief.pieces())
            return None
        finally:
            brief.session.hurry = None

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
