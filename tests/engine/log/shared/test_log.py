"""The engine over a shared log: lost disks, changed settings, two owners, outages, damage, and what is deleted."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.engine.harness import REGION, SCHEMA, WAL_OPTIONS, create, open_engine, put, read
from tests.store.faulty_store import FaultyStore
from tsdb.engine import Engine
from tsdb.engine.errors import LogFenced, RegionReadOnly
from tsdb.engine.log.shared import Acknowledge, SharedLog, SharedSettings, check_not_shared, open_shared_log
from tsdb.engine.wal import Wal
from tsdb.errors import DeadlineExceeded, StartError, TsdbError
from tsdb.model import region_id
from tsdb.store import MemoryStore
from tsdb.units import Duration, Size

FAST = SharedSettings(interval=Duration.of_seconds(0.001), retry_min=Duration.of_seconds(0.001))
OTHER = region_id(1025, 0)


class World:
    """A store that everybody reaches, and engines that come and go over it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.inner = MemoryStore()
        self.store = FaultyStore(self.inner)
        self.engines: list[Engine] = []

    def start(
        self, acknowledge: str | None = "store", *, disk: str = "disk", settings: SharedSettings = FAST
    ) -> Engine:
        """Start an engine with a disk of its own for the log; without `acknowledge`, the log is not shared."""
        directory = self.root / disk

        def open_local() -> Wal:
            return Wal.open(directory, WAL_OPTIONS)[0]

        if acknowledge is None:
            check_not_shared(directory)
            log: Wal | SharedLog = open_local()
        else:
            settings = replace(settings, acknowledge=Acknowledge(acknowledge))
            log = open_shared_log(self.store, directory, settings, open_local=open_local, place="bucket")
        engine = open_engine(self.root / "data", log=log, store=self.inner)
        self.engines.append(engine)
        return engine

    def objects(self) -> list[str]:
        return [meta.path for meta in self.inner.list("wal") if meta.path.endswith(".log")]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    yield world
    world.store.up()
    for engine in world.engines:
        engine.close(flush=False)


def times(engine: Engine) -> set[int]:
    return {row["ts"] for row in read(engine)}


def write(engine: Engine, *at: int) -> None:
    for each in at:
        put(engine, [{"host": "a", "ts": each, "a": 1.0}])


def log_of(engine: Engine) -> SharedLog:
    log = engine.context.wal
    assert isinstance(log, SharedLog)
    return log


def wait_shipped(engine: Engine) -> None:
    log_of(engine).prove_ownership().result(30)


@pytest.mark.parametrize("acknowledge", ["store", "local"])
def test_rows_are_there_after_a_crash_with_and_without_the_disk(world: World, acknowledge: str) -> None:
    engine = world.start(acknowledge)
    create(engine)
    write(engine, 1, 2, 3)
    wait_shipped(engine)
    engine = world.start(acknowledge)
    assert times(engine) == {1, 2, 3}
    write(engine, 4)
    wait_shipped(engine)
    shutil.rmtree(world.root / "disk")
    engine = world.start(acknowledge)
    assert times(engine) == {1, 2, 3, 4}
    write(engine, 5)
    engine.close()
    assert times(world.start(acknowledge)) == {1, 2, 3, 4, 5}


def test_what_was_not_shipped_is_shipped_after_a_restart(world: World) -> None:
    engine = world.start("local")
    create(engine)
    write(engine, 1)
    wait_shipped(engine)
    world.store.down()
    write(engine, 2, 3)
    assert log_of(engine).statistics().unshipped_bytes > 0
    log_of(engine).shipper.break_off(ProcessDies("the process dies"))
    world.store.up()
    engine = world.start("local")
    assert times(engine) == {1, 2, 3}
    wait_shipped(engine)
    # A new disk: only the store has them.
    assert times(world.start("local", disk="second")) == {1, 2, 3}


def test_the_setting_can_be_changed_when_everything_is_flushed(world: World) -> None:
    engine = world.start(None)
    create(engine)
    write(engine, 1)
    engine.close(flush=False)
    engine = world.start("store")
    assert times(engine) == {1}, "the local log is replayed, and shipped"
    wait_shipped(engine)
    shutil.rmtree(world.root / "disk")
    engine = world.start("store")
    assert times(engine) == {1}
    write(engine, 2)
    with pytest.raises(StartError, match="is shared, and bucket may hold rows that are nowhere else"):
        world.start(None)
    engine.close()
    engine = world.start(None)
    write(engine, 3)
    engine.close(flush=False)
    engine = world.start("local")
    assert times(engine) == {1, 2, 3}
    write(engine, 4)
    engine.close(flush=False)
    assert times(world.start("store")) == {1, 2, 3, 4}


def test_a_disk_that_comes_back_after_the_log_went_on_elsewhere_is_refused(world: World) -> None:
    engine = world.start("local", disk="first")
    create(engine)
    write(engine, 1)
    wait_shipped(engine)
    world.store.down()
    write(engine, 2)
    log_of(engine).shipper.break_off(ProcessDies("the process dies"))
    world.store.up()
    engine = world.start("local", disk="second")
    assert times(engine) == {1}, "the second was acknowledged by the local log alone"
    write(engine, 3)
    with pytest.raises(StartError, match="the shared log went on elsewhere"):
        world.start("local", disk="first")


def test_only_the_newest_of_two_owners_acknowledges(world: World) -> None:
    first = world.start(disk="first")
    create(first)
    write(first, 1)
    second = world.start(disk="second")
    assert times(second) == {1}
    with pytest.raises(LogFenced, match="the term was ended by"):
        write(first, 2)
    with pytest.raises(RegionReadOnly):
        write(first, 3)
    with pytest.raises(LogFenced):
        log_of(first).prove_ownership().result(30)
    write(second, 4)
    assert times(second) == {1, 4}
    assert first.wal_segments()[-1][1].state == "unshipped"


def test_an_outage_delays_writes_and_loses_none(world: World) -> None:
    engine = world.start()
    create(engine)
    write(engine, 1)
    world.store.down()
    writer = threading.Thread(target=write, args=(engine, 2))
    writer.start()
    state = log_of(engine).shipper.state
    while not state.failing_since_ms:
        writer.join(0.01)
    facts = engine.wal_segments()[-1][1]
    assert (facts.state, facts.entries, facts.since_ms) == ("unshipped", 1, state.failing_since_ms)
    assert "the object store fails: the service answered 500" in facts.reason
    assert facts.last_error is not None
    assert "the service answered 500" in facts.last_error
    assert times(engine) == {1}
    world.store.up()
    writer.join(30)
    assert times(engine) == {1, 2}
    assert state.failures > 0
    assert not state.failing_since_ms


def test_what_waits_for_the_store_is_bounded(world: World) -> None:
    settings = replace(FAST, buffer_bytes_max=Size(500), append_timeout=Duration.of_seconds(2))
    engine = world.start("local", settings=settings)
    create(engine)
    world.store.down()
    with pytest.raises(DeadlineExceeded, match="the shared log did not take the entry"):
        write(engine, *range(20))
    known = times(engine)
    assert 0 < len(known) < 20
    world.store.up()
    wait_shipped(engine)
    write(engine, 99)
    assert times(engine) == known | {99}


def test_objects_are_deleted_when_their_rows_are_flushed_and_fences_never(world: World) -> None:
    engine = world.start()
    create(engine)
    create_other(engine)
    write(engine, 1, 2)
    put(engine, [{"host": "b", "ts": 1}], OTHER)
    assert len(world.objects()) == 3
    engine.flush(REGION).result(30)
    engine.context.wal.purge()
    assert len(world.objects()) == 1
    engine.drop(OTHER).result(30)
    engine.context.wal.purge()
    engine.close()
    (fence,) = world.objects()
    for _ in range(3):
        world.start().close()
    assert fence in world.objects()
    assert len(world.objects()) == 4, "one for each life"


def test_garbage_of_a_crash_is_swept(world: World) -> None:
    engine = world.start()
    create(engine)
    write(engine, 1, 2, 3)
    engine.flush(REGION).result(30)
    world.store.fail("delete", times=-1)
    engine.context.wal.purge()
    world.store.up()
    assert len(world.objects()) == 3
    engine = world.start()
    engine.context.wal.purge()
    assert len(world.objects()) == 1


@pytest.mark.parametrize("damage", ["missing", "empty", "cut off", "payload"])
def test_a_damaged_object_costs_only_the_regions_that_lost_entries(world: World, damage: str) -> None:
    engine = world.start()
    create(engine)
    create_other(engine)
    write(engine, 1, 2)
    put(engine, [{"host": "b", "ts": 1}], OTHER)
    write(engine, 3)
    put(engine, [{"host": "b", "ts": 2}], OTHER)
    path = world.objects()[1]
    content = world.inner.get(path)
    world.inner.delete(path)
    if damage != "missing":
        changed = content[:100] + bytes([content[100] ^ 1]) + content[101:]
        world.inner.put(path, {"empty": b"", "cut off": content[:-20], "payload": changed}[damage])
    engine = world.start()
    assert path in engine.quarantined[REGION]
    assert {row["ts"] for row in read(engine, OTHER)} == {1, 2}
    engine.context.wal.purge()
    assert len([each for each in world.objects() if "00000001" in each]) == (4 if damage == "missing" else 5) + 1


def test_a_store_that_does_not_answer_prevents_the_start_and_changes_nothing(world: World) -> None:
    world.store.down()
    with pytest.raises(StartError, match="cannot open the shared log in bucket"):
        world.start()
    assert world.objects() == []


def test_a_write_that_is_alone_costs_one_request_and_many_share_one(world: World) -> None:
    engine = world.start(settings=SharedSettings(interval=Duration.of_seconds(60)))
    create(engine)
    before = world.store.calls["put_if_absent"]
    write(engine, 1)
    assert world.store.calls["put_if_absent"] - before == 1
    gate = world.store.block()
    writers = [threading.Thread(target=write, args=(engine, at)) for at in range(2, 22)]
    for writer in writers:
        writer.start()
    while log_of(engine).shipper.unshipped_entries < 20:
        writers[0].join(0.01)
    gate.set()
    for writer in writers:
        writer.join(30)
    assert world.store.calls["put_if_absent"] - before == 3
    assert len(times(engine)) == 21


def create_other(engine: Engine) -> None:
    engine.create_region(OTHER, "data/tsdb/public/1025/1025_0000000000", SCHEMA)


class ProcessDies(TsdbError):
    """The end of a process, as far as its log is concerned."""
