"""Memory, disk and threads have bounds: what happens at each of them, and what every setting changes."""

from __future__ import annotations

import errno
import gc
import random
import threading
import weakref
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from tests.engine import lives
from tests.engine.harness import batch_of, read
from tests.engine.lives import APPEND, DROPPED, PLAIN, Rows, Step
from tests.engine.test_faults import bulk, held
from tests.faults import FaultyFiles
from tsdb.clock import ManualClock
from tsdb.engine.engine import Engine
from tsdb.engine.errors import RegionBusy, RegionNotFound
from tsdb.engine.region.background import Background, Priority
from tsdb.engine.region.housekeeping import FROZEN_MAX, plan_victims
from tsdb.engine.region.region import Region
from tsdb.engine.rows.write_buffer import WriteBuffer
from tsdb.engine.tuning import EngineTuning, MemtableTuning
from tsdb.engine.wal import Replay
from tsdb.model import AddColumn, MemtableKind, RegionId, RegionOptions, region_id
from tsdb.store import Buffer, StoreError, on_crash_point
from tsdb.units import Duration, Size

CREATED = [lives.create(PLAIN), lives.create(APPEND, options=RegionOptions(append_mode=True)), lives.create(DROPPED)]
LIMITED = replace(
    lives.OPTIONS,
    global_write_buffer_size=Size(180_000),
    global_write_buffer_reject_size=Size(270_000),
    stall_timeout=Duration.of_seconds(30),
)


@pytest.fixture
def rows() -> Rows:
    return Rows()


def write(engine: Engine, rows: Rows, region: RegionId, *, seconds: float | None = None) -> Future[int]:
    """Write a hundred rows, about 15 kB with their arrays, without waiting for the answer."""
    batch = batch_of(engine.schema(region), rows.make(*(("a", at) for at in rows.times(100))))
    return engine.write(region, batch, timeout=None if seconds is None else Duration.of_seconds(seconds))


def fill_to_stall(engine: Engine, rows: Rows, region: RegionId) -> int:
    """Write until the next write would have to wait; return how many rows that were."""
    written = 0
    while not engine.context.buffer.should_stall():
        written += write(engine, rows, region).result(10)
    return written


@pytest.mark.parametrize(
    ("sizes", "used", "chosen"),
    [
        ({"a": 10, "b": 50, "c": 40}, 100, ["b"]),
        ({"a": 10, "b": 45, "c": 45}, 100, ["b", "c"]),
        ({"a": 10, "b": 0}, 100, ["a"]),
        ({"a": 10, "b": 20}, 50, []),
        ({}, 100, []),
    ],
)
def test_the_largest_regions_are_flushed_until_half_of_the_buffer_is_free(
    sizes: dict[Region, int], used: int, chosen: list[str]
) -> None:
    assert plan_victims(sizes, used=used, target=50) == chosen


def test_half_a_buffer_of_rows_that_nobody_flushes_starts_a_flush_of_the_largest_region(
    tmp_path: Path, rows: Rows
) -> None:
    engine = lives.begin(tmp_path, *CREATED, options=LIMITED)
    write(engine, rows, APPEND).result(10)
    with held("flush.before_files"):
        while engine.context.buffer.used < 90_000:
            assert not engine._region(PLAIN).flush.is_running
            write(engine, rows, PLAIN).result(10)
    lives.settle(engine)
    assert engine.stat(PLAIN).files == 1
    assert engine.stat(PLAIN).memtable_rows == 0
    assert engine.stat(APPEND).files == 0
    assert engine.context.buffer.used == engine.stat(APPEND).memtable_bytes < 30_000
    engine.close()


def test_changes_of_columns_between_writes_do_not_pile_up_memtables(tmp_path: Path, rows: Rows) -> None:
    engine = lives.begin(tmp_path, *CREATED)
    most = 0
    for number in range(FROZEN_MAX + 8):
        engine.alter(PLAIN, [AddColumn(f"more_{number}", pa.float64())]).result(30)
        write(engine, rows, PLAIN).result(30)
        most = max(most, len(engine._region(PLAIN).version.frozen))
        lives.settle(engine)
    assert most <= FROZEN_MAX + 1, "a flush adds what is being written to"
    assert len(engine._region(PLAIN).version.frozen) < 8
    assert engine.stat(PLAIN).files == 1
    assert len(read(engine, PLAIN)) == 100 * (FROZEN_MAX + 8)
    engine.close()


def test_a_region_has_a_buffer_of_its_own(tmp_path: Path, rows: Rows) -> None:
    steps = [lives.create(PLAIN, options=RegionOptions(write_buffer_size=Size(30_000))), *CREATED[1:]]
    engine = lives.begin(tmp_path, *steps)
    for number in range(6):
        for region in (PLAIN, APPEND):
            write(engine, rows, region).result(10)
        lives.settle(engine)
        assert engine.stat(PLAIN).memtable_bytes < 30_000, number
    assert engine.stat(PLAIN).files == 2
    assert engine.stat(APPEND).files == 0
    engine.close()


def test_a_full_buffer_lets_writers_wait_and_serves_them_in_order_when_a_flush_ends(tmp_path: Path, rows: Rows) -> None:
    engine = lives.begin(tmp_path, *CREATED, options=LIMITED)
    order: list[int] = []
    with held("flush.before_files"):
        written = fill_to_stall(engine, rows, PLAIN)
        waiting = [write(engine, rows, APPEND) for _ in range(4)]
        for number, future in enumerate(waiting):
            future.add_done_callback(lambda _, number=number: order.append(number))
        lives.wait_until(lambda: engine.context.buffer.waiting > 15_000)
        assert not any(future.done() for future in waiting)
        assert len(read(engine, PLAIN)) == written
        assert not read(engine, APPEND)
    assert [future.result(10) for future in waiting] == [100] * 4
    assert order == [0, 1, 2, 3]
    assert engine.context.buffer.waiting == 0
    engine.close()


def test_each_waiting_writer_is_refused_at_its_own_deadline(tmp_path: Path, rows: Rows) -> None:
    clock = ManualClock()
    engine = lives.begin(tmp_path, *CREATED, options=LIMITED, clock=clock)
    with held("flush.before_files"):
        fill_to_stall(engine, rows, PLAIN)
        patient, hasty, usual = (write(engine, rows, APPEND, seconds=seconds) for seconds in (60, 5, None))
        lives.wait_until(lambda: engine.context.buffer.waiting > 30_000)
        clock.advance(seconds=4.9)
        engine.context.buffer.wake()
        lives.settle_workers(engine)
        assert not any(future.done() for future in (patient, hasty, usual))
        clock.advance(seconds=0.2)
        with pytest.raises(RegionBusy, match="waited too long") as refused:
            hasty.result(10)
        assert refused.value.retry_after_seconds == 1
        clock.advance(seconds=25)
        with pytest.raises(RegionBusy):
            usual.result(10)
        assert not patient.done()
        with pytest.raises(RegionBusy):
            write(engine, rows, APPEND, seconds=0).result(10)
    assert patient.result(10) == 100
    assert len(read(engine, APPEND)) == 100
    assert engine.context.buffer.waiting == 0
    engine.close(flush=False)
    engine = lives.open_life(tmp_path)
    assert len(read(engine, APPEND)) == 100
    engine.close()


def test_writers_are_refused_at_once_when_too_much_is_waiting(tmp_path: Path, rows: Rows) -> None:
    engine = lives.begin(tmp_path, *CREATED, options=LIMITED)
    buffer = engine.context.buffer
    with held("flush.before_files"):
        fill_to_stall(engine, rows, PLAIN)
        futures = [write(engine, rows, APPEND) for _ in range(30)]
        lives.settle_workers(engine)
        refused = [future for future in futures if future.done()]
        assert 20 <= len(refused) < 30
        assert buffer.used + buffer.waiting <= buffer.reject_size
        with pytest.raises(RegionBusy, match="write buffer is full") as error:
            refused[0].result(0)
        assert error.value.retry_after_seconds == 1
        assert error.value.fields["reject_bytes"] == 270_000
    accepted = sum(future.result(10) for future in futures if future not in refused)
    assert len(read(engine, APPEND)) == accepted
    engine.close(flush=False)
    engine = lives.open_life(tmp_path)
    assert len(read(engine, APPEND)) == accepted
    engine.close()


def test_writes_that_arrive_together_cannot_pass_the_limits_together(tmp_path: Path, rows: Rows) -> None:
    """A worker takes many writes at a time; each has to count for the next."""
    engine = lives.begin(tmp_path, *CREATED, options=LIMITED)
    buffer = engine.context.buffer
    queued = threading.Event()
    with held("flush.before_files"):
        engine._workers[0].call(lambda: queued.wait(30))
        futures = [write(engine, rows, APPEND) for _ in range(50)]
        queued.set()
        lives.settle_workers(engine)
        assert buffer.used < buffer.size + 18_000
        assert buffer.used + buffer.waiting <= buffer.reject_size
        refused = [future for future in futures if future.done() and future.exception(0) is not None]
        assert len(refused) > 25
    for future in futures:
        assert future in refused or future.result(10) == 100
    engine.close()


def test_a_single_write_may_be_larger_than_the_whole_buffer(tmp_path: Path, rows: Rows) -> None:
    engine = lives.begin(
        tmp_path,
        *CREATED,
        options=replace(LIMITED, global_write_buffer_size=Size(1000), global_write_buffer_reject_size=Size(2000)),
    )
    for _ in range(3):
        assert write(engine, rows, PLAIN).result(10) == 100
        lives.settle(engine)
    assert len(read(engine, PLAIN)) == 300
    engine.close()


def test_waiting_writers_of_a_dropped_region_are_told_and_its_memory_is_free(tmp_path: Path, rows: Rows) -> None:
    engine = lives.begin(tmp_path, *CREATED, options=LIMITED)
    with held("flush.before_files"):
        fill_to_stall(engine, rows, DROPPED)
        waiting = [write(engine, rows, DROPPED), write(engine, rows, APPEND)]
        lives.drop(DROPPED).run(engine)
        with pytest.raises(RegionNotFound):
            waiting[0].result(10)
        assert waiting[1].result(10) == 100
    engine.close()


def test_a_region_is_flushed_when_its_rows_are_as_old_as_auto_flush_interval(tmp_path: Path, rows: Rows) -> None:
    clock = ManualClock()
    options = replace(lives.OPTIONS, auto_flush_interval=Duration.of_seconds(600))
    engine = lives.begin(tmp_path, *CREATED, options=options, clock=clock)
    clock.advance(seconds=5000)
    lives.tick().run(engine)
    lives.put(PLAIN, rows.make(("a", 0))).run(engine)
    lives.tick().run(engine)
    clock.advance(seconds=599)
    lives.tick().run(engine)
    assert engine.stat(PLAIN).files == 0
    clock.advance(seconds=1)
    lives.tick().run(engine)
    assert engine.stat(PLAIN).files == 1
    assert engine.stat(APPEND).files == 0
    lives.put(PLAIN, rows.make(("a", 0))).run(engine)
    clock.advance(seconds=599)
    lives.tick().run(engine)
    assert engine.stat(PLAIN).files == 1
    engine.close()


def test_a_region_with_many_rows_is_flushed_when_nobody_writes_any_more(tmp_path: Path, rows: Rows) -> None:
    few_rows = lives.put(PLAIN, rows.make(("a", 0)))
    many_rows = lives.put(APPEND, rows.make(("a", 0), ("b", 0)))
    measured = lives.begin(tmp_path / "measured", *CREATED, few_rows, many_rows)
    few = measured.stat(PLAIN).memtable_bytes
    assert few < measured.stat(APPEND).memtable_bytes
    measured.close()
    clock = ManualClock()
    options = replace(lives.OPTIONS, tuning=EngineTuning(idle_bytes_min=Size(few + 1)))
    engine = lives.begin(tmp_path / "tuned", *CREATED, few_rows, many_rows, clock=clock, options=options)
    for _ in range(5):
        lives.put(APPEND, rows.make(("c", 0))).run(engine)
        clock.advance(seconds=1)
        lives.tick().run(engine)
    assert engine.stat(APPEND).files == 0, "somebody writes"
    clock.advance(seconds=2)
    lives.tick().run(engine)
    assert (engine.stat(APPEND).files, engine.stat(PLAIN).files) == (1, 0)
    engine.close()


def test_a_flush_that_failed_is_not_tried_again_at_once(tmp_path: Path, rows: Rows) -> None:
    clock, files = ManualClock(), FaultyFiles()
    options = replace(lives.OPTIONS, auto_flush_interval=Duration.of_seconds(600))
    engine = lives.begin(
        tmp_path, *CREATED, lives.put(PLAIN, rows.make(("a", 0))), options=options, clock=clock, files=files
    )
    files.fail("write", errno.EIO, name=".parquet", times=2)
    clock.advance(seconds=600)
    for failures in (1, 1, 2, 2):
        lives.tick().run(engine)
        assert engine.stat(PLAIN).flush_failures == failures
        clock.advance(seconds=0.15)
    clock.advance(seconds=1)
    lives.tick().run(engine)
    assert engine.stat(PLAIN).files == 1
    engine.close()


def test_regions_that_hold_back_the_log_are_flushed_and_its_segments_vanish(tmp_path: Path, rows: Rows) -> None:
    clock = ManualClock()
    wal_options = replace(lives.WAL_OPTIONS, purge_interval=Duration.of_seconds(60))
    engine = lives.begin(tmp_path, *CREATED, wal_options=wal_options, clock=clock)
    lives.put(APPEND, rows.make(("idle", 0))).run(engine)
    for _ in range(8):
        lives.live(engine, lives.put(PLAIN, rows.make(("a", 0), ("b", 0))), lives.flush(PLAIN))
    lives.put(DROPPED, rows.make(("new", 0))).run(engine)
    before = engine.context.wal.statistics()
    assert before.total_bytes > wal_options.purge_threshold
    clock.advance(seconds=59)
    lives.tick().run(engine)
    assert engine.stat(APPEND).files == 0
    clock.advance(seconds=1)
    lives.tick().run(engine)
    assert engine.stat(APPEND).files == 1, "the idle region pins the oldest segment"
    assert engine.stat(DROPPED).files == 0, "the newest segment is no trouble"
    assert engine.context.wal.statistics().purged_segments == 0
    clock.advance(seconds=60)
    lives.tick().run(engine)
    after = engine.context.wal.statistics()
    assert after.total_bytes <= wal_options.purge_threshold
    assert len(list((tmp_path / "wal").glob("*.wal"))) == after.segments < before.segments
    engine.close()


def test_a_segment_of_the_log_is_no_larger_than_file_size_unless_one_write_is(tmp_path: Path, rows: Rows) -> None:
    engine = lives.begin(tmp_path, *CREATED, *(lives.put(PLAIN, rows.make(("a", at))) for at in range(12)))
    sizes = [path.stat().st_size for path in (tmp_path / "wal").glob("*.wal")]
    assert len(sizes) >= 4
    assert max(sizes) <= lives.WAL_OPTIONS.file_size
    write(engine, rows, PLAIN).result(10)
    lives.put(PLAIN, rows.make(("b", 0))).run(engine)
    larger = [path.stat().st_size for path in (tmp_path / "wal").glob("*.wal")]
    assert len([size for size in larger if size > lives.WAL_OPTIONS.file_size]) == 1
    engine.close()


def test_replaying_more_than_fits_into_memory_flushes_on_the_way(
    tmp_path: Path, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[Step] = [*CREATED, *(bulk(rows, region) for region in (PLAIN, APPEND, PLAIN) * 12)]
    lives.begin(tmp_path, *steps).close(flush=False)
    used: list[int] = []
    charge = WriteBuffer.charge

    def observe(buffer: WriteBuffer, delta: int) -> None:
        charge(buffer, delta)
        used.append(buffer.used)

    monkeypatch.setattr(WriteBuffer, "charge", observe)
    engine = lives.open_life(tmp_path, options=LIMITED)
    assert 90_000 < max(used) < 180_000
    assert engine.stat(PLAIN).files + engine.stat(APPEND).files > 2
    assert lives.see(engine) == lives.expected(*steps)
    engine.close(flush=False)
    engine = lives.open_life(tmp_path)
    assert lives.see(engine) == lives.expected(*steps)
    engine.close()


@pytest.mark.parametrize("size", [1, 5, 1000])
def test_read_batch_size_is_how_many_entries_are_read_at_a_time(
    tmp_path: Path, rows: Rows, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    lives.begin(tmp_path, *CREATED, *(lives.put(PLAIN, rows.make(("a", at))) for at in range(12))).close(flush=False)
    batches: list[int] = []
    original = Replay.__iter__

    def observe(replay: Replay):  # type: ignore[no-untyped-def]
        for frames in original(replay):
            batches.append(len(frames))
            yield frames

    monkeypatch.setattr(Replay, "__iter__", observe)
    engine = lives.open_life(tmp_path, wal_options=replace(lives.WAL_OPTIONS, read_batch_size=size))
    assert sum(batches) == 12
    assert max(batches) == min(size, 12)
    assert len(read(engine, PLAIN)) == 12
    engine.close()


def test_num_workers_is_how_many_threads_own_regions(tmp_path: Path, rows: Rows) -> None:
    engine = lives.open_life(tmp_path, options=replace(lives.OPTIONS, num_workers=3))
    names = {thread.name for thread in threading.enumerate() if thread.name.startswith("tsdb-region-")}
    assert names == {"tsdb-region-0", "tsdb-region-1", "tsdb-region-2"}
    regions = [region_id(table, number) for table in range(1, 4) for number in range(3)]
    lives.live(engine, *(lives.create(region) for region in regions))
    owners = Counter[str]()
    for region in regions:
        table, number = region >> 32, region & 0xFFFFFFFF
        owner = engine._region(region).worker.call(lambda: threading.current_thread().name).result(10)
        assert owner == f"tsdb-region-{(table % 3 + number % 3) % 3}"
        owners[owner] += 1
        lives.put(region, rows.make(("a", 0))).run(engine)
    assert set(owners.values()) == {3}
    engine.close()


def test_max_background_jobs_is_how_many_run_at_a_time(tmp_path: Path, rows: Rows) -> None:
    regions = [region_id(table, 0) for table in range(1, 7)]
    steps = [step for region in regions for step in (lives.create(region), lives.put(region, rows.make(("a", 0))))]
    engine = lives.begin(tmp_path, *steps, options=replace(lives.OPTIONS, max_background_jobs=3))
    lives.settle(engine)
    running: list[int] = []
    background = engine.context.background
    with held("flush.before_files"):
        flushes = [engine.flush(region) for region in regions]
        lives.wait_until(lambda: background.running == 3)
        lives.settle_workers(engine)
        assert background.queued == 3
    with on_crash_point(lambda name: running.append(background.running)):
        for flush in flushes:
            flush.result(10)
    assert max(running) <= 3
    engine.close()


def test_one_thread_is_kept_for_flushes_and_none_of_the_others_is_idle_while_a_flush_waits() -> None:
    gate, began = threading.Event(), threading.Semaphore(0)

    def wait() -> None:
        began.release()
        assert gate.wait(30)

    background = Background(3)
    jobs = [background.submit(Priority.DELETE, wait) for _ in range(4)]
    assert began.acquire(timeout=5)
    assert began.acquire(timeout=5)
    assert not began.acquire(timeout=0.05), "the third thread takes no other job"
    background.submit(Priority.FLUSH, lambda: None).result(5)
    gate.set()
    for job in jobs:
        job.result(5)
    gate.clear()
    flushes = [background.submit(Priority.FLUSH, wait) for _ in range(3)]
    for _ in range(5):
        assert began.acquire(timeout=5)
    assert background.running == 3
    gate.set()
    for flush in flushes:
        flush.result(5)
    background.close()


def test_a_background_job_goes_by_its_urgency_and_closing_runs_what_is_queued() -> None:
    background = Background(1)
    gate = threading.Event()
    done: list[str] = []
    background.submit(Priority.FLUSH, lambda: gate.wait(30))
    for name, priority in (("delete", Priority.DELETE), ("sort", Priority.SORT), ("flush", Priority.FLUSH)):
        background.submit(priority, lambda name=name: done.append(name))
    failing = background.submit(Priority.SORT, lambda: 1 // 0)
    gate.set()
    background.close()
    assert done == ["flush", "sort", "delete"]
    assert isinstance(failing.exception(0), ZeroDivisionError)


@pytest.mark.parametrize(("distance", "deltas_max", "checkpoints"), [(3, 2, 1), (1, 0, 1), (0, 100, 0)])
def test_manifest_checkpoint_distance_is_how_many_versions_there_are_behind_a_checkpoint(
    tmp_path: Path, rows: Rows, distance: int, deltas_max: int, checkpoints: int
) -> None:
    engine = lives.begin(tmp_path, *CREATED, options=replace(lives.OPTIONS, manifest_checkpoint_distance=distance))
    for at in range(10):
        lives.live(engine, lives.put(PLAIN, rows.make(("a", at))), lives.flush(PLAIN))
        names = [path.name for path in (tmp_path / "store" / lives.directory_of(PLAIN) / "manifest").iterdir()]
        if at > 3:
            assert len([name for name in names if name.endswith(".json")]) <= deltas_max
            assert len([name for name in names if name.endswith(".checkpoint")]) == checkpoints
    engine.close()
    engine = lives.open_life(tmp_path)
    assert len(read(engine, PLAIN)) == 10
    engine.close()


class _WriteSizes(FaultyFiles):
    """Notes how much is written to data files at a time."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[int] = []

    def write(self, fd: int, data: Buffer) -> int:
        if ".parquet" in self._names.get(fd, ""):
            self.sizes.append(len(memoryview(data)))
        return super().write(fd, data)


def test_sst_write_buffer_size_is_how_much_of_a_data_file_is_written_at_a_time(tmp_path: Path) -> None:
    chance = random.Random(0)
    made = [{"host": "a", "dc": "x", "ts": at, "a": chance.random(), "b": chance.getrandbits(60)} for at in range(5000)]
    counts: list[list[int]] = []
    for size in (4096, 1 << 20):
        files = _WriteSizes()
        options = replace(lives.OPTIONS, sst_write_buffer_size=Size(size))
        engine = lives.begin(tmp_path / str(size), *CREATED, options=options, files=files)
        lives.live(engine, lives.put(PLAIN, made), lives.flush(PLAIN))
        counts.append(files.sizes)
        engine.close()
    small, large = counts
    assert sum(small) == sum(large)
    assert len(large) == 1
    assert len(small) > 3


@pytest.mark.parametrize("kind", list(MemtableKind))
@pytest.mark.parametrize("seed", range(3))
def test_the_memory_of_everything_that_is_flushed_truncated_or_dropped_is_given_back_to_the_byte(
    tmp_path: Path, rows: Rows, seed: int, kind: MemtableKind
) -> None:
    chance, files = random.Random(seed), FaultyFiles()
    tuning = EngineTuning(memtable=MemtableTuning(freeze_rows=40, tier_runs=3))
    options = replace(lives.OPTIONS, tuning=tuning, memtable_type=kind)
    engine = lives.begin(tmp_path, *CREATED, files=files, options=options)
    buffer = engine.context.buffer
    regions = [PLAIN, APPEND, DROPPED]
    for number in range(60):
        region = chance.choice(regions)
        keys = [
            (chance.choice("abc"), chance.randint(0, 3) * lives.DAY_MS + number) for _ in range(chance.randint(1, 30))
        ]
        lives.put(region, rows.make(*keys)).run(engine)
        if chance.random() < 0.3:
            read(engine, region)
        if chance.random() < 0.1:
            files.fail("write", errno.EIO, name=".parquet")
            # There may be nothing to flush.
            with suppress(StoreError):
                engine.flush(region).result(10)
            files.heal()
        if chance.random() < 0.1:
            engine.flush(region).result(10)
        if chance.random() < 0.05:
            lives.truncate(region).run(engine)
        if chance.random() < 0.05:
            lives.add_column(region, f"c{number}", 1).run(engine)
    lives.settle(engine)
    assert buffer.used - buffer.kept == sum(engine.stat(region).memtable_bytes for region in regions) > 0
    lives.live(engine, lives.flush(PLAIN), lives.truncate(APPEND), lives.drop(DROPPED))
    lives.settle(engine)
    assert buffer.used == buffer.kept, "keys of series stay, rows do not"
    lives.live(engine, lives.drop(PLAIN), lives.drop(APPEND))
    lives.settle(engine)
    assert (buffer.used, buffer.kept) == (0, 0)
    assert buffer._frozen == 0
    assert buffer.waiting == 0
    engine.close()


def test_rows_that_are_flushed_are_gone_from_memory_although_nothing_else_happens(tmp_path: Path, rows: Rows) -> None:
    engine = lives.begin(tmp_path, *CREATED, lives.put(PLAIN, rows.make(("a", 0))))
    rows_in_memory = weakref.ref(engine._region(PLAIN).version.mutable)
    lives.flush(PLAIN).run(engine)
    lives.wait_until(lambda: engine.context.background.running == 0)
    gc.collect()
    lives.wait_until(lambda: rows_in_memory() is None, 5)
    engine.close()


def all_threads() -> Sequence[str]:
    return sorted(thread.name for thread in threading.enumerate())


def test_a_closed_engine_leaves_no_thread_behind(tmp_path: Path, rows: Rows) -> None:
    before = all_threads()
    engine = lives.begin(tmp_path, *CREATED, lives.put(PLAIN, rows.make(("a", 0))), lives.flush(PLAIN))
    assert len(all_threads()) > len(before)
    engine.close()
    assert all_threads() == before
