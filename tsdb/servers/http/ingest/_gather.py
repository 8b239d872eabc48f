"""Group commit of small requests.

A small write mostly costs what every write costs: table lookups, a log entry, thread switches. So while the threads are
busy, requests with the same key are collected, and the next free thread takes them as one group. A request that finds a
free thread starts at once. Work that continues elsewhere (`Begun`) holds no thread; its end delivers the answers. While
groups are on their way there, the next one starts when it has as many requests as they have together: the work of a
group overlaps with the wait of those before it, and groups stay large.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar

from tsdb.query import WriteToken
from tsdb.servers._settle import SETTLE_SECONDS_MAX, settle
from tsdb.telemetry import TraceSpan, current_span, using_span

GROUP_REQUESTS_MAX = 64
GROUP_BYTES_MAX = 8 << 20
"""How much one group takes at most; a single request may be larger."""

BEGUN_MAX = 4
"""Groups whose work has begun and not ended. Further requests are collected meanwhile."""

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


@dataclass(slots=True, eq=False)
class _Waiting(Generic[_Item, _Result]):
    """A request that waits for its answer."""

    item: _Item
    nbytes: int
    done: asyncio.Future[_Result]
    """What it waits for: cancelled with its task, while the work on it goes on."""
    token: WriteToken
    span: TraceSpan | None
    """If it is traced."""
    answer: _Result | Exception | None = None
    """If it came between the cancellation and what the task does about it."""

    def receive(self, answer: _Result | Exception) -> None:
        """Take the answer, on the event loop."""
        if self.done.done():
            self.answer = answer
        else:
            self._pass_on(answer)

    def wait_again(self) -> asyncio.Future[_Result]:
        """Return a future of the answer after the wait for it was cancelled."""
        if self.done.cancelled():
            self.done = self.done.get_loop().create_future()
            if self.answer is not None:
                self._pass_on(self.answer)
        return self.done

    def _pass_on(self, answer: _Result | Exception) -> None:
        if isinstance(answer, Exception):
            self.done.set_exception(answer)
        else:
            self.done.set_result(answer)


class Begun(NamedTuple, Generic[_Result]):
    """Work on a group that ends elsewhere."""

    done: Future[Any]
    answers: Sequence[_Result]
    """For each of the requests, if it ends well."""


_Answers = Sequence[_Result | Exception]


class Gathering(Generic[_Item, _Result]):
    """Works on groups of requests in `threads` threads. `close` it when the server has stopped.

    `work` gets the requests of a group and returns an answer, or an error, for each of them in the same order. If it
    has only begun the work and that ends with an error, `recover` makes the answers.
    """

    def __init__(
        self,
        name: str,
        work: Callable[[Sequence[_Item]], _Answers[_Result] | Begun[_Result]],
        recover: Callable[[Sequence[_Item], Exception], _Answers[_Result]] | None = None,
        *,
        threads: int,
        settle_seconds_max: float = SETTLE_SECONDS_MAX,
    ) -> None:
        self._settle_seconds_max = settle_seconds_max
        self._work = work
        self._recover = recover
        self._threads = threads
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=f"tsdb-{name}")
        self._lock = threading.Lock()
        self._waiting: dict[Hashable, deque[_Waiting[_Item, _Result]]] = {}
        self._running = 0
        self._begun = 0
        """Groups whose work continues elsewhere."""
        self._begun_requests = 0
        """Their requests."""

    async def run(self, key: Hashable, item: _Item, nbytes: int, token: WriteToken | None = None) -> _Result:
        """Work on a request, together with others of the same key that wait now. Cancelling stops it at `token`."""
        token = token or WriteToken()
        done: asyncio.Future[_Result] = asyncio.get_running_loop().create_future()
        waiting = _Waiting(item, nbytes, done, token, current_span())
        with self._lock:
            queue = self._waiting.get(key)
            if queue is None:
                self._waiting[key] = queue = deque()
            queue.append(waiting)
            should_serve = self._engage_thread()
        if should_serve:
            self._pool.submit(self._serve)
        try:
            return await done
        except asyncio.CancelledError:
            return await settle(token, waiting.wait_again(), self._settle_seconds_max)

    def close(self) -> None:
        """Work on nothing more; requests that still wait are cancelled with their connections."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _serve(self) -> None:
        """Work on groups as long as there are any."""
        while group := self._take_group():
            self._work_on(group, self._work)

    def _work_on(
        self,
        group: list[_Waiting[_Item, _Result]],
        work: Callable[[Sequence[_Item]], _Answers[_Result] | Begun[_Result]],
    ) -> None:
        answers: _Answers[_Result] | Begun[_Result]
        try:
            with _traced_group(group):
                answers = work([each.item for each in group])
        except Exception as error:  # noqa: BLE001 - passed to the requests; the thread continues
            answers = [error] * len(group)
        if not isinstance(answers, Begun):
            _hand_over(group, answers)
            return
        with self._lock:
            self._begun += 1
            self._begun_requests += len(group)
        answers.done.add_done_callback(partial(self._end, group, answers.answers))

    def _engage_thread(self) -> bool:
        """Take a thread for the requests that wait, under the lock; False if none is free or they should wait."""
        is_free = self._running < self._threads and self._is_due()
        self._running += is_free
        return is_free

    def _is_due(self) -> bool:
        """Whether the requests that wait should become a group now, under the lock."""
        if not self._begun:
            return bool(self._waiting)
        collected = sum(map(len, self._waiting.values()))
        return self._begun < BEGUN_MAX and collected >= min(self._begun_requests, GROUP_REQUESTS_MAX)

    def _end(self, group: list[_Waiting[_Item, _Result]], answers: Sequence[_Result], done: Future[Any]) -> None:
        """Answer a group whose work has ended. Runs on a foreign thread, so it must not block."""
        with self._lock:
            self._begun -= 1
            self._begun_requests -= len(group)
            should_serve = self._engage_thread()
        if should_serve:
            with suppress(RuntimeError):
                self._pool.submit(self._serve)
        error = done.exception()
        if error is None:
            _hand_over(group, answers)
        elif self._recover is None or not isinstance(error, Exception):
            _hand_over(group, [error if isinstance(error, Exception) else RuntimeError(str(error))] * len(group))
        else:
            recover = partial(_swapped, self._recover, error)
            # After the pool is closed, no request waits.
            with suppress(RuntimeError):
                self._pool.submit(self._work_on, group, recover)

    def _take_group(self) -> list[_Waiting[_Item, _Result]]:
        """Take what fits into one group, of the key that has waited longest; nothing if that was all."""
        with self._lock:
            while self._is_due():
                key = next(iter(self._waiting))
                queue = self._waiting.pop(key)
                group = _first_of(queue)
                if queue:
                    self._waiting[key] = queue
                if group:
                    return group
            self._running -= 1
            return []


def _traced_group(group: Sequence[_Waiting[_Item, _Result]]) -> AbstractContextManager[object]:
    """The work on a group belongs to the first of its traces; the others say which one that is."""
    traced = [each.span for each in group if each.span is not None]
    for span in traced:
        span.set({"group.requests": len(group), "group.trace_id": traced[0].trace_id_text})
    return using_span(traced[0] if traced else None)


def _swapped(
    recover: Callable[[Sequence[_Item], Exception], _Answers[_Result]], error: Exception, items: Sequence[_Item]
) -> _Answers[_Result]:
    return recover(items, error)


def _first_of(queue: deque[_Waiting[_Item, _Result]]) -> list[_Waiting[_Item, _Result]]:
    """Take requests off a queue, without those that were given up."""
    group: list[_Waiting[_Item, _Result]] = []
    nbytes = 0
    while queue and len(group) < GROUP_REQUESTS_MAX and (not group or nbytes + queue[0].nbytes <= GROUP_BYTES_MAX):
        each = queue.popleft()
        if not each.token.is_cancelled:
            group.append(each)
            nbytes += each.nbytes
    return group


def _hand_over(group: Sequence[_Waiting[_Item, _Result]], answers: Sequence[_Result | Exception]) -> None:
    """Answer all requests of a group, those of one event loop with one message to it."""
    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[_Waiting[_Item, _Result], _Result | Exception]]] = {}
    for each, answer in zip(group, answers, strict=True):
        by_loop.setdefault(each.done.get_loop(), []).append((each, answer))
    for loop, answered in by_loop.items():
        # After the loop is closed, no request waits.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(_answer, answered)


def _answer(answered: Sequence[tuple[_Waiting[_Item, _Result], _Result | Exception]]) -> None:
    for each, answer in answered:
        each.receive(answer)
