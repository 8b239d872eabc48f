"""The parts of the engine hold less when they are told to, and as much as before when there is room again."""

from __future__ import annotations

from tsdb.engine.rows.merge_memory import MergeMemory
from tsdb.engine.rows.write_buffer import WriteBuffer
from tsdb.engine.scan import SeriesRegisters
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
