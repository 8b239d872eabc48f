"""The log of one node of several: what others can do with it, and what it keeps for them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.store.faulty_store import FaultyStore
from tsdb.engine.errors import LogFenced
from tsdb.engine.log import Frame, LogReading, encode_frame_payload
from tsdb.engine.log.shared import SharedLog, SharedSettings, open_shared_log
from tsdb.engine.wal import Wal
from tsdb.errors import TsdbError
from tsdb.store import MemoryStore, StoreError
from tsdb.units import Duration

REGION, OTHER = 7, 8


class Logs:
    """Logs of several nodes in one store."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.inner = MemoryStore()
        self.store = FaultyStore(self.inner)

    def open(self, node: int) -> SharedLog:
        settings = SharedSettings(interval=Duration.of_seconds(0.001), node=node)
        return open_shared_log(self.store, self.root / f"{node}", settings, open_local=self.no_local)

    def no_local(self) -> Wal:
        raise AssertionError("there is no local log")

    def objects(self, node: int) -> list[str]:
        return [each.path for each in self.inner.list(f"wal/{node}") if each.path.endswith(".log")]


@pytest.fixture
def logs(tmp_path: Path) -> Logs:
    return Logs(tmp_path)


def append(log: SharedLog, region: int, *entries: int) -> None:
    for entry in entries:
        log.append([Frame(region, entry, encode_frame_payload(f"{entry}".encode()), rows=1)]).result(30)


def entries(reading: LogReading) -> list[tuple[int, int]]:
    return [(frame.region_id, frame.entry_id) for batch in reading for frame in batch]


def test_a_log_that_is_taken_over_accepts_nothing_more_in_any_term(logs: Logs) -> None:
    first = logs.open(1)
    append(first, REGION, 1, 2)
    first = logs.open(1)
    first.read_among({REGION: 0}, elsewhere={}, arriving=())
    append(first, REGION, 3)
    append(first, OTHER, 1)
    told: list[TsdbError] = []
    first.on_broken(told.append)
    second = logs.open(2)
    for _ in range(2):
        reading = second.take_over(1, {REGION: 1})
        assert entries(reading) == [(REGION, 2), (REGION, 3)]
        assert reading.regions() == {REGION}
    with pytest.raises(LogFenced, match="node 2 takes over regions"):
        append(first, OTHER, 2)
    with pytest.raises(LogFenced):
        first.prove_ownership().result(30)
    assert [type(error) for error in told] == [LogFenced]
    append(second, REGION, 4)
    assert entries(logs.open(3).take_over(2, {REGION: 3})) == [(REGION, 4)]


def test_a_takeover_that_the_store_interrupts_can_be_repeated(logs: Logs) -> None:
    first, second = logs.open(1), logs.open(2)
    append(first, REGION, 1)
    for operation in ("list", "put_if_absent"):
        logs.store.fail(operation, times=-1)
        with pytest.raises(StoreError):
            second.take_over(1, {REGION: 0})
        logs.store.up()
    assert entries(second.take_over(1, {REGION: 0})) == [(REGION, 1)]


def test_a_node_does_not_take_over_its_own_log(logs: Logs) -> None:
    with pytest.raises(ValueError, match="its own log"):
        logs.open(1).take_over(1, {})


def test_own_entries_are_read_again_with_those_of_the_term_that_is_open(logs: Logs) -> None:
    log = logs.open(1)
    append(log, REGION, 1)
    log = logs.open(1)
    log.read_among({REGION: 0}, elsewhere={}, arriving=())
    append(log, REGION, 2, 3)
    assert entries(log.read_again({REGION: 1})) == [(REGION, 2), (REGION, 3)]
    append(log, REGION, 4)
    logs.open(1)
    with pytest.raises(LogFenced):
        log.read_again({REGION: 1})


@pytest.mark.parametrize("flushed", [None, 0, 1, 2])
def test_entries_of_regions_elsewhere_are_kept_until_they_are_flushed(logs: Logs, flushed: int | None) -> None:
    log = logs.open(1)
    log.remember({REGION: "data/seven", OTHER: "data/eight"})
    append(log, REGION, 1, 2)
    append(log, OTHER, 1)
    log = logs.open(1)
    assert log.strangers([OTHER]) == {REGION: "data/seven"}
    reading = log.read_among({OTHER: 1}, elsewhere={REGION: flushed}, arriving=())
    assert entries(reading) == []
    log.purge()
    kept = {None: 3, 0: 3, 1: 2, 2: 0}[flushed]
    assert len(logs.objects(1)) == kept + 1, "and the fence"
    log.floor(REGION, 2)
    log.purge()
    # Nothing is left, and the next start forgets where the region is.
    log = logs.open(1)
    assert log.strangers([OTHER]) == {}
    assert [each.path for each in logs.inner.list("wal/1/regions")] == [f"wal/1/regions/{OTHER:016x}"]


def test_a_region_without_a_note_is_kept(logs: Logs) -> None:
    log = logs.open(1)
    append(log, REGION, 1)
    log = logs.open(1)
    assert log.strangers([]) == {REGION: None}
