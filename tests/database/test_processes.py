"""The process list: KILL reaches what runs, and work that outlasts its answer stays in the list."""

from __future__ import annotations

import pytest

from tsdb.clock import SystemClock
from tsdb.database import ProcessList, Session
from tsdb.errors import Cancelled, UnknownProcess
from tsdb.servers.mysql._answers import error_payload


@pytest.fixture
def processes() -> ProcessList:
    return ProcessList(SystemClock(), frontend="here")


def test_a_statement_that_is_held_stays_until_it_is_released(processes: ProcessList) -> None:
    process = processes.enter(Session(), "SELECT 1")
    first, second = process.hold(), process.hold()
    processes.leave(process)
    assert processes.all() == [process]
    assert process.is_finishing
    first()
    assert processes.all() == [process]
    second()
    assert processes.all() == []


def test_a_statement_that_is_released_before_it_ends_leaves_at_its_end(processes: ProcessList) -> None:
    process = processes.enter(Session(), "SELECT 1")
    process.hold()()
    assert processes.all() == [process]
    processes.leave(process)
    assert processes.all() == []


def test_a_finishing_statement_does_not_cancel_the_next_one_of_its_connection(processes: ProcessList) -> None:
    session = Session()
    process = processes.enter(session, "SELECT 1")
    process.hold()
    process.cancel()
    with pytest.raises(Cancelled):
        processes.check_connection(session.connection_id)
    processes.leave(process)
    processes.check_connection(session.connection_id)


@pytest.mark.parametrize("name", ["here/999", "nothing"])
def test_to_kill_what_does_not_run_is_an_error(processes: ProcessList, name: str) -> None:
    with pytest.raises(UnknownProcess, match="Unknown process id") as caught:
        processes.kill(name)
    assert error_payload(caught.value)[1:3] == (1094).to_bytes(2, "little")


def test_to_kill_an_unknown_connection_is_an_error_and_an_idle_one_is_not(processes: ProcessList) -> None:
    session = Session()
    with pytest.raises(UnknownProcess):
        processes.kill_connection(session.connection_id)
    processes.connect(session)
    assert processes.kill_connection(session.connection_id) == 0
