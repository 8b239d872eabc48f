"""Inline execution: which queries run on the event loop itself, and the soft deadline that takes them off it.

Handing a query to a thread and its answer back costs 0.2 to 0.4 ms, half of what a small query of a dashboard takes:
two threads have to wake up, and each has cold caches. So a query that has been fast runs on the event loop, under these
rules (`InlineLimits`):

- Fast is what took less than `fast_seconds` the last `runs_min` times. Queries that were fast more often may be slow
  now and then, up to the soft deadline; each such run halves their count. Queries that differ in numbers only count as
  one, if small numbers stay small and large ones keep their length; other words, matchers or spans make another one.
- Time in which the machine ran something else is not counted (`start_watch`): it would pass on a thread as well.
- Only for a client that is alone: while no other request is in progress, and no other connection has begun one within
  the last tenth of a second. Requests that arrive during inline execution wait for it, one after the other.
- A query that does not end before the soft deadline, or needs a planner, is abandoned at its next checkpoint and runs
  again on a thread. From then on it has to be fast `runs_after_miss` times first, twice as often for each further miss,
  and half as often for every `runs_forgiven` fast runs in a row.

docs/decisions/0010-inline-execution.md has the measurements.
"""

from __future__ import annotations

import re
import resource
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from math import inf
from time import perf_counter, thread_time
from typing import NamedTuple, TypeVar

from tsdb.query import run_checked
from tsdb.waits import Place

FAST_SECONDS = 0.003
SOFT_DEADLINE_SECONDS = 0.010
QUERIES_MAX = 1024
"""How many queries are remembered."""
TEXT_CHARS_MAX = 2048
"""Longer queries never run inline."""

_SMALL_DIGITS = 3
_ZEROS = bytes.maketrans(b"123456789", b"000000000")
_SMALL_NUMBER = re.compile(rb"(?<!0)0{2,%d}(?!0)" % _SMALL_DIGITS)
_T = TypeVar("_T")


class SoftDeadlineExceeded(BaseException):
    """Inline execution takes too long: the query is abandoned and runs again on a thread.

    It derives from BaseException, because no handler of errors between the query and the runner may take it for one.
    """


@dataclass(frozen=True, slots=True)
class InlineLimits:
    """When queries run inline."""

    fast_seconds: float = FAST_SECONDS
    soft_deadline_seconds: float = SOFT_DEADLINE_SECONDS
    runs_min: int = 3
    runs_after_miss: int = 8
    runs_max: int = 1024
    runs_forgiven: int = 64
    queries_max: int = QUERIES_MAX


def _count_waits() -> float:
    """How often this thread has waited; a different number each time where the system does not count that."""
    if hasattr(resource, "RUSAGE_THREAD"):
        return resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw
    return perf_counter()


@dataclass(frozen=True, slots=True)
class ThreadClock:
    """The clocks of a watch; tests pass their own."""

    wall: Callable[[], float] = perf_counter
    busy: Callable[[], float] = thread_time
    waits: Callable[[], float] = _count_waits


_CLOCK = ThreadClock()


def start_watch(clock: ThreadClock = _CLOCK) -> Callable[[], float]:
    """Return a function that returns the seconds since now, without those in which the machine ran something else.

    Only this thread may call it. As long as it has not waited for anything, such as the disk or a lock, it was running
    or preempted, and its CPU time counts.
    """
    wall, busy, count_waits = clock.wall, clock.busy, clock.waits
    started, used, waits = wall(), busy(), count_waits()

    def seconds() -> float:
        passed = wall() - started
        if passed <= FAST_SECONDS or count_waits() != waits:
            return passed
        return min(passed, busy() - used)

    return seconds


class SoftDeadline:
    """The checkpoint of one inline execution."""

    def __init__(self, seconds: Callable[[], float], seconds_max: float) -> None:
        self._seconds = seconds
        self._seconds_max = seconds_max
        self.is_over = False
        """Whether the execution has left the event loop: later steps of the query run on threads."""

    def __call__(self, check: Callable[[], None]) -> None:
        if not self.is_over and self._seconds() > self._seconds_max:
            raise SoftDeadlineExceeded

    def before_long_step(self) -> None:
        if not self.is_over:
            raise SoftDeadlineExceeded

    def begin_wait(self) -> None:
        """Only planned queries wait for others, and none of them runs inline."""

    def end_wait(self, check: Callable[[], None]) -> None:
        """As above."""

    def begin_writing(self) -> None:
        """Only queries run inline."""

    def threads_max(self, most: int) -> int:
        """Its client is alone."""
        return most

    def place(self) -> Place | None:
        return None if self.is_over else _EVENT_LOOP


class _EventLoop:
    """The place of a query that runs inline: it may not wait for another node for long."""

    @property
    def elsewhere(self) -> Place:
        return self

    def leave(self) -> None:
        raise SoftDeadlineExceeded

    def come_back(self) -> None:
        """It was never left."""


_EVENT_LOOP = _EventLoop()


class Candidate(NamedTuple):
    """One execution of a query that may run inline."""

    policy: InlinePolicy
    key: Hashable
    is_inline: bool
    """Whether it is to run inline."""
    is_alone: bool
    """Whether no other client waits."""

    def run(self, work: Callable[[], _T]) -> _T:
        """Run it here and now; SoftDeadlineExceeded when that takes too long."""
        return self.policy.run(self.key, work)

    def note(self, seconds: float) -> None:
        """Remember how long it took on a thread."""
        self.policy.note(self.key, seconds)


class InlinePolicy:
    """Which queries are known to be fast. Used on the thread of the event loop alone."""

    def __init__(
        self,
        limits: InlineLimits | None = None,
        start_watch: Callable[[], Callable[[], float]] = start_watch,
    ) -> None:
        self.limits = limits or InlineLimits()
        self._start_watch = start_watch
        self._runs: OrderedDict[Hashable, int] = OrderedDict()
        """How many times in a row each was fast."""
        self._wanted: OrderedDict[Hashable, int] = OrderedDict()
        """How many fast runs it takes for those that have missed the deadline."""

    @staticmethod
    def key_of(text: str, *facts: Hashable) -> Hashable | None:
        """Return what queries that differ in numbers only have in common; None for one that is too long."""
        if len(text) > TEXT_CHARS_MAX:
            return None
        return _SMALL_NUMBER.sub(b"0", text.encode("utf-8", "surrogatepass").translate(_ZEROS)), facts

    def candidate(self, is_alone: bool, text: str, *facts: Hashable) -> Candidate | None:
        """Return how to run a query; None for one that never runs inline. It `is_alone` if no other client waits."""
        key = self.key_of(text, *facts)
        return None if key is None else Candidate(self, key, is_alone and self.is_fast(key), is_alone)

    def is_fast(self, key: Hashable) -> bool:
        """Return whether a query is expected to be fast."""
        return self._runs.get(key, 0) >= self._wanted.get(key, self.limits.runs_min)

    def run(self, key: Hashable, work: Callable[[], _T]) -> _T:
        """Run a query here and now; SoftDeadlineExceeded when that takes too long."""
        seconds, limits = self._start_watch(), self.limits
        deadline = SoftDeadline(seconds, limits.soft_deadline_seconds)
        is_abandoned = False
        try:
            return run_checked(deadline, work)
        except SoftDeadlineExceeded:
            is_abandoned = True
            raise
        finally:
            deadline.is_over = True
            taken = seconds()
            self.note(key, inf if is_abandoned else taken)
            if is_abandoned or taken > limits.soft_deadline_seconds:
                self._wanted[key] = min(limits.runs_max, max(limits.runs_after_miss, 2 * self._wanted.get(key, 0)))
                if len(self._wanted) > limits.queries_max:
                    self._wanted.popitem(last=False)

    def note(self, key: Hashable, seconds: float) -> None:
        """Remember how long a query took."""
        limits = self.limits
        if seconds > limits.fast_seconds:
            left = min(self._runs.pop(key, 0), limits.runs_forgiven) // 2
            if left and seconds <= limits.soft_deadline_seconds:
                self._runs[key] = left
            return
        runs = self._runs[key] = self._runs.get(key, 0) + 1
        self._runs.move_to_end(key)
        if runs % limits.runs_forgiven == 0 and key in self._wanted:
            self._wanted[key] //= 2
            if self._wanted[key] < limits.runs_after_miss:
                del self._wanted[key]
        if len(self._runs) > limits.queries_max:
            self._runs.popitem(last=False)
