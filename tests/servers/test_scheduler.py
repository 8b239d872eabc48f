"""The scheduler with fake work: order, bounds, long steps, waits, writes, refusals. Events decide, no clocks."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from typing import TypeVar

import pytest

from tests.engine.lives import wait_until
from tsdb.clock import SystemClock
from tsdb.errors import Busy, Cancelled
from tsdb.query import WriteToken, run_checked, threads_max
from tsdb.query.lifetime import QueryLife
from tsdb.remote._waits import Waits
from tsdb.servers._inline import SoftDeadline, SoftDeadlineExceeded
from tsdb.servers._scheduler import QueryScheduler, SchedulerLane
from tsdb.servers._turns import TurnLimits
from tsdb.waits import current_place

SECONDS = 30
NEVER = 1e6
"""A slice that does not end during a test."""

T = TypeVar("T")


class Gate:
    """Work that tells when it has begun, and ends when it may."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.may_end = threading.Event()

    def __call__(self) -> None:
        self.begun.set()
        assert self.may_end.wait(SECONDS)


def submit(lane: SchedulerLane, work: Callable[[], T]) -> Future[T]:
    return lane.submit(lambda work: work(), work)


def make(slots: int = 1, *, slice_seconds: float = NEVER, waiting_max: int = 1000) -> QueryScheduler:
    return QueryScheduler(TurnLimits(slots, slice_seconds, waiting_max))


@pytest.fixture
def gates() -> Iterator[Callable[[], Gate]]:
    """Gates that are open at the end, so that no thread stays."""
    made: list[Gate] = []

    def gate() -> Gate:
        made.append(Gate())
        return made[-1]

    yield gate
    for each in made:
        each.may_end.set()


def test_steps_of_all_lanes_run_in_the_order_of_their_arrival(gates: Callable[[], Gate]) -> None:
    scheduler, order = make(), []
    lanes, first = [scheduler.lane(9) for _ in range(3)], gates()
    held = submit(lanes[0], first)
    steps = [submit(lanes[number % 3], lambda number=number: order.append(number)) for number in range(30)]  # type: ignore[misc]
    first.may_end.set()
    wait([held, *steps], SECONDS)
    assert order == list(range(30))


def test_many_connections_are_served_in_turn(gates: Callable[[], Gate]) -> None:
    """A connection submits its next step when the last one has ended, as clients do."""
    scheduler, answers, first = make(), [], gates()
    lane, rounds, connections = scheduler.lane(99), 5, 64
    submit(lane, first)
    is_over = threading.Semaphore(0)

    def serve(connection: int, number: int) -> None:
        answers.append((number, connection))
        if number < rounds:
            submit(lane, lambda: serve(connection, number + 1))
        else:
            is_over.release()

    for connection in range(connections):
        submit(lane, lambda connection=connection: serve(connection, 0))  # type: ignore[misc]
    first.may_end.set()
    for _ in range(connections):
        assert is_over.acquire(timeout=SECONDS)
    assert answers == [(number, connection) for number in range(rounds + 1) for connection in range(connections)]


def test_no_more_steps_run_than_there_are_slots(gates: Callable[[], Gate]) -> None:
    scheduler = make(2)
    lane = scheduler.lane(9)
    works = [gates() for _ in range(4)]
    steps = [submit(lane, work) for work in works]
    assert all(work.begun.wait(SECONDS) for work in works[:2])
    assert not any(step.running() for step in steps[2:])
    works[0].may_end.set()
    assert works[2].begun.wait(SECONDS)
    assert not works[3].begun.is_set()


def test_a_lane_has_its_own_bound(gates: Callable[[], Gate]) -> None:
    scheduler = make(3)
    narrow, wide = scheduler.lane(1), scheduler.lane(9)
    first, second, other = gates(), gates(), gates()
    submit(narrow, first)
    submit(narrow, second)
    submit(wide, other)
    assert first.begun.wait(SECONDS)
    assert other.begun.wait(SECONDS)
    assert not second.begun.is_set()
    first.may_end.set()
    assert second.begun.wait(SECONDS)


def test_a_long_step_does_not_hold_up_short_ones(gates: Callable[[], Gate]) -> None:
    scheduler = make(1, slice_seconds=0.001)
    lane, long = scheduler.lane(99), gates()
    held = submit(lane, long)
    assert long.begun.wait(SECONDS)
    done, _ = wait([submit(lane, lambda: None) for _ in range(50)], SECONDS)
    assert len(done) == 50
    assert not held.done()


def test_long_steps_pause_at_their_checkpoints_while_others_run_and_all_reach_their_end() -> None:
    scheduler = make(1, slice_seconds=0.001)
    lane, short_done = scheduler.lane(99), threading.Event()
    ended: list[int] = []

    def long(number: int) -> None:
        life = QueryLife(SystemClock(), None)
        while not short_done.is_set():
            life.check()
        ended.append(number)

    steps = [submit(lane, lambda number=number: long(number)) for number in range(4)]  # type: ignore[misc]
    wait([submit(lane, lambda: None) for _ in range(20)], SECONDS)
    short_done.set()
    done, _ = wait(steps, SECONDS)
    assert len(done) == 4
    assert sorted(ended) == [0, 1, 2, 3]


def test_a_paused_step_ends_when_it_is_cancelled(gates: Callable[[], Gate]) -> None:
    scheduler = make(1, slice_seconds=0.001)
    lane, lives = scheduler.lane(99), []

    def long() -> None:
        life = QueryLife(SystemClock(), None)
        lives.append(life)
        while True:
            life.check()

    steps = [submit(lane, long) for _ in range(3)]
    wait_until(lambda: len(lives) == 3)
    for life in lives:
        life.cancel()
    for step in steps:
        with pytest.raises(Cancelled):
            step.result(SECONDS)


def test_a_step_that_waits_for_others_holds_no_slot(gates: Callable[[], Gate]) -> None:
    scheduler, answer = make(), Future[int]()
    lane, work = scheduler.lane(9), gates()

    def query() -> int:
        return QueryLife(SystemClock(), None).wait_for(answer)

    waiting = submit(lane, query)
    other = submit(lane, work)
    assert work.begun.wait(SECONDS)
    answer.set_result(5)
    after = submit(lane, lambda: waiting.done())
    wait_until(lambda: scheduler._turns.has_resting)
    assert not waiting.done(), "the other step has the slot"
    work.may_end.set()
    assert waiting.result(SECONDS) == 5
    other.result(SECONDS)
    assert after.result(SECONDS), "what has waited goes on before what has not begun"


def test_a_wait_that_fails_needs_no_slot(gates: Callable[[], Gate]) -> None:
    scheduler, answer = make(), Future[int]()
    lane, work = scheduler.lane(9), gates()
    waiting = submit(lane, lambda: QueryLife(SystemClock(), None).wait_for(answer))
    submit(lane, work)
    assert work.begun.wait(SECONDS)
    answer.set_exception(ValueError("no answer"))
    with pytest.raises(ValueError, match="no answer"):
        waiting.result(SECONDS)


def test_a_step_that_writes_leaves_its_slot_to_others(gates: Callable[[], Gate]) -> None:
    scheduler = make()
    lane, log = scheduler.lane(9), gates()

    def write() -> None:
        WriteToken().enter()
        log()
        QueryLife(SystemClock(), None).check()

    written = submit(lane, write)
    assert log.begun.wait(SECONDS)
    submit(lane, lambda: None).result(SECONDS)
    log.may_end.set()
    written.result(SECONDS)
    assert submit(lane, lambda: threads_max(8)).result(SECONDS) == 1, "all counts are as they were"


def test_work_uses_the_cores_that_no_other_step_needs(gates: Callable[[], Gate]) -> None:
    scheduler = make(4)
    lane, works = scheduler.lane(9), [gates(), gates()]
    alone = submit(lane, lambda: threads_max(8)).result(SECONDS)
    for work in works:
        submit(lane, work)
        assert work.begun.wait(SECONDS)
    assert (alone, submit(lane, lambda: threads_max(8)).result(SECONDS)) == (4, 2)
    assert threads_max(8) == 8, "nothing is known outside of steps"


def test_a_query_is_refused_while_the_queue_is_full(gates: Callable[[], Gate]) -> None:
    scheduler = make(waiting_max=2)
    lane, work = scheduler.lane(9), gates()
    submit(lane, work)
    assert work.begun.wait(SECONDS)
    waiting = [submit(lane, lambda: None) for _ in range(2)]
    with pytest.raises(Busy, match="2 queries are waiting for their turn; try again later"):
        lane.admit()
    waiting[0].cancel()
    lane.admit()
    work.may_end.set()
    waiting[1].result(SECONDS)
    lane.admit()


def test_a_query_whose_turn_would_come_after_its_deadline_is_refused(gates: Callable[[], Gate]) -> None:
    now = [0.0]
    scheduler = QueryScheduler(TurnLimits(1, NEVER), clock=lambda: now[0])
    lane, work = scheduler.lane(9), gates()

    def slow() -> None:
        now[0] += 100

    submit(lane, slow).result(SECONDS)
    submit(lane, lambda: None).result(SECONDS)  # the time of a step is noted after its result is there
    submit(lane, work)
    assert work.begun.wait(SECONDS)
    lane.admit(0.001)
    waiting = [submit(lane, lambda: None) for _ in range(10)]
    lane.admit()
    lane.admit(1000)
    with pytest.raises(Busy, match="10 queries are waiting, and this one would have to wait until its deadline"):
        lane.admit(1)
    work.may_end.set()
    wait(waiting, SECONDS)


def test_a_step_that_is_cancelled_while_it_waits_never_runs(gates: Callable[[], Gate]) -> None:
    scheduler, begun = make(), []
    lane, work = scheduler.lane(9), gates()
    submit(lane, work)
    assert work.begun.wait(SECONDS)
    cancelled, last = submit(lane, lambda: begun.append(1)), submit(lane, lambda: None)
    assert cancelled.cancel()
    work.may_end.set()
    last.result(SECONDS)
    assert not begun


def test_closing_a_lane_cancels_what_waits_in_it_and_the_others_go_on(gates: Callable[[], Gate]) -> None:
    scheduler = make()
    lane, other, work = scheduler.lane(9), scheduler.lane(9), gates()
    running = submit(lane, work)
    assert work.begun.wait(SECONDS)
    dropped, kept = submit(lane, lambda: None), submit(other, lambda: 1)
    lane.close()
    assert dropped.cancelled()
    with pytest.raises(RuntimeError):
        submit(lane, lambda: None)
    work.may_end.set()
    running.result(SECONDS)
    assert kept.result(SECONDS) == 1


def test_the_threads_end_when_all_lanes_are_closed() -> None:
    scheduler, threads = make(2), set()
    lane = scheduler.lane(9)
    wait([submit(lane, lambda: threads.add(threading.current_thread())) for _ in range(9)], SECONDS)
    lane.close()
    lane.close()
    for thread in threads:
        thread.join(SECONDS)
        assert not thread.is_alive()


def test_steps_that_wait_for_a_datanode_do_not_hold_up_others_of_their_lane(gates: Callable[[], Gate]) -> None:
    scheduler = QueryScheduler(TurnLimits(1, NEVER, away_max=2))
    lane, waits, hanging = scheduler.lane(1), Waits(), [gates(), gates(), gates()]

    def wait_for_datanode(gate: Gate) -> Callable[[], str]:
        def work() -> str:
            with waits.waiting(current_place(), gate.may_end.set):
                gate()
            return "answered"

        return work

    steps = [submit(lane, wait_for_datanode(gate)) for gate in hanging]
    for gate in hanging:
        # Each begins when the one before has left its place.
        assert gate.begun.wait(SECONDS)
        waits.look()
        waits.look()
    # The third one found no room, and was cancelled.
    with pytest.raises(Busy, match="2 queries of this protocol wait"):
        steps[2].result(SECONDS)
    assert [submit(lane, lambda: "other").result(SECONDS) for _ in range(3)] == ["other"] * 3
    for gate in hanging:
        gate.may_end.set()
    assert [step.result(SECONDS) for step in steps[:2]] == ["answered"] * 2
    assert submit(lane, lambda: "other").result(SECONDS) == "other"


def test_a_query_on_the_event_loop_that_waits_for_a_datanode_is_abandoned() -> None:
    waits, is_cancelled = Waits(), threading.Event()

    def work() -> None:
        with waits.waiting(current_place(), is_cancelled.set):
            waits.look()
            waits.look()

    with pytest.raises(SoftDeadlineExceeded):
        run_checked(SoftDeadline(lambda: 0.0, 1.0), work)
    assert is_cancelled.is_set()
    run_checked(SoftDeadline(lambda: 0.0, 1.0), lambda: None)
