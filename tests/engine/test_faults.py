"""Disks that are full, broken or silent: what was acknowledged stays, what was refused is not there."""

from __future__ import annotations

import errno
import threading
import time
from dataclasses import replace
from enum import StrEnum
from pathlib import Path

import pytest

from tests.engine import lives
from tests.engine.fault_steps import CREATED, check_after_restart, held
from tests.engine.harness import batch_of, read
from tests.engine.lives import APPEND, DROPPED, PLAIN, ForgetfulStore, Rows, Step, wait_until
from tests.faults import FaultyFiles, FullDisk, PowerLossFiles
from tsdb.engine.engine import Engine
from tsdb.engine.errors import (
    ManifestNotDurable,
    ManifestUncertain,
    RegionBusy,
    RegionQuarantined,
    RegionReadOnly,
    StorageFull,
    StorageUnavailable,
)
from tsdb.errors import TsdbError
from tsdb.model import ColumnExists, RegionId, RegionOptions
from tsdb.store import StoreError, StoreFull
from tsdb.units import Duration, Size


@pytest.fixture
def rows() -> Rows:
    return Rows()


@pytest.mark.parametrize("budget", [0, 10, 64, 200, 700])
def test_a_full_disk_refuses_writes_whole_and_takes_them_again_when_there_is_space(
    tmp_path: Path, rows: Rows, budget: int
) -> None:
    files = FullDisk()
    steps = [*CREATED, lives.put(PLAIN, rows.make(("a", 0)))]
    engine = lives.begin(tmp_path, *steps, files=files)
    files.budget = budget
    for _ in range(3):
        with pytest.raises(StorageFull):
            lives.put(PLAIN, rows.make(("a", 0), ("b", 0), ("c", 0))).run(engine)
    assert lives.see(engine) == lives.expected(*steps)
    files.budget = None
    steps += [lives.put(PLAIN, rows.make(("b", 0))), lives.put(APPEND, rows.make(("b", 0)))]
    lives.live(engine, *steps[-2:])
    assert lives.see(engine) == lives.expected(*steps)
    engine.close(flush=False)
    check_after_restart(tmp_path, *steps)


def test_a_flush_on_a_full_disk_leaves_everything_as_it_was_and_succeeds_later(tmp_path: Path, rows: Rows) -> None:
    files = FaultyFiles()
    steps = [*CREATED, lives.put(APPEND, rows.make(("a", 0), ("a", 0), ("b", lives.DAY_MS)))]
    engine = lives.begin(tmp_path, *steps, files=files)
    used = engine.context.buffer.used
    files.fail("write", errno.ENOSPC, name=".parquet", times=2)
    for failures in (1, 2):
        with pytest.raises(StoreFull):
            lives.flush(APPEND).run(engine)
        assert engine.stat(APPEND).flush_failures == failures
        assert lives.see(engine) == lives.expected(*steps)
    assert 0 < engine.context.buffer.used <= 2 * used
    lives.settle(engine)
    assert not lives.unknown_files(engine)
    steps += [lives.put(APPEND, rows.make(("c", 0))), lives.flush(APPEND)]
    lives.live(engine, *steps[-2:])
    assert engine.stat(APPEND).flush_failures == 0
    assert engine.context.buffer.used == 0
    engine.close(flush=False)
    check_after_restart(tmp_path, *steps)


def test_rows_whose_flush_failed_survive_a_crash(tmp_path: Path, rows: Rows) -> None:
    files = FaultyFiles()
    steps = [*CREATED, lives.put(PLAIN, rows.make(("a", 0))), lives.put(APPEND, rows.make(("a", 0)))]
    engine = lives.begin(tmp_path, *steps, files=files)
    files.fail("fsync", errno.EIO, name=".parquet", times=-1)
    for region in (PLAIN, APPEND):
        with pytest.raises(StoreError):
            lives.flush(region).run(engine)
    engine.close()
    check_after_restart(tmp_path, *steps)


def test_an_index_that_cannot_be_written_does_not_keep_a_flush_from_ending(tmp_path: Path, rows: Rows) -> None:
    files = FaultyFiles()
    steps = [*CREATED, lives.put(PLAIN, rows.make(("a", 0))), lives.flush(PLAIN)]
    files.fail("write", errno.ENOSPC, name=".idx", times=-1)
    engine = lives.begin(tmp_path, *steps, files=files)
    engine.close(flush=False)
    engine = lives.open_life(tmp_path)
    assert lives.see(engine) == lives.expected(*steps)
    engine.close()


def test_a_checkpoint_that_fails_costs_no_file_of_the_flush_before_it(tmp_path: Path, rows: Rows) -> None:
    files = FaultyFiles()
    files.fail("write", errno.ENOSPC, name=".checkpoint", times=-1)
    engine = lives.begin(tmp_path, *CREATED, files=files)
    steps = [*CREATED]
    for _ in range(4):
        steps += [
            lives.put(APPEND, rows.make(("a", 0))),
            lives.flush(APPEND),
            lives.add_column(APPEND, f"c{len(steps)}", 1),
        ]
        lives.live(engine, *steps[-3:])
    assert lives.see(engine) == lives.expected(*steps)
    engine.close(flush=False)
    check_after_restart(tmp_path, *steps)


class Trouble(StrEnum):
    """What keeps a version of the manifest from being committed."""

    LOST_REPLY = "lost reply"
    """It is in its place, but its writer is told otherwise."""
    NO_SPACE = "no space"
    """Nothing was written."""

    def begin(self, files: FaultyFiles, store: ForgetfulStore, name: str, *, times: int = 1) -> None:
        if self is Trouble.LOST_REPLY:
            store.lose_reply(name, times)
        else:
            files.fail("write", errno.ENOSPC, name=name, times=times)


@pytest.mark.parametrize("trouble", list(Trouble))
@pytest.mark.parametrize(
    "after",
    [
        lives.flush(APPEND),
        lives.add_column(APPEND, "c", 3),
        lives.set_options(APPEND, RegionOptions(append_mode=True, ttl=Duration.of_seconds(10**9))),
        lives.truncate(APPEND),
        lives.drop(APPEND),
        lives.close(),
    ],
    ids=lambda step: step.name,
)
def test_a_flush_whose_commit_has_an_unknown_outcome_doubles_nothing_and_loses_nothing(
    tmp_path: Path, rows: Rows, trouble: Trouble, after: Step
) -> None:
    files = FaultyFiles()
    store = ForgetfulStore(tmp_path, files=files)
    steps = [*CREATED, lives.put(APPEND, rows.make(("a", 0), ("a", 0)))]
    engine = lives.begin(tmp_path, *steps, files=files, store=store)
    trouble.begin(files, store, "2_0000000000/manifest")
    with pytest.raises(ManifestUncertain):
        lives.flush(APPEND).run(engine)
    assert lives.see(engine) == lives.expected(*steps)
    steps.append(lives.put(APPEND, rows.make(("a", 0))))
    lives.live(engine, steps[-1])
    assert lives.see(engine) == lives.expected(*steps)
    steps.append(after)
    lives.live(engine, after)
    if after.name != "close":
        assert lives.see(engine) == lives.expected(*steps)
        lives.tick().run(engine)
        assert not lives.unknown_files(engine)
        engine.close(flush=False)
    check_after_restart(tmp_path, *steps)


@pytest.mark.parametrize("trouble", list(Trouble))
def test_rows_are_safe_when_the_process_dies_before_an_unknown_outcome_is_known(
    tmp_path: Path, rows: Rows, trouble: Trouble
) -> None:
    files = FaultyFiles()
    store = ForgetfulStore(tmp_path, files=files)
    steps = [*CREATED, lives.put(APPEND, rows.make(("a", 0)))]
    engine = lives.begin(tmp_path, *steps, files=files, store=store)
    trouble.begin(files, store, "2_0000000000/manifest", times=-1)
    for _ in range(3):
        with pytest.raises(ManifestUncertain):
            lives.flush(APPEND).run(engine)
        steps.append(lives.put(APPEND, rows.make(("a", 0))))
        lives.live(engine, steps[-1])
    assert lives.see(engine) == lives.expected(*steps)
    engine.close(flush=False)
    check_after_restart(tmp_path, *steps)


def test_an_alter_whose_reply_was_lost_is_in_effect_and_a_second_one_says_so(tmp_path: Path, rows: Rows) -> None:
    store = ForgetfulStore(tmp_path)
    steps = [*CREATED, lives.put(PLAIN, rows.make(("a", 0)))]
    engine = lives.begin(tmp_path, *steps, store=store)
    store.lose_reply("1_0000000000/manifest")
    with pytest.raises(ManifestUncertain):
        lives.add_column(PLAIN, "c", 3).run(engine)
    before = lives.put(PLAIN, rows.make(("b", 0)))
    lives.live(engine, before)
    with pytest.raises(ColumnExists):
        lives.add_column(PLAIN, "c", 3).run(engine)
    steps += [before, lives.add_column(PLAIN, "c", 3), lives.put(PLAIN, rows.make(("c", 0), c=8))]
    lives.live(engine, steps[-1])
    assert lives.see(engine) == lives.expected(*steps)
    engine.close(flush=False)
    check_after_restart(tmp_path, *steps)


def test_writing_pauses_while_it_is_unknown_whether_every_row_is_to_be_kept(tmp_path: Path, rows: Rows) -> None:
    """A row that came meanwhile would be merged by this process and kept by the next one."""
    store = ForgetfulStore(tmp_path)
    steps = [*CREATED, lives.put(PLAIN, rows.make(("a", 0))), lives.put(PLAIN, rows.make(("a", 0)))]
    engine = lives.begin(tmp_path, *steps, store=store)
    store.lose_reply("1_0000000000/manifest")
    change = lives.set_options(PLAIN, RegionOptions(append_mode=True))
    with pytest.raises(ManifestUncertain):
        change.run(engine)
    for step in (lives.put(PLAIN, rows.make(("a", 0))), lives.delete(PLAIN, rows.make(("a", 0)))):
        with pytest.raises(RegionReadOnly, match="append mode"):
            step.run(engine)
    lives.tick().run(engine)
    steps += [change, lives.put(PLAIN, rows.make(("a", 0))), lives.put(PLAIN, rows.make(("a", 0)))]
    lives.live(engine, *steps[-2:])
    assert lives.see(engine) == lives.expected(*steps)
    engine.close(flush=False)
    check_after_restart(tmp_path, *steps)


def test_a_change_to_append_mode_that_was_not_written_can_be_repeated(tmp_path: Path, rows: Rows) -> None:
    files = FaultyFiles()
    steps = [*CREATED, lives.put(PLAIN, rows.make(("a", 0)))]
    engine = lives.begin(tmp_path, *steps, files=files)
    files.fail("write", errno.ENOSPC, name="1_0000000000/manifest")
    change = lives.set_options(PLAIN, RegionOptions(append_mode=True))
    with pytest.raises(ManifestUncertain):
        change.run(engine)
    steps += [change, lives.put(PLAIN, rows.make(("a", 0)))]
    lives.live(engine, *steps[-2:])
    engine.close(flush=False)
    check_after_restart(tmp_path, *steps)


def test_an_alter_that_found_no_space_changes_nothing_and_can_be_repeated(tmp_path: Path, rows: Rows) -> None:
    files = FaultyFiles()
    steps = [*CREATED, lives.put(PLAIN, rows.make(("a", 0)))]
    engine = lives.begin(tmp_path, *steps, files=files)
    files.fail("write", errno.ENOSPC, name="1_0000000000/manifest", times=2)
    for _ in range(2):
        with pytest.raises(ManifestUncertain):
            lives.add_column(PLAIN, "c", 3).run(engine)
    steps += [lives.add_column(PLAIN, "c", 3), lives.put(PLAIN, rows.make(("b", 0), c=1))]
    lives.live(engine, *steps[-2:])
    engine.close(flush=False)
    check_after_restart(tmp_path, *steps)


def test_a_truncate_whose_reply_was_lost_voids_a_flush_that_was_under_way(tmp_path: Path, rows: Rows) -> None:
    """Without a write in between, the entry it truncates and the entry that is flushed are the same."""
    store = ForgetfulStore(tmp_path)
    steps = [*CREATED, lives.put(APPEND, rows.make(("a", 0)))]
    engine = lives.begin(tmp_path, *steps, store=store)
    with held("flush.before_files"):
        flushed = engine.flush(APPEND)
        store.lose_reply("2_0000000000/manifest")
        with pytest.raises(ManifestUncertain):
            lives.truncate(APPEND).run(engine)
    flushed.result(30)
    steps.append(lives.truncate(APPEND))
    assert lives.see(engine) == lives.expected(*steps)
    assert engine.context.buffer.used == 0
    engine.close(flush=False)
    check_after_restart(tmp_path, *steps)


@pytest.mark.parametrize(
    "change",
    [lives.flush(APPEND), lives.add_column(APPEND, "c", 3), lives.truncate(APPEND)],
    ids=lambda step: step.name,
)
@pytest.mark.parametrize("loses_power", [False, True])
def test_a_manifest_that_cannot_be_synced_stops_its_region_until_a_restart_and_no_other(
    tmp_path: Path, rows: Rows, change: Step, loses_power: bool
) -> None:
    root = tmp_path / "life"
    root.mkdir()
    files = PowerLossFiles(root)
    steps = [*CREATED, lives.put(APPEND, rows.make(("a", 0))), lives.put(PLAIN, rows.make(("a", 0)))]
    engine = lives.begin(root, *steps, files=files)
    files.fail("fsync_dir", errno.EIO, name="2_0000000000/manifest")
    with pytest.raises(ManifestNotDurable):
        change.run(engine)
    # Once is enough: the sync would succeed now.
    for refused in (lives.put(APPEND, rows.make(("b", 0))), lives.add_column(APPEND, "d", 1), lives.truncate(APPEND)):
        with pytest.raises(RegionReadOnly, match="disk failed"):
            refused.run(engine)
    with pytest.raises(ManifestNotDurable):
        lives.flush(APPEND).run(engine)
    assert engine.stat(APPEND).state == "read_only"
    assert lives.see(engine) == lives.expected(*steps)
    other = [lives.put(PLAIN, rows.make(("b", 0))), lives.flush(PLAIN)]
    lives.live(engine, *other)
    if loses_power:
        files.survive(tmp_path / "after")
    engine.close()
    # Without a power loss it is there after all.
    steps += [] if loses_power else [change]
    check_after_restart(tmp_path / "after" if loses_power else root, *steps, *other)


def test_a_region_whose_first_version_cannot_be_synced_is_not_served_before_a_restart(tmp_path: Path) -> None:
    files = FaultyFiles()
    engine = lives.open_life(tmp_path, files=files)
    files.fail("fsync_dir", errno.EIO, name="1_0000000000/manifest")
    with pytest.raises(ManifestNotDurable):
        lives.create(PLAIN).run(engine)
    with pytest.raises(RegionQuarantined):
        lives.create(PLAIN).run(engine)
    assert PLAIN in engine.quarantined
    engine.close()
    check_after_restart(tmp_path, lives.create(PLAIN))


def test_a_log_that_cannot_be_synced_stops_all_writing_and_no_reading(tmp_path: Path, rows: Rows) -> None:
    files = FaultyFiles()
    fatal: list[TsdbError] = []
    engine = lives.open_life(tmp_path, files=files, on_fatal=fatal.append)
    steps = [*CREATED, lives.put(PLAIN, rows.make(("a", 0))), lives.put(APPEND, rows.make(("a", 0)))]
    lives.live(engine, *steps)
    files.fail("fdatasync", errno.EIO)
    with pytest.raises(StorageUnavailable, match="syncing failed"):
        lives.put(PLAIN, rows.make(("b", 0))).run(engine)
    assert len(fatal) == 1
    assert "syncing failed" in str(fatal[0])
    for region in (PLAIN, APPEND, DROPPED):
        with pytest.raises(RegionReadOnly, match="syncing failed"):
            lives.put(region, rows.make(("c", 0))).run(engine)
        with pytest.raises(RegionReadOnly):
            lives.truncate(region).run(engine)
    assert lives.see(engine) == lives.expected(*steps)
    engine.close()

    engine = lives.open_life(tmp_path)
    seen = lives.see(engine)
    assert seen[APPEND] == lives.expected(*steps)[APPEND]
    assert {dict(row)["host"] for row in seen[PLAIN][1]} - {"b"} == {"a"}
    lives.put(PLAIN, rows.make(("d", 0))).run(engine)
    engine.close()


def test_closing_over_a_broken_log_saves_what_only_memory_has(tmp_path: Path, rows: Rows) -> None:
    """Without `sync_write`, pages that a failed sync lost were acknowledged before."""
    root = tmp_path / "root"
    root.mkdir()
    files = PowerLossFiles(root)
    options = replace(lives.WAL_OPTIONS, sync_write=False, sync_interval=Duration.of_seconds(0.02))
    engine = lives.open_life(root, files=files, wal_options=options)
    files.fail("fdatasync", errno.EIO, times=-1)
    steps = [*CREATED, lives.put(PLAIN, rows.make(("a", 0)))]
    lives.live(engine, *steps)
    lives.wait_until(lambda: engine.context.wal.is_broken)
    engine.close()
    files.survive(tmp_path / "after")
    check_after_restart(tmp_path / "after", *steps)


SMALL = replace(
    lives.OPTIONS,
    global_write_buffer_size=Size(60_000),
    global_write_buffer_reject_size=Size(400_000),
    stall_timeout=Duration.of_seconds(20),
)


def bulk(rows: Rows, region: RegionId) -> Step:
    """Put so many rows that sorting them makes little difference to the memory they take."""
    return lives.put(region, rows.make(*(("a", at) for at in rows.times(100))))


def fill_up(engine: Engine, rows: Rows, region: RegionId, *, to_bytes: int) -> list[Step]:
    """Write to a region until the write buffer is that full, also after a flush has sorted what it could not write."""
    steps = []
    while engine.context.buffer.used < to_bytes:
        steps.append(bulk(rows, region))
        lives.live(engine, steps[-1])
        lives.settle(engine)
    return steps


def write_later(engine: Engine, region: RegionId, made: list[dict[str, object]], timeout: float):  # type: ignore[no-untyped-def]
    return engine.write(region, batch_of(engine.schema(region), made), timeout=Duration.of_seconds(timeout))


def test_writers_that_wait_for_a_flush_which_keeps_failing_are_refused_by_their_deadline(
    tmp_path: Path, rows: Rows
) -> None:
    files = FaultyFiles()
    files.fail("write", errno.ENOSPC, name=".parquet", times=-1)
    engine = lives.begin(tmp_path, *CREATED, files=files, options=SMALL)
    steps = [*CREATED, *fill_up(engine, rows, PLAIN, to_bytes=SMALL.global_write_buffer_size)]
    patient = write_later(engine, APPEND, rows.make(("patient", 0)), 50)
    hasty = write_later(engine, APPEND, rows.make(("hasty", 0)), 0.1)
    with pytest.raises(RegionBusy) as refused:
        hasty.result(40)
    assert refused.value.retry_after_seconds >= 1
    assert not patient.done()
    assert engine.context.buffer.waiting > 0

    files.heal()
    lives.wait_until(lambda: engine.housekeeping.tick() or patient.done(), 10)  # type: ignore[func-returns-value]
    assert patient.result(0) == 1
    assert engine.context.buffer.waiting == 0
    assert {row["host"] for row in read(engine, APPEND)} == {"patient"}
    assert lives.see(engine)[PLAIN] == lives.expected(*steps)[PLAIN]
    engine.close(flush=False)


def test_a_region_that_cannot_be_flushed_does_not_keep_others_from_making_room(tmp_path: Path, rows: Rows) -> None:
    files = FaultyFiles()
    engine = lives.begin(tmp_path, *CREATED, files=files, options=SMALL)
    files.fail("write", errno.EIO, name="1_0000000000", times=-1)
    fill_up(engine, rows, PLAIN, to_bytes=40_000)
    engine._region(PLAIN).flush.not_before_ns += 3600 * 10**9
    for _ in range(20):
        write_later(engine, APPEND, rows.make(*(("a", at) for at in range(100))), 10).result(15)
    assert engine.stat(APPEND).files > 0
    assert engine.stat(PLAIN).files == 0
    engine.close(flush=False)


def test_a_flush_that_failed_a_thousand_times_is_still_tried_again(tmp_path: Path, rows: Rows) -> None:
    files = FaultyFiles()
    steps = [*CREATED, lives.put(PLAIN, rows.make(("a", 0)))]
    engine = lives.begin(tmp_path, *steps, files=files)
    engine._region(PLAIN).flush.failures = 2000
    files.fail("write", errno.EIO, name=".parquet")
    with pytest.raises(StoreError):
        engine.flush(PLAIN).result(10)
    engine.flush(PLAIN).result(10)
    assert engine.stat(PLAIN).files == 1
    engine.close()


@pytest.mark.parametrize("place", ["flush.before_files", "flush.after_files"])
def test_changes_go_on_while_a_flush_takes_its_time(tmp_path: Path, rows: Rows, place: str) -> None:
    steps = [
        *CREATED,
        lives.put(PLAIN, rows.make(("a", 0))),
        lives.put(APPEND, rows.make(("a", 0))),
        lives.put(DROPPED, rows.make(("a", 0))),
    ]
    engine = lives.begin(tmp_path, *steps)
    with held(place):
        flushes = [engine.flush(region) for region in (PLAIN, APPEND, DROPPED)]
        meanwhile = [
            lives.add_column(PLAIN, "c", 3),
            lives.put(PLAIN, rows.make(("b", 0), c=4)),
            lives.truncate(APPEND),
            lives.put(APPEND, rows.make(("b", 0))),
            lives.drop(DROPPED),
            lives.rename_column(PLAIN, "c", "d"),
        ]
        for step in meanwhile:
            step.run(engine)
            steps.append(step)
        assert lives.see(engine) == lives.expected(*steps)
        assert not any(flush.done() for flush in flushes)
    for flush in flushes:
        flush.result(30)
    assert lives.see(engine) == lives.expected(*steps)
    lives.tick().run(engine)
    assert not lives.unknown_files(engine)
    assert not list(engine.context.store.list(lives.directory_of(DROPPED)))
    engine.close(flush=False)
    check_after_restart(tmp_path, *steps)


def test_a_dropped_region_is_not_deleted_while_a_flush_still_writes_into_it(tmp_path: Path, rows: Rows) -> None:
    engine = lives.begin(tmp_path, *CREATED, lives.put(DROPPED, rows.make(("a", 0))))
    with held("flush.before_files"):
        flush = engine.flush(DROPPED)
        lives.drop(DROPPED).run(engine)
        engine.housekeeping.tick()
        time.sleep(0.05)
        assert list(engine.context.store.list(lives.directory_of(DROPPED)))
    flush.result(30)
    lives.tick().run(engine)
    assert not (tmp_path / "store" / lives.directory_of(DROPPED)).exists()
    engine.close()


def test_a_flush_that_is_asked_for_while_another_runs_takes_what_came_since(tmp_path: Path, rows: Rows) -> None:
    engine = lives.begin(tmp_path, *CREATED, lives.put(PLAIN, rows.make(("a", 0))))
    with held("flush.before_files"):
        first = engine.flush(PLAIN)
        lives.put(PLAIN, rows.make(("b", 0))).run(engine)
        second, third = engine.flush(PLAIN), engine.flush(PLAIN)
        time.sleep(0.02)
        assert not any(flush.done() for flush in (first, second, third))
    for flush in (first, second, third):
        flush.result(30)
    assert engine.stat(PLAIN).memtable_rows == 0
    assert engine.stat(PLAIN).files == 2
    engine.close()


def test_closing_waits_for_a_flush_under_way_and_loses_no_row_without_a_log(tmp_path: Path, rows: Rows) -> None:
    steps = [lives.create(PLAIN, options=RegionOptions(skip_wal=True)), lives.put(PLAIN, rows.make(("a", 0)))]
    engine = lives.begin(tmp_path, *steps)
    with held("flush.before_files") as gate:
        engine.flush(PLAIN)
        steps.append(lives.put(PLAIN, rows.make(("b", 0))))
        lives.live(engine, steps[-1])
        closing = threading.Thread(target=engine.close)
        closing.start()
        time.sleep(0.05)
        gate.set()
        closing.join(30)
        assert not closing.is_alive()
    check_after_restart(tmp_path, *steps)


def test_closing_leaves_to_the_log_what_is_not_flushed_when_its_time_is_over(tmp_path: Path, rows: Rows) -> None:
    steps = [*CREATED, lives.put(PLAIN, rows.make(("a", 0))), lives.put(APPEND, rows.make(("a", 0)))]
    engine = lives.begin(tmp_path, *steps)
    with held("flush.before_files"):
        started = time.monotonic()
        engine.close(grace=Duration.parse("100ms"))
        assert time.monotonic() - started < 10
        assert not (tmp_path / "wal" / "CLEAN").exists()
    wait_until(lambda: not any(thread.is_alive() for thread in engine.context.background._threads))
    check_after_restart(tmp_path, *steps)


def test_closing_without_a_flush_lets_one_that_is_under_way_come_to_its_end(tmp_path: Path, rows: Rows) -> None:
    engine = lives.begin(tmp_path, *CREATED, lives.put(PLAIN, rows.make(("a", 0))))
    with held("flush.before_files") as gate:
        flush = engine.flush(PLAIN)
        lives.wait_until(lambda: engine.context.background.running == 1)
        closing = threading.Thread(target=engine.close, kwargs={"flush": False})
        closing.start()
        time.sleep(0.05)
        gate.set()
        closing.join(30)
    flush.result(0)
    with pytest.raises(StorageUnavailable):
        engine.flush(PLAIN).result(5)
    engine = lives.open_life(tmp_path)
    assert engine.stat(PLAIN).files == 1
    engine.close()


def test_a_start_on_a_full_disk_replays_what_fits_into_memory(tmp_path: Path, rows: Rows) -> None:
    steps = [*CREATED, *(bulk(rows, region) for region in (APPEND, PLAIN) * 15)]
    lives.begin(tmp_path, *steps).close(flush=False)
    files = FaultyFiles()
    files.fail("write", errno.ENOSPC, name="store", times=-1)
    engine = lives.open_life(tmp_path, files=files, options=SMALL)
    assert lives.see(engine) == lives.expected(*steps)
    assert engine.context.buffer.used > SMALL.global_write_buffer_size
    with pytest.raises(RegionBusy):
        write_later(engine, PLAIN, rows.make(("b", 0)), 0.05).result(10)
    files.heal()
    lives.live(engine, lives.flush(PLAIN), lives.flush(APPEND), lives.put(DROPPED, rows.make(("a", 0))))
    engine.close(flush=False)


def test_a_start_that_needs_more_memory_than_there_is_and_cannot_flush_says_so(tmp_path: Path, rows: Rows) -> None:
    steps = [*CREATED, *(bulk(rows, region) for region in (APPEND, PLAIN) * 10)]
    lives.begin(tmp_path, *steps).close(flush=False)
    files = FaultyFiles()
    files.fail("write", errno.ENOSPC, name="store", times=-1)
    with pytest.raises(StoreFull):
        lives.open_life(tmp_path, files=files, options=replace(SMALL, global_write_buffer_reject_size=Size(62_000)))
    check_after_restart(tmp_path, *steps)


def test_a_write_cannot_be_cancelled_and_trying_ends_no_worker(tmp_path: Path, rows: Rows) -> None:
    engine = lives.begin(tmp_path, *CREATED)
    with held("wal.append.before_write"):
        futures = [
            write_later(engine, PLAIN, rows.make(("a", 0)), 5),
            engine.flush(PLAIN),
            engine.truncate(APPEND),
        ]
        assert not any(future.cancel() for future in futures)
    for future in futures:
        future.result(10)
    lives.put(PLAIN, rows.make(("b", 0))).run(engine)
    assert {row["host"] for row in read(engine, PLAIN)} == {"a", "b"}
    engine.close()


def test_an_unexpected_error_is_told_to_its_writer_and_ends_no_worker(
    tmp_path: Path, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = lives.begin(tmp_path, *CREATED)
    region = engine._region(PLAIN)

    def fail(*arguments: object, **options: object) -> None:
        raise MemoryError("no memory for this")

    with monkeypatch.context() as patched:
        patched.setattr(engine.context.wal, "append", fail)
        with pytest.raises(MemoryError):
            lives.put(PLAIN, rows.make(("a", 0))).run(engine)
    with monkeypatch.context() as patched:
        patched.setattr(region.version.mutable, "append", fail)
        with pytest.raises(MemoryError):
            lives.put(PLAIN, rows.make(("b", 0))).run(engine)
    lives.put(PLAIN, rows.make(("c", 0))).run(engine)
    assert {row["host"] for row in read(engine, PLAIN)} == {"c"}
    engine.close()


def test_a_closed_engine_refuses_everything_at_once(tmp_path: Path, rows: Rows) -> None:
    engine = lives.begin(tmp_path, *CREATED)
    batch = batch_of(engine.schema(PLAIN), rows.make(("a", 0)))
    engine.close()
    engine.close()
    for refused in (
        lambda: engine.write(PLAIN, batch).result(5),
        lambda: engine.flush(PLAIN).result(5),
        lambda: engine.truncate(PLAIN).result(5),
        lambda: engine.drop(PLAIN).result(5),
        lambda: lives.create(lives.region_id(9, 0)).run(engine),
    ):
        with pytest.raises(StorageUnavailable, match="closed"):
            refused()
