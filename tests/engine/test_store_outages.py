"""A store that is down, slow or strange for a while: the engine goes on as far as it can, and recovers by itself."""

from __future__ import annotations

import gc
import os
from dataclasses import replace
from pathlib import Path

import pytest

from tests.engine import lives
from tests.engine.fault_steps import CREATED
from tests.engine.harness import batch_of, read
from tests.engine.lives import APPEND, DROPPED, PLAIN, Rows, Step
from tests.engine.store_world import StoreWorld
from tsdb.clock import ManualClock
from tsdb.engine.errors import RegionBusy, RegionReadOnly
from tsdb.errors import TsdbError
from tsdb.model import RegionOptions
from tsdb.store import StoreError
from tsdb.units import Duration, Size

SMALL = replace(
    lives.OPTIONS,
    global_write_buffer_size=Size(60_000),
    global_write_buffer_reject_size=Size(120_000),
    stall_timeout=Duration.parse("100ms"),
)


@pytest.fixture
def rows() -> Rows:
    return Rows()


def fill(world: StoreWorld, rows: Rows) -> list[Step]:
    """Write until a write is refused."""
    steps: list[Step] = []
    for _ in range(200):
        made = rows.make(*(("a", at) for at in rows.times(100)))
        done = world.engine.write(PLAIN, batch_of(world.engine.schema(PLAIN), made))
        try:
            done.result(30)
        except RegionBusy:
            return steps
        steps.append(lives.put(PLAIN, made))
    raise AssertionError("no write was refused")


@pytest.mark.parametrize("has_cache", [False, True], ids=["bare", "cached"])
@pytest.mark.parametrize("restarts", [False, True], ids=["goes on", "restarts"])
def test_while_the_store_is_down_writes_go_on_until_the_buffer_is_full(
    tmp_path: Path, rows: Rows, has_cache: bool, restarts: bool
) -> None:
    world = StoreWorld(tmp_path, has_cache=has_cache, options=SMALL)
    steps = [*CREATED, lives.put(PLAIN, rows.make(("old", 0))), lives.flush(PLAIN)]
    lives.live(world.engine, *steps)
    world.remote.down()
    steps += fill(world, rows)
    assert len(steps) > 10
    assert world.engine.stat(PLAIN).flush_failures > 0
    if has_cache:
        assert lives.see(world.engine) == lives.expected(*steps), "reads need no store"
    world.remote.up()
    if restarts:
        world.restart()
    lives.live(world.engine, lives.flush(PLAIN))
    steps.append(lives.put(PLAIN, rows.make(("new", 0))))
    lives.live(world.engine, steps[-1])
    assert world.engine.context.buffer.used < SMALL.global_write_buffer_size
    world.check(lives.expected(*steps))
    world.end()


def test_flushes_are_tried_again_without_being_asked(tmp_path: Path, rows: Rows) -> None:
    clock = ManualClock(10**18)
    world = StoreWorld(tmp_path, clock=clock)
    steps = [*CREATED, lives.put(PLAIN, rows.make(("a", 0)))]
    lives.live(world.engine, *steps)
    world.remote.down()
    with pytest.raises(StoreError):
        lives.flush(PLAIN).run(world.engine)
    world.remote.up()
    clock.advance(seconds=3600)
    lives.tick().run(world.engine)
    assert world.engine.stat(PLAIN).files == 1
    world.check(lives.expected(*steps))
    world.end()


CHANGES = {
    "create": lives.create(lives.CHANGED),
    "alter": lives.add_column(PLAIN, "c", 3),
    "truncate": lives.truncate(PLAIN),
    "drop": lives.drop(DROPPED),
    "compact": lives.compact(PLAIN),
    "flush": lives.flush(PLAIN),
    "options": lives.set_options(PLAIN, RegionOptions(append_mode=True)),
}


@pytest.mark.parametrize("restarts", [False, True], ids=["goes on", "restarts"])
@pytest.mark.parametrize("name", CHANGES)
def test_a_change_that_the_outage_refused_can_be_repeated(
    tmp_path: Path, rows: Rows, name: str, restarts: bool
) -> None:
    world = StoreWorld(tmp_path)
    steps = [
        *CREATED,
        lives.put(DROPPED, rows.make(("a", 0))),
        lives.put(PLAIN, rows.make(("a", 0), ("b", 0))),
        lives.flush(PLAIN),
        lives.put(PLAIN, rows.make(("a", 0))),
        lives.flush(PLAIN),
        lives.put(PLAIN, rows.make(("b", 0))),
    ]
    lives.live(world.engine, *steps)
    world.remote.down()
    for _ in range(3):
        with pytest.raises(TsdbError):
            CHANGES[name].run(world.engine)
    assert world.see() == lives.expected(*steps)
    world.remote.up()
    if restarts:
        world.restart()
        assert world.see() == lives.expected(*steps)
    lives.live(world.engine, CHANGES[name])
    steps.append(CHANGES[name])
    steps.append(lives.put(PLAIN, rows.make(("c", 0))))
    lives.live(world.engine, steps[-1], lives.tick())
    assert world.see() == lives.expected(*steps)
    world.check(lives.expected(*steps))
    world.end()


def test_a_region_whose_drop_is_in_doubt_takes_no_write_until_it_is_dropped(tmp_path: Path, rows: Rows) -> None:
    world = StoreWorld(tmp_path)
    lives.live(world.engine, *CREATED, lives.put(DROPPED, rows.make(("a", 0))))
    world.remote.lose_reply("put", ".dropping")
    world.remote.fail("head", ".dropping")
    with pytest.raises(StoreError):
        lives.drop(DROPPED).run(world.engine)
    with pytest.raises(RegionReadOnly, match="drop"):
        lives.put(DROPPED, rows.make(("b", 0))).run(world.engine)
    assert len(read(world.engine, DROPPED)) == 1
    lives.live(world.engine, lives.drop(DROPPED), lives.tick())
    assert DROPPED not in world.engine.region_ids()
    world.check(lives.expected(*CREATED, lives.drop(DROPPED)))
    world.end()


@pytest.mark.parametrize("operation", ["get", "list", "get_range"])
def test_a_start_is_repeated_as_often_as_the_store_fails_and_quarantines_nothing(
    tmp_path: Path, rows: Rows, operation: str
) -> None:
    world = StoreWorld(tmp_path)
    steps = [*CREATED, lives.put(PLAIN, rows.make(("a", 0))), lives.flush(PLAIN), lives.put(PLAIN, rows.make(("b", 0)))]
    lives.live(world.engine, *steps)
    world.engine.close(flush=False)
    world.remote.fail(operation, nth=2 if operation == "get" else 1)
    try:
        world.open()
    except TsdbError:
        world.open()
    assert not world.engine.quarantined
    assert world.see() == lives.expected(*steps)
    world.end()


def test_a_manifest_that_was_cut_off_on_its_way_is_read_again(tmp_path: Path, rows: Rows) -> None:
    world = StoreWorld(tmp_path)
    steps = [*CREATED, lives.put(PLAIN, rows.make(("a", 0))), lives.flush(PLAIN)]
    lives.live(world.engine, *steps)
    world.engine.close(flush=False)
    world.remote.shorten("get", ".json")
    world.open()
    assert not world.engine.quarantined
    assert world.see() == lives.expected(*steps)
    world.end()


def test_a_start_while_the_store_is_down_fails_and_changes_nothing(tmp_path: Path, rows: Rows) -> None:
    world = StoreWorld(tmp_path)
    steps = [*CREATED, lives.put(PLAIN, rows.make(("a", 0))), lives.flush(PLAIN), lives.put(PLAIN, rows.make(("b", 0)))]
    lives.live(world.engine, *steps)
    world.engine.close(flush=False)
    world.remote.down()
    with pytest.raises(TsdbError):
        world.open()
    world.remote.up()
    world.remote.fail("get", times=-1)
    with pytest.raises(TsdbError, match="500"):
        world.open()
    world.remote.up()
    world.open()
    assert not world.engine.quarantined
    assert world.see() == lives.expected(*steps)
    world.end()


def test_files_past_their_time_to_live_are_removed_when_the_store_is_back(tmp_path: Path, rows: Rows) -> None:
    clock = ManualClock(10**18)
    world = StoreWorld(tmp_path, clock=clock)
    now_ms = clock.now_ns() // 1_000_000
    brief = RegionOptions(ttl=Duration.of_seconds(3600))
    steps = [lives.create(PLAIN, options=brief), lives.put(PLAIN, rows.make(("a", now_ms))), lives.flush(PLAIN)]
    lives.live(world.engine, *steps)
    clock.advance(seconds=7200)
    world.remote.fail("put_if_absent", times=-1)
    lives.tick().run(world.engine)
    assert world.engine.stat(PLAIN).files == 1
    world.remote.up()
    clock.advance(seconds=7200)
    world.remote.fail("delete", times=-1)
    lives.tick().run(world.engine)
    assert world.engine.stat(PLAIN).files == 0
    gc.collect()
    lives.settle(world.engine)
    assert lives.unknown_files(world.engine), "its objects could not be deleted"
    world.check({PLAIN: (["a", "b", "time to live"], [])})
    world.end()


def test_what_a_failed_flush_left_is_swept_by_the_start_after_the_next_if_it_must(tmp_path: Path, rows: Rows) -> None:
    world = StoreWorld(tmp_path)
    steps = [*CREATED, lives.put(PLAIN, rows.make(("a", 0)))]
    lives.live(world.engine, *steps)
    world.remote.lose_reply("writer")
    world.remote.fail("delete", times=-1)
    with pytest.raises(StoreError):
        lives.flush(PLAIN).run(world.engine)
    assert lives.unknown_files(world.engine)
    world.restart()
    lives.settle(world.engine)
    assert lives.unknown_files(world.engine), "the sweep failed, too"
    world.check(lives.expected(*steps))
    world.end()


@pytest.mark.parametrize("has_cache", [False, True], ids=["bare", "cached"])
def test_without_conditional_puts_one_writer_keeps_its_rows(tmp_path: Path, rows: Rows, has_cache: bool) -> None:
    world = StoreWorld(tmp_path, has_cache=has_cache, has_conditional_put=False)
    steps: list[Step] = [*CREATED]
    lives.live(world.engine, *steps)
    for turn in range(6):
        steps.append(lives.put(PLAIN, rows.make(("a", turn), ("b", 0))))
        lives.live(world.engine, steps[-1])
        world.remote.lose_reply("put_if_absent")
        with pytest.raises(TsdbError):
            lives.flush(PLAIN).run(world.engine)
        lives.flush(PLAIN).run(world.engine)
    assert world.see() == lives.expected(*steps)
    world.check(lives.expected(*steps))
    world.end()


def test_writes_do_not_wait_for_a_slow_store(tmp_path: Path, rows: Rows) -> None:
    world = StoreWorld(tmp_path)
    steps: list[Step] = [*CREATED, lives.put(PLAIN, rows.make(("a", 0)))]
    lives.live(world.engine, *steps)
    gate = world.remote.block()
    try:
        flush = world.engine.flush(PLAIN)
        for turn in range(20):
            steps.append(lives.put(PLAIN, rows.make(("b", turn))))
            lives.live(world.engine, steps[-1])
        assert not flush.done()
    finally:
        gate.set()
    flush.result(30)
    world.check(lives.expected(*steps))
    world.end()


def test_a_damaged_file_of_the_cache_is_read_from_the_store(tmp_path: Path, rows: Rows) -> None:
    world = StoreWorld(tmp_path, has_cache=True)
    steps = [*CREATED, lives.put(PLAIN, rows.make(*((f"host{at % 7}", at) for at in range(500)))), lives.flush(PLAIN)]
    lives.live(world.engine, *steps)
    files = [file for file in (tmp_path / "cache" / "files").rglob("*") if file.is_file()]
    assert {file.suffix for file in files} == {".parquet", ".idx"}
    for place in (0.3, 0.6, 0.97):
        for file in files:
            content = bytearray(file.read_bytes())
            at = int(len(content) * place)
            content[at : at + 20] = os.urandom(20)
            file.write_bytes(content)
        world.engine.context.caches.evict_file(next(iter(world.engine._region(PLAIN).manifest.state.files)))
        assert lives.see(world.engine) == lives.expected(*steps)
    assert world.cache is not None
    assert world.cache.statistics().errors >= 3
    lives.live(world.engine, lives.put(PLAIN, rows.make(("x", 0))), lives.compact(PLAIN))
    assert not world.engine._region(PLAIN).quarantined
    world.end()


def test_a_read_that_was_cut_off_is_no_damage(tmp_path: Path, rows: Rows) -> None:
    world = StoreWorld(tmp_path)
    steps = [*CREATED, *(step for at in range(3) for step in _flushed(rows, at))]
    lives.live(world.engine, *steps)
    world.remote.shorten("get_range", times=-1)
    with pytest.raises(TsdbError, match="the store returned"):
        lives.compact(PLAIN).run(world.engine)
    assert not world.engine._region(PLAIN).quarantined
    world.remote.up()
    lives.live(world.engine, lives.compact(PLAIN))
    assert world.engine.stat(PLAIN).files == 1
    world.check(lives.expected(*steps))
    world.end()


def _flushed(rows: Rows, at: int) -> list[Step]:
    return [lives.put(PLAIN, rows.make(("a", at))), lives.flush(PLAIN)]


def test_appended_rows_are_there_once_after_lost_replies(tmp_path: Path, rows: Rows) -> None:
    world = StoreWorld(tmp_path, has_cache=True)
    steps: list[Step] = [*CREATED]
    lives.live(world.engine, *steps)
    for operation in ("put_if_absent", "writer", "put", "head", "delete"):
        steps.append(lives.put(APPEND, rows.make(("a", 0), ("a", 0))))
        lives.live(world.engine, steps[-1])
        world.remote.lose_reply(operation)
        try:
            lives.flush(APPEND).run(world.engine)
        except TsdbError:
            lives.flush(APPEND).run(world.engine)
        world.remote.up()
        assert world.see() == lives.expected(*steps)
    world.check(lives.expected(*steps))
    world.end()
