"""Whose thread does a write, and in which order."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from tests.engine import lives
from tests.engine.fault_steps import held
from tests.engine.harness import batch_of, read
from tests.engine.lives import PLAIN, Rows, wait_until
from tsdb.engine.engine import Engine
from tsdb.engine.errors import RegionBusy, StorageUnavailable
from tsdb.engine.region.pipeline import Pipeline
from tsdb.engine.region.write import PendingWrite
from tsdb.units import Duration, Size

UNSYNCED = replace(lives.WAL_OPTIONS, sync_write=False)


@pytest.fixture
def committed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the threads that submit, in order; two turns of a worker at a time are an error."""
    names: list[str] = []
    submit, busy = Pipeline.submit, threading.Lock()

    def noted(pipeline: Pipeline, requests: Sequence[PendingWrite], memory_bytes: int) -> None:
        assert busy.acquire(blocking=False), "two turns at a time"
        try:
            names.append(threading.current_thread().name)
            submit(pipeline, requests, memory_bytes)
        finally:
            busy.release()

    monkeypatch.setattr(Pipeline, "submit", noted)
    return names


def write(engine: Engine, host: str, at: int = 0, *, seconds: float | None = None) -> Future[int]:
    batch = batch_of(engine.schema(PLAIN), Rows().make((host, at)))
    return engine.write(PLAIN, batch, timeout=None if seconds is None else Duration.of_seconds(seconds))


@contextmanager
def occupied(engine: Engine) -> Iterator[None]:
    """Let the worker be at something else."""
    gate, begun = threading.Event(), threading.Event()

    def wait() -> None:
        begun.set()
        assert gate.wait(30)

    done = engine._region(PLAIN).worker.call(wait)
    assert begun.wait(30)
    try:
        yield
    finally:
        gate.set()
        done.result(30)


def test_a_write_with_nothing_ahead_is_done_by_the_thread_that_brings_it(tmp_path: Path, committed: list[str]) -> None:
    engine = lives.begin(tmp_path, lives.create(PLAIN), wal_options=UNSYNCED)
    for at in range(5):
        assert write(engine, "a", at).done()
    assert committed == [threading.current_thread().name] * 5
    assert len(read(engine, PLAIN)) == 5
    engine.close()


def test_what_is_queued_stays_ahead(tmp_path: Path, committed: list[str]) -> None:
    engine = lives.begin(tmp_path, lives.create(PLAIN), wal_options=UNSYNCED)
    worker, seen = engine._region(PLAIN).worker, list[int]()
    with occupied(engine):
        first = write(engine, "a")
        looked = worker.call(lambda: seen.append(len(committed)))
        second = write(engine, "b")
        assert not first.done()
        assert not second.done()
    assert [first.result(10), second.result(10), looked.result(10)] == [1, 1, None]
    assert committed == [worker._thread.name] * 2
    assert seen == [1]
    assert write(engine, "c").result(10) == 1
    assert committed[-1] == threading.current_thread().name
    engine.close()


def test_a_write_that_is_synced_wakes_no_worker(tmp_path: Path, committed: list[str]) -> None:
    """It is submitted by the thread that brings it, and applied and answered by the thread that synced it."""
    engine = lives.open_life(tmp_path)
    lives.live(engine, lives.create(PLAIN))
    answered: list[str] = []
    with held("wal.append.before_sync"):
        done = write(engine, "a")
        done.add_done_callback(lambda _: answered.append(threading.current_thread().name))
    assert done.result(10) == 1
    wait_until(lambda: bool(answered))
    assert committed == [threading.current_thread().name]
    assert answered == ["wal-commit"]
    engine.close()


def test_a_group_that_is_durable_while_the_worker_is_at_something_else_is_applied_after_it(tmp_path: Path) -> None:
    engine = lives.open_life(tmp_path)
    lives.live(engine, lives.create(PLAIN))
    worker = engine._region(PLAIN).worker
    with held("wal.append.before_sync"):
        done = write(engine, "a")
        # A turn that lasts: the thread that syncs the write cannot take it.
        assert worker._turns.acquire(timeout=10)
    lives.wait_until(lambda: worker._pipeline.is_ready)
    assert not done.done()
    assert read(engine, PLAIN) == []
    worker._turns.release()
    worker._settle()
    assert done.result(10) == 1
    assert len(read(engine, PLAIN)) == 1
    engine.close()


def test_many_threads_and_calls_among_them_take_turns(tmp_path: Path, committed: list[str]) -> None:
    engine = lives.begin(tmp_path, lives.create(PLAIN), wal_options=UNSYNCED)
    worker, changed, threads, each = engine._region(PLAIN).worker, list[int](), 8, 60

    def run(number: int) -> None:
        choose = random.Random(number)
        for at in range(each):
            if choose.random() < 0.2:
                worker.call(lambda: changed.append(1)).result(30)
            assert write(engine, f"host-{number}", at).result(30) == 1

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(run, range(threads)))
    assert len(read(engine, PLAIN)) == threads * each
    assert changed
    assert len(set(committed)) > 1
    engine.close(flush=False)
    engine = lives.open_life(tmp_path)
    assert len(read(engine, PLAIN)) == threads * each
    engine.close()


def test_a_write_that_has_to_wait_for_memory_ends_by_its_deadline_though_nobody_else_comes(tmp_path: Path) -> None:
    options = replace(
        lives.OPTIONS, global_write_buffer_size=Size(30_000), global_write_buffer_reject_size=Size(1_000_000)
    )
    engine = lives.open_life(tmp_path, options=options, wal_options=UNSYNCED)
    lives.live(engine, lives.create(PLAIN))
    engine.context.buffer.charge(1_000_000 // 2)
    with pytest.raises(RegionBusy, match="waited too long"):
        write(engine, "late", seconds=0.2).result(10)
    engine.context.buffer.charge(-1_000_000 // 2)
    assert write(engine, "b").result(10) == 1
    engine.close()


def test_writes_beside_a_close_are_done_or_refused(tmp_path: Path) -> None:
    engine = lives.begin(tmp_path, lives.create(PLAIN), wal_options=UNSYNCED)
    written, started = list[int](), threading.Event()

    def run(number: int) -> None:
        with suppress(StorageUnavailable):
            for at in range(10_000):
                write(engine, f"host-{number}", at).result(30)
                written.append(1)
                started.set()

    with ThreadPoolExecutor(4) as pool:
        running = [pool.submit(run, number) for number in range(4)]
        assert started.wait(30)
        engine.close(flush=False)
        for each in running:
            each.result(60)
    engine = lives.open_life(tmp_path)
    assert len(read(engine, PLAIN)) == len(written)
    engine.close()
