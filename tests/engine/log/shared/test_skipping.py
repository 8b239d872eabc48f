"""Objects that an operator gives up: regions are opened without their entries, and nothing else changes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engine.harness import REGION, create, put, read
from tests.engine.log.shared.test_log import OTHER, World, create_other, times, write
from tests.engine.log.shared.test_node_log import Logs, append, entries
from tsdb.engine import Engine
from tsdb.engine.log.continuity import Continuity, Corruption
from tsdb.engine.log.shared.layout import object_path, skipped_path
from tsdb.errors import InvalidArguments, Unsupported

DAMAGES = ("missing", "empty", "cut off", "payload")


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    yield world
    world.store.up()
    for engine in world.engines:
        engine.close(flush=False)


@pytest.fixture
def logs(tmp_path: Path) -> Logs:
    return Logs(tmp_path)


def damage(store: World | Logs, path: str, kind: str) -> None:
    content = store.inner.get(path)
    store.inner.delete(path)
    if kind != "missing":
        changed = content[:100] + bytes([content[100] ^ 1]) + content[101:]
        store.inner.put(path, {"empty": b"", "cut off": content[:-20], "payload": changed}[kind])


def damaged(world: World, kind: str) -> str:
    """A log whose second object, with the second of three rows, cannot be read; return its path."""
    engine = world.start()
    create(engine)
    create_other(engine)
    write(engine, 1, 2, 3)
    put(engine, [{"host": "b", "ts": 1}], OTHER)
    path = world.objects()[1]
    damage(world, path, kind)
    return path


@pytest.mark.parametrize("kind", DAMAGES)
def test_a_region_is_opened_without_an_object_that_is_given_up(world: World, kind: str) -> None:
    path = damaged(world, kind)
    engine = world.start()
    assert path in engine.quarantined[REGION]
    assert engine.skip_log_object(f"bucket/{path}").startswith(f"{path}: ")
    # Said twice, it is done once.
    assert engine.skip_log_object(path).startswith(f"{path}: ")
    assert path in engine.quarantined[REGION], "what is open stays as it is"
    shown = skipped_rows(engine)
    assert [facts[0] for facts in shown] == [f"bucket/{path}"]
    assert "its entries are lost" in shown[0][1]
    for _ in range(2):
        engine = world.start()
        assert not engine.quarantined
        assert times(engine) == {1, 3}
        assert {row["ts"] for row in read(engine, OTHER)} == {1}
        assert skipped_rows(engine) == shown
    write(engine, 4)
    engine.close()
    engine = world.start()
    assert times(engine) == {1, 3, 4}
    assert skipped_rows(engine) == shown, "it is told after its object is deleted, too"


def test_an_object_with_the_last_entries_of_a_region_is_given_up(world: World) -> None:
    engine = world.start()
    create(engine)
    write(engine, 1, 2)
    path = world.objects()[1]
    damage(world, path, "empty")
    engine = world.start()
    assert path in engine.quarantined[REGION]
    engine.skip_log_object(path)
    engine = world.start()
    assert times(engine) == {1}
    write(engine, 5)
    assert times(world.start()) == {1, 5}


def test_each_damaged_object_is_given_up_by_itself(world: World) -> None:
    engine = world.start()
    create(engine)
    write(engine, 1, 2, 3, 4, 5)
    first, second = world.objects()[1], world.objects()[3]
    damage(world, first, "empty")
    damage(world, second, "payload")
    engine = world.start()
    engine.skip_log_object(first)
    engine = world.start()
    assert second in engine.quarantined[REGION]
    assert first not in engine.quarantined[REGION]
    engine.skip_log_object(second)
    assert times(world.start()) == {1, 3, 5}


def test_what_can_be_read_or_is_no_part_of_the_log_is_not_given_up(world: World) -> None:
    path = damaged(world, "empty")
    engine = world.start()
    term = path.rpartition("/")[0]
    refused = {
        "wal/0/elsewhere": "is not an object of the shared log",
        f"{term}/open": "is not an object of the shared log",
        object_path(0, 1, 0): "can be read",
        object_path(0, 1, 77): "is no part of the log",
        object_path(0, 9, 0): "no such term",
        object_path(5, 1, 0): "no such term",
        object_path(0, 2, 0): "has not ended",
    }
    write_other(engine)
    for wrong, reason in refused.items():
        with pytest.raises(InvalidArguments, match=reason):
            engine.skip_log_object(wrong)
    assert not [each.path for each in world.inner.list("wal/skipped")]
    engine.skip_log_object(path)
    (note,) = [each.path for each in world.inner.list("wal/skipped")]
    assert note == skipped_path(0, 1, 1)
    assert {"node", "term", "number", "problem", "by", "since_ms"} == json.loads(world.inner.get(note)).keys()


def test_without_a_shared_log_there_is_nothing_to_give_up(world: World) -> None:
    with pytest.raises(Unsupported, match="there is no shared log"):
        world.start(None).skip_log_object("wal/0/00000001/0000000000000001.log")


@pytest.mark.parametrize("kind", DAMAGES)
def test_another_node_takes_over_without_an_object_that_is_given_up(logs: Logs, kind: str) -> None:
    lost = logs.open(1)
    append(lost, 7, 1, 2, 3)
    append(lost, 8, 1)
    path = logs.objects(1)[1]
    damage(logs, path, kind)
    second, third = logs.open(2), logs.open(3)
    reading = second.take_over(1, {7: 0, 8: 0})
    assert path in (reading.quarantine_reason(7) or "")
    assert reading.quarantine_reason(8) is None or kind != "payload"
    assert second.skip_object(path).startswith(path)
    # Every node knows it, also one that was there before.
    reading = third.take_over(1, {7: 0, 8: 0})
    assert reading.quarantine_reason(7) is None
    assert reading.quarantine_reason(8) is None
    assert entries(reading) == [(7, 1), (7, 3), (8, 1)]


def test_a_gap_is_a_loss_if_something_else_is_damaged_there() -> None:
    continuity = Continuity()
    continuity.see_frames(7, 1, 2)
    continuity.see_given_up()
    continuity.see_frames(7, 5, 6)
    assert continuity.reason(7, 0) is None
    continuity.see_frames(7, 9, 9)
    assert "entries 7 to 8 are missing" in (continuity.reason(7, 0) or "")
    assert continuity.reason(8, 0) is None
    continuity = Continuity()
    continuity.see_frames(7, 1, 2)
    continuity.see_given_up()
    continuity.see_damage(Corruption(4, 0, 0, "it is cut off"))
    continuity.see_frames(7, 5, 6)
    assert "it is cut off" in (continuity.reason(7, 0) or "")
    assert "it is cut off" in (continuity.reason(8, 0) or "")
    continuity = Continuity()
    continuity.see_given_up()
    continuity.see_frames(7, 5, 6)
    assert continuity.reason(7, 0) is None, "its first entries may have been there"
    continuity.see_drop(7)
    continuity.see_frames(7, 3, 3)
    assert "entries 1 to 2 are missing" in (continuity.reason(7, 0) or "")


def write_other(engine: Engine) -> None:
    put(engine, [{"host": "b", "ts": 2}], OTHER)


def skipped_rows(engine: Engine) -> list[tuple[str, str, int | None]]:
    found = [each for each in engine.wal_segments() if each[1].state == "skipped"]
    return [(path, facts.reason, facts.node_id) for path, facts in found]
