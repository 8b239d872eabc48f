"""The work behind one answer, step by step on threads of a pool.

Executing statements and encoding their rows blocks, so the event loop does it only where a step is known to be brief.
A step goes on until there is a chunk of the answer. A slow client holds no thread: between steps nothing runs. What
goes ahead makes one chunk while the one before it is sent, and no more.

When the answer is given up, because its client went away, its time is up or the server stops, what runs for its session
is cancelled, and whatever the work holds is let go as soon as the step has ended.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial

from tsdb.servers._brief import start_watch

INSIST_SECONDS = 0.1
"""How long a step may go on after it was cancelled until it is cancelled again."""


class Work:
    """A generator of bytes that is run on a pool."""

    def __init__(
        self,
        pool: ThreadPoolExecutor,
        pieces: Generator[bytes, None, None],
        cancel: Callable[[], None],
        *,
        chunk_bytes: int,
        goes_ahead: bool = False,
    ) -> None:
        """`cancel` makes a piece that is being made fail soon; it is called from the event loop."""
        self._pool = pool
        self._pieces = pieces
        self._cancel = cancel
        self._chunk_bytes = chunk_bytes
        self._goes_ahead = goes_ahead
        self._context = contextvars.copy_context()
        self._step: Future[tuple[bytes, bool]] | None = None
        self._is_ahead = False
        """Whether the step has begun before anybody asked for its chunk."""
        self.is_over = False
        """Whether nothing is left to be made."""
        self.step_seconds = 0.0
        """How long the last step took."""

    @property
    def step(self) -> Future[tuple[bytes, bool]] | None:
        """The step under way, or the last one: a part of the answer, and whether that was its end."""
        return self._step

    async def next_chunk(self) -> bytes:
        """Return the next part of the answer; b"" only at its end."""
        if self.is_over:
            return b""
        loop = asyncio.get_running_loop()
        done = loop.create_future()
        step = self._step if self._is_ahead and self._step is not None else self._begin_step()
        # Less than what it takes to chain two futures, and nothing of it needs more.
        step.add_done_callback(lambda _: _tell(loop, done))
        try:
            await done
            if step.cancelled():
                raise asyncio.CancelledError
            chunk, self.is_over = step.result()
        except asyncio.CancelledError:
            step.cancel()
            self.abandon()
            raise
        except BaseException:
            self.is_over = True  # a generator that has failed is closed
            raise
        self._is_ahead = self._goes_ahead and not self.is_over
        if self._is_ahead:
            self._begin_step()
        return chunk

    def _begin_step(self) -> Future[tuple[bytes, bool]]:
        self._step = self._pool.submit(self._context.run, self._gather)
        return self._step

    def next_chunk_here(self) -> bytes:
        """Return the next part of the answer, made by whoever asks for it."""
        try:
            chunk, self.is_over = self._context.run(self._gather)
        except BaseException:
            self.is_over = True
            raise
        return chunk

    def begin_again(self, pieces: Generator[bytes, None, None]) -> None:
        """Do the work anew, after it was given up where it was done."""
        self._pieces = pieces
        self.is_over = False

    def abandon(self) -> None:
        """Stop the work if it has not reached its end."""
        if self.is_over:
            return
        self.is_over = True
        if self._step is None:
            self._pieces.close()
            return
        self._insist(self._step)
        # A generator cannot be closed while it runs.
        self._step.add_done_callback(partial(self._end_step, asyncio.get_running_loop()))

    def _gather(self) -> tuple[bytes, bool]:
        """Join pieces up to the size of a chunk; say whether that was the end."""
        seconds, pieces, size = start_watch(), [], 0
        for piece in self._pieces:
            pieces.append(piece)
            size += len(piece)
            if size >= self._chunk_bytes:
                break
        else:
            self.step_seconds = seconds()
            return b"".join(pieces), True
        self.step_seconds = seconds()
        return b"".join(pieces), False

    def _insist(self, step: Future[tuple[bytes, bool]]) -> None:
        """Cancel until the step has ended: it may just have begun, with nothing to be cancelled yet."""
        self._cancel()
        if not step.done():
            asyncio.get_running_loop().call_later(INSIST_SECONDS, self._insist, step)

    def _end_step(self, loop: asyncio.AbstractEventLoop, step: Future[tuple[bytes, bool]]) -> None:
        if not step.cancelled():
            self._close_pieces()
            return
        # Whoever cancels a step that has not begun holds a lock of the pool, as when that is shut down.
        try:
            loop.call_soon_threadsafe(self._close_pieces)
        except RuntimeError:  # the loop is closed
            self._pieces.close()

    def _close_pieces(self) -> None:
        try:
            self._pool.submit(self._context.run, self._pieces.close)
        except RuntimeError:  # the pool is shut down
            self._pieces.close()


def _tell(loop: asyncio.AbstractEventLoop, done: asyncio.Future[None]) -> None:
    """Let whoever waits on a loop know that something is done; from any thread."""
    with suppress(RuntimeError):  # the loop is closed
        loop.call_soon_threadsafe(_set_done, done)


def _set_done(done: asyncio.Future[None]) -> None:
    if not done.done():
        done.set_result(None)
