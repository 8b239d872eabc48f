"""The decisions of the scheduler: order of arrival, bounds of lanes, slices, long steps."""

from __future__ import annotations

from tsdb.servers._turns import Hold, Lane, Turn, TurnLimits, Turns

SLICE = 10.0
LIMITS = TurnLimits(slots=2, slice_seconds=SLICE)


def arrive(turns: Turns, lane: Lane, now: float) -> Turn:
    turn = Turn(lane, now)
    turns.add(turn)
    return turn


def test_steps_begin_in_the_order_of_their_arrival_over_all_lanes() -> None:
    turns = Turns(LIMITS)
    lanes = [turns.add_lane(9) for _ in range(3)]
    arrived = [arrive(turns, lanes[number % 3], number) for number in (0, 1, 2, 3)]
    arrived.append(arrive(turns, lanes[0], 4))
    begun = []
    while (turn := turns.begin_next(5)) is not None:
        begun.append(turn)
        if len(begun) >= LIMITS.slots:
            turns.end(begun[-LIMITS.slots])
    assert begun == arrived


def test_no_more_steps_run_than_there_are_slots() -> None:
    turns = Turns(LIMITS)
    lane = turns.add_lane(9)
    first, second, third = (arrive(turns, lane, 0) for _ in range(3))
    assert [turns.begin_next(0) for _ in range(3)] == [first, second, None]
    assert turns.running == 2
    turns.end(first)
    assert turns.begin_next(0) is third


def test_a_lane_at_its_bound_lets_others_overtake() -> None:
    turns = Turns(LIMITS)
    narrow, wide = turns.add_lane(1), turns.add_lane(9)
    first, second, other = arrive(turns, narrow, 0), arrive(turns, narrow, 1), arrive(turns, wide, 2)
    assert [turns.begin_next(3), turns.begin_next(3)] == [first, other]
    turns.end(other)
    assert turns.begin_next(3) is None
    assert turns.startable == 0
    turns.end(first)
    assert turns.begin_next(3) is second


def test_a_step_loses_its_slot_after_a_slice_if_another_one_waits() -> None:
    turns = Turns(LIMITS)
    lane = turns.add_lane(9)
    first, second = arrive(turns, lane, 0), arrive(turns, lane, 0)
    turns.begin_next(0)
    turns.begin_next(1)
    assert turns.due() is None, "no step waits"
    third = arrive(turns, lane, 2)
    assert turns.due() == SLICE
    assert turns.begin_next(SLICE - 1) is None
    assert turns.begin_next(SLICE) is third
    assert (first.is_long, first.hold, second.hold) == (True, Hold.NONE, Hold.SLOT)
    assert turns.running == 3, "it runs until its next checkpoint"


def test_a_step_keeps_its_slot_while_no_other_one_waits() -> None:
    turns = Turns(LIMITS)
    lane = turns.add_lane(9)
    only = arrive(turns, lane, 0)
    turns.begin_next(0)
    assert not turns.must_pause(only, 100 * SLICE)
    assert only.hold is Hold.SLOT


def test_one_long_step_goes_on_while_short_ones_take_all_slots() -> None:
    turns = Turns(LIMITS)
    lane = turns.add_lane(99)
    slow = [arrive(turns, lane, 0), arrive(turns, lane, 0)]
    for _ in slow:
        turns.begin_next(0)
    short = [arrive(turns, lane, 1) for _ in range(4)]
    assert [turns.begin_next(SLICE), turns.begin_next(SLICE)] == short[:2]
    for turn in slow:
        turns.stop(turn)
        turns.wait(turn)
    assert list(turns.go_on(SLICE)) == slow[:1], "the permit is for one of them"
    assert slow[0].hold is Hold.PERMIT
    turns.end(short[0])
    assert list(turns.go_on(SLICE)) == [], "a step that has not begun has precedence"
    assert turns.begin_next(SLICE) is short[2]
    turns.end(short[1])
    assert turns.begin_next(SLICE) is short[3]
    turns.end(short[2])
    assert list(turns.go_on(SLICE)) == slow[1:], "no short step wants the slot"


def test_long_steps_hand_the_permit_on_after_a_slice() -> None:
    turns = Turns(TurnLimits(slots=1, slice_seconds=SLICE))
    lane = turns.add_lane(99)
    first = arrive(turns, lane, 0)
    turns.begin_next(0)
    second = arrive(turns, lane, 0)
    turns.begin_next(SLICE)
    turns.stop(first)
    turns.wait(first)
    assert list(turns.go_on(SLICE)) == [first]
    third = arrive(turns, lane, 0)
    turns.begin_next(3 * SLICE)
    turns.stop(second)
    turns.wait(second)
    assert list(turns.go_on(3 * SLICE)) == [], "the first has the permit, the third the slot"
    assert turns.must_pause(first, 3 * SLICE)
    turns.stop(first)
    turns.wait(first)
    assert list(turns.go_on(3 * SLICE)) == [second]
    assert not turns.must_pause(second, 3 * SLICE + 1), "its slice has just begun"
    turns.end(third)
    assert list(turns.go_on(3 * SLICE + 1)) == [first], "on the free slot"


def test_a_step_that_waits_for_others_has_no_slot_and_is_the_next_to_get_one() -> None:
    turns = Turns(TurnLimits(slots=1, slice_seconds=SLICE))
    lane = turns.add_lane(9)
    first, second, third = (arrive(turns, lane, number) for number in range(3))
    turns.begin_next(3)
    turns.stop(first)
    assert turns.running == 0
    assert turns.begin_next(3) is second
    turns.wait(first)
    assert list(turns.go_on(3)) == []
    turns.end(second)
    assert turns.begin_next(4) is None, "the first comes before those that have not begun"
    assert list(turns.go_on(4)) == [first]
    turns.end(first)
    assert turns.begin_next(4) is third


def test_a_slice_is_longer_while_long_steps_have_not_paused() -> None:
    turns = Turns(TurnLimits(slots=1, slice_seconds=SLICE))
    lane = turns.add_lane(9)
    for _ in range(3):
        arrive(turns, lane, 0)
    turns.begin_next(0)
    assert turns.begin_next(SLICE) is not None
    assert turns.due() == 3 * SLICE
    assert turns.begin_next(2 * SLICE) is None
    assert turns.begin_next(3 * SLICE) is not None, "it gets its turn all the same"


def test_a_step_that_is_over_gives_everything_back() -> None:
    turns = Turns(LIMITS)
    lane = turns.add_lane(3)
    for now in (0.0, 8 * SLICE, 16 * SLICE):
        first, second, third = (arrive(turns, lane, now) for _ in range(3))
        for _ in range(2):
            turns.begin_next(now)
        turns.begin_next(now + SLICE)
        for turn in (first, second, third):
            turns.end(turn)
        assert (turns.running, lane.begun, turns.waiting) == (0, 0, 0)


def test_a_step_that_withdraws_does_not_go_on() -> None:
    turns = Turns(TurnLimits(slots=1))
    lane = turns.add_lane(9)
    first, second = arrive(turns, lane, 0), arrive(turns, lane, 0)
    turns.begin_next(0)
    turns.stop(first)
    turns.begin_next(0)
    turns.wait(first)
    turns.withdraw(first)
    turns.end(second)
    assert list(turns.go_on(0)) == []


def test_steps_of_a_removed_lane_are_returned() -> None:
    turns = Turns(LIMITS)
    lane = turns.add_lane(9)
    waiting = [arrive(turns, lane, 0) for _ in range(3)]
    turns.begin_next(0)
    assert turns.remove_lane(lane) == waiting[1:]
    assert not turns.has_lanes
    turns.end(waiting[0])
    assert turns.running == 0


def test_short_steps_begin_one_after_the_other_until_one_has_run_for_its_lead() -> None:
    turns = Turns(TurnLimits(slots=2, slice_seconds=SLICE, lead_seconds=1.0))
    lane = turns.add_lane(9)
    first, second, third = (arrive(turns, lane, 0) for _ in range(3))
    assert turns.startable == 1
    assert turns.begin_next(0) is first
    assert (turns.startable, turns.due(), turns.begin_next(0.5)) == (0, 1.0, None)
    turns.end(first)
    assert turns.begin_next(0.5) is second, "its slot is free, and nothing runs beside it"
    assert turns.due() == 1.5
    assert turns.begin_next(1.5) is third


def test_steps_that_are_not_short_begin_side_by_side() -> None:
    turns = Turns(TurnLimits(slots=2, slice_seconds=SLICE, lead_seconds=1.0))
    turns.are_short = False
    lane = turns.add_lane(9)
    first, second = arrive(turns, lane, 0), arrive(turns, lane, 0)
    assert turns.startable == 2
    assert [turns.begin_next(0), turns.begin_next(0)] == [first, second]


def test_a_step_that_waits_for_another_node_leaves_its_place_and_comes_back() -> None:
    turns = Turns(LIMITS)
    lane = turns.add_lane(1)
    first, second, third = (arrive(turns, lane, at) for at in range(3))
    assert [turns.begin_next(3), turns.begin_next(3)] == [first, None]
    turns.leave(first, is_own=True)
    assert (turns.away, turns.running) == (1, 0)
    assert [turns.begin_next(4), turns.begin_next(4)] == [second, None]
    turns.come_back(first, is_own=True)
    assert (lane.begun, turns.away, turns.running) == (2, 0, 2), "it goes on to its next checkpoint"
    assert turns.must_pause(first, 5)
    turns.end(second)
    assert turns.begin_next(6) is None, "the lane is full"
    turns.end(first)
    assert turns.begin_next(7) is third
    assert (turns.running, lane.begun) == (1, 1)


def test_threads_of_a_step_that_wait_for_other_nodes_count_once_and_its_own_thread_runs() -> None:
    turns = Turns(TurnLimits(slots=2, slice_seconds=SLICE, away_max=1))
    lane = turns.add_lane(9)
    first, second = arrive(turns, lane, 0), arrive(turns, lane, 1)
    assert [turns.begin_next(2), turns.begin_next(2)] == [first, second]
    turns.leave(first, is_own=False)
    turns.leave(first, is_own=False)
    assert (first.hold, lane.begun, lane.away) == (Hold.SLOT, 1, 1)
    assert turns.may_leave(first)
    assert not turns.may_leave(second)
    turns.come_back(first, is_own=False)
    assert lane.away == 1
    turns.end(first)
    assert (lane.begun, lane.away, turns.away) == (1, 0, 0)
    turns.come_back(first, is_own=False)
    assert (lane.begun, lane.away, turns.away) == (1, 0, 0)
