"""Questions that are answered where they arrive: handing them to another thread would take as long as the answer.

A hand-over and back costs 0.2 to 0.4 ms, half of what a small question of a dashboard takes: two threads have to wake
up, and what one has in its caches is far from the other. So what has proved to be brief runs on the event loop itself.

- Brief is what took less than `BRIEF_SECONDS` the last `TIMES_MIN` times. What did so more often may be late now and
  then, up to `LONG_SECONDS`, which counts half of those times away. Questions that differ in numbers
  only count as the same one, if small numbers stay small and large ones as large as they are; other words, other
  matchers, another span of steps make another question.
- The time in which the machine did something else, as a virtual one does that shares its cores, is not counted
  (`start_watch`): it would pass on another thread as well.
- Only while nobody else is being served: whoever comes meanwhile waits as long as the answer takes.
- What was expected to be brief and is not (after `LONG_SECONDS`, or as soon as it would need a planner) is given up at
  its next step and done again on a thread. It has to prove itself more often then: first `TIMES_AGAIN` times, then
  twice as often for each time that it was expected wrongly, and half as often for every `TIMES_RIGHT` in a row that
  it was brief: a machine that is busy with something else makes anything late now and then.
"""

from __future__ import annotations

import re
import resource
from collections import OrderedDict
from collections.abc import Callable, Hashable
from math import inf
from time import perf_counter, thread_time
from typing import NamedTuple, TypeVar

from tsdb.errors import NotBrief

BRIEF_SECONDS = 0.003
LONG_SECONDS = 0.010
TIMES_MIN = 3
TIMES_AGAIN = 8
TIMES_MAX = 1024
TIMES_RIGHT = 64
KEPT_MAX = 1024
TEXT_CHARS_MAX = 2048
"""How many questions are remembered, and how long their texts may be."""

_SMALL_DIGITS = 3
_ZEROS = bytes.maketrans(b"123456789", b"000000000")
_SMALL_NUMBER = re.compile(rb"(?<!0)0{2,%d}(?!0)" % _SMALL_DIGITS)
_T = TypeVar("_T")


def start_watch() -> Callable[[], float]:
    """Return what tells the seconds from now on, without those in which the machine did something else.

    Only this thread is to ask it. As long as it has never waited for anything, be it the disk or a lock, it was running
    or kept from it, and what it ran is what counts.
    """
    started, used, waits = perf_counter(), thread_time(), _count_waits()

    def seconds() -> float:
        passed = perf_counter() - started
        if passed <= BRIEF_SECONDS or _count_waits() != waits:
            return passed
        return min(passed, thread_time() - used)

    return seconds


def _count_waits() -> float:
    """How often this thread has waited; where nobody counts that, another number each time."""
    if hasattr(resource, "RUSAGE_THREAD"):
        return resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw
    return perf_counter()


class BriefTurn(NamedTuple):
    """One time that a question is asked."""

    questions: BriefQuestions
    key: Hashable
    is_brief: bool
    """Whether it may be answered here and now."""

    def run(self, answer: Callable[[Callable[[], None]], _T]) -> _T:
        """Answer it here and now; NotBrief when that takes too long. `answer` gets what it is to call at every step."""
        return self.questions.run(self.key, answer)

    def note(self, seconds: float) -> None:
        """Take down how long the answer took elsewhere."""
        self.questions.note(self.key, seconds)


class BriefQuestions:
    """What is known of how long questions take. Questions are asked and answered on the event loop's thread."""

    def __init__(self, start_watch: Callable[[], Callable[[], float]] = start_watch) -> None:
        self._start_watch = start_watch
        self._times: OrderedDict[Hashable, int] = OrderedDict()
        """How many times in a row each was brief."""
        self._wanted: OrderedDict[Hashable, int] = OrderedDict()
        """How many times it takes of those that were expected to be brief and were not."""

    @staticmethod
    def key_of(text: str, *facts: Hashable) -> Hashable | None:
        """Return what stands for all questions that differ from one in numbers only; None if it is not worth it."""
        if len(text) > TEXT_CHARS_MAX:
            return None
        return _SMALL_NUMBER.sub(b"0", text.encode("utf-8", "surrogatepass").translate(_ZEROS)), facts

    def turn(self, in_flight: int, text: str, *facts: Hashable) -> BriefTurn | None:
        """Return the turn of a question while so many requests are being served; None for one that is not worth it."""
        key = self.key_of(text, *facts)
        return None if key is None else BriefTurn(self, key, in_flight == 1 and self.is_brief(key))

    def is_brief(self, key: Hashable) -> bool:
        """Tell whether a question may be expected to take no time."""
        return self._times.get(key, 0) >= self._wanted.get(key, TIMES_MIN)

    def run(self, key: Hashable, answer: Callable[[Callable[[], None]], _T]) -> _T:
        """Answer a question here and now; NotBrief when that takes too long."""
        seconds = self._start_watch()

        def hurry() -> None:
            if seconds() > LONG_SECONDS:
                raise NotBrief

        is_given_up = False
        try:
            return answer(hurry)
        except NotBrief:
            is_given_up = True
            raise
        finally:
            taken = seconds()
            self.note(key, inf if is_given_up else taken)
            if is_given_up or taken > LONG_SECONDS:
                self._wanted[key] = min(TIMES_MAX, max(TIMES_AGAIN, 2 * self._wanted.get(key, 0)))
                if len(self._wanted) > KEPT_MAX:
                    self._wanted.popitem(last=False)

    def note(self, key: Hashable, seconds: float) -> None:
        """Take down how long an answer took."""
        if seconds > BRIEF_SECONDS:
            left = min(self._times.pop(key, 0), TIMES_RIGHT) // 2
            if left and seconds <= LONG_SECONDS:
                self._times[key] = left
            return
        times = self._times[key] = self._times.get(key, 0) + 1
        self._times.move_to_end(key)
        if times % TIMES_RIGHT == 0 and key in self._wanted:
            self._wanted[key] //= 2
            if self._wanted[key] < TIMES_AGAIN:
                del self._wanted[key]
        if len(self._times) > KEPT_MAX:
            self._times.popitem(last=False)
