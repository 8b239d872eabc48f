"""Changes in line: their order, their bounds, and what is remembered of them."""

from __future__ import annotations

import threading
from functools import partial

import pytest

from tsdb.catalog import ProcedureState
from tsdb.clock import ManualClock
from tsdb.errors import Busy, InvalidArguments
from tsdb.kv import LeadershipLost
from tsdb.meta._procedures import Procedures


def test_changes_are_made_in_the_order_in_which_they_came_and_only_once() -> None:
    procedures = Procedures(ManualClock(10**18))
    made: list[int] = []
    records = [procedures.submit(str(number), "k", "s", partial(made.append, number)) for number in range(9)]
    assert procedures.submit("3", "k", "s", lambda: made.append(99)) is records[3]
    procedures.start()
    assert all(record.ended.wait(30) for record in records)
    assert made == list(range(9))
    assert [record.id for record in procedures.recent()] == [str(number) for number in reversed(range(9))]
    procedures.stop()


def test_a_change_that_fails_does_not_stop_the_next_one() -> None:
    procedures = Procedures(ManualClock(10**18))

    def refuse() -> None:
        raise InvalidArguments("no")

    def break_down() -> None:
        raise ZeroDivisionError

    records = [procedures.submit(str(at), "k", "s", act) for at, act in enumerate((refuse, break_down, lambda: 7))]
    procedures.start()
    assert all(record.ended.wait(30) for record in records)
    assert [record.state for record in records] == [ProcedureState.FAILED, ProcedureState.FAILED, ProcedureState.DONE]
    assert records[2].result == 7
    assert records[0].to_json()["error"] == "no"
    procedures.stop()


def test_the_queue_and_the_memory_are_bounded() -> None:
    procedures = Procedures(ManualClock(10**18), waiting_max=3, remembered_max=2)
    for number in range(3):
        procedures.submit(str(number), "k", "s", lambda: None)
    with pytest.raises(Busy):
        procedures.submit("more", "k", "s", lambda: None)
    procedures.start()
    last = procedures.find("2")
    assert last is not None
    assert last.ended.wait(30)
    last = procedures.submit("last", "k", "s", lambda: None)
    assert last.ended.wait(30)
    procedures.submit("one more", "k", "s", lambda: None)
    assert procedures.find("0") is None
    assert procedures.find("2") is not None
    procedures.stop()


def test_what_is_urgent_comes_before_what_waits() -> None:
    procedures = Procedures(ManualClock(10**18))
    made: list[str] = []
    for name in ("balance 1", "balance 2"):
        procedures.submit(name, "migrate_region", "s", partial(made.append, name))
    last = procedures.find("balance 2")
    procedures.submit("failover", "failover", "s", partial(made.append, "failover"), is_urgent=True)
    procedures.start()
    assert last is not None
    assert last.ended.wait(30)
    assert made == ["failover", "balance 1", "balance 2"]
    procedures.stop()


def test_when_the_leader_stops_those_that_wait_were_not_made() -> None:
    procedures = Procedures(ManualClock(10**18))
    began, go_on = threading.Event(), threading.Event()

    def stand_still() -> None:
        began.set()
        go_on.wait(30)

    under_way = procedures.submit("1", "k", "s", stand_still)
    waiting = procedures.submit("2", "k", "s", lambda: None)
    procedures.start()
    assert began.wait(30)
    stopping = threading.Thread(target=procedures.stop)
    stopping.start()
    assert waiting.ended.wait(30)
    assert isinstance(waiting.error, LeadershipLost)
    assert not waiting.began_ms
    go_on.set()
    stopping.join(30)
    assert under_way.state is ProcedureState.DONE
    with pytest.raises(LeadershipLost):
        procedures.submit("3", "k", "s", lambda: None)
