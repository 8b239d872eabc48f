"""Which queries run inline on the event loop, and what takes them off it."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable

import pytest

from tsdb.clock import SystemClock
from tsdb.query._checkpoint import before_long_step
from tsdb.query.lifetime import QueryLife
from tsdb.servers._inline import (
    FAST_SECONDS,
    QUERIES_MAX,
    SOFT_DEADLINE_SECONDS,
    TEXT_CHARS_MAX,
    InlineLimits,
    InlinePolicy,
    SoftDeadlineExceeded,
    ThreadClock,
    start_watch,
)

LIMITS = InlineLimits()


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> Callable[[], float]:
        started = self.now
        return lambda: self.now - started


def learned(clock: Clock, key: str = "q") -> InlinePolicy:
    policy = InlinePolicy(start_watch=clock)
    for _ in range(LIMITS.runs_min):
        policy.note(key, FAST_SECONDS / 2)
    return policy


def test_a_query_is_fast_after_it_was_several_times() -> None:
    policy = InlinePolicy(start_watch=Clock())
    for _ in range(LIMITS.runs_min):
        assert not policy.is_fast("q")
        policy.note("q", FAST_SECONDS / 2)
    assert policy.is_fast("q")
    assert not policy.is_fast("other")
    policy.note("q", FAST_SECONDS * 2)
    assert not policy.is_fast("q")


@pytest.mark.parametrize(
    ("other", "is_same"),
    [
        ('up{host="h12", zone="a"}', True),
        ('up{host="h123", zone="a"}', True),
        ('up{host="h1200", zone="a"}', False),
        ('up{host=~"h12.*", zone="a"}', False),
        ('down{host="h3", zone="a"}', False),
    ],
)
def test_queries_that_differ_in_numbers_are_the_same(other: str, is_same: bool) -> None:
    key = InlinePolicy.key_of('up{host="h3", zone="a"}', 3600)
    assert (InlinePolicy.key_of(other, 3600) == key) is is_same
    assert InlinePolicy.key_of('up{host="h3", zone="a"}', 7200) != key
    assert InlinePolicy.key_of("x" * (TEXT_CHARS_MAX + 1)) is None


def test_a_query_that_misses_the_deadline_has_to_be_fast_more_often() -> None:
    clock = Clock()
    policy = learned(clock)

    def answer() -> str:
        clock.now += SOFT_DEADLINE_SECONDS * 2
        return "done"

    wanted = LIMITS.runs_after_miss
    while wanted < LIMITS.runs_forgiven:
        assert policy.is_fast("q")
        assert policy.run("q", answer) == "done"
        for _ in range(wanted):
            assert not policy.is_fast("q")
            policy.note("q", FAST_SECONDS / 2)
        wanted *= 2


def test_misses_are_forgiven_after_many_fast_runs() -> None:
    clock = Clock()
    policy = learned(clock)

    def answer() -> None:
        clock.now += SOFT_DEADLINE_SECONDS * 2

    for _ in range(20):
        policy.run("q", answer)
    times = 0
    while not policy.is_fast("q"):
        policy.note("q", FAST_SECONDS / 2)
        times += 1
    assert times < LIMITS.runs_max / 2, "it need not be fast as often as it would have to at first"
    for _ in range(LIMITS.runs_forgiven * 8):
        policy.note("q", FAST_SECONDS / 2)
    policy.note("q", SOFT_DEADLINE_SECONDS * 2)
    for _ in range(LIMITS.runs_min):
        assert not policy.is_fast("q")
        policy.note("q", FAST_SECONDS / 2)
    assert policy.is_fast("q")


def test_a_query_that_is_slow_now_and_then_stays_inline() -> None:
    policy = learned(Clock())
    for _ in range(10 * LIMITS.runs_forgiven):
        policy.note("q", FAST_SECONDS / 2)
    late = 0
    while policy.is_fast("q"):
        policy.note("q", FAST_SECONDS * 2)
        late += 1
    assert 3 <= late <= 6, "but not for long when it is late every time"
    for number in range(200):
        policy.note("q", FAST_SECONDS * (2 if number % 8 == 0 else 0.5))
    assert policy.is_fast("q")
    for number in range(200):
        policy.note("q", FAST_SECONDS * (2 if number % 2 == 0 else 0.5))
    assert not policy.is_fast("q")


def test_a_query_that_fails_counts_too() -> None:
    clock = Clock()
    policy = learned(clock)

    def fail() -> None:
        clock.now += SOFT_DEADLINE_SECONDS * 2
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        policy.run("q", fail)
    assert not policy.is_fast("q")


def test_a_query_is_abandoned_at_its_first_checkpoint_after_the_deadline() -> None:
    clock = Clock()
    policy = learned(clock)
    steps = []

    def answer() -> None:
        life = QueryLife(SystemClock(), None)
        for number in range(5):
            life.check()
            steps.append(number)
            clock.now += SOFT_DEADLINE_SECONDS * 0.4

    with pytest.raises(SoftDeadlineExceeded):
        policy.run("q", answer)
    assert steps == [0, 1, 2]
    for _ in range(LIMITS.runs_after_miss):
        assert not policy.is_fast("q")
        policy.note("q", FAST_SECONDS / 2)
    assert policy.is_fast("q")


def test_a_query_that_needs_a_planner_is_abandoned_before_it() -> None:
    policy = learned(Clock())

    with pytest.raises(SoftDeadlineExceeded):
        policy.run("q", before_long_step)
    for _ in range(LIMITS.runs_after_miss):
        assert not policy.is_fast("q")
        policy.note("q", FAST_SECONDS / 2)
    assert policy.is_fast("q")


def test_the_number_of_queries_that_are_remembered_is_bounded() -> None:
    policy = learned(Clock())
    for number in range(QUERIES_MAX):
        policy.note(f"other {number}", FAST_SECONDS / 2)
    assert not policy.is_fast("q")


@pytest.mark.skipif(not hasattr(resource, "RUSAGE_THREAD"), reason="nobody counts how often a thread waits")
def test_a_watch_counts_what_the_thread_did_and_what_it_waited_for() -> None:
    now, used, waits = [1.0], [0.5], [7]
    seconds = start_watch(ThreadClock(lambda: now[0], lambda: used[0], lambda: waits[0]))
    now[0], used[0] = 1.030, 0.502
    assert seconds() == pytest.approx(0.002), "it was kept from running"
    waits[0] += 1
    assert seconds() == pytest.approx(0.030), "it may have waited as long"


def test_a_watch_goes_on_while_its_thread_sleeps_or_works() -> None:
    seconds = start_watch()
    time.sleep(SOFT_DEADLINE_SECONDS)
    assert seconds() >= SOFT_DEADLINE_SECONDS
    seconds, until = start_watch(), time.thread_time() + SOFT_DEADLINE_SECONDS
    while time.thread_time() < until:
        pass
    assert seconds() >= SOFT_DEADLINE_SECONDS * 0.9


def test_a_query_that_has_left_the_event_loop_has_no_soft_deadline_any_more() -> None:
    clock = Clock()
    policy, lives = learned(clock), []

    def answer() -> None:
        lives.append(QueryLife(SystemClock(), None))

    policy.run("q", answer)
    clock.now += SOFT_DEADLINE_SECONDS * 2
    lives[0].check()
    QueryLife(SystemClock(), None).check()
    before_long_step()
