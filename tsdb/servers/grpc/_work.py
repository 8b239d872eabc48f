"""Blocking work of calls, on a bounded number of threads.

The event loop never executes a statement or parses a large message. When a call is cancelled, because its client left
or its deadline has passed, what runs for it is cancelled too, until the step under way has ended; a step that waits for
a thread never begins. Between the steps of a stream nothing runs: a client that reads slowly holds no thread.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import AsyncIterator, Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from tsdb.servers.grpc._errors import Exhausted
from tsdb.telemetry import gauge

INSIST_SECONDS = 0.1
"""How long a step may go on after it was cancelled until it is cancelled again."""
WAITING_MAX = 4096
"""How many steps may wait for a thread; further calls are refused."""

_WAITING = gauge("tsdb_servers_grpc_waiting", "Steps of gRPC calls that wait for a thread or run on one.")
_END = object()
_T = TypeVar("_T")


class Workers:
    """The threads of the server. `close` it when the server has stopped."""

    def __init__(self, threads_max: int, *, waiting_max: int = WAITING_MAX) -> None:
        self._pool = ThreadPoolExecutor(threads_max, thread_name_prefix="tsdb-grpc")
        self._under_way_max = threads_max + waiting_max
        self._under_way = 0

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def run(self, work: Callable[[], _T], *, cancel: Callable[[], None] | None = None) -> _T:
        """Return what `work` returns; `cancel` makes it fail soon, and is called from the event loop."""
        if self._under_way >= self._under_way_max:
            raise Exhausted("too many calls wait for a thread", hint="send fewer at a time, or raise grpc.runtime_size")
        self._note(+1)
        step: Future[_T] = self._pool.submit(contextvars.copy_context().run, work)
        try:
            return await asyncio.wrap_future(step)
        except asyncio.CancelledError:
            if not step.cancel():
                _insist(step, cancel)
            raise
        finally:
            self._note(-1)

    async def stream(
        self, pieces: Generator[_T, None, None], *, cancel: Callable[[], None] | None = None
    ) -> AsyncIterator[_T]:
        """Yield what a generator yields, each piece made on a thread. To be closed (`aclosing`) or read to its end."""
        step: Future[object] | None = None

        def next_piece() -> object:
            return next(pieces, _END)

        context = contextvars.copy_context()
        try:
            while True:
                self._note(+1)
                try:
                    step = self._pool.submit(context.run, next_piece)
                    piece = await asyncio.wrap_future(step)
                finally:
                    self._note(-1)
                if piece is _END:
                    return
                yield piece  # type: ignore[misc]
        finally:
            if step is not None and not step.cancel() and not step.done():
                _insist(step, cancel)
            self._close_later(step, pieces)

    def _close_later(self, step: Future[object] | None, pieces: Generator[_T, None, None]) -> None:
        """Close a generator as soon as it does not run any more."""

        def close(_: object = None) -> None:
            try:
                self._pool.submit(pieces.close)
            except RuntimeError:  # the pool is shut down
                pieces.close()

        if step is None:
            close()
        else:
            step.add_done_callback(close)

    def _note(self, change: int) -> None:
        self._under_way += change
        _WAITING.set(self._under_way)


def _insist(step: Future[_T], cancel: Callable[[], None] | None) -> None:
    """Cancel until the step has ended: it may just have begun, with nothing to be cancelled yet."""
    if cancel is None or step.done():
        return
    cancel()
    asyncio.get_running_loop().call_later(INSIST_SECONDS, _insist, step, cancel)
