"""Which questions are answered on the event loop."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable

import pytest

from tsdb.errors import NotBrief
from tsdb.servers import _brief
from tsdb.servers._brief import (
    BRIEF_SECONDS,
    KEPT_MAX,
    LONG_SECONDS,
    TEXT_CHARS_MAX,
    TIMES_AGAIN,
    TIMES_MAX,
    TIMES_MIN,
    TIMES_RIGHT,
    BriefQuestions,
    start_watch,
)


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> Callable[[], float]:
        started = self.now
        return lambda: self.now - started


def learned(clock: Clock, key: str = "q") -> BriefQuestions:
    questions = BriefQuestions(clock)
    for _ in range(TIMES_MIN):
        questions.note(key, BRIEF_SECONDS / 2)
    return questions


def test_a_question_is_brief_after_it_was_several_times() -> None:
    questions = BriefQuestions(Clock())
    for _ in range(TIMES_MIN):
        assert not questions.is_brief("q")
        questions.note("q", BRIEF_SECONDS / 2)
    assert questions.is_brief("q")
    assert not questions.is_brief("other")
    questions.note("q", BRIEF_SECONDS * 2)
    assert not questions.is_brief("q")


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
def test_questions_that_differ_in_numbers_are_the_same(other: str, is_same: bool) -> None:
    key = BriefQuestions.key_of('up{host="h3", zone="a"}', 3600)
    assert (BriefQuestions.key_of(other, 3600) == key) is is_same
    assert BriefQuestions.key_of('up{host="h3", zone="a"}', 7200) != key
    assert BriefQuestions.key_of("x" * (TEXT_CHARS_MAX + 1)) is None


def test_what_was_wrongly_expected_to_be_brief_has_to_prove_itself_more_often() -> None:
    clock = Clock()
    questions = learned(clock)

    def answer(hurry: object) -> str:
        clock.now += LONG_SECONDS * 2
        return "done"

    wanted = TIMES_AGAIN
    while wanted < TIMES_RIGHT:
        assert questions.is_brief("q")
        assert questions.run("q", answer) == "done"
        for _ in range(wanted):
            assert not questions.is_brief("q")
            questions.note("q", BRIEF_SECONDS / 2)
        wanted *= 2


def test_what_is_brief_for_long_is_forgiven_that_it_was_late() -> None:
    clock = Clock()
    questions = learned(clock)

    def answer(hurry: object) -> None:
        clock.now += LONG_SECONDS * 2

    for _ in range(20):
        questions.run("q", answer)
    times = 0
    while not questions.is_brief("q"):
        questions.note("q", BRIEF_SECONDS / 2)
        times += 1
    assert times < TIMES_MAX / 2, "it need not be brief as often as it would have to at first"
    for _ in range(TIMES_RIGHT * 8):
        questions.note("q", BRIEF_SECONDS / 2)
    questions.note("q", LONG_SECONDS * 2)
    for _ in range(TIMES_MIN):
        assert not questions.is_brief("q")
        questions.note("q", BRIEF_SECONDS / 2)
    assert questions.is_brief("q")


def test_a_question_that_is_late_now_and_then_stays_brief() -> None:
    questions = learned(Clock())
    for _ in range(10 * TIMES_RIGHT):
        questions.note("q", BRIEF_SECONDS / 2)
    late = 0
    while questions.is_brief("q"):
        questions.note("q", BRIEF_SECONDS * 2)
        late += 1
    assert 3 <= late <= 6, "but not for long when it is late every time"
    for number in range(200):
        questions.note("q", BRIEF_SECONDS * (2 if number % 8 == 0 else 0.5))
    assert questions.is_brief("q")
    for number in range(200):
        questions.note("q", BRIEF_SECONDS * (2 if number % 2 == 0 else 0.5))
    assert not questions.is_brief("q")


def test_an_answer_that_fails_counts_too() -> None:
    clock = Clock()
    questions = learned(clock)

    def fail(hurry: object) -> None:
        clock.now += LONG_SECONDS * 2
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        questions.run("q", fail)
    assert not questions.is_brief("q")


def test_an_answer_that_takes_too_long_is_given_up_at_its_next_step() -> None:
    clock = Clock()
    questions = learned(clock)
    steps = []

    def answer(hurry: Callable[[], None]) -> None:
        for number in range(5):
            hurry()
            steps.append(number)
            clock.now += LONG_SECONDS * 0.4

    with pytest.raises(NotBrief):
        questions.run("q", answer)
    assert steps == [0, 1, 2]
    for _ in range(TIMES_AGAIN):
        assert not questions.is_brief("q")
        questions.note("q", BRIEF_SECONDS / 2)
    assert questions.is_brief("q")


def test_what_gives_up_by_itself_has_to_prove_itself_more_often() -> None:
    questions = learned(Clock())

    def give_up(hurry: object) -> None:
        raise NotBrief

    with pytest.raises(NotBrief):
        questions.run("q", give_up)
    for _ in range(TIMES_AGAIN):
        assert not questions.is_brief("q")
        questions.note("q", BRIEF_SECONDS / 2)
    assert questions.is_brief("q")


def test_few_questions_are_remembered() -> None:
    questions = learned(Clock())
    for number in range(KEPT_MAX):
        questions.note(f"other {number}", BRIEF_SECONDS / 2)
    assert not questions.is_brief("q")


@pytest.mark.skipif(not hasattr(resource, "RUSAGE_THREAD"), reason="nobody counts how often a thread waits")
def test_a_watch_counts_what_the_thread_did_and_what_it_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    now, used, waits = [1.0], [0.5], [7]
    monkeypatch.setattr(_brief, "perf_counter", lambda: now[0])
    monkeypatch.setattr(_brief, "thread_time", lambda: used[0])
    monkeypatch.setattr(_brief, "_count_waits", lambda: waits[0])
    seconds = start_watch()
    now[0], used[0] = 1.030, 0.502
    assert seconds() == pytest.approx(0.002), "it was kept from running"
    waits[0] += 1
    assert seconds() == pytest.approx(0.030), "it may have waited as long"


def test_a_watch_goes_on_while_its_thread_sleeps_or_works() -> None:
    seconds = start_watch()
    time.sleep(LONG_SECONDS)
    assert seconds() >= LONG_SECONDS
    seconds, until = start_watch(), time.thread_time() + LONG_SECONDS
    while time.thread_time() < until:
        pass
    assert seconds() >= LONG_SECONDS * 0.9
