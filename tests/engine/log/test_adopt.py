"""A region that comes back to a log after a life elsewhere goes on there, and a restart finds it whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.engine.harness import WAL_OPTIONS
from tsdb.engine.errors import EntryOutOfOrder
from tsdb.engine.log import Frame, LogStore, encode_frame_payload
from tsdb.engine.log.shared import Acknowledge, SharedSettings, open_shared_log
from tsdb.engine.wal import Wal
from tsdb.store import MemoryStore
from tsdb.units import Duration

REGION, OTHER = 7, 8
KINDS = ["local", "store", "local and store"]


class Disk:
    """Where the lives of one log are."""

    def __init__(self, root: Path, kind: str) -> None:
        self.root = root
        self.kind = kind
        self.store = MemoryStore()

    def open(self) -> LogStore:
        if self.kind == "local":
            return Wal.open(self.root, WAL_OPTIONS)[0]
        acknowledge = Acknowledge.STORE if self.kind == "store" else Acknowledge.LOCAL
        settings = SharedSettings(acknowledge=acknowledge, interval=Duration.of_seconds(0.001), node=3)
        open_local = lambda: Wal.open(self.root, WAL_OPTIONS)[0]  # noqa: E731
        return open_shared_log(self.store, self.root, settings, open_local=open_local)


@pytest.fixture(params=KINDS)
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Disk:
    return Disk(tmp_path / "wal", request.param)


def append(log: LogStore, region: int, *entries: int) -> None:
    for entry in entries:
        log.append([Frame(region, entry, encode_frame_payload(f"{entry}".encode()), rows=1)]).result(30)


def read(log: LogStore, floors: dict[int, int]) -> dict[int, list[int]]:
    reading = log.read(floors)
    assert [reading.quarantine_reason(each) for each in floors] == [None] * len(floors)
    found: dict[int, list[int]] = {}
    for batch in reading:
        for frame in batch:
            found.setdefault(frame.region_id, []).append(frame.entry_id)
    assert set(reading.regions()) == set(found)
    return found


@pytest.mark.parametrize("flushed", [1, 3, 20])
def test_a_region_goes_on_behind_what_is_flushed(disk: Disk, flushed: int) -> None:
    log = disk.open()
    read(log, {})
    log.floor(REGION, 0)
    append(log, REGION, 1, 2, 3)
    append(log, OTHER, 1)
    assert log.last_entry(REGION) == 3
    log.adopt({REGION: flushed})
    assert log.last_entry(REGION) is None
    with pytest.raises(EntryOutOfOrder):
        append(log, REGION, flushed + 2)
    append(log, REGION, flushed + 1, flushed + 2)
    log.seal(clean=False)
    for _ in range(2):
        log = disk.open()
        assert read(log, {REGION: flushed, OTHER: 0}) == {REGION: [flushed + 1, flushed + 2], OTHER: [1]}
        assert log.last_entry(REGION) == flushed + 2
        log.seal(clean=False)


def test_a_region_that_the_log_never_had_needs_no_marker(disk: Disk) -> None:
    log = disk.open()
    read(log, {})
    append(log, OTHER, 1)
    before = log.statistics().appended_frames
    log.adopt({REGION: 100})
    assert log.statistics().appended_frames == before
    append(log, REGION, 101)
    log.seal()
    assert read(disk.open(), {REGION: 100, OTHER: 1}) == {REGION: [101]}
