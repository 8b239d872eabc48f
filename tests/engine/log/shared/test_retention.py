"""Objects that are kept although no region needs them: how long, and that nothing else depends on them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.engine.harness import REGION, WAL_OPTIONS, create, open_engine, put, read
from tsdb.engine import Engine
from tsdb.engine.log import FrameKind
from tsdb.engine.log.frame import Frame, decode_payload, encode_frame_payload
from tsdb.engine.log.shared import (
    NOTES,
    LogPlace,
    PastLog,
    SharedLog,
    SharedSettings,
    check_not_shared,
    open_shared_log,
    parse_note,
)
from tsdb.engine.log.shared.container import ObjectIdentity, all_frames_of, encode_entries, parse_trailer
from tsdb.engine.wal import Wal
from tsdb.store import MemoryStore
from tsdb.units import Duration

KEPT = SharedSettings(
    interval=Duration.of_seconds(0.001),
    retry_min=Duration.of_seconds(0.001),
    retention=Duration.of_seconds(3600),
)


class LaterClock:
    """The clock of the machine, some time ahead."""

    def __init__(self) -> None:
        self.ahead_ns = 0

    def now_ns(self) -> int:
        return time.time_ns() + self.ahead_ns

    def monotonic_ns(self) -> int:
        return time.monotonic_ns()


class World:
    """Engines that come and go over one store."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.store = MemoryStore()
        self.clock = LaterClock()
        self.engine: Engine | None = None

    def start(self, settings: SharedSettings = KEPT) -> Engine:
        directory = self.root / "disk"
        log = open_shared_log(
            self.store,
            directory,
            settings,
            open_local=lambda: Wal.open(directory, WAL_OPTIONS)[0],
            place="bucket",
            clock=self.clock,
        )
        self.engine = open_engine(self.root / "data", log=log, store=self.store)
        return self.engine

    def stop(self, *, flush: bool = True) -> None:
        if self.engine is not None:
            self.engine.close(flush=flush)
            self.engine = None

    def numbers(self, term: int) -> list[str]:
        """The entries of a term that are in the store, its fence left out."""
        found = []
        for meta in self.store.list(f"wal/0/{term:08x}"):
            if meta.path.endswith(".log"):
                content = self.store.get(meta.path)
                if parse_trailer(content, len(content)).regions:
                    found.append(meta.path)
        return found


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    yield world
    world.stop(flush=False)


def write(engine: Engine, *at: int) -> None:
    for each in at:
        put(engine, [{"host": "a", "ts": each, "a": 1.0}])


def times(engine: Engine) -> set[int]:
    return {row["ts"] for row in read(engine)}


def log_of(engine: Engine) -> SharedLog:
    log = engine.context.wal
    assert isinstance(log, SharedLog)
    return log


def test_objects_are_kept_for_the_retention_and_then_deleted(world: World) -> None:
    engine = world.start()
    create(engine)
    write(engine, 1, 2, 3)
    engine.flush(REGION).result(60)
    engine.context.wal.purge()
    kept = world.numbers(1)
    assert len(kept) >= 3
    (row,) = [facts for _, facts in engine.wal_segments() if facts.state == "retained"]
    assert row.size_bytes == sum(meta.size_bytes for meta in world.store.list("wal/0") if meta.path in kept)
    write(engine, 4)
    world.clock.ahead_ns = 7200 * 10**9
    engine.context.wal.purge()
    # What is not flushed is needed, however old it is.
    assert len(world.numbers(1)) == 1
    assert not [facts for _, facts in engine.wal_segments() if facts.state == "retained"]
    engine.flush(REGION).result(60)
    engine.context.wal.purge()
    assert world.numbers(1) == []


def test_a_restart_replays_nothing_of_what_is_kept_and_deletes_it_later(world: World) -> None:
    engine = world.start()
    create(engine)
    write(engine, 1, 2)
    world.stop()
    kept = world.numbers(1)
    assert kept
    engine = world.start()
    assert not log_of(engine)._history.objects
    assert times(engine) == {1, 2}
    write(engine, 3)
    engine.context.wal.purge()
    assert world.numbers(1) == kept
    world.clock.ahead_ns = 7200 * 10**9
    engine.context.wal.purge()
    assert world.numbers(1) == []
    world.stop(flush=False)
    assert times(world.start()) == {1, 2, 3}


def test_a_log_that_is_only_kept_is_not_needed(world: World) -> None:
    engine = world.start()
    create(engine)
    write(engine, 1)
    world.stop()
    assert world.numbers(1)
    check_not_shared(world.root / "disk")


def test_without_retention_what_was_kept_is_deleted(world: World) -> None:
    engine = world.start()
    create(engine)
    write(engine, 1)
    world.stop()
    assert world.numbers(1)
    engine = world.start(replace(KEPT, retention=Duration(0)))
    engine.context.wal.purge()
    assert world.numbers(1) == []
    assert times(engine) == {1}


def test_entries_have_the_time_at_which_they_were_appended(world: World) -> None:
    engine = world.start()
    create(engine)
    before = time.time_ns()
    write(engine, 1)
    between = time.time_ns()
    write(engine, 2)
    frames = [
        frame
        for found in PastLog(world.store, 0).objects(LogPlace(1, 0))
        for frame in found.frames
        if frame.header.kind == FrameKind.DATA
    ]
    first, second = (frame.logged_ns for frame in frames)
    assert before <= first <= between <= second <= time.time_ns()


def test_objects_without_times_are_read_as_before() -> None:
    frame = Frame(7, 1, encode_frame_payload(b"rows"), rows=1)
    identity = ObjectIdentity(0, 1, 0, bytes(16))
    old = encode_entries(identity, [frame], acknowledged=0, previous_crc=0, created_ms=5)
    content = b"".join(bytes(part) for part in old.parts)
    trailer = parse_trailer(content, len(content))
    (found,) = all_frames_of(content, trailer, trailer.regions[0])
    assert (found.logged_ns, found.header.entry_id) == (0, 1)


def test_changes_of_regions_are_noted_and_pin_nothing(world: World) -> None:
    engine = world.start()
    create(engine)
    engine.truncate(REGION).result(60)
    engine.context.wal.purge()
    assert not [facts for _, facts in engine.wal_segments() if facts.pinning]
    notes = [
        parse_note(
            decode_payload(frame.stored, codec=frame.header.codec, raw_bytes=frame.header.raw_bytes).to_pybytes()
        )
        for found in PastLog(world.store, 0).objects(LogPlace(1, 0))
        for frame in found.frames
        if frame.header.region_id == NOTES
    ]
    assert [[region.what for region in note.regions] for note in notes] == [["created"], ["changed"]]
    world.stop(flush=False)
    assert times(world.start()) == set()
