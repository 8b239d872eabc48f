"""The work behind one request, step by step on threads of a pool, and the answer that it becomes.

Executing statements and encoding their rows blocks, so the event loop never does it. A step goes on until there is a
chunk of the answer. If the first step reaches the end, the answer is sent whole, and every error so far has its
own status; otherwise the rest is sent as it is made. A slow client holds no thread: between steps nothing runs.

When the request is cancelled, because its client went away or its time is up, what runs for its session is stopped,
and whatever the work holds is let go as soon as the step has ended.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor

from tsdb.servers.http._formats import CHUNK_BYTES
from tsdb.servers.http._messages import AnyResponse, Response, StreamingResponse

INSIST_SECONDS = 0.1
"""How long a step may go on after it was cancelled until it is cancelled again."""


class Work:
    """A generator of bytes that is run on a pool; used as the chunks of a `StreamingResponse`."""

    def __init__(
        self, pool: ThreadPoolExecutor, pieces: Generator[bytes, None, None], cancel: Callable[[], None]
    ) -> None:
        """`cancel` makes a piece that is being made fail soon; it is called from the event loop."""
        self._pool = pool
        self._pieces = pieces
        self._cancel = cancel
        self._context = contextvars.copy_context()
        self._step: Future[tuple[bytes, bool]] | None = None
        self._first: bytes | None = None
        self._is_over = False

    async def respond(self, *, content_type: str, headers: Callable[[], list[tuple[str, str]]]) -> AnyResponse:
        """Return the answer; `headers` is called when the first chunk is there."""
        chunk = await self._make_chunk()
        if self._is_over:
            return Response(chunk, content_type=content_type, headers=headers())
        self._first = chunk
        return StreamingResponse(self, content_type=content_type, headers=headers())

    def __aiter__(self) -> Work:
        return self

    async def __anext__(self) -> bytes:
        if self._first is not None:
            first, self._first = self._first, None
            return first
        if self._is_over:
            raise StopAsyncIteration
        chunk = await self._make_chunk()
        if not chunk:
            raise StopAsyncIteration
        return chunk

    async def aclose(self) -> None:
        """Stop the work if it has not reached its end."""
        self._abandon()

    async def _make_chunk(self) -> bytes:
        self._step = self._pool.submit(self._context.run, self._gather)
        try:
            chunk, self._is_over = await asyncio.wrap_future(self._step)
        except asyncio.CancelledError:
            self._abandon()
            raise
        except BaseException:
            self._is_over = True  # a generator that has failed is closed
            raise
        return chunk

    def _gather(self) -> tuple[bytes, bool]:
        """Join pieces up to the size of a chunk; say whether that was the end."""
        pieces, size = [], 0
        for piece in self._pieces:
            pieces.append(piece)
            size += len(piece)
            if size >= CHUNK_BYTES:
                return b"".join(pieces), False
        return b"".join(pieces), True

    def _abandon(self) -> None:
        if self._is_over:
            return
        self._is_over = True
        assert self._step is not None
        self._insist(self._step)
        # A generator cannot be closed while it runs.
        self._step.add_done_callback(lambda _: self._close_pieces())

    def _insist(self, step: Future[tuple[bytes, bool]]) -> None:
        """Cancel until the step has ended: it may just have begun, with nothing to be cancelled yet."""
        self._cancel()
        if not step.done():
            asyncio.get_running_loop().call_later(INSIST_SECONDS, self._insist, step)

    def _close_pieces(self) -> None:
        try:
            self._pool.submit(self._context.run, self._pieces.close)
        except RuntimeError:  # the pool is shut down
            self._pieces.close()
