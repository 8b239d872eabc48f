"""Restoring a cluster to a point in time: regions that moved between datanodes, and metadata that belongs to none."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.backup.cluster_point_world import ClusterModel, ClusterPointWorld
from tests.backup.point_world import LOCALLY, run, tables_of
from tests.backup.world import repository_at
from tsdb.backup import RestoreRefused, parse_time, rolls_until
from tsdb.backup._cluster_point import roll_catalog
from tsdb.engine import CatalogNote, EntryRun, LogPlace, TimedCatalog, find_gap
from tsdb.meta.errors import ChangeNotNoted
from tsdb.model import RegionId
from tsdb.units import Duration

CPU = (
    "CREATE TABLE cpu (host STRING, ts TIMESTAMP TIME INDEX, v DOUBLE, PRIMARY KEY (host))"
    " PARTITION ON COLUMNS (host) (host < 'h', host >= 'h')"
)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[ClusterPointWorld]:
    world = ClusterPointWorld(tmp_path)
    try:
        world.run(CPU)
        write(world, "a", "z")
        world.back_up()
        yield world
    finally:
        world.close()


def write(world: ClusterPointWorld, *hosts: str) -> None:
    for host in hosts:
        world.run(f"INSERT INTO cpu (host, ts, v) VALUES ('{host}', 1, 1)")


def hosts(world: ClusterPointWorld, to_ns: int, tables: tuple[str, ...] = ()) -> set[object]:
    restored = world.restore(to_ns, tables=tables)
    try:
        return {host for (host,) in run(restored, "SELECT host FROM cpu")}
    finally:
        restored.close()


def refusal(world: ClusterPointWorld, to_ns: int, tables: tuple[str, ...] = ()) -> str:
    before = sorted(world.root.glob("restored-*"))
    with pytest.raises(RestoreRefused) as refused:
        world.restore(to_ns, tables=tables)
    # Nothing was written.
    assert sorted(world.root.glob("restored-*")) == before
    return str(refused.value)


def first_region(world: ClusterPointWorld) -> RegionId:
    return RegionId(world.catalog.table("public", "cpu").region_ids[0])


@pytest.mark.parametrize("seed", range(1, 1 + int(os.environ.get("TSDB_POINT_SEEDS", "1"))))
def test_every_mark_after_a_backup_can_be_reached(tmp_path: Path, seed: int) -> None:
    world = ClusterPointWorld(tmp_path, seed=seed)
    world.lost_answers = 0.2
    try:
        model = ClusterModel(world, seed)
        marks = []
        for number in range(44):
            model.step()
            if number in (8, 24):
                world.back_up()
            if number in (16, 23, 34, 43):
                marks.append((world.now(), model.copy()))
        for to_ns, expected in marks:
            restored = world.restore(to_ns)
            try:
                assert tables_of(restored) == expected
            finally:
                restored.close()
    finally:
        world.close()


def test_a_region_is_followed_from_node_to_node_and_back(world: ClusterPointWorld) -> None:
    region = first_region(world)
    old = world.place_of(region)
    marks = []
    for number, target in enumerate((old % 3 + 1, old, (old + 1) % 3 + 1)):
        write(world, f"b{number}")
        marks.append(world.now())
        if number == 1:
            here = world.place_of(region)
            world.kill(here)
            world.take_over(here, world.regions_at(here))
            world.start(here)
        else:
            world.hand_over(region, target)
    write(world, "c")
    world.purge()
    expected = {"a", "z"}
    for number, mark in enumerate(marks):
        expected.add(f"b{number}")
        assert hosts(world, mark) == expected
    assert hosts(world, world.now()) == {*expected, "c"}


def test_a_node_that_came_after_the_backup_is_read_from_its_begin(world: ClusterPointWorld) -> None:
    world.clocks[4] = world.clocks[1]
    world.nodes[4] = type(world.nodes[1])(world, 4)
    world.hand_over(first_region(world), 4)
    write(world, "b")
    assert hosts(world, world.now()) == {"a", "b", "z"}


def test_changes_of_tables_are_those_of_the_moment(world: ClusterPointWorld) -> None:
    world.run("CREATE TABLE later (ts TIMESTAMP TIME INDEX, v DOUBLE)")
    world.run("INSERT INTO later VALUES (1, 1)")
    world.run("ALTER TABLE cpu ADD COLUMN w DOUBLE")
    world.run("INSERT INTO cpu (host, ts, w) VALUES ('w', 1, 5)")
    first = world.now()
    world.change_leader()
    world.run("ALTER TABLE later RENAME earlier")
    world.run("TRUNCATE TABLE cpu")
    write(world, "t")
    second = world.now()
    world.run("DROP TABLE earlier")
    world.run("CREATE DATABASE shop")
    restored = world.restore(first)
    assert {name for (name,) in run(restored, "SHOW TABLES")} == {"cpu", "later", "numbers"}
    assert sorted(run(restored, "SELECT host, w FROM cpu"), key=str) == [("a", None), ("w", 5.0), ("z", None)]
    restored.close()
    restored = world.restore(second)
    assert {name for (name,) in run(restored, "SHOW TABLES")} == {"cpu", "earlier", "numbers"}
    assert run(restored, "SELECT host FROM cpu") == [("t",)]
    restored.close()
    restored = world.restore(world.now())
    assert ("shop",) in run(restored, "SHOW DATABASES")
    assert {name for (name,) in run(restored, "SHOW TABLES")} == {"cpu", "numbers"}
    restored.close()


def test_a_hole_in_the_log_of_one_node_is_refused_with_what_can_be_reached(world: ClusterPointWorld) -> None:
    node = world.place_of(first_region(world))
    write(world, "b")
    early = world.now()
    write(world, "c", "gone")
    gone = sorted(meta.path for meta in world.log.list(f"wal/{node}/00000001") if meta.path.endswith(".log"))[-1]
    write(world, "d", "e")
    late = world.now()
    write(world, "f")
    world.log.delete(gone)
    message = refusal(world, late)
    assert gone in message
    last = re.search(r"points from \S+ to (\S+) can be reached", message)
    assert last is not None
    assert hosts(world, parse_time(last[1])) == {"a", "b", "c", "z"}
    assert hosts(world, early) == {"a", "b", "z"}
    [summary] = repository_at(world.backups).summaries()
    until_ms = rolls_until(summary, world.past_logs)
    assert until_ms is not None
    assert until_ms * 1_000_000 <= parse_time(last[1])


def test_entries_that_clocks_put_out_of_order_are_refused(world: ClusterPointWorld) -> None:
    """The first owner's clock is an hour ahead: what it wrote seems to come after what the next owner wrote."""
    region = first_region(world)
    old = world.place_of(region)
    world.clocks[old].ahead_ns = 3_600_000_000_000
    write(world, "b")
    world.hand_over(region, old % 3 + 1)
    write(world, "c")
    to_ns = world.now()
    message = refusal(world, to_ns)
    assert "the clocks of the datanodes differ" in message
    assert f"datanode {old % 3 + 1} wrote later ones" in message
    # By the clock of the first owner nothing of it counts yet, and the other table is not concerned.
    world.ticking.advance(seconds=3700)
    assert hosts(world, world.now()) == {"a", "b", "c", "z"}


def test_a_backup_is_from_before_the_latest_of_all_clocks(world: ClusterPointWorld) -> None:
    world.clocks[2].ahead_ns = 60_000_000_000
    write(world, "b")
    world.back_up(name="skewed")
    summary = repository_at(world.backups).find("skewed")
    assert summary.cluster_log is not None
    assert summary.cluster_log.captured_ms * 1_000_000 > world.now() + 50_000_000_000


def test_a_node_that_does_not_keep_its_log_ends_what_can_be_reached(world: ClusterPointWorld) -> None:
    write(world, "b")
    early = world.now()
    node = world.place_of(first_region(world))
    kept, world.settings = world.settings, replace(world.settings, retention=Duration(0))
    world.restart(node)
    write(world, "c")
    assert f"datanode {node} was started" in refusal(world, world.now())
    assert hosts(world, early) == {"a", "b", "z"}
    world.settings = kept
    # A backup that is taken then cannot be rolled forward.
    assert world.back_up(name="without").cluster_log is None
    assert "cannot be rolled forward" in _refused(world, world.now(), "without")


def _refused(world: ClusterPointWorld, to_ns: int, name: str) -> str:
    with pytest.raises(RestoreRefused) as refused:
        world.restore(to_ns, name)
    return str(refused.value)


def test_rows_that_are_acknowledged_before_they_are_shipped_are_refused(world: ClusterPointWorld) -> None:
    world.settings = LOCALLY
    node = world.place_of(first_region(world))
    world.restart(node)
    write(world, "b")
    world.hand_over(first_region(world), node % 3 + 1)
    write(world, "c")
    assert 'acknowledge = "local"' in refusal(world, world.now())
    assert world.back_up(name="locally").cluster_log is None


def test_what_cannot_be_repeated_is_refused(world: ClusterPointWorld) -> None:
    write(world, "b")
    early = world.now()
    world.run("ADMIN discard_unflushed('cpu')")
    world.run("CREATE TABLE other (ts TIMESTAMP TIME INDEX)")
    late = world.now()
    assert "rows in memory were discarded in table public.cpu" in refusal(world, late)
    assert hosts(world, early) == {"a", "b", "z"}
    world.restore(late, tables=["public.other"]).close()


def test_what_cannot_be_repeated_is_refused_although_a_later_owner_is_read_first(world: ClusterPointWorld) -> None:
    region = first_region(world)
    world.hand_over(region, 3)
    write(world, "b")
    world.run("ADMIN discard_unflushed('cpu')")
    world.hand_over(region, 1)
    world.run("ALTER TABLE cpu ADD COLUMN w DOUBLE")
    late = world.now()
    write(world, "c")
    assert "rows in memory were discarded in table public.cpu" in refusal(world, late)


def test_a_change_that_no_datanode_notes_is_not_acknowledged(world: ClusterPointWorld) -> None:
    for node in world.nodes.values():
        node.is_dead = True
    with pytest.raises(ChangeNotNoted, match="the change was made"):
        world.run("CREATE DATABASE shop")
    between = world.now()
    for node in world.nodes.values():
        node.is_dead = False
    world.run("CREATE DATABASE other")
    restored = world.restore(between)
    assert ("shop",) not in run(restored, "SHOW DATABASES")
    restored.close()
    restored = world.restore(world.now())
    assert {("shop",), ("other",)} <= set(run(restored, "SHOW DATABASES"))
    restored.close()


def _note(order: tuple[int, int], at: int, *, is_base: bool = False, **changes: bytes | None) -> TimedCatalog:
    return TimedCatalog(CatalogNote(order, is_base, changes), 1, at)


def test_changes_of_the_metadata_are_applied_in_their_order() -> None:
    notes = [
        _note((1, 4), 40, b=None),
        _note((1, 3), 30, b=b"3"),
        _note((1, 3), 60, b=b"3"),
        _note((1, 2), 20, a=b"old"),
        _note((2, 1), 50, is_base=True, c=b"5"),
    ]
    pairs = {"a": b"1"}
    assert roll_catalog(pairs, (1, 2), notes, 30) == {"a": b"1"}
    assert roll_catalog(pairs, (1, 2), notes, 31) == {"a": b"1", "b": b"3"}
    assert roll_catalog(pairs, (1, 2), notes, 41) == {"a": b"1"}
    assert roll_catalog(pairs, (1, 2), notes, 51) == {"c": b"5"}
    with pytest.raises(RestoreRefused, match="are not in the shared logs"):
        roll_catalog(pairs, (1, 1), notes[:1], 41)
    with pytest.raises(RestoreRefused, match="the clocks differ"):
        roll_catalog(pairs, (1, 2), [_note((1, 3), 45), _note((1, 4), 40)], 42)


def _run_of(node: int, first: int, last: int) -> EntryRun:
    return EntryRun(node, LogPlace(1, 0), first, last, first, first, last)


@pytest.mark.parametrize(
    ("runs", "floor", "needed", "gap"),
    [
        ([], 3, 3, None),
        ([], 3, 5, (4, 5)),
        ([_run_of(1, 1, 4), _run_of(2, 5, 9)], 3, 4, None),
        ([_run_of(2, 5, 9), _run_of(1, 1, 4)], 0, 0, None),
        ([_run_of(1, 1, 4), _run_of(2, 6, 9)], 3, 3, (5, 5)),
        ([_run_of(1, 1, 4), _run_of(2, 6, 9)], 5, 5, None),
        ([_run_of(1, 1, 4), _run_of(2, 4, 9)], 3, 3, (4, 4)),
        ([_run_of(1, 6, 9)], 3, 3, (4, 5)),
        ([_run_of(1, 1, 9)], 3, 12, (10, 12)),
    ],
)
def test_entries_follow_each_other_over_all_logs(
    runs: list[EntryRun], floor: int, needed: int, gap: tuple[int, int] | None
) -> None:
    found = find_gap(runs, floor, needed)
    assert (None if found is None else found[:2]) == gap
