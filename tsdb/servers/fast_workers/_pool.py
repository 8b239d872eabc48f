"""The fast workers as the event loop sees them: whose turn it is, who computes it, what comes back."""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Iterator
from contextlib import suppress
from functools import partial
from time import perf_counter
from typing import Protocol, TypeAlias, TypeVar, cast

from tsdb.engine.lending import Lender, SharedRuns
from tsdb.memory import MemoryUse
from tsdb.processes.fork_server import Forked, Forker
from tsdb.processes.messages import Gone
from tsdb.query import run_checked
from tsdb.servers._inline import SoftDeadlineExceeded
from tsdb.servers._scheduler import busy_until_deadline
from tsdb.servers.fast_workers._process import Encode, FastWorkerProgram, Lent
from tsdb.servers.fast_workers._worker import FastAnswer, FastWorker, count_declined
from tsdb.telemetry import gauge, get_logger, span
from tsdb.waits import Place

AT_ONCE = 3
"""How many queries a worker has at a time: it need not wait for the next one."""
WAITING_MAX = 1024
"""When so many wait, further ones are left to the scheduler, which refuses them."""
IDLE_SECONDS = 35.0
"""Then they end, and what they keep is free. Dashboards that ask twice a minute find them there."""
LOOK_SECONDS = 10.0
"""How often, while there are workers, the server is told that it need not keep what only they use."""
RESTART_SECONDS = 1.0
"""How long after the end of a worker another one is started."""
KEYS_MAX = 1024
SKIPS_FIRST, SKIPS_MAX = 16, 1024
"""How often a query runs in another way after it was declined; twice as often after each further time in a row."""
SMOOTHING = 0.05
"""The weight of the last turn in the mean time of one."""
SHARE_MIN = 0.5
"""With a smaller part of their memory there are no workers."""

T = TypeVar("T")

_log = get_logger("tsdb.fast_workers")

_PROCESSES = gauge("tsdb_servers_fast_workers", "Fast workers running.")


class Lendable(Protocol):
    """A query that has begun here, and that a worker can perhaps compute."""

    def lend(self, lender: Lender) -> Lent | None:
        """Return what the worker needs; None if it has to be computed here."""

    def end_lent(self, *, is_answered: bool) -> None:
        """The worker has computed it, or not; raises if the query was cancelled in the meantime."""

    def close(self) -> None:
        """The query is over."""


class WaitingQuery(Protocol):
    """A query that waits for its turn without a task of its own. Nothing of it may raise."""

    encode: Encode

    @property
    def is_wanted(self) -> bool:
        """Whether its client is still there."""

    def lend(self, lender: Lender) -> Lent | None:
        """It is its turn: return what the worker needs; None if it has to be computed here."""

    def answered(self, answer: FastAnswer | None) -> None:
        """The worker has computed it; None if it has to be computed here."""


_Turn: TypeAlias = Callable[[FastWorker | None], None]
"""Gets a worker, to be given back, or None if there is none any more."""


class _Here:
    """The checkpoint of what begins on the event loop: a query that needs the planner does not belong here."""

    def __call__(self, check: Callable[[], None]) -> None:
        """Nothing is computed here."""

    def before_long_step(self) -> None:
        raise SoftDeadlineExceeded

    def begin_wait(self) -> None:
        """Only planned queries wait for others."""

    def end_wait(self, check: Callable[[], None]) -> None:
        """As above."""

    def begin_writing(self) -> None:
        """Only queries come here."""

    def threads_max(self, most: int) -> int:
        """The event loop has one thread."""
        return 1

    def place(self) -> Place | None:
        """Nothing waits for other nodes here: a query whose regions are there is not lent."""
        return None


_HERE = _Here()


class FastWorkers:
    """Lends queries to fast workers. Everything but the start of processes happens on the event loop."""

    def __init__(
        self,
        forker: Forker,
        program: FastWorkerProgram,
        count: int,
        *,
        on_look: Callable[[], None] = lambda: None,
        idle_seconds: float = IDLE_SECONDS,
        look_seconds: float = LOOK_SECONDS,
    ) -> None:
        """`on_look` is called now and then while there are workers, on a thread."""
        self._forker = forker
        self._program = program
        self._count = count
        self._on_look = on_look
        self._idle_seconds = idle_seconds
        self._look_seconds = look_seconds
        self._look: asyncio.TimerHandle | None = None
        self._runs = SharedRuns()
        self._workers: list[FastWorker] = []
        self._waiting: deque[_Turn] = deque()
        self._skips: OrderedDict[Hashable, tuple[int, int]] = OrderedDict()
        """How many more times each query is not tried, and how often it will not be after the next failure."""
        self._is_starting = False
        self._not_before = 0.0
        """When workers may be started again, after that has failed."""
        self._is_closed = False
        self._is_short = False
        """Whether the server is short of memory."""
        self._used_at = 0.0
        self._turn_seconds = 0.0
        """How long a query has a worker on average, with the queries that the worker had before it."""

    @property
    def waiting(self) -> int:
        """How many queries wait for their turn."""
        return len(self._waiting)

    def note_turn(self, seconds: float) -> None:
        """Note how long a query has had a worker."""
        self._turn_seconds += SMOOTHING * (seconds - self._turn_seconds)

    def memory_use(self) -> Iterator[MemoryUse]:
        yield MemoryUse("fast_workers", sum(each.resident_bytes() for each in list(self._workers)))

    def limit_memory(self, share: float) -> None:
        """At less than half of their memory, workers that have nothing to do end; the server computes their queries."""
        self._is_short = share < SHARE_MIN
        if self._is_short:
            for worker in [each for each in self._workers if not each.at_once]:
                self._workers.remove(worker)
                worker.abandon()
            _PROCESSES.set(len(self._workers))

    async def answer(
        self, key: Hashable, *, start: Callable[[], object], encode: Encode, seconds_max: float | None = None
    ) -> FastAnswer | None:
        """Have a worker answer a query; None if it has to be answered here, Busy if it is not its turn in time.

        `key` is what queries have in common that are alike. `start` begins the query, here, when it is its turn; what
        it raises is raised here, too, and what it returns is `Lendable` or not. `encode` travels to the worker.
        """
        if not self._wants(key) or (worker := await self._turn(seconds_max)) is None:
            return None
        begun = perf_counter()
        try:
            # The worker has no part in traces: what it does is one span here, with that of its statement inside.
            with span("fast_worker.compute") as computing:
                answer = await _compute(worker, start, encode)
                computing.set(answered=answer is not None)
        finally:
            self._give_back(worker, begun)
        if answer is None:
            self._decline(key)
        else:
            self._skips[key] = 0, SKIPS_FIRST
        return answer

    def submit(self, key: Hashable, query: WaitingQuery, seconds_max: float | None = None) -> bool:
        """Have a worker compute a query when it is its turn; False if it has to be computed here, at once.

        Busy if its turn would come after `seconds_max`. That it does not is up to the query: it is no longer wanted.
        """
        if not self._wants(key) or not self._has_workers(asyncio.get_running_loop()):
            return False
        turn = partial(self._begin, key, query)
        if not self._waiting and (worker := self._free_worker()) is not None:
            turn(worker)
            return True
        if len(self._waiting) >= WAITING_MAX:
            return False
        self._admit(seconds_max)
        self._waiting.append(turn)
        return True

    def _admit(self, seconds_max: float | None) -> None:
        """Raise Busy if the turn of one more query would come after `seconds_max`."""
        if seconds_max is None:
            return
        at_once = max(len(self._workers), 1) * AT_ONCE
        if len(self._waiting) * self._turn_seconds / at_once > seconds_max:
            raise busy_until_deadline(len(self._waiting))

    def _begin(self, key: Hashable, query: WaitingQuery, worker: FastWorker | None) -> None:
        if worker is None:
            query.answered(None)
            return
        is_wanted = query.is_wanted
        lent = query.lend(worker.lender) if is_wanted else None
        if lent is None:
            worker.at_once -= 1
            if is_wanted:
                count_declined()
                self._decline(key)
            query.answered(None)
            return
        worker.ask(lent, query.encode, partial(self._end_submitted, key, query, worker, perf_counter()))

    def _end_submitted(
        self, key: Hashable, query: WaitingQuery, worker: FastWorker, begun: float, answer: FastAnswer | None
    ) -> None:
        if answer is None:
            self._decline(key)
        else:
            self._skips[key] = 0, SKIPS_FIRST
        query.answered(answer)
        self._give_back(worker, begun)

    def _wants(self, key: Hashable) -> bool:
        """Return whether a query should be tried; not the first time, and not if it was declined a moment ago."""
        left, skips = self._skips.get(key, (1, SKIPS_FIRST))
        self._skips[key] = max(left - 1, 0), skips
        self._skips.move_to_end(key)
        if len(self._skips) > KEYS_MAX:
            self._skips.popitem(last=False)
        return left == 0 and not self._is_closed and not self._is_short

    def _decline(self, key: Hashable) -> None:
        """Note that a query cannot be computed by a worker, or not soon enough."""
        _, skips = self._skips.get(key, (0, SKIPS_FIRST))
        self._skips[key] = skips, min(2 * skips, SKIPS_MAX)

    async def _turn(self, seconds_max: float | None = None) -> FastWorker | None:
        """Return a worker when it is the caller's turn, to be given back; None if there is none."""
        loop = asyncio.get_running_loop()
        if not self._has_workers(loop):
            return None
        if not self._waiting and (worker := self._free_worker()) is not None:
            return worker
        if len(self._waiting) >= WAITING_MAX:
            return None
        self._admit(seconds_max)
        ticket: asyncio.Future[FastWorker | None] = loop.create_future()
        self._waiting.append(partial(_hand_over, ticket))
        try:
            return await ticket
        except asyncio.CancelledError:
            if ticket.done() and not ticket.cancelled() and (lent := ticket.result()) is not None:
                self._give_back(lent)
            raise

    def _has_workers(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Return whether there are workers; else they are started, and will be there later."""
        self._used_at = loop.time()
        if not self._workers:
            self._start(loop)
        return bool(self._workers)

    def _give_back(self, worker: FastWorker, begun: float | None = None) -> None:
        """Let the next query have its turn; `begun` is when the last one had its own."""
        if begun is not None:
            self.note_turn(perf_counter() - begun)
        worker.at_once -= 1
        self._hand_out()

    def close(self) -> None:
        """End all of them; from any thread. The event loop notices that they have ended."""
        self._is_closed = True
        for worker in list(self._workers):
            worker.kill()

    def _free_worker(self) -> FastWorker | None:
        worker = min(self._workers, key=lambda each: each.at_once)
        if worker.at_once >= AT_ONCE:
            return None
        worker.at_once += 1
        return worker

    def _hand_out(self) -> None:
        while self._waiting:
            worker = self._free_worker() if self._workers else None
            if worker is None and self._workers:
                return
            self._waiting.popleft()(worker)

    # Processes --------------------------------------------------------------------------------------------------------

    def _start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Have workers started, on a thread: a fork takes milliseconds."""
        if self._is_starting or self._is_closed or self._is_short or loop.time() < self._not_before:
            return
        self._is_starting = True
        missing = self._count - len(self._workers)
        threading.Thread(target=self._fork, args=(loop, missing), name="tsdb-fast-start", daemon=True).start()

    def _fork(self, loop: asyncio.AbstractEventLoop, missing: int) -> None:
        forked: list[Forked] = []
        try:
            forked.extend(self._forker.fork(self._program) for _ in range(missing))
        except (Gone, OSError) as error:
            if not (self._is_closed or self._forker.is_closed):
                _log.warning("fast workers cannot be started", error=error)
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(self._add, loop, forked)

    def _add(self, loop: asyncio.AbstractEventLoop, forked: list[Forked]) -> None:
        self._is_starting = False
        if not forked:
            self._not_before = loop.time() + RESTART_SECONDS
        workers = [FastWorker(each, Lender(self._runs), loop, self._remove) for each in forked]
        if self._is_closed:
            for worker in workers:
                worker.abandon()
            return
        self._workers += workers
        _PROCESSES.set(len(self._workers))
        self._hand_out()
        if workers:
            loop.call_later(self._idle_seconds, self._end_idle, loop)
            if self._look is None:
                self._look = loop.call_later(self._look_seconds, self._look_around, loop)
        if 0 < len(self._workers) < self._count:  # one has ended in the meantime
            loop.call_later(RESTART_SECONDS, self._start, loop)

    def _remove(self, worker: FastWorker) -> None:
        """A worker has ended: what it had to compute is computed in another way, and another one is started later."""
        if worker not in self._workers:
            return
        self._workers.remove(worker)
        _PROCESSES.set(len(self._workers))
        self._hand_out()
        if not self._is_closed:
            loop = asyncio.get_running_loop()
            loop.call_later(RESTART_SECONDS, self._start, loop)

    def _look_around(self, loop: asyncio.AbstractEventLoop) -> None:
        self._look = None
        if self._workers and not self._is_closed:
            loop.run_in_executor(None, self._on_look)
            self._look = loop.call_later(self._look_seconds, self._look_around, loop)

    def _end_idle(self, loop: asyncio.AbstractEventLoop) -> None:
        """End all workers when nobody has needed one for a while."""
        if self._is_closed or not self._workers:
            return
        idle = loop.time() - self._used_at
        if idle < self._idle_seconds or any(each.at_once for each in self._workers):
            loop.call_later(max(self._idle_seconds - idle, 1.0), self._end_idle, loop)
            return
        workers, self._workers = self._workers, []
        for worker in workers:
            worker.abandon()
        _PROCESSES.set(0)


def _hand_over(ticket: asyncio.Future[FastWorker | None], worker: FastWorker | None) -> None:
    """Give a worker to the task that waits for it, if it still does."""
    if not ticket.done():
        ticket.set_result(worker)
    elif worker is not None:
        worker.at_once -= 1


def on_event_loop(begin: Callable[[], T]) -> T:
    """Begin a query; SoftDeadlineExceeded if that would take the event loop too long."""
    return run_checked(_HERE, begin)


async def _compute(worker: FastWorker, start: Callable[[], object], encode: Encode) -> FastAnswer | None:
    try:
        begun = on_event_loop(start)
    except SoftDeadlineExceeded:
        return None
    if not hasattr(begun, "lend"):
        if hasattr(begun, "close"):
            begun.close()
        return None
    lendable = cast(Lendable, begun)
    try:
        answer = await _ask(worker, lendable, encode)
    except BaseException:
        lendable.close()
        raise
    lendable.end_lent(is_answered=answer is not None)
    return answer


async def _ask(worker: FastWorker, query: Lendable, encode: Encode) -> FastAnswer | None:
    """Return the encoded answer; None if this process has to compute it."""
    if worker.is_ended or (lent := query.lend(worker.lender)) is None:
        count_declined()
        return None
    answer: asyncio.Future[FastAnswer | None] = asyncio.get_running_loop().create_future()

    def settle(found: FastAnswer | None) -> None:
        if not answer.done():
            answer.set_result(found)

    worker.ask(lent, encode, settle)
    return await answer
