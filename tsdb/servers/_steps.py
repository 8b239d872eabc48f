"""The one runner of blocking work: step by step on threads, or inline where a query is known to be fast.

    StepPool.run      one step with one result
    Steps             a generator of bytes: a step runs until there is a chunk of the answer

- Steps of queries take turns with those of all protocols on the threads of the scheduler (`_scheduler`); a query is
  refused while too many wait. Other work, such as logins and writes, has threads of its own.
- Executing statements and encoding rows blocks, so the event loop does it only under the rules of `_inline`.
- A query whose turn would come after its deadline is refused at once. One whose turn has not come by then never begins.
- Between steps nothing runs: a slow client holds no thread. With read-ahead, one chunk is made while the one before it
  is sent, and no more.
- When the answer is no longer needed, because the client left, the deadline passed or the server stops, a step that
  waits for a thread never begins; one that runs is cancelled until it ends, and the generator is closed afterwards.
  Work that writes is settled instead (`_settle`): its outcome is part of the answer.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable, Generator, Hashable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from inspect import GEN_CREATED, getgeneratorstate
from math import inf
from time import perf_counter
from typing import Any, TypeVar

from prometheus_client import Gauge

from tsdb.errors import Busy
from tsdb.query import WriteToken
from tsdb.servers._inline import Candidate, SoftDeadlineExceeded, start_watch
from tsdb.servers._scheduler import QueryScheduler, waited_until_deadline
from tsdb.servers._settle import SETTLE_SECONDS_MAX, settle
from tsdb.servers.fast_workers import FastAnswer

CANCEL_SECONDS = 0.1
"""How long a step may continue after it was cancelled until it is cancelled again."""
WAIT_SECONDS_MIN = 1.0
"""A statement may wait so long for its turn however short its timeout is: one that raises it has to get through."""

_T = TypeVar("_T")


class StepPool:
    """Runs the steps of one server. `close` it when the server has stopped."""

    def __init__(
        self,
        name: str,
        threads_max: int,
        *,
        scheduler: QueryScheduler | None = None,
        waiting_max: int | None = None,
        waiting: Gauge | None = None,
        setting: str = "",
        cancel_seconds: float = CANCEL_SECONDS,
        settle_seconds_max: float = SETTLE_SECONDS_MAX,
    ) -> None:
        """At most `threads_max` steps run at a time: on threads of the scheduler, or without one on threads of its own.

        With `waiting_max`, further work is refused while so many steps wait for a thread of its own. `setting` is the
        configuration key of the number of threads, for the error message.
        """
        self._lane = None if scheduler is None else scheduler.lane(threads_max)
        self._threads = self._lane or ThreadPoolExecutor(threads_max, thread_name_prefix=f"tsdb-{name}")
        self._under_way_max = None if waiting_max is None else threads_max + waiting_max
        self._under_way = 0
        self._gauge = waiting
        self._setting = setting
        self._cancel_seconds = cancel_seconds
        self._settle_seconds_max = settle_seconds_max

    def close(self) -> None:
        """Stop the threads without waiting for running work."""
        if isinstance(self._threads, ThreadPoolExecutor):
            self._threads.shutdown(wait=False, cancel_futures=True)
        else:
            self._threads.close()

    def admit(self, seconds_max: float | None = None) -> None:
        """Raise Busy if too much waits, or if work that begins now would begin after `seconds_max`."""
        if self._lane is not None:
            self._lane.admit(seconds_max)
        if self._under_way_max is not None and self._under_way >= self._under_way_max:
            raise Busy("too many requests wait for a thread", hint=f"try again later, or raise {self._setting}")

    async def run(
        self,
        work: Callable[[], _T],
        *,
        cancel: Callable[[], None] | None = None,
        token: WriteToken | None = None,
        candidate: Candidate | None = None,
        elsewhere: Callable[[Hashable], Awaitable[tuple[_T, float] | None]] | None = None,
        seconds_max: float | None = None,
    ) -> _T:
        """Return what `work` returns, run as one step; Busy if that cannot begin within `seconds_max`.

        `cancel` makes it fail soon, and is called from the event loop. `token` is what it writes under. A `candidate`
        runs inline if it may; work that is abandoned runs again from its beginning. `elsewhere` has a candidate that is
        not alone answered by another process, and tells how long that took; None if it has to be done here.
        """
        limit = _WaitLimit(seconds_max)
        if candidate is not None:
            if candidate.is_inline:
                with suppress(SoftDeadlineExceeded):
                    return contextvars.copy_context().run(candidate.run, work)
            else:
                answer = await elsewhere(candidate.key) if elsewhere is not None and not candidate.is_alone else None
                if answer is None:
                    return await self._run_noted(work, cancel, candidate, limit.seconds_left)
                found, seconds = answer
                candidate.note(seconds)
                return found
        self.admit(limit.seconds_left)
        step: Future[_T] = self.submit(contextvars.copy_context().run, work)
        try:
            return await self.wait(step)
        except asyncio.CancelledError:
            if token is not None:
                return await settle(token, asyncio.wrap_future(step), self._settle_seconds_max)
            if not step.cancel():
                self.insist(step, cancel)
            raise

    async def _run_noted(
        self,
        work: Callable[[], _T],
        cancel: Callable[[], None] | None,
        candidate: Candidate,
        seconds_max: float | None,
    ) -> _T:
        def timed() -> tuple[_T, float]:
            seconds = start_watch()
            return work(), seconds()

        found, taken = await self.run(timed, cancel=cancel, seconds_max=seconds_max)
        candidate.note(taken)
        return found

    def submit(self, call: Callable[[Callable[[], _T]], _T], work: Callable[[], _T]) -> Future[_T]:
        """Have a thread run `work` through `call`."""
        return self._threads.submit(call, work)

    async def wait(self, step: Future[_T]) -> _T:
        """Return the result of a step; it goes on when the caller is cancelled."""
        loop = asyncio.get_running_loop()
        done = loop.create_future()
        # Cheaper than chaining two futures, and nothing needs more.
        step.add_done_callback(lambda _: _wake(loop, done))
        self._count(+1)
        try:
            await done
        finally:
            self._count(-1)
        if step.cancelled():
            raise asyncio.CancelledError
        return step.result()

    async def wait_at_most(self, step: Future[_T], limit: _WaitLimit) -> _T:
        """Return the result of a step; QueryTimeout if it has not begun when its wait has to end."""
        timer = limit.withdraw_in_time(step)
        try:
            return await self.wait(step)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if limit.is_reached and (task is None or not task.cancelling()):
                raise waited_until_deadline() from None
            raise
        finally:
            if timer is not None:
                timer.cancel()

    def insist(self, step: Future[Any], cancel: Callable[[], None] | None) -> None:
        """Cancel until the step has ended: it may just have begun, with nothing to be cancelled yet."""
        if cancel is None:
            return
        cancel()
        if not step.done():
            asyncio.get_running_loop().call_later(self._cancel_seconds, self.insist, step, cancel)

    def _count(self, change: int) -> None:
        self._under_way += change
        if self._gauge is not None:
            self._gauge.set(self._under_way)


class _WaitLimit:
    """How long a query may wait until it begins, from now on."""

    __slots__ = ("_deadline", "is_reached")

    def __init__(self, seconds_max: float | None) -> None:
        self._deadline = None if seconds_max is None else perf_counter() + seconds_max
        self.is_reached = False
        """Whether it has not begun in time."""

    @property
    def seconds_left(self) -> float | None:
        return None if self._deadline is None else max(self._deadline - perf_counter(), 0.0)

    def withdraw_in_time(self, step: Future[Any]) -> asyncio.TimerHandle | None:
        """Have a step that has not begun by then, or within a second, never begin."""
        seconds = self.seconds_left
        if seconds is None:
            return None
        return asyncio.get_running_loop().call_later(max(seconds, WAIT_SECONDS_MIN), self._withdraw, step)

    def _withdraw(self, step: Future[Any]) -> None:
        self.is_reached = not step.done() and step.cancel()


class Steps:
    """The steps of a generator of bytes."""

    def __init__(
        self,
        pool: StepPool,
        make: Callable[[], Generator[bytes, None, None]],
        cancel: Callable[[], None],
        *,
        chunk_bytes: int,
        reads_ahead: bool = False,
        pauses: bool = False,
        candidate: Candidate | None = None,
        elsewhere: Callable[[Hashable], Awaitable[FastAnswer | None]] | None = None,
        seconds_max: float | None = None,
        is_new: bool = True,
        is_guarded: bool = False,
    ) -> None:
        """`make` begins the generator, again if an inline `candidate` is abandoned.

        `elsewhere` has a candidate that is not alone answered by another process, as a whole; it returns None if the
        steps have to do it.

        `cancel` makes a step that runs fail soon; it is called from the event loop. With `pauses`, an empty piece ends
        a step: the generator waits for something. Work that `is_new` is refused with Busy, at its first chunk, if it
        cannot begin within `seconds_max`. If it has not begun by then, it fails with QueryTimeout, unless the caller
        `is_guarded`: it is cancelled at its deadline.
        """
        self._pool = pool
        self._make = make
        self._pieces = make()
        self._cancel = cancel
        self._chunk_bytes = chunk_bytes
        self._reads_ahead = reads_ahead
        self._pauses = pauses
        self._candidate = candidate
        self._elsewhere = elsewhere
        self._limit = _WaitLimit(seconds_max)
        self._is_new = is_new
        self._is_guarded = is_guarded
        self._context = contextvars.copy_context()
        self._step: Future[tuple[bytes, bool]] | None = None
        self._is_ahead = False
        """Whether the step has begun before its chunk was requested."""
        self._closed: Future[None] | None = None
        """Ends when the generator of abandoned work is closed."""
        self._seconds = 0.0
        """How long the last step took."""
        self.is_over = False
        """Whether nothing is left to be made."""

    @property
    def step(self) -> Future[tuple[bytes, bool]] | None:
        """The step under way, or the last one: a chunk of the answer, and whether that was its end."""
        return self._step

    async def next_chunk(self) -> bytes:
        """Return the next chunk of the answer; b"" only at its end, or when the generator pauses."""
        if self.is_over:
            return b""
        candidate, self._candidate = self._candidate, None
        if candidate is not None and candidate.is_inline:
            with suppress(SoftDeadlineExceeded):
                return self._context.run(candidate.run, self._chunk_here)
            self._pieces, self.is_over, candidate = self._make(), False, None
        elif candidate is not None and not candidate.is_alone and self._elsewhere is not None:
            answer = await self._elsewhere(candidate.key)
            if answer is not None:
                self.is_over = True
                candidate.note(answer.seconds)
                return answer.body
        if self._is_new:
            self._is_new = False
            self._pool.admit(self._limit.seconds_left)
            chunk = await self._next_chunk(_NO_LIMIT if self._is_guarded else self._limit)
        else:
            chunk = await self._next_chunk(_NO_LIMIT)
        if candidate is not None:
            candidate.note(self._seconds if self.is_over else inf)
        return chunk

    async def _next_chunk(self, limit: _WaitLimit) -> bytes:
        step = self._step if self._is_ahead and self._step is not None else self._begin_step()
        try:
            chunk, self.is_over = await self._pool.wait_at_most(step, limit)
        except asyncio.CancelledError:
            step.cancel()
            self.abandon()
            raise
        except BaseException:
            self.is_over = True  # a generator that has failed is closed
            raise
        self._is_ahead = self._reads_ahead and not self.is_over
        if self._is_ahead:
            self._begin_step()
        return chunk

    def _begin_step(self) -> Future[tuple[bytes, bool]]:
        self._step = self._pool.submit(self._context.run, self._gather)
        return self._step

    def _chunk_here(self) -> bytes:
        try:
            chunk, self.is_over = self._gather()
        except BaseException:
            self.is_over = True
            raise
        return chunk

    def abandon(self) -> None:
        """Stop the work if it has not reached its end."""
        if self.is_over:
            return
        self.is_over = True
        if self._step is None:
            self._pieces.close()
            return
        self._closed = Future()
        self._pool.insist(self._step, self._cancel)
        # A generator cannot be closed while it runs.
        self._step.add_done_callback(partial(self._end_step, asyncio.get_running_loop()))

    async def close(self) -> None:
        """Stop the work if it has not reached its end, and wait until it has released everything."""
        self.abandon()
        if self._closed is not None:
            await asyncio.wrap_future(self._closed)

    def _gather(self) -> tuple[bytes, bool]:
        """Join pieces up to the size of a chunk; say whether that was the end."""
        seconds, pieces, size = start_watch(), [], 0
        is_over = True
        for piece in self._pieces:
            pieces.append(piece)
            size += len(piece)
            if size >= self._chunk_bytes or (self._pauses and not piece):
                is_over = False
                break
        self._seconds = seconds()
        return b"".join(pieces), is_over

    def _end_step(self, loop: asyncio.AbstractEventLoop, step: Future[tuple[bytes, bool]]) -> None:
        if not step.cancelled():
            self._close_on_thread()
            return
        # The thread that cancels a step that has not begun holds a lock of the pool, as when that is shut down.
        try:
            loop.call_soon_threadsafe(self._close_on_thread)
        except RuntimeError:  # the loop is closed
            self._close_pieces()

    def _close_on_thread(self) -> None:
        if getgeneratorstate(self._pieces) == GEN_CREATED:
            # A generator that was never started holds nothing. Closing it on a thread would take a place in the
            # queue of the scheduler, so that clients that disconnect at once could fill the queue.
            self._close_pieces()
            return
        try:
            self._pool.submit(self._context.run, self._close_pieces)
        except RuntimeError:  # the pool is shut down
            self._close_pieces()

    def _close_pieces(self) -> None:
        try:
            self._pieces.close()
        finally:
            assert self._closed is not None
            self._closed.set_result(None)


_NO_LIMIT = _WaitLimit(None)


def _wake(loop: asyncio.AbstractEventLoop, done: asyncio.Future[None]) -> None:
    """Wake what waits on a loop; from any thread."""
    with suppress(RuntimeError):  # the loop is closed
        loop.call_soon_threadsafe(_set_done, done)


def _set_done(done: asyncio.Future[None]) -> None:
    if not done.done():
        done.set_result(None)
