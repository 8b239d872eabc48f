"""The work behind one command, step by step on threads of a pool.

Executing statements and encoding their rows blocks, so that the event loop never does it. A step goes on until there
is a chunk of the answer. Between steps nothing runs: a client that reads slowly holds no thread.

When the work is given up, because its client went away or the server stops, what runs for its session is cancelled, and
whatever the work holds is let go as soon as the step has ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor

INSIST_SECONDS = 0.1
"""How long a step may go on after it was cancelled until it is cancelled again."""
GATHERED_BYTES = 256 << 10
"""So much of an answer is gathered before it is sent."""


class Work:
    """A generator of packets that is run on a pool."""

    def __init__(
        self, pool: ThreadPoolExecutor, pieces: Generator[bytes, None, None], cancel: Callable[[], None]
    ) -> None:
        """`cancel` makes a piece that is being made fail soon; it is called from the event loop."""
        self._pool = pool
        self._pieces = pieces
        self._cancel = cancel
        self._step: Future[tuple[bytes, bool]] | None = None
        self._is_over = False

    async def next_chunk(self) -> bytes | None:
        """Return some packets, None at the end."""
        if self._is_over:
            return None
        self._step = self._pool.submit(self._gather)
        chunk, self._is_over = await asyncio.wrap_future(self._step)
        return chunk or None

    def abandon(self) -> None:
        """Stop the work if it has not reached its end."""
        if self._is_over:
            return
        self._is_over = True
        if self._step is None:
            self._pieces.close()
            return
        self._insist(self._step)
        # A generator cannot be closed while it runs.
        self._step.add_done_callback(lambda _: self._close_pieces())

    def _gather(self) -> tuple[bytes, bool]:
        pieces, size = [], 0
        for piece in self._pieces:
            pieces.append(piece)
            size += len(piece)
            if size >= GATHERED_BYTES:
                return b"".join(pieces), False
        return b"".join(pieces), True

    def _insist(self, step: Future[tuple[bytes, bool]]) -> None:
        """Cancel until the step has ended: it may just have begun, with nothing to be cancelled yet."""
        self._cancel()
        if not step.done():
            asyncio.get_running_loop().call_later(INSIST_SECONDS, self._insist, step)

    def _close_pieces(self) -> None:
        try:
            self._pool.submit(self._pieces.close)
        except RuntimeError:  # the pool is shut down
            self._pieces.close()
