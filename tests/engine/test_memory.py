"""The parts of the engine hold less when they are told to, and as much as before when there is room again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.engine.harness import OPTIONS, REGION, WAL_OPTIONS, create, open_engine, put, scan
from tsdb.engine import Engine, Wal
from tsdb.engine.rows.merge_memory import MergeMemory
from tsdb.engine.rows.write_buffer import WriteBuffer
from tsdb.engine.scan import SeriesRegisters
from tsdb.memory import MemoryOwner
from tsdb.store import LocalStore
from tsdb.units import Size


def test_writers_wait_sooner_and_are_refused_as_late_as_before() -> None:
    buffer, woken = WriteBuffer(size=Size(100), reject_size=Size(200)), []
    buffer.on_release(lambda: woken.append(buffer.size))
    buffer.charge(60)
    assert not buffer.should_stall()
    buffer.limit_to(0.5)
    assert buffer.should_stall()
    assert buffer.should_flush
    assert not buffer.should_reject(140)
    assert woken == [50]
    buffer.limit_to(1)
    assert not buffer.should_stall()


def test_merges_keep_what_they_have_and_get_less() -> None:
    memory = MergeMemory(100)
    with memory.flushing(80):
        memory.limit_to(0.25)
        assert (memory.used, memory.bytes_max) == (80, 25)
    memory.limit_to(1)
    assert memory.bytes_max == 100
    assert SeriesRegisters(64).bytes_max == 64


def test_the_replay_of_the_log_keeps_to_what_there_is(tmp_path: Path) -> None:
    engine = open_engine(tmp_path)
    create(engine)
    for number in range(20):
        put(engine, [{"host": f"h{number}", "ts": at, "a": 1.0} for at in range(50)])
    used = engine.context.buffer.used
    engine.close(flush=False)

    def reopen(share: float) -> tuple[int, int]:
        """Return what is in memory after the replay, and how many rows are there."""

        def limit(memory: MemoryOwner) -> None:
            seen.append({use.owner: use.bytes for use in memory.memory_use()}["write_buffer"])
            memory.limit_memory(share)

        seen: list[int] = []
        engine = Engine.open(
            LocalStore(tmp_path),
            Wal.open(tmp_path / "wal", WAL_OPTIONS)[0],
            options=replace(OPTIONS, global_write_buffer_size=Size(4 * used)),
            has_housekeeping=False,
            on_memory=limit,
        )
        assert seen == [0], "before anything is replayed"
        left, rows = engine._region(REGION).version.memtable_bytes, len(scan(engine))
        engine.close(flush=False)
        return left, rows

    all_of_it = reopen(1.0)
    assert all_of_it[1] == 1000
    part_of_it = reopen(0.25)
    assert part_of_it[0] < all_of_it[0] // 2 + 1
    assert part_of_it[1] == 1000
