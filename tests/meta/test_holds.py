"""Changes of tables are held back for a backup: in turn, for a bounded time, and only while a server leads."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.meta.clusters import wait_until
from tsdb.clock import SystemClock
from tsdb.errors import DeadlineExceeded, InvalidArguments
from tsdb.kv import LeadershipLost
from tsdb.meta._holds import TableHolds
from tsdb.meta._procedures import Procedures

TOKEN = "0123456789abcdef"


class _Kv:
    """The store of a leader, or of one that was deposed."""

    def __init__(self) -> None:
        self.leads = True

    def transact(self, compares: object, operations: object) -> bool:
        if not self.leads:
            raise LeadershipLost("another one leads")
        return True

    def version(self) -> int:
        return 7


class _Catalog:
    """What a hold needs of a catalog."""

    def __init__(self) -> None:
        self.lock = threading.Lock()

    @contextmanager
    def held(self) -> Iterator[None]:
        with self.lock:
            yield


class _World:
    def __init__(self, seconds_max: float = 60.0) -> None:
        self.procedures = Procedures(SystemClock())
        self.kv, self.catalog, self.stopped = _Kv(), _Catalog(), threading.Event()
        arguments: tuple[Any, ...] = (self.procedures, self.kv, lambda: self.catalog, self.stopped)
        self.holds = TableHolds(*arguments, seconds_max=seconds_max)
        self.procedures.start()

    def change(self) -> threading.Event:
        """A change of a table, which comes after what is in line."""
        return self.procedures.submit(f"change-{id(object())}", "create_table", "t", lambda: None).ended

    def hold(self) -> None:
        wait_until(lambda: self.holds.hold(TOKEN) is not None)
        assert self.holds.hold(TOKEN) == 7


@pytest.fixture
def world() -> Iterator[_World]:
    world = _World()
    yield world
    world.stopped.set()
    world.procedures.stop()


def test_changes_wait_until_the_hold_is_released(world: _World) -> None:
    world.hold()
    changed = world.change()
    assert world.catalog.lock.locked()
    assert not changed.is_set()
    assert world.holds.release(TOKEN)
    assert changed.wait(60)
    assert not world.holds.release(TOKEN)
    with pytest.raises(DeadlineExceeded, match="the hold is over"):
        world.holds.hold(TOKEN)


def test_a_hold_waits_for_the_changes_before_it(world: _World) -> None:
    going_on = threading.Event()
    world.procedures.submit("before", "create_table", "t", lambda: going_on.wait(60))
    assert world.holds.hold(TOKEN) is None
    going_on.set()
    world.hold()
    assert world.holds.release(TOKEN)


def test_a_hold_that_nobody_releases_ends_and_says_so() -> None:
    world = _World(seconds_max=0.5)
    world.hold()
    assert world.change().wait(60)
    assert not world.holds.release(TOKEN)
    world.procedures.stop()


def test_a_server_that_was_deposed_has_held_nothing(world: _World) -> None:
    world.hold()
    world.kv.leads = False
    with pytest.raises(LeadershipLost):
        world.holds.release(TOKEN)
    assert world.change().wait(60)


def test_a_hold_that_is_given_up_before_its_turn_holds_nothing(world: _World) -> None:
    going_on = threading.Event()
    world.procedures.submit("before", "create_table", "t", lambda: going_on.wait(60))
    assert world.holds.hold(TOKEN) is None
    assert not world.holds.release(TOKEN)
    going_on.set()
    assert world.change().wait(60)
    assert not world.catalog.lock.locked()


def test_a_hold_has_a_token_of_its_own(world: _World) -> None:
    with pytest.raises(InvalidArguments):
        world.holds.hold("None")
