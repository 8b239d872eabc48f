"""Groups in flight: applied in order, failed together, bounded; changes of a region wait for them."""

from __future__ import annotations

import errno
import pickle
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path

import pytest

from tests.engine import lives
from tests.engine.harness import batch_of, read
from tests.engine.lives import APPEND, PLAIN, Rows, wait_until
from tests.engine.memory_log import Disk, MemoryLog
from tests.faults import FaultyFiles
from tsdb.engine.engine import Engine
from tsdb.engine.errors import RegionBusy, StorageFull, StorageUnavailable
from tsdb.engine.log import Frame, encode_frame_payload
from tsdb.engine.region.pipeline import GROUPS_MAX
from tsdb.model import RegionId, RegionOptions
from tsdb.units import Duration, Size

OPTIONS = replace(lives.OPTIONS, num_workers=1)


@pytest.fixture
def disk() -> Disk:
    return Disk()


@pytest.fixture
def log(disk: Disk) -> MemoryLog:
    return MemoryLog(disk)


@pytest.fixture
def engine(tmp_path: Path, log: MemoryLog) -> Iterator[Engine]:
    engine = lives.open_life(tmp_path, options=OPTIONS, log=log)
    lives.live(engine, lives.create(PLAIN), lives.create(APPEND, options=RegionOptions(append_mode=True)))
    yield engine
    log.release()
    engine.close(flush=False)


def write(engine: Engine, host: str, at: int = 0, *, region: RegionId = PLAIN, seconds: float = 30) -> Future[int]:
    batch = batch_of(engine.schema(region), Rows().make((host, at)))
    return engine.write(region, batch, timeout=Duration.of_seconds(seconds))


def seen(engine: Engine, region: RegionId = PLAIN) -> set[str]:
    return {row["host"] for row in read(engine, region)}


def reopened(root: Path, disk: Disk, look: Callable[[Engine], object]) -> object:
    engine = lives.open_life(root, options=OPTIONS, log=MemoryLog(disk))
    try:
        return look(engine)
    finally:
        engine.close(flush=False)


def finish(engine: Engine, writes: list[Future[int]]) -> None:
    """Flush what is due until all writes are answered."""

    def are_done() -> bool:
        engine.housekeeping.tick()
        return all(each.done() for each in writes)

    wait_until(are_done)


def full() -> StorageFull:
    return StorageFull("there is no space for the log")


def test_the_next_groups_are_submitted_while_one_is_on_its_way(engine: Engine, log: MemoryLog) -> None:
    log.is_held = True
    writes = [write(engine, host) for host in "abc"]
    assert len(log.waiting) == 3
    assert [frame.entry_id for append in log.waiting for frame in append.frames] == [1, 2, 3]
    assert not any(each.done() for each in writes)
    assert seen(engine) == set()
    log.release()
    assert [each.result(10) for each in writes] == [1, 1, 1]
    assert seen(engine) == {"a", "b", "c"}


def test_a_group_that_is_durable_early_waits_for_those_before_it(engine: Engine, log: MemoryLog) -> None:
    log.is_held = True
    writes = [write(engine, host) for host in "abc"]
    first, second, third = [log.decide_next() for _ in range(3)]
    log.answer(third)
    log.answer(second)
    assert seen(engine) == set()
    assert not any(each.done() for each in writes)
    log.answer(first)
    assert [each.result(10) for each in writes] == [1, 1, 1]
    assert seen(engine) == {"a", "b", "c"}


def test_what_is_acknowledged_is_visible_to_the_thread_that_learns_it(engine: Engine, log: MemoryLog) -> None:
    log.is_held = True
    found: list[set[str]] = []
    for host in "abc":
        write(engine, host).add_done_callback(lambda _: found.append(seen(engine)))
    log.release()
    wait_until(lambda: len(found) == 3)
    assert ["a" in found[0], "b" in found[1], "c" in found[2]] == [True] * 3


def test_a_refused_group_fails_those_behind_it_and_nothing_of_them_is_seen(
    tmp_path: Path, engine: Engine, log: MemoryLog, disk: Disk
) -> None:
    assert write(engine, "before").result(10) == 1
    log.is_held = True
    writes = [write(engine, host) for host in "abc"]
    log.errors.extend([None, full()])
    log.release()
    assert writes[0].result(10) == 1
    for each in writes[1:]:
        with pytest.raises(StorageFull):
            each.result(10)
    assert seen(engine) == {"before", "a"}
    assert write(engine, "after").result(10) == 1
    assert seen(engine) == {"before", "a", "after"}
    assert [frame.entry_id for frame in disk.entries] == [1, 2, 3]
    assert reopened(tmp_path, disk, seen) == {"before", "a", "after"}


def test_a_refused_group_fails_only_groups_of_its_regions(engine: Engine, log: MemoryLog, disk: Disk) -> None:
    log.is_held = True
    failed, other = write(engine, "a"), write(engine, "b", region=APPEND)
    follower = write(engine, "c")
    log.errors.append(full())
    log.release()
    for each in (failed, follower):
        with pytest.raises(StorageFull):
            each.result(10)
    assert other.result(10) == 1
    assert (seen(engine), seen(engine, APPEND)) == (set(), {"b"})
    assert [frame.region_id for frame in disk.entries] == [APPEND]


def test_writes_that_come_while_a_failure_is_sorted_out_wait_for_its_end(engine: Engine, log: MemoryLog) -> None:
    log.is_held = True
    writes = [write(engine, host) for host in "ab"]
    log.errors.append(full())
    first, second = log.decide_next(), log.decide_next()
    log.answer(first)
    with pytest.raises(StorageFull):
        writes[0].result(10)
    late = write(engine, "late")
    assert not log.waiting
    log.answer(second)
    with pytest.raises(StorageFull):
        writes[1].result(10)
    wait_until(lambda: len(log.waiting) == 1)
    log.release()
    assert late.result(10) == 1
    assert seen(engine) == {"late"}


def test_groups_in_flight_are_bounded_and_what_waits_becomes_one_group(engine: Engine, log: MemoryLog) -> None:
    log.is_held = True
    writes = [write(engine, f"host-{number}") for number in range(GROUPS_MAX + 20)]
    assert len(log.waiting) == GROUPS_MAX
    log.answer(log.decide_next())
    wait_until(lambda: len(log.waiting) == GROUPS_MAX)
    assert len(log.waiting[-1].frames) == 20
    log.release()
    assert [each.result(10) for each in writes] == [1] * len(writes)
    assert log.most_waiting == GROUPS_MAX


def test_a_write_that_waits_too_long_for_the_log_is_refused_and_not_written(engine: Engine, log: MemoryLog) -> None:
    log.is_held = True
    writes = [write(engine, f"host-{number}") for number in range(GROUPS_MAX)]
    late = write(engine, "late", seconds=0.05)
    with pytest.raises(RegionBusy, match="waited too long for the log"):
        late.result(10)
    log.release()
    assert [each.result(10) for each in writes] == [1] * GROUPS_MAX
    assert write(engine, "next").result(10) == 1
    assert "late" not in seen(engine)


@pytest.mark.parametrize(
    ("change", "keeps_rows"),
    [
        (lambda engine: engine.truncate(PLAIN), False),
        (lambda engine: engine.flush(PLAIN), True),
        (lambda engine: engine.set_options(PLAIN, RegionOptions(append_mode=True)), True),
        (lambda engine: engine.discard_unflushed(PLAIN), False),
        (lambda engine: engine.drop(PLAIN), False),
    ],
    ids=["truncate", "flush", "options", "discard", "drop"],
)
def test_a_change_waits_for_the_writes_before_it_and_those_behind_wait_for_it(
    engine: Engine, log: MemoryLog, change: Callable[[Engine], Future[None]], keeps_rows: bool
) -> None:
    log.is_held = True
    before = write(engine, "before")
    changed = change(engine)
    behind = write(engine, "behind")
    assert len(log.waiting) == 1
    assert not changed.done()
    log.release()
    assert before.result(10) == 1
    changed.result(10)
    error = behind.exception(10)
    if PLAIN in engine.region_ids():
        assert error is None
        assert "behind" in seen(engine)
        assert ("before" in seen(engine)) is keeps_rows
    else:
        assert error is not None


def test_a_change_between_groups_that_fail_sees_what_was_applied(engine: Engine, log: MemoryLog) -> None:
    log.is_held = True
    lost = write(engine, "lost")
    truncated = engine.truncate(PLAIN)
    behind = write(engine, "behind")
    log.errors.append(full())
    log.release()
    with pytest.raises(StorageFull):
        lost.result(10)
    truncated.result(10)
    assert behind.result(10) == 1
    assert seen(engine) == {"behind"}


def test_closing_waits_for_what_is_in_flight(tmp_path: Path, engine: Engine, log: MemoryLog, disk: Disk) -> None:
    log.is_held = True
    writes = [write(engine, f"host-{number}") for number in range(GROUPS_MAX + 5)]
    closing = threading.Thread(target=engine.close, kwargs={"flush": False})
    closing.start()
    wait_until(lambda: engine._is_closed)
    log.release()
    closing.join(30)
    assert not closing.is_alive()
    assert [each.result(10) for each in writes] == [1] * len(writes)
    assert reopened(tmp_path, disk, lambda engine: len(seen(engine))) == len(writes)


def test_a_log_that_breaks_fails_everything_in_flight_and_all_that_comes(engine: Engine, log: MemoryLog) -> None:
    log.is_held = True
    writes = [write(engine, f"host-{number}") for number in range(GROUPS_MAX + 5)]
    log.break_for_good(StorageUnavailable("the log is broken"))
    for each in writes:
        assert each.exception(10) is not None
    assert seen(engine) == set()
    with pytest.raises(Exception, match="the log is broken"):
        write(engine, "more").result(10)


def test_a_log_that_keeps_an_entry_behind_a_refused_one_stops_the_region(
    engine: Engine, log: MemoryLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.is_held = True
    lost, behind = write(engine, "lost"), write(engine, "behind")
    log.errors.append(full())
    monkeypatch.setattr(log, "_check", lambda frames: None)
    log.release()
    for each in (lost, behind):
        with pytest.raises(StorageFull):
            each.result(10)
    with pytest.raises(Exception, match="behind one that it refused"):
        write(engine, "more").result(10)


def test_writes_in_flight_count_as_memory(tmp_path: Path, log: MemoryLog) -> None:
    """They will be in memtables soon: writes wait for a flush before the buffer is over its size, not after."""
    options = replace(OPTIONS, global_write_buffer_size=Size(4000), global_write_buffer_reject_size=Size(1 << 20))
    engine = lives.open_life(tmp_path, options=options, log=log)
    lives.create(PLAIN).run(engine)
    worker = engine._region(PLAIN).worker
    log.is_held = True
    writes = [write(engine, f"host-{number}") for number in range(6)]
    assert worker.waiting > 0
    assert engine.context.buffer.used == 0
    log.release()
    finish(engine, writes)
    assert [each.result(0) for each in writes] == [1] * 6
    assert len(seen(engine)) == 6
    engine.close(flush=False)


def test_stalled_writes_are_woken_when_the_groups_ahead_of_them_fail(tmp_path: Path, log: MemoryLog) -> None:
    options = replace(OPTIONS, global_write_buffer_size=Size(4000), global_write_buffer_reject_size=Size(1 << 20))
    engine = lives.open_life(tmp_path, options=options, log=log)
    lives.create(PLAIN).run(engine)
    log.is_held = True
    writes = [write(engine, f"host-{number}") for number in range(6)]
    flying = len(log.waiting)
    assert 0 < flying < 6
    log.errors.extend([full()] * flying)
    log.release()
    # Nothing was applied, so no flush will free memory: the end of the groups in flight has to be enough.
    assert writes[flying].result(10) == 1
    finish(engine, writes)
    outcomes = [each.exception(0) for each in writes]
    assert sum(error is None for error in outcomes) == 6 - flying
    assert len(seen(engine)) == 6 - flying
    engine.close(flush=False)


@pytest.mark.parametrize(
    ("call", "code", "error"),
    [("writev", errno.ENOSPC, StorageFull), ("fdatasync", errno.EIO, StorageUnavailable)],
)
def test_a_disk_that_fails_in_the_middle_of_the_pipeline(
    tmp_path: Path, call: str, code: int, error: type[Exception]
) -> None:
    """The first group is synced, the others are refused; a restart shows exactly what was acknowledged."""
    files = FaultyFiles()
    engine = lives.open_life(tmp_path, files=files, options=OPTIONS)
    lives.create(PLAIN).run(engine)
    syncs, gate = files.calls["fdatasync"], files.block("fdatasync")
    first = write(engine, "first")
    wait_until(lambda: files.calls["fdatasync"] > syncs)
    others = [write(engine, f"host-{number}") for number in range(3)]
    assert not first.done()
    files.fail(call, code)
    gate.set()
    assert isinstance(first.exception(30), error) is (call == "fdatasync")
    for each in others:
        assert isinstance(each.exception(30), error)
    acknowledged = {"first"} if call == "writev" else set()
    if call == "writev":
        assert seen(engine) == acknowledged
        assert write(engine, "after").result(30) == 1
        acknowledged.add("after")
    engine.close(flush=False)
    engine = lives.open_life(tmp_path, options=OPTIONS)
    assert acknowledged <= seen(engine) <= acknowledged | {"first"}
    engine.close(flush=False)


def test_many_threads_over_a_slow_log_share_its_waits(tmp_path: Path) -> None:
    log = MemoryLog(delay_seconds=0.005)
    engine = lives.open_life(tmp_path, options=OPTIONS, log=log)
    lives.create(PLAIN).run(engine)

    def run(number: int) -> None:
        for at in range(20):
            assert write(engine, f"host-{number}", at).result(30) == 1
            assert (f"host-{number}", at) in {(row["host"], row["ts"]) for row in read(engine, PLAIN)}

    threads = [threading.Thread(target=run, args=(number,)) for number in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(60)
    assert len(read(engine, PLAIN)) == 160
    engine.close(flush=False)


def test_frames_are_values() -> None:
    """What the protocol carries can be compared and sent: no handles, no locks."""
    frame = Frame(7, 1, encode_frame_payload(b"rows" * 2000), rows=3)
    assert pickle.loads(pickle.dumps(frame)) == frame
