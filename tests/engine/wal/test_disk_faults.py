"""Disks that are full, slow in taking bytes, or broken."""

from __future__ import annotations

import errno
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.engine.wal.logs import (
    ALL,
    append,
    make_entry,
    make_frame,
    make_options,
    open_wal,
    opened,
    replay_directory,
    segments,
)
from tests.faults import FaultyFiles, FullDisk
from tsdb.clock import ManualClock
from tsdb.engine.errors import EntryOutOfOrder, StorageFull, StorageUnavailable
from tsdb.engine.wal import Wal
from tsdb.errors import Status, TsdbError
from tsdb.units import Duration


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.002)


@pytest.mark.parametrize("budget", [0, 1, 64, 65, 110])
def test_a_full_disk_refuses_the_append_and_leaves_a_well_formed_log(tmp_path: Path, budget: int) -> None:
    files = FullDisk()
    with opened(tmp_path, files=files) as wal:
        append(wal, make_entry(7, 1))
        size = segments(tmp_path)[0].stat().st_size
        files.budget = budget
        with pytest.raises(StorageFull, match="no space for the log") as caught:
            append(wal, make_entry(7, 2, 100))
        assert caught.value.status is Status.RUNTIME_RESOURCES_EXHAUSTED
        assert segments(tmp_path)[0].stat().st_size == size
        assert not wal.is_broken
        assert wal.statistics().refused_full == 1
        ((_, facts),) = wal.segments()
        assert (facts.state, facts.last_error) == ("full", facts.reason)
        assert facts.since_ms
        files.budget = None
        append(wal, make_entry(7, 2))
        assert [(each.state, each.last_error) for _, each in wal.segments()] == [("active", None)]
    wal, recovery = open_wal(tmp_path)
    assert recovery.torn is None
    wal.seal()
    assert replay_directory(tmp_path) == [make_entry(7, 1), make_entry(7, 2)]


def test_a_full_disk_during_a_rotation_takes_the_whole_append_back(tmp_path: Path) -> None:
    """Its first frames went to segments that are complete and synced: they must not come back either."""
    for budget in range(0, 1400, 90):
        log = tmp_path / str(budget)
        files = FullDisk()
        with opened(log, files=files, file_size=400) as wal:
            append(wal, make_entry(7, 1))
            files.budget = budget
            with pytest.raises(StorageFull):
                wal.append([make_frame(make_entry(7, number, 100)) for number in range(2, 9)]).result(10)
            assert len(segments(log)) == 1
            files.budget = None
            append(wal, make_entry(7, 2), make_entry(8, 1, 200))
        assert replay_directory(log) == [make_entry(7, 1), make_entry(7, 2), make_entry(8, 1, 200)]


def test_an_append_behind_a_refused_one_is_refused_too(tmp_path: Path) -> None:
    files = FullDisk()
    with opened(tmp_path, files=files) as wal:
        append(wal, make_entry(7, 1))
        files.budget = 0
        with pytest.raises(StorageFull):
            append(wal, make_entry(7, 2))
        files.budget = None
        with pytest.raises(EntryOutOfOrder, match="entry 3 does not follow entry 1"):
            append(wal, make_entry(7, 3))
        append(wal, make_entry(7, 2), make_entry(7, 3))


def test_a_log_that_cannot_take_back_what_it_wrote_is_broken(tmp_path: Path) -> None:
    files = FullDisk()
    with opened(tmp_path, files=files) as wal:
        append(wal, make_entry(7, 1))
        files.budget = 10
        files.fail("truncate", errno.EIO)
        with pytest.raises(StorageUnavailable, match="is broken: writing failed: No space left"):
            append(wal, make_entry(7, 2))
        assert wal.is_broken
        ((_, facts),) = wal.segments()
        assert (facts.state, facts.last_error) == ("broken", "writing failed: No space left on device")
    wal, recovery = open_wal(tmp_path)
    assert recovery.torn is not None
    wal.seal()
    assert replay_directory(tmp_path) == [make_entry(7, 1)]


def test_a_sync_that_fails_breaks_the_log_for_good(tmp_path: Path) -> None:
    files = FaultyFiles()
    fatal: list[TsdbError] = []
    wal, _ = Wal.open(tmp_path, make_options(), files)
    wal.on_broken(fatal.append)
    append(wal, make_entry(7, 1))
    files.fail("fdatasync", errno.EIO)
    with pytest.raises(StorageUnavailable, match="is broken: syncing failed: Input/output error") as caught:
        append(wal, make_entry(7, 2))
    assert caught.value.status is Status.STORAGE_UNAVAILABLE
    assert wal.is_broken
    assert wal.statistics().is_broken
    assert [str(error) for error in fatal] == [str(caught.value)]
    syncs = files.calls["fdatasync"]
    for _ in range(2):
        with pytest.raises(StorageUnavailable, match="is broken: syncing failed"):
            append(wal, make_entry(7, 2))
    wal.seal()
    assert files.calls["fdatasync"] == syncs  # never tried again
    assert not (tmp_path / "CLEAN").exists()
    assert len(fatal) == 1
    assert replay_directory(tmp_path)[:1] == [make_entry(7, 1)]


def test_appends_that_wait_behind_a_failing_sync_all_fail(tmp_path: Path) -> None:
    files = FaultyFiles()
    with opened(tmp_path, files=files) as wal:
        gate = files.block("fdatasync")
        files.fail("fdatasync", errno.EIO)
        futures = [wal.append([make_frame(make_entry(7, number))]) for number in range(1, 20)]
        gate.set()
        for future in futures:
            with pytest.raises(StorageUnavailable):
                future.result(10)


def test_a_background_sync_that_fails_breaks_the_log(tmp_path: Path) -> None:
    files = FaultyFiles()
    interval = Duration.of_seconds(0.01)
    with opened(tmp_path, files=files, sync_write=False, sync_interval=interval) as wal:
        files.fail("fdatasync", errno.EIO)
        append(wal, make_entry(7, 1))
        wait_until(lambda: wal.is_broken)
        with pytest.raises(StorageUnavailable):
            append(wal, make_entry(7, 2))


@pytest.mark.parametrize("operation", ["fsync", "fsync_dir", "fdatasync"])
def test_a_sync_that_fails_during_a_rotation_breaks_the_log(tmp_path: Path, operation: str) -> None:
    files = FaultyFiles()
    with opened(tmp_path, files=files, file_size=200, sync_write=False) as wal:
        append(wal, make_entry(7, 1))
        files.fail(operation, errno.EIO)
        with pytest.raises(StorageUnavailable, match="syncing failed"):
            append(wal, make_entry(7, 2))
        assert wal.is_broken
    assert replay_directory(tmp_path)[0] == make_entry(7, 1)


def test_a_write_that_fails_for_another_reason_breaks_the_log(tmp_path: Path) -> None:
    files = FaultyFiles()
    with opened(tmp_path, files=files) as wal:
        files.fail("writev", errno.EIO)
        with pytest.raises(StorageUnavailable, match="writing failed: Input/output error"):
            append(wal, make_entry(7, 1))
        assert wal.is_broken


@pytest.mark.parametrize("count", [1, 7, 64, 100])
def test_short_writes_are_continued(tmp_path: Path, count: int) -> None:
    files = FaultyFiles()
    entries = [make_entry(region, 1, 100) for region in range(5)]
    with opened(tmp_path, files=files, file_size=500) as wal:
        files.shorten_writes(count)
        wal.append([make_frame(entry) for entry in entries]).result(10)
    assert replay_directory(tmp_path) == entries


def test_the_ballast_is_given_back_when_the_disk_is_full_and_kept_again_later(tmp_path: Path) -> None:
    files = FullDisk()
    files.free = 20 * 4096
    with opened(tmp_path, files=files, ballast_bytes=4096) as wal:
        ballast = tmp_path / "BALLAST"
        assert ballast.stat().st_size == 4096
        append(wal, make_entry(7, 1))
        files.budget, files.free = 0, 0
        with pytest.raises(StorageFull):
            append(wal, make_entry(7, 2))
        assert not ballast.exists()
        assert wal.statistics().is_full
        files.budget, files.free = None, 4096  # just what was given back: that is for flushes
        with pytest.raises(StorageFull):
            append(wal, make_entry(7, 2))
        files.free = 3 * 4096
        append(wal, make_entry(7, 2))
        assert ballast.stat().st_size == 4096
        assert not wal.statistics().is_full
    assert replay_directory(tmp_path) == [make_entry(7, 1), make_entry(7, 2)]


def test_a_ballast_is_held_only_while_the_disk_is_running_out(tmp_path: Path) -> None:
    files, clock, ballast = FaultyFiles(), ManualClock(), tmp_path / "BALLAST"
    files.free = 1000 * 4096
    with opened(tmp_path, files=files, ballast_bytes=4096, clock=clock) as wal:
        assert not ballast.exists()
        files.free = 60 * 4096
        append(wal, make_entry(7, 1))
        assert not ballast.exists()  # it does not look at the disk with every append
        clock.advance(seconds=2)
        append(wal, make_entry(7, 2))
        assert ballast.stat().st_size == 4096
        files.free = 100 * 4096
        clock.advance(seconds=2)
        append(wal, make_entry(7, 3))
        assert ballast.exists()  # not to and fro at the border
        files.free = 200 * 4096
        clock.advance(seconds=2)
        append(wal, make_entry(7, 4))
        assert not ballast.exists()


def test_a_small_disk_is_not_filled_with_ballast(tmp_path: Path) -> None:
    files = FaultyFiles()
    files.free = 10_000
    with opened(tmp_path, files=files, ballast_bytes=4096) as wal:
        assert not (tmp_path / "BALLAST").exists()
        append(wal, make_entry(7, 1))


@pytest.mark.parametrize("operation", ["open", "pread", "names", "fsync", "fdatasync", "fsync_dir"])
def test_a_log_that_cannot_be_opened_says_why(tmp_path: Path, operation: str) -> None:
    with opened(tmp_path) as wal:
        append(wal, make_entry(7, 1))
    if operation == "fsync":
        segments(tmp_path)[0].write_bytes(segments(tmp_path)[0].read_bytes() + b"torn")
    files = FaultyFiles()
    files.fail(operation, errno.EIO, name="" if operation != "open" else ".wal")
    with pytest.raises(StorageUnavailable, match=r"cannot open the log in .*Input/output error"):
        open_wal(tmp_path, files=files)


def test_an_error_while_replaying_names_the_file(tmp_path: Path) -> None:
    with opened(tmp_path) as wal:
        append(wal, make_entry(7, 1))
    files = FaultyFiles()
    with opened(tmp_path, files=files) as wal:
        files.fail("pread", errno.EIO)
        with pytest.raises(StorageUnavailable, match=r"cannot read .*0\.wal: Input/output error"):
            list(wal.read(ALL))
