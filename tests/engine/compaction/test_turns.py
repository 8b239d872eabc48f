"""When files are merged: after flushes, once in a while, and never in the way of those who write."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest

from tests.engine import lives
from tests.engine.compaction.flushes import flushed, held, row, values
from tests.engine.harness import (
    DIRECTORY,
    OPTIONS,
    REGION,
    create,
    open_engine,
    put,
)
from tests.engine.lives import DAY_MS
from tests.faults import FaultyFiles
from tsdb.clock import ManualClock
from tsdb.engine.compaction._policy import LOAD_MS
from tsdb.engine.errors import StorageUnavailable
from tsdb.engine.region.background import Background, Priority
from tsdb.engine.region.compact import FIRST_LOOK_MAX, FIRST_LOOK_MIN, IDLE_LOOK, LOOK_INTERVAL, first_look_ns
from tsdb.engine.region.housekeeping import COMPACTIONS_QUEUED_MAX
from tsdb.engine.region.pause import PAUSE_SECONDS_MAX, Pauses
from tsdb.engine.rows.merge_memory import MergeMemory
from tsdb.errors import Cancelled
from tsdb.model import region_id


def test_housekeeping_merges_after_flushes_and_once_in_a_while(tmp_path: Path) -> None:
    clock = ManualClock()
    engine = open_engine(tmp_path, clock=clock)
    create(engine)

    def tick() -> int:
        engine.housekeeping.tick()
        lives.settle(engine)
        return len(engine.files(REGION))

    for number in range(3):
        flushed(engine, row("h", number))
        assert tick() == number + 1
        clock.advance(seconds=LOAD_MS / 3000)
    flushed(engine, row("h", 3))
    assert tick() == 1
    # A window that is not written to any more is tidied up, when its region is looked at.
    flushed(engine, row("h", 4))
    flushed(engine, row("h", 5 * DAY_MS))
    assert tick() == 3
    clock.advance(seconds=3600)
    assert tick() == 2
    engine.close()


def test_files_of_a_load_are_merged_when_there_are_many_or_it_is_over(tmp_path: Path) -> None:
    clock = ManualClock()
    engine = open_engine(tmp_path, clock=clock)
    create(engine)

    def flush(first: int, count: int) -> int:
        for number in range(first, first + count):
            flushed(engine, row("h", number))
            engine.housekeeping.tick()
            lives.settle(engine)
        return len(engine.files(REGION))

    assert flush(0, 7) == 7
    assert flush(7, 1) == 1
    assert flush(8, 4) == 5
    clock.advance(seconds=IDLE_LOOK.seconds)
    engine.housekeeping.tick()
    lives.settle(engine)
    assert len(engine.files(REGION)) < 5
    assert len(values(engine)) == 12
    engine.close()


def test_files_that_overlap_are_merged_when_the_region_is_idle(tmp_path: Path) -> None:
    clock = ManualClock()
    engine = open_engine(tmp_path, clock=clock)
    create(engine)

    def tick(seconds: float) -> int:
        clock.advance(seconds=seconds)
        engine.housekeeping.tick()
        lives.settle(engine)
        return len(engine.files(REGION))

    flushed(engine, row("h", 0), row("h", 10))
    flushed(engine, row("h", 5), row("h", 20))
    assert tick(0) == 2
    # While it is written to, they stay as they are.
    put(engine, [row("h", 30)])
    assert tick(9) == 2
    assert tick(9) == 2
    assert tick(2) == 1
    # What is settled is not looked at again until a file comes, and what does not overlap is left alone.
    region = engine._region(REGION)
    assert tick(10) == 1
    flushed(engine, row("h", 40))
    assert [tick(10), tick(10), tick(10)] == [2, 2, 2]
    assert region.compaction.settled_version == region.manifest.state.version
    assert len(values(engine)) == 6
    engine.close()


def test_after_a_failure_housekeeping_waits_however_often_rows_are_flushed(tmp_path: Path) -> None:
    clock, files = ManualClock(), FaultyFiles()
    engine = open_engine(tmp_path, clock=clock, files=files)
    create(engine)
    for number in range(8):
        flushed(engine, row("h", number))
    files.free = 0
    waits = []
    for failures in (1, 2, 3):
        engine.housekeeping.tick()
        lives.settle(engine)
        assert engine.stat(REGION).compaction_failures == failures
        flushed(engine, row("h", 10 + failures))
        waits.append(engine._region(REGION).compaction.not_before_ns - clock.monotonic_ns())
        clock.advance(seconds=waits[-1] / 1e9 - 0.1)
        engine.housekeeping.tick()
        lives.settle(engine)
        assert engine.stat(REGION).compaction_failures == failures
        clock.advance(seconds=0.1)
    assert waits == sorted(set(waits))
    files.free = None
    engine.housekeeping.tick()
    lives.settle(engine)
    assert len(engine.files(REGION)) == 1
    engine.close()


def test_regions_are_looked_at_after_a_start_but_not_all_at_once(tmp_path: Path) -> None:
    clock = ManualClock()
    engine = open_engine(tmp_path, clock=clock)
    create(engine)
    for number in range(4):
        flushed(engine, row("h", number))
    engine.close()
    engine = open_engine(tmp_path, clock=clock)
    engine.housekeeping.tick()
    lives.settle(engine)
    assert len(engine.files(REGION)) == 4
    clock.advance(seconds=FIRST_LOOK_MAX.seconds)
    engine.housekeeping.tick()
    lives.settle(engine)
    assert len(engine.files(REGION)) == 1
    engine.close()
    looks = [first_look_ns(region_id(table, 0)) for table in range(1024, 1124)]
    assert all(FIRST_LOOK_MIN <= each < FIRST_LOOK_MAX for each in looks)
    spread = FIRST_LOOK_MAX - FIRST_LOOK_MIN
    assert len({(each - FIRST_LOOK_MIN) * 10 // spread for each in looks}) == 10


def test_files_that_overlapped_at_the_last_stop_are_merged_after_a_start(tmp_path: Path) -> None:
    clock = ManualClock()
    engine = open_engine(tmp_path, clock=clock)
    create(engine)
    flushed(engine, *(row("h", number) for number in range(0, 300, 2)))
    flushed(engine, *(row("h", number) for number in range(0, 200, 2)))
    larger, smaller = (each.size_bytes for each in engine.files(REGION))
    assert larger / 2 < smaller < larger
    engine.close()
    engine = open_engine(tmp_path, clock=clock)
    for _ in range(int(FIRST_LOOK_MAX.seconds) + 1):
        engine.housekeeping.tick()
        lives.settle(engine)
        clock.advance(seconds=1)
    assert len(engine.files(REGION)) == 1
    assert len(values(engine)) == 150
    engine.close()


def test_compactions_wait_while_writers_wait_and_while_too_many_are_queued(tmp_path: Path) -> None:
    engine = open_engine(tmp_path)
    create(engine)
    for number in range(8):
        flushed(engine, row("h", number))
    engine.context.buffer.wait(1)
    engine.housekeeping.compact()
    lives.settle(engine)
    assert len(engine.files(REGION)) == 8
    engine.context.buffer.wait(-1)
    gate = threading.Event()
    jobs = [
        engine.context.background.submit(Priority.COMPACT, lambda: gate.wait(60))
        for _ in range(COMPACTIONS_QUEUED_MAX + 1)
    ]
    lives.wait_until(lambda: engine.context.background.running == 1)
    engine.housekeeping.compact()
    assert not engine._region(REGION).compaction.is_running
    gate.set()
    for job in jobs:
        job.result(60)
    engine.housekeeping.compact()
    lives.settle(engine)
    assert len(engine.files(REGION)) == 1
    engine.close()


def test_index_files_of_merged_files_are_left_out_if_so_configured(tmp_path: Path) -> None:
    engine = open_engine(tmp_path, options=replace(OPTIONS, index_on_compaction=False))
    create(engine)
    for number in range(4):
        flushed(engine, row("h", number))
    assert all(file.index_bytes for file in engine.files(REGION))
    engine.compact(REGION).result(60)
    (file,) = engine.files(REGION)
    assert (file.index_path, file.index_bytes) == (None, 0)
    assert len(values(engine)) == 4
    lives.settle(engine)
    assert not list((tmp_path / DIRECTORY / "index").glob("*.idx"))
    engine.close()


def test_flushes_go_before_compactions_and_have_a_thread_of_their_own() -> None:
    background = Background(3)
    gate, order = threading.Event(), list[str]()
    compactions = [background.submit(Priority.COMPACT, lambda: gate.wait(60)) for _ in range(3)]
    deleting = background.submit(Priority.DELETE, lambda: order.append("delete"))
    flushing = background.submit(Priority.FLUSH, lambda: order.append("flush"))
    deleting.result(60)
    flushing.result(60)
    assert background.compactions_queued == 2
    assert background.running == 1
    background.stop_compactions()
    assert background.compactions_queued == 0
    gate.set()
    assert compactions[0].result(60)
    assert isinstance(compactions[1].exception(60), StorageUnavailable)
    assert isinstance(background.submit(Priority.COMPACT, int).exception(60), StorageUnavailable)
    assert background.close(60)


def test_with_one_thread_a_merge_gives_way_to_a_flush(tmp_path: Path) -> None:
    engine = open_engine(tmp_path, options=replace(OPTIONS, max_background_jobs=1))
    create(engine)
    for number in range(4):
        flushed(engine, row("h", number))
    with held("compact.before_files") as came:
        done = engine.compact(REGION)
        assert came.wait(60)
        put(engine, [row("h", 9)])
        flushing = engine.flush(REGION)
        lives.wait_until(lambda: engine.context.background.has_flush_waiting)
    flushing.result(60)
    done.result(60)
    assert len(engine.files(REGION)) == 1
    assert len(values(engine)) == 5
    engine.close()


def test_merges_share_memory_and_flushes_never_wait_for_it() -> None:
    memory = MergeMemory(100)
    order: list[str] = []
    is_cancelled = threading.Event()

    def check() -> None:
        if is_cancelled.is_set():
            raise Cancelled("enough")

    with memory.compacting(1000, check):
        with memory.flushing(500):
            assert memory.used == 1500
        is_cancelled.set()
        with pytest.raises(Cancelled), memory.compacting(1, check):
            order.append("never")
        is_cancelled.clear()

        def wait() -> None:
            with memory.compacting(1, check):
                order.append("second")

        waiting = threading.Thread(target=wait)
        waiting.start()
        order.append("first")
    waiting.join(60)
    assert order == ["first", "second"]
    assert memory.used == 0


def test_a_region_that_is_well_is_not_looked_at_all_the_time(tmp_path: Path) -> None:
    clock = ManualClock()
    engine = open_engine(tmp_path, clock=clock)
    create(engine)
    flushed(engine, row("h", 1))
    flushed(engine, row("h", 2))
    engine.housekeeping.tick()
    lives.settle(engine)
    assert engine._region(REGION).compaction.due_ns == clock.monotonic_ns() + LOOK_INTERVAL
    engine.close()


def test_housekeeping_does_not_change_when_a_region_with_one_file_is_looked_at(tmp_path: Path) -> None:
    """A flush that adds a file at the same moment has set it, on the worker of the region."""
    clock = ManualClock()
    engine = open_engine(tmp_path, clock=clock)
    create(engine)
    flushed(engine, row("h", 1))
    due_ns = engine._region(REGION).compaction.due_ns
    clock.advance(seconds=3600)
    engine.housekeeping.tick()
    lives.settle(engine)
    assert engine._region(REGION).compaction.due_ns == due_ns
    engine.close()


def test_a_compaction_pauses_while_writers_wait(tmp_path: Path) -> None:
    engine = open_engine(tmp_path)
    create(engine)
    context, naps = engine.context, list[float]()
    context.buffer.wait(100)

    def sleep(seconds: float) -> None:
        naps.append(seconds)
        if len(naps) == 5:
            context.buffer.wait(-100)

    Pauses(context, lambda: None, sleep).pause()
    assert len(naps) == 5
    Pauses(context, lambda: None, sleep).pause()
    assert len(naps) == 5
    engine.close()


def test_a_paused_compaction_comes_to_its_end(tmp_path: Path) -> None:
    engine = open_engine(tmp_path)
    create(engine)
    engine.context.buffer.wait(100)
    naps = list[float]()
    pauses = Pauses(engine.context, lambda: None, naps.append)
    for _ in range(3):
        pauses.pause()
    assert sum(naps) == pytest.approx(PAUSE_SECONDS_MAX, abs=0.1)

    def give_up() -> None:
        raise Cancelled("files that were to be merged are gone")

    with pytest.raises(Cancelled):
        Pauses(engine.context, give_up, naps.append).pause()
    for number in range(3):
        flushed(engine, row("h", number))
    engine.context.buffer.wait(-100)
    engine.compact(REGION).result(30)
    assert len(engine.files(REGION)) == 1
    engine.close()
