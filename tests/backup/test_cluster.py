"""Backups of a cluster: datanodes in the test's own process, moves of regions and lost nodes in the middle."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.backup.cluster_world import ClusterWorld, cluster_world
from tests.backup.world import opened, repository_at, restore
from tsdb.backup import BackupFailed, DestinationPlaces, StoragePlace, verify_backup
from tsdb.backup.cluster._node import BackupNode, BackupUnknown
from tsdb.errors import DeadlineExceeded, InvalidArguments
from tsdb.kv import LeadershipLost
from tsdb.model import RegionId, region_id
from tsdb.remote import NodeUnavailable
from tsdb.store import LocalStore

TABLE = (
    "CREATE TABLE cpu (host STRING, ts TIMESTAMP TIME INDEX, v DOUBLE, PRIMARY KEY (host))"
    " PARTITION ON COLUMNS (host) (host < 'h', host >= 'h')"
)
ROWS = "SELECT host, ts, v FROM cpu ORDER BY host, ts"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[ClusterWorld]:
    with cluster_world(tmp_path / "cluster") as world:
        world.sql(TABLE)
        _write(world, 0, 20)
        yield world


def _write(world: ClusterWorld, start: int, end: int) -> None:
    values = ", ".join(f"('{host}', {at}, {at})" for at in range(start, end) for host in ("a", "z"))
    world.sql(f"INSERT INTO cpu VALUES {values}")


def _regions(world: ClusterWorld) -> list[RegionId]:
    table = world.catalog.table("public", "cpu")
    return [region_id(table.id, number) for number in table.region_numbers]


def _place(world: ClusterWorld) -> Path:
    return world.root / "store" / "backup" / "nightly"


def _check_restored(world: ClusterWorld, home: Path, expected: list[tuple[object, ...]]) -> None:
    """The backup is sound, and a server that is made of it has the rows."""
    repository = repository_at(_place(world))
    assert not verify_backup(repository, repository.summaries()).damaged
    restore(_place(world), home)
    with opened(home) as db:
        assert [tuple(row) for row in db.sql(ROWS).fetchall()] == expected
        db.sql("INSERT INTO cpu VALUES ('new', 1, 1)")
        assert len(db.sql(ROWS).fetchall()) == len(expected) + 1


def test_a_backup_of_a_cluster_is_restored_into_a_server_row_by_row(world: ClusterWorld, tmp_path: Path) -> None:
    expected = world.sql(ROWS)
    assert {world.place_of(each) for each in _regions(world)} == {1, 2}
    summary = world.back_up()
    assert (summary.tables, summary.regions, summary.rows) == (1, 2, 40)
    assert all(node.backup.pinned == 0 for node in world.nodes.values())
    _check_restored(world, tmp_path / "restored", expected)


def test_the_second_backup_copies_what_is_new(world: ClusterWorld, tmp_path: Path) -> None:
    first = world.back_up(name="first")
    _write(world, 20, 25)
    second = world.back_up(name="second")
    assert first.copied_files == first.files > 0
    assert 0 < second.copied_files < second.files
    assert second.rows == 50
    _check_restored(world, tmp_path / "restored", world.sql(ROWS))


@pytest.mark.parametrize("step", ["pin", "look"])
def test_a_region_that_moves_in_the_middle_is_asked_for_again(world: ClusterWorld, tmp_path: Path, step: str) -> None:
    expected = world.sql(ROWS)
    (first, _), moved = _regions(world), []

    def move(node: int, asked: str) -> None:
        if asked == step and not moved:
            moved.append(node)
            world.move(first)
            # The files that were pinned leave the region at its new node.
            world.nodes[world.place_of(first)].engine.compact(first).result(60)

    world.before = move
    summary = world.back_up()
    assert moved
    assert summary.rows == 40
    _check_restored(world, tmp_path / "restored", expected)


def test_files_that_are_gone_with_a_move_are_found_at_the_new_node(world: ClusterWorld, tmp_path: Path) -> None:
    """The old node finds nothing to copy; what it had is not left out, but asked for elsewhere."""
    first, _ = _regions(world)
    expected, old, moved = world.sql(ROWS), world.place_of(first), []

    def move(node: int, asked: str) -> None:
        if asked == "copy" and not moved:
            moved.append(node)
            pinned = [file.path for file in world.nodes[old].backup._parts[_only(world, old)].pinned[first].files()]
            world.move(first)
            _write_one(world)
            world.nodes[3 - old].engine.flush(first).result(60)
            world.nodes[3 - old].engine.compact(first).result(60)
            for path in pinned:
                world.store.delete(path)

    world.before = move
    summary = world.back_up(skips_damaged=True)
    assert not summary.damaged
    assert [old, 3 - old] == sorted({node for node, step in world.asked if step == "copy"}, key=[old, 3 - old].index)
    rows = world.sql(ROWS)
    assert set(expected) < set(rows)
    _check_restored(world, tmp_path / "restored", rows)


def _only(world: ClusterWorld, node: int) -> str:
    (backup,) = world.nodes[node].backup._parts
    return backup


def _write_one(world: ClusterWorld) -> None:
    """Newer versions of all rows, so that a compaction rewrites the files."""
    _write(world, 0, 20)
    world.sql("INSERT INTO cpu VALUES ('a', 100, 1)")


def test_a_node_that_was_started_again_is_asked_for_its_regions_again(world: ClusterWorld, tmp_path: Path) -> None:
    lost: list[int] = []

    def restart(node: int, asked: str) -> None:
        if asked == "look" and node == 1 and not lost:
            lost.append(node)
            world.nodes[1].backup.close()

    world.before = restart
    expected = world.sql(ROWS)
    assert world.back_up().rows == 40
    assert lost
    _check_restored(world, tmp_path / "restored", expected)


def test_a_node_that_is_lost_while_it_copies_is_replaced_by_the_next_owner(world: ClusterWorld, tmp_path: Path) -> None:
    first, _ = _regions(world)
    expected, old, lost = world.sql(ROWS), world.place_of(first), []

    def lose(node: int, asked: str) -> None:
        if asked == "look" and node == old and not lost:
            lost.append(node)
            for each in _regions(world):
                if world.place_of(each) == old:
                    world.move(each)
            world.nodes[old].is_dead = True

    world.before = lose
    assert world.back_up().rows == 40
    assert lost
    _check_restored(world, tmp_path / "restored", expected)


def test_a_table_that_changes_while_its_region_moves_fails_the_backup(world: ClusterWorld) -> None:
    changed: list[int] = []

    def change(node: int, asked: str) -> None:
        if asked == "look" and not changed:
            changed.append(node)
            world.nodes[node].backup.close()
            world.sql("ALTER TABLE cpu ADD COLUMN w DOUBLE")

    world.before = change
    with pytest.raises(BackupFailed, match="changed while one of its regions moved"):
        world.back_up()
    assert repository_at(_place(world)).names() == []
    world.before = lambda node, step: None
    assert world.back_up().rows == 40


def test_a_region_that_nobody_serves_fails_the_backup_or_is_left_out(world: ClusterWorld) -> None:
    world.nodes[2].is_dead = True
    world.times = replace(world.times, away_seconds=0.2)
    with pytest.raises(BackupFailed, match="not served"):
        world.back_up()
    summary = world.back_up(skips_damaged=True)
    assert (summary.regions, summary.rows) == (1, 20)
    assert len(summary.damaged) == 1


def test_what_was_taken_while_tables_could_change_is_taken_again(world: ClusterWorld) -> None:
    answers = iter([False, False, True])
    world.was_held = lambda: next(answers)
    assert world.back_up().rows == 40
    assert len(world.holds) == 3


def test_a_metadata_server_that_begins_to_lead_is_waited_for(world: ClusterWorld) -> None:
    answers: list[Exception | bool] = [LeadershipLost("another one leads"), False, DeadlineExceeded("it is over"), True]

    def hold() -> bool:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    world.hold = hold
    assert world.back_up().rows == 40
    assert len(set(world.holds)) == 2


def test_a_table_that_was_not_seen_at_the_flush_is_flushed_with_its_pin(world: ClusterWorld) -> None:
    made: list[int] = []

    def create(node: int, asked: str) -> None:
        if asked == "flush" and not made:
            made.append(node)
            world.sql("CREATE TABLE late (ts TIMESTAMP TIME INDEX, v DOUBLE)")
            world.sql("INSERT INTO late VALUES (1, 1), (2, 2)")

    world.before = create
    assert world.back_up().rows == 42


def test_a_node_that_may_not_own_its_regions_gives_nothing_away(world: ClusterWorld) -> None:
    refusals = [0]

    def refuse() -> None:
        refusals[0] += 1
        if refusals[0] <= 2:
            raise NodeUnavailable("the lease is over", address="node-1:1")

    world.nodes[1].owned = refuse
    assert world.back_up().rows == 40
    assert refusals[0] > 2


def test_a_destination_that_a_node_does_not_see_is_an_error(world: ClusterWorld, tmp_path: Path) -> None:
    own = LocalStore(tmp_path / "other")
    node = world.nodes[2]
    places = DestinationPlaces(
        tmp_path, [StoragePlace("default", str(tmp_path / "other"), lambda: own)], is_cluster=True
    )
    node.backup = BackupNode(lambda: node.engine, places, lambda: None, name="datanode 2")
    with pytest.raises(BackupFailed, match="datanode 2 does not see the destination"):
        world.back_up()
    assert world.nodes[1].backup.pinned == 0


def test_pins_are_let_go_when_nobody_asks_for_them(world: ClusterWorld) -> None:
    node = world.nodes[1]
    node.backup = BackupNode(lambda: node.engine, node.places, lambda: None, name="datanode 1", lease_seconds=0.2)
    repository = node.places.open("nightly")
    repository.store.put(
        repository.path("lock"), b'{"token": "0123456789abcdef", "owner": "t", "purpose": "backup", "renewed_ms": 0}'
    )
    request = {
        "backup": "0123456789abcdef",
        "destination": "nightly",
        "token": "0123456789abcdef",
        "regions": [each for each in _regions(world) if world.place_of(each) == 1],
    }
    assert len(node.backup.answer("pin", request)["pinned"]) == 1
    deadline = time.monotonic() + 60
    while node.backup.pinned:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    with pytest.raises(BackupUnknown):
        node.backup.answer("look", {"backup": "0123456789abcdef", "taken": 0})


def test_a_request_that_makes_no_sense_is_refused(world: ClusterWorld) -> None:
    pin = {"backup": "0123456789abcdef", "regions": [], "token": "x"}
    for step, request in (
        ("nonsense", {}),
        ("flush", {"regions": ["1"]}),
        ("flush", {"regions": None}),
        ("pin", {**pin, "backup": "../x", "destination": "x"}),
        ("pin", {**pin, "destination": "/etc/x"}),
        ("look", {"backup": 7, "taken": 0}),
        ("copy", {"regions": [1]}),
    ):
        with pytest.raises(InvalidArguments):
            world.nodes[1].backup.answer(step, request)
