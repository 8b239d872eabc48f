"""Compactions that somebody asked for: several jobs at a time, what is told of them, and what ends them."""

from __future__ import annotations

import errno
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from tests.engine import lives
from tests.engine.compaction.flushes import MODES, data_files, deleted, flushed, held, row, values, zero_pages
from tests.engine.harness import OPTIONS, REGION, create, open_engine
from tests.engine.lives import DAY_MS
from tests.faults import FaultyFiles
from tsdb.clock import ManualClock
from tsdb.engine import Engine, StrictWindows
from tsdb.engine.compaction import FAN_IN_MAX
from tsdb.engine.errors import FileCorrupted, StorageFull
from tsdb.engine.region.background import Background, Priority
from tsdb.engine.region.compaction_history import KEPT_MAX, CompactionHistory
from tsdb.engine.region.status import count_runs
from tsdb.errors import TsdbError
from tsdb.model import RegionOptions
from tsdb.store import StoreFull, on_crash_point
from tsdb.units import Duration

DAYS = 4
FOUR_THREADS = replace(OPTIONS, max_background_jobs=5)


@contextmanager
def gathered(place: str, count: int) -> Iterator[list[int]]:
    """Let threads that pass a place wait until so many are there; yield how many came together."""
    barrier, came = threading.Barrier(count), [0]

    def meet(name: str) -> None:
        if name == place and came[0] < count:
            barrier.wait(60)
            came[0] = count

    with on_crash_point(meet):
        yield came


def several_days(engine: Engine, *, files: int = 3) -> None:
    for number in range(files):
        for day in range(DAYS):
            flushed(engine, row("h", day * DAY_MS + number), row(f"h{number}", day * DAY_MS))


@pytest.mark.parametrize("options", MODES)
def test_windows_are_merged_at_the_same_time_and_the_rows_stay_the_same(tmp_path: Path, options: RegionOptions) -> None:
    engine = open_engine(tmp_path, options=FOUR_THREADS)
    create(engine, options=options)
    several_days(engine)
    before = values(engine)
    with gathered("compact.before_files", DAYS) as came:
        engine.compact(REGION, parallelism=DAYS).result(60)
    assert came == [DAYS]
    assert len(engine.files(REGION)) == DAYS
    assert values(engine) == before
    assert engine.verify(REGION).result(60).damaged == ()
    engine.close()
    engine = open_engine(tmp_path)
    assert values(engine) == before
    engine.close()


def test_files_are_cut_at_the_same_time(tmp_path: Path) -> None:
    engine = open_engine(tmp_path, options=FOUR_THREADS)
    create(engine, options=RegionOptions(compaction_window=Duration.of_seconds(7 * 86_400)))
    for number in range(2):
        flushed(engine, *(row("h", hour * 3_600_000 + number) for hour in range(4)))
    before = values(engine)
    with gathered("compact.before_files", 2) as came:
        engine.compact(REGION, StrictWindows(Duration.of_seconds(3600)), parallelism=2).result(60)
    assert came == [2]
    assert all(file.time_range.start // 3_600_000 == file.time_range.last // 3_600_000 for file in engine.files(REGION))
    assert values(engine) == before
    engine.close()


def test_parallelism_is_bounded_by_the_background_threads(tmp_path: Path) -> None:
    engine = open_engine(tmp_path, options=replace(OPTIONS, max_background_jobs=2))
    create(engine)
    several_days(engine)
    most, running, lock = [0], [0], threading.Lock()

    def count(name: str) -> None:
        with lock:
            running[0] += (name == "compact.before_files") - (name == "compact.after_files")
            most[0] = max(most[0], running[0])

    with on_crash_point(count):
        engine.compact(REGION, parallelism=1000).result(60)
    assert most == [1], "one of two threads is for flushes"
    assert len(engine.files(REGION)) == DAYS
    engine.close()


def test_requested_jobs_may_take_more_threads_than_others() -> None:
    background = Background(4)
    gate, started = threading.Event(), threading.Semaphore(0)

    def job() -> None:
        started.release()
        assert gate.wait(60)

    for priority, count in ((Priority.REQUESTED, 3), (Priority.COMPACT, 1), (Priority.REQUESTED, 1)):
        for _ in range(count):
            background.submit(priority, job)
    for _ in range(3):
        assert started.acquire(timeout=60)
    assert (background.running, background.compactions_queued) == (3, 2)
    gate.set()
    assert background.close(60)


def test_the_history_tells_what_compactions_did_and_do(tmp_path: Path) -> None:
    engine = open_engine(tmp_path)
    create(engine)
    for number in range(4):
        flushed(engine, row("h", number))
    read_bytes = sum(file.size_bytes for file in engine.files(REGION))
    with held("compact.after_files") as came:
        done = engine.compact(REGION)
        assert came.wait(60)
        (running,) = engine.compactions()
        assert (running.result, running.ended_ms, running.progress) == ("running", None, 1.0)
        assert {file.state for file in engine.files(REGION)} == {"compacting"}
        assert engine.stat(REGION).compaction.state == "running"
    done.result(60)
    (record,) = engine.compactions()
    (file,) = engine.files(REGION)
    assert (record.result, len(record.input_ids), record.output_ids) == ("success", 4, (file.file_id,))
    assert (record.input_rows, record.rows_written, record.input_bytes) == (4, 4, read_bytes)
    assert record.reason.startswith("requested: ")
    assert record.amplification is not None
    assert record.amplification > 0
    stat = engine.stat(REGION)
    assert (stat.compaction.state, stat.compaction.last_result, stat.compaction.last_error) == ("idle", "success", None)
    assert stat.write_amplification is not None
    assert stat.write_amplification > 1
    engine.close()


def test_the_history_is_bounded() -> None:
    history = CompactionHistory()
    for _ in range(KEPT_MAX + 5):
        history.begin(REGION, "", [], started_ms=0)
    assert [record.number for record in history.all()] == list(range(6, KEPT_MAX + 6))


@pytest.mark.parametrize("change", ["options", "truncate"])
def test_a_merge_is_given_up_when_the_options_change_or_its_files_go(tmp_path: Path, change: str) -> None:
    engine = open_engine(tmp_path, options=replace(OPTIONS, max_background_jobs=3))
    create(engine)
    for number in range(3):
        flushed(engine, row("h", number))
    with held("compact.before_files") as came:
        done = engine.compact(REGION)
        assert came.wait(60)
        if change == "options":
            engine.set_options(REGION, RegionOptions(compaction_trigger_files=9)).result(60)
        else:
            engine.truncate(REGION).result(60)
    done.result(60)
    first = engine.compactions()[0]
    assert first.result == "cancelled"
    assert first.error is not None
    assert len(engine.compactions()) == (2 if change == "options" else 1), "it is planned again if there is something"
    lives.settle(engine)
    assert len(data_files(tmp_path)) == len(engine.files(REGION)) == (1 if change == "options" else 0)
    engine.close()


@pytest.mark.parametrize("operation", ["write", "free"])
def test_a_full_disk_leaves_everything_as_it_was_and_is_told(tmp_path: Path, operation: str) -> None:
    clock, files = ManualClock(), FaultyFiles()
    engine = open_engine(tmp_path, clock=clock, files=files)
    create(engine)
    for number in range(8):
        flushed(engine, row("h", number))
    before, paths = values(engine), data_files(tmp_path)
    if operation == "free":
        files.free = 0
    else:
        files.fail("write", errno.ENOSPC, times=-1)
        files.fail("writev", errno.ENOSPC, times=-1)
    engine.housekeeping.tick()
    lives.settle(engine)
    assert (values(engine), data_files(tmp_path)) == (before, paths)
    status = engine.stat(REGION).compaction
    assert (status.state, status.last_result) == ("waiting", "failure")
    assert "retry in" in status.reason
    assert status.last_error is not None
    assert "space" in status.last_error
    with pytest.raises(StorageFull if operation == "free" else StoreFull):
        engine.compact(REGION).result(60)
    files.heal()
    files.free = None
    engine.compact(REGION).result(60)
    assert (len(engine.files(REGION)), values(engine)) == (1, before)
    assert engine.stat(REGION).compaction.last_error is None
    engine.close()


def test_a_damaged_file_found_by_one_of_several_jobs_stops_none_of_the_others(tmp_path: Path) -> None:
    engine = open_engine(tmp_path, options=FOUR_THREADS)
    create(engine)
    several_days(engine)
    victim = data_files(tmp_path)[0]
    zero_pages(victim)
    engine.context.caches.evict_file(victim.stem)
    with pytest.raises(FileCorrupted, match=victim.name):
        engine.compact(REGION, parallelism=DAYS).result(60)
    assert len(engine.files(REGION)) == DAYS + 1
    assert sorted(file.state for file in engine.files(REGION)) == [*["ok"] * DAYS, "quarantined"]
    engine.close(flush=False)


@pytest.mark.parametrize("options", MODES[:2])
def test_a_row_deleted_in_the_last_of_33_files_does_not_come_back(tmp_path: Path, options: RegionOptions) -> None:
    engine = open_engine(tmp_path)
    create(engine, options=options)
    flushed(engine, row("k", 1, 1.0), *(row(f"large{at}", at) for at in range(200)))
    for number in range(FAN_IN_MAX - 1):
        flushed(engine, row("other", number))
    deleted(engine, row("k", 1))
    assert len(engine.files(REGION)) == FAN_IN_MAX + 1
    expected = [each for each in values(engine) if each[0] != "k"]
    assert values(engine) == expected
    for _ in range(3):
        engine.compact(REGION).result(60)
        assert values(engine) == expected
    (file,) = engine.files(REGION)
    assert file.rows == len(expected), "the tombstone is gone with what it hid"
    engine.close()


def test_idle_regions_say_why(tmp_path: Path) -> None:
    clock = ManualClock()
    engine = open_engine(tmp_path, clock=clock)
    create(engine)
    stat = engine.stat(REGION)
    assert (stat.flush.state, stat.flush.reason) == ("idle", "there are no rows in memory")
    assert "fewer than two" in stat.compaction.reason
    assert stat.unflushed_seconds is None
    for number in range(3):
        flushed(engine, row("h", number))
    clock.advance(seconds=5)
    lives.put(REGION, [row("h", 9)]).run(engine)
    stat = engine.stat(REGION)
    assert stat.unflushed_seconds == 5.0
    assert stat.flush.last_result == "success"
    assert (stat.windows, stat.window_files_max, stat.window_runs_max) == (1, 3, 1)
    clock.advance(seconds=120)
    assert engine.stat(REGION).compaction.reason == "the files are looked at in a moment"
    engine.context.buffer.wait(1)
    assert engine.stat(REGION).compaction.reason == "writers wait for memory"
    engine.context.buffer.wait(-1)
    assert stat.since_ms is None
    access, stopped_ms = engine._region(REGION).access, clock.now_ns() // 1_000_000
    access.stop("the log is broken")
    clock.advance(seconds=10)
    access.stop("the log is still broken")
    stat = engine.stat(REGION)
    assert (stat.state, stat.reason, stat.since_ms) == ("read_only", "the log is still broken", stopped_ms)
    assert "the log is still broken" in stat.compaction.reason
    engine.close()


def test_runs_are_as_many_as_files_overlap(tmp_path: Path) -> None:
    engine = open_engine(tmp_path)
    create(engine)
    for start in (0, 10, 5, 100):
        flushed(engine, row("h", start), row("h", start + 9))
    metas = [handle.meta for handle in engine._region(REGION).version.files]
    assert count_runs(metas) == 2
    assert count_runs([]) == 0
    engine.close()


def test_segments_of_the_log_tell_who_needs_them(tmp_path: Path) -> None:
    engine = lives.begin(
        tmp_path, lives.create(lives.PLAIN), *(lives.put(lives.PLAIN, lives.Rows().make(("a", at))) for at in range(60))
    )
    segments = [facts for _, facts in engine.wal_segments()]
    assert len(segments) > 2
    assert {facts.state for facts in segments[:-1]} == {"pinned"}
    assert segments[-1].state == "active"
    assert {facts.pinning for facts in segments} == {(lives.PLAIN,)}
    assert sum(facts.entries for facts in segments) == 60
    assert all(facts.since_ms for facts in segments)
    engine.close(flush=False)
    engine = lives.open_life(tmp_path)
    again = [facts for _, facts in engine.wal_segments()]
    assert [facts.entries for facts in again][: len(segments)] == [facts.entries for facts in segments]
    lives.flush(lives.PLAIN).run(engine)
    assert not any(facts.pinning for _, facts in engine.wal_segments())
    assert {facts.state for _, facts in engine.wal_segments()} <= {"active", "unneeded"}
    engine.close()


def test_an_error_that_is_no_damage_ends_a_request(tmp_path: Path) -> None:
    engine = open_engine(tmp_path)
    create(engine)
    flushed(engine, row("h", 1))
    flushed(engine, row("h", 2))

    def fail(name: str) -> None:
        if name == "compact.after_files":
            raise TsdbError("no")

    with on_crash_point(fail), pytest.raises(TsdbError, match="no"):
        engine.compact(REGION).result(60)
    assert engine.stat(REGION).quarantined_files == 0
    assert engine.compactions()[-1].result == "failure"
    engine.close()
