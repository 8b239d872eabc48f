"""A datanode opens what is placed on it and is not open, unless a request to close it is newer than the answer."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from itertools import pairwise

import pytest

from tests.meta.clusters import wait_until
from tsdb.clock import ManualClock
from tsdb.components._missing_regions import MissingRegions
from tsdb.engine.errors import RegionBusy
from tsdb.errors import TsdbError
from tsdb.model import RegionId, RegionOpening, region_id
from tsdb.units import Duration

ONE, TWO = (RegionOpening(region_id(1024, number), f"directory/{number}", 3) for number in range(2))


class Node:
    """What a datanode opens."""

    def __init__(self) -> None:
        self.clock = ManualClock(10**18)
        self.opened: list[RegionOpening] = []
        self.problem: TsdbError | None = None
        self.may_open = threading.Event()
        self.may_open.set()
        self.is_opening = threading.Event()
        self.missing = MissingRegions(self.open, self.clock)

    def open(self, openings: Sequence[RegionOpening]) -> dict[RegionId, TsdbError | None]:
        self.is_opening.set()
        assert self.may_open.wait(60)
        self.opened += openings
        return {each.region_id: self.problem for each in openings}

    def beat(self, *missing: RegionOpening) -> bool:
        """Send a heartbeat; return whether it asked."""
        is_asking = self.missing.is_asking()
        if is_asking and (wanted := self.missing.choose(missing)):
            self.missing.open(wanted)
        return is_asking


@pytest.fixture
def node() -> Node:
    return Node()


def test_what_is_missing_in_two_answers_is_opened(node: Node) -> None:
    node.beat(ONE)
    node.beat()
    node.beat(ONE, TWO)
    assert node.opened == []
    node.beat(TWO)
    assert node.opened == [TWO]


def test_what_cannot_be_opened_is_tried_again_after_longer_and_longer_pauses(node: Node) -> None:
    node.problem = TsdbError("the store does not answer")
    times = []
    for second in range(400):
        before = len(node.opened)
        node.beat(ONE)
        if len(node.opened) > before:
            times.append(second)
        node.clock.advance(seconds=1.0)
    pauses = [after - before for before, after in pairwise(times)]
    assert pauses == [5, 10, 20, 40, 60, 60, 60, 60, 60], times
    node.problem = None
    node.clock.advance(seconds=60.0)
    node.beat(ONE)
    node.clock.advance(seconds=60.0)
    node.beat()
    node.beat(ONE)
    node.beat(ONE)
    assert not node.beat()
    node.clock.advance(seconds=5.0)
    assert node.beat(), "pauses are short again"


def test_a_region_that_was_to_be_closed_after_the_heartbeat_stays_closed(node: Node) -> None:
    node.beat(ONE, TWO)
    assert node.missing.is_asking()
    wanted = node.missing.choose([ONE, TWO])
    node.missing.note_close(ONE.region_id, Duration.of_seconds(1))
    node.missing.open(wanted)
    assert node.opened == [TWO]
    node.clock.advance(seconds=60.0)
    node.beat(ONE)
    assert node.opened == [TWO, ONE], "a later answer knows of it"


def test_who_closes_a_region_waits_while_it_is_opened(node: Node) -> None:
    node.may_open.clear()
    node.beat(ONE)
    assert node.missing.is_asking()
    node.missing.take([ONE])
    assert node.is_opening.wait(60)
    assert not node.missing.is_asking(), "one opening at a time"
    with pytest.raises(RegionBusy, match="being opened"):
        node.missing.note_close(ONE.region_id, Duration.of_seconds(0.05))
    node.missing.note_close(TWO.region_id, Duration.of_seconds(0.05))
    closed: list[RegionOpening] = []

    def close() -> None:
        node.missing.note_close(ONE.region_id, Duration.of_seconds(60))
        closed.extend(node.opened)

    closing = threading.Thread(target=close)
    closing.start()
    node.may_open.set()
    closing.join(60)
    assert closed == [ONE]


def test_a_failure_of_all_openings_is_tried_again(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(openings: Sequence[RegionOpening]) -> dict[RegionId, TsdbError | None]:
        raise TsdbError("it is opening its regions")

    monkeypatch.setattr(node.missing, "_open_regions", fail)
    node.beat(ONE)
    node.beat(ONE)
    assert not node.beat(ONE)
    monkeypatch.undo()
    node.clock.advance(seconds=5.0)
    node.missing.take([ONE])
    wait_until(lambda: node.opened == [ONE])
