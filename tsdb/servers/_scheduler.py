"""The scheduler of queries: the steps of all protocols take turns on as many threads as there are cores.

    StepPool ─▶ SchedulerLane.submit ─▶ a turn (`_turns` decides) ─▶ a thread runs the step
                                                                      │ checkpoint: pauses if it is long
                                                                      │ waits for a worker, say: without a slot
                                                                      │ waits for a datanode: without a place
                                                                      └ writes: leaves, without coming back

- Each connection has one step at a time, and the next step of a streamed answer queues behind those of others, so that
  all connections are served in turn.
- A thread that ends a step takes the next one itself; another one sleeps until a slot can be taken from a step that
  runs for too long. Threads are started when none is idle: one for each step that has begun and not ended.
- A write holds no slot while it waits for the log (`WriteToken.enter`), nor does a query that waits for threads of
  DataFusion or a worker (`QueryLife.waiting`). Between the steps of an answer nothing runs: a slow client holds none.
- A query that has waited for a datanode for a while (`tsdb.waits`) no longer counts among the running steps of its
  protocol, so that queries of other datanodes are served. The number of such queries is bounded.
- A query is refused at once if too many wait, or if its turn would come after its deadline.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from time import perf_counter, thread_time
from typing import Any, TypeVar, cast

from tsdb.errors import Busy, QueryTimeout, TsdbError
from tsdb.query import run_checked
from tsdb.servers._turns import LEAD_SECONDS, SHORT_SECONDS, Lane, Turn, TurnLimits, Turns
from tsdb.telemetry import counter, current_span, gauge, get_logger, histogram
from tsdb.waits import Place

CHECK_SECONDS = 0.05
"""How often a paused step checks for cancellation."""
_SMOOTHING = 0.05
"""The weight of the last step in the mean time on a slot."""

_T = TypeVar("_T")

_log = get_logger("tsdb.scheduler")

_WAITING = gauge(
    "tsdb_servers_queries_waiting",
    "Steps of queries waiting for a slot; at most 1,024, plus the next steps of responses in progress.",
)
_RUNNING = gauge(
    "tsdb_servers_queries_running",
    "Steps of queries running, without those that write or wait for other threads or processes.",
)
_AWAY = gauge(
    "tsdb_servers_queries_away", "Steps of queries that have given up their slot because a datanode does not answer."
)
_WAITED = histogram("tsdb_servers_queries_waiting_seconds", "Time that steps waited for a slot.")
_REFUSED = counter(
    "tsdb_servers_queries_refused_total",
    "Queries refused because of overload.",
    labels=("reason",),
)
_REFUSED_BY_QUEUE, _REFUSED_BY_DEADLINE = _REFUSED.labels("queue"), _REFUSED.labels("deadline")
_REFUSED_BY_DATANODE = _REFUSED.labels("datanode")


def busy_until_deadline(waiting: int) -> Busy:
    """Count and return the refusal of a query whose turn would come after its deadline."""
    _REFUSED_BY_DEADLINE.inc()
    return Busy(
        f"{waiting} queries are waiting, and this one would have to wait until its deadline",
        hint="try again later, or allow more time",
    )


def waited_until_deadline() -> QueryTimeout:
    """Return the error of a query whose turn has not come before its deadline."""
    return QueryTimeout("the query waited for its turn until its deadline", hint="try again later, or allow more time")


class _Step(Turn):
    """A turn and what runs in it."""

    __slots__ = ("call", "future", "sleeper")

    def __init__(self, lane: Lane, queued_at: float, call: Callable[[], Any]) -> None:
        super().__init__(lane, queued_at)
        self.call = call
        self.future: Future[Any] = Future()
        self.sleeper: _Sleeper

    def run(self) -> None:
        try:
            found = self.call()
        except BaseException as error:  # noqa: BLE001 - raised where the result is wanted
            self.future.set_exception(error)
        else:
            self.future.set_result(found)


class _Sleeper:
    """The condition that a thread sleeps on."""

    __slots__ = ("_lock", "is_woken")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()
        self.is_woken = False

    def wake(self) -> None:
        """Wake the thread, or let it not sleep next time; once per sleep. The lock of the scheduler is held."""
        self.is_woken = True
        self._lock.release()

    def sleep(self, scheduler_lock: threading.Lock, seconds: float | None) -> bool:
        """Release the lock of the scheduler, sleep until woken, and take it again; False if nothing woke it in time."""
        scheduler_lock.release()
        try:
            self._lock.acquire(timeout=-1 if seconds is None else max(seconds, 0.0))
        finally:
            scheduler_lock.acquire()
        return self.take_wake()

    def take_wake(self) -> bool:
        """Return whether it was woken, and be ready for the next sleep."""
        was_woken, self.is_woken = self.is_woken, False
        if was_woken:
            self._lock.acquire(blocking=False)  # if it was woken just after its time was up
        return was_woken


def default_limits() -> TurnLimits:
    """As many slots as there are cores: more threads would only compete for them and for the interpreter."""
    return TurnLimits(os.cpu_count() or 1, lead_seconds=LEAD_SECONDS)


class QueryScheduler:
    """Runs the steps of queries. Its threads end when all lanes are closed."""

    def __init__(self, limits: TurnLimits | None = None, *, clock: Callable[[], float] = perf_counter) -> None:
        self._limits = limits or default_limits()
        self._clock = clock
        self._turns = Turns(self._limits)
        self._lock = threading.Lock()
        self._idle: list[_Sleeper] = []
        self._coming = 0
        """Threads that were started or woken and have not looked for a step yet."""
        self._is_watched = False
        """Whether a thread sleeps until a slot can be taken from a step."""
        self._mean_seconds = 0.0
        self._mean_busy = 0.0
        self._current = threading.local()
        _WAITING.set_function(lambda: self._turns.waiting)
        _RUNNING.set_function(lambda: self._turns.running)
        _AWAY.set_function(lambda: self._turns.away)

    @property
    def waiting(self) -> int:
        """How many steps wait for their turn."""
        return self._turns.waiting

    def lane(self, at_once_max: int) -> SchedulerLane:
        """Return the lane of a protocol, in which at most `at_once_max` steps are in progress at a time."""
        with self._lock:
            return SchedulerLane(self, self._turns.add_lane(at_once_max))

    def note_step(self, seconds: float) -> None:
        """Note how long a step has taken; of a long one only its first slice counts."""
        self._mean_seconds += _SMOOTHING * (min(seconds, self._limits.slice_seconds) - self._mean_seconds)

    def _note_busy(self, seconds: float) -> None:
        """Record the CPU time of a step, which hardly depends on other running steps."""
        self._mean_busy += _SMOOTHING * (min(seconds, self._limits.slice_seconds) - self._mean_busy)
        self._turns.are_short = self._mean_busy < SHORT_SECONDS

    # Called by lanes --------------------------------------------------------------------------------------------------

    def admit(self, seconds_max: float | None) -> None:
        """Raise Busy if too many queries wait, or so many that the turn of another one comes after `seconds_max`."""
        waiting = self._turns.waiting
        if waiting >= self._limits.waiting_max:
            with self._lock:
                self._turns.forget(lambda turn: cast(_Step, turn).future.cancelled())
                waiting = self._turns.waiting
        if waiting >= self._limits.waiting_max:
            _REFUSED_BY_QUEUE.inc()
            raise Busy(f"{waiting} queries are waiting for their turn", hint="try again later")
        if seconds_max is not None and waiting * self._mean_seconds / self._limits.slots > seconds_max:
            raise busy_until_deadline(waiting)

    def submit(self, lane: Lane, call: Callable[[], Any]) -> Future[Any]:
        step = _Step(lane, self._clock(), call)
        with self._lock:
            if not self._turns.has(lane):
                raise RuntimeError("the lane is closed")
            self._turns.add(step)
            self._hand_out()
        return step.future

    def close(self, lane: Lane) -> None:
        with self._lock:
            dropped = self._turns.remove_lane(lane)
            if not self._turns.has_lanes:
                for sleeper in self._idle:
                    sleeper.wake()
                self._idle.clear()
        for turn in dropped:
            cast(_Step, turn).future.cancel()

    # The checkpoint of steps, on their threads ------------------------------------------------------------------------

    def __call__(self, check: Callable[[], None]) -> None:
        """Pause a step that is long while others have precedence."""
        step = self._step()
        if step is None or not step.is_long:
            return
        with self._lock:
            if self._turns.must_pause(step, self._clock()):
                self._turns.stop(step)
                self._wait_to_go_on(step, check)

    def before_long_step(self) -> None:
        """A long step loses its slot by the clock."""

    def begin_wait(self) -> None:
        """Have the slot of a step that waits for others taken by another one."""
        step = self._step()
        if step is not None:
            with self._lock:
                self._turns.stop(step)
                self._hand_out()

    def end_wait(self, check: Callable[[], None]) -> None:
        """Wait for a slot to continue."""
        step = self._step()
        if step is not None:
            with self._lock, suppress(TsdbError):
                self._wait_to_go_on(step, check)

    def begin_writing(self) -> None:
        """Let a step that writes continue without a slot until it ends."""
        step = self._step()
        if step is not None:
            self._current.step = None
            with self._lock:
                self._turns.stop(step)
                self._hand_out()

    def place(self) -> Place | None:
        step = self._step()
        return None if step is None else _StepPlace(self, step)

    def leave(self, step: _Step, *, is_own: bool) -> None:
        """Release the slot of a step while it waits for a datanode; Busy if too many do."""
        with self._lock:
            if not self._turns.may_leave(step):
                _REFUSED_BY_DATANODE.inc()
                raise Busy(
                    f"{step.lane.away} queries of this protocol wait for datanodes that do not answer",
                    hint="try again later",
                )
            self._turns.leave(step, is_own=is_own)
            self._hand_out()

    def come_back(self, step: _Step, *, is_own: bool) -> None:
        with self._lock:
            self._turns.come_back(step, is_own=is_own)

    def threads_max(self, most: int) -> int:
        """Return how many threads a step may use: its own, and one for each free slot that no step waits for."""
        return 1 if self._turns.waiting else max(1, min(most, self._limits.slots - self._turns.running + 1))

    def _step(self) -> _Step | None:
        return getattr(self._current, "step", None)

    def _wait_to_go_on(self, step: _Step, check: Callable[[], None]) -> None:
        """Wait until a step may continue, or raise what `check` raises. The lock is held.

        It goes on when it is woken, whatever it holds then: it may have lost a slot again before its thread ran.
        """
        self._turns.wait(step)
        self._hand_out()
        while not step.sleeper.is_woken and not step.sleeper.sleep(self._lock, CHECK_SECONDS):
            self._check_paused(step, check)
            self._hand_out()
        step.sleeper.take_wake()

    def _check_paused(self, step: _Step, check: Callable[[], None]) -> None:
        self._lock.release()
        try:
            check()
        except BaseException:
            self._lock.acquire()
            if not step.sleeper.take_wake():
                self._turns.withdraw(step)
            raise
        self._lock.acquire()

    # Threads; the lock is held, except while a step runs --------------------------------------------------------------

    def _hand_out(self) -> None:
        """Resume the steps that may continue, and have a thread begin the next one when it can."""
        self._let_go_on()
        if self._turns.startable > self._coming or (self._turns.due() is not None and not self._is_watched):
            self._coming += 1
            if self._idle:
                self._idle.pop().wake()
            else:
                self._start_thread()

    def _start_thread(self) -> None:
        try:
            threading.Thread(target=self._serve, name="tsdb-query", daemon=True).start()
        except RuntimeError:  # the system allows no more of them; one that runs takes the step later
            self._coming -= 1
            _log.exception("a thread for queries cannot be started")

    def _let_go_on(self) -> None:
        if self._turns.has_resting:
            for turn in self._turns.go_on(self._clock()):
                cast(_Step, turn).sleeper.wake()

    def _serve(self) -> None:
        """The life of a thread: run steps, sleep while none may begin."""
        sleeper = _Sleeper()
        with self._lock:
            self._coming -= 1
            while True:
                self._let_go_on()
                turn = self._turns.begin_next(self._clock())
                if turn is not None:
                    self._run(cast(_Step, turn), sleeper)
                elif self._turns.has_lanes:
                    self._sleep(sleeper)
                else:
                    return
                del turn

    def _sleep(self, sleeper: _Sleeper) -> None:
        due = None if self._is_watched else self._turns.due()
        if due is not None:
            self._is_watched = True
        self._idle.append(sleeper)
        # The time of a slice changes with what runs, so it is looked at after one at the latest.
        seconds = None if due is None else min(due - self._clock(), self._limits.slice_seconds)
        if sleeper.sleep(self._lock, seconds):
            self._coming -= 1
        else:
            self._idle.remove(sleeper)
        if due is not None:
            self._is_watched = False

    def _run(self, step: _Step, sleeper: _Sleeper) -> None:
        if step.future.set_running_or_notify_cancel():
            step.sleeper = sleeper
            self._hand_out()
            self._lock.release()
            try:
                self._run_unlocked(step)
            finally:
                self._lock.acquire()
        self._turns.end(step)

    def _run_unlocked(self, step: _Step) -> None:
        begun = self._clock()
        _WAITED.observe(begun - step.queued_at)
        self._current.step = step
        busy = thread_time()
        step.run()
        self._note_busy(thread_time() - busy)
        self._current.step = None
        self.note_step(self._clock() - begun)


class _StepPlace:
    """The place of a step in its lane, and its slot."""

    __slots__ = ("_is_own", "_scheduler", "_step")

    def __init__(self, scheduler: QueryScheduler, step: _Step, *, is_own: bool = True) -> None:
        """`is_own` says that the thread of the step is the one that waits."""
        self._scheduler = scheduler
        self._step = step
        self._is_own = is_own

    @property
    def elsewhere(self) -> Place:
        return _StepPlace(self._scheduler, self._step, is_own=False)

    def leave(self) -> None:
        self._scheduler.leave(self._step, is_own=self._is_own)

    def come_back(self) -> None:
        self._scheduler.come_back(self._step, is_own=self._is_own)


class SchedulerLane:
    """The steps of one protocol are submitted here."""

    def __init__(self, scheduler: QueryScheduler, lane: Lane) -> None:
        self._scheduler = scheduler
        self._lane = lane

    def admit(self, seconds_max: float | None = None) -> None:
        """Raise Busy if a query would wait for too long."""
        self._scheduler.admit(seconds_max)

    def submit(self, call: Callable[[Callable[[], _T]], _T], work: Callable[[], _T]) -> Future[_T]:
        """Have `work` run, through `call`, when it is its turn; RuntimeError if the lane is closed."""
        span = current_span()
        if span is None:
            return self._scheduler.submit(self._lane, lambda: call(lambda: run_checked(self._scheduler, work)))
        waiting = span.child("scheduler.wait")

        def run() -> _T:
            waiting.end()
            return run_checked(self._scheduler, work)

        return self._scheduler.submit(self._lane, lambda: call(run))

    def close(self) -> None:
        """Let no more steps begin."""
        self._scheduler.close(self._lane)
