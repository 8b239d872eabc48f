"""Restoring to a point in time: everything that was acknowledged before it, and nothing that was begun later."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path

import pytest

from tests.backup.point_world import FAST, LOCALLY, Model, PointWorld, run, tables_of
from tests.backup.world import repository_at, target_at
from tests.store.faulty_store import FaultyStore
from tsdb.backup import RestoreRefused, choose_backup, format_time, parse_time, plan_point, restore_backup, rolls_until
from tsdb.components import open_directory
from tsdb.engine import SharedSettings
from tsdb.errors import InvalidArguments, StartError
from tsdb.kv import METADATA_FILE, PutKey, SqliteKv
from tsdb.store import DirectoryLock, MemoryStore, on_crash_point
from tsdb.units import Duration

CPU = "CREATE TABLE cpu (host STRING, ts TIMESTAMP TIME INDEX, v DOUBLE, PRIMARY KEY (host))"


@pytest.fixture
def world(tmp_path: Path) -> PointWorld:
    world = PointWorld(tmp_path)
    world.run(CPU)
    world.run("INSERT INTO cpu VALUES ('a', 1, 1)")
    world.back_up()
    return world


def hosts(world: PointWorld, to_ns: int, tables: tuple[str, ...] = ()) -> set[object]:
    restored = world.restore(to_ns, tables=tables)
    try:
        return {host for (host,) in run(restored, "SELECT host FROM cpu")}
    finally:
        restored.close()


def refusal(world: PointWorld, to_ns: int, name: str = "latest", tables: tuple[str, ...] = ()) -> str:
    with pytest.raises(RestoreRefused) as refused:
        world.restore(to_ns, name, tables)
    # Nothing was written.
    assert not list(world.root.glob("restored-*"))
    return str(refused.value)


@pytest.mark.parametrize("seed", range(1, 1 + int(os.environ.get("TSDB_POINT_SEEDS", "2"))))
def test_every_mark_after_a_backup_can_be_reached(tmp_path: Path, seed: int) -> None:
    world = PointWorld(tmp_path, settings=LOCALLY if seed % 2 else FAST)
    model = Model(world, seed)
    marks = []
    for number in range(70):
        model.step()
        if number in (12, 40):
            world.back_up()
        if number in (25, 39, 55, 69):
            marks.append((world.now(), model.copy()))
    world.stop()
    for to_ns, expected in marks:
        restored = world.restore(to_ns)
        try:
            assert tables_of(restored) == expected
        finally:
            restored.close()


def test_a_restored_server_goes_on_and_can_be_restored_again(world: PointWorld) -> None:
    world.run("INSERT INTO cpu VALUES ('b', 1, 1)")
    to_ns = world.now()
    world.run("INSERT INTO cpu VALUES ('later', 1, 1)")
    restored = world.restore(to_ns)
    run(restored, "INSERT INTO cpu VALUES ('new', 1, 1)")
    run(restored, "DELETE FROM cpu WHERE host = 'a'")
    assert {host for (host,) in run(restored, "SELECT host FROM cpu")} == {"b", "new"}
    restored.close()
    assert hosts(world, to_ns) == {"a", "b"}


@pytest.mark.parametrize("is_truncated", [False, True])
def test_a_table_that_went_over_to_append_mode(world: PointWorld, is_truncated: bool) -> None:
    world.run("INSERT INTO cpu VALUES ('a', 1, 2)")
    world.run("ALTER TABLE cpu SET 'append_mode' = 'true'")
    if is_truncated:
        world.run("TRUNCATE TABLE cpu")
    for _ in range(2):
        world.run("INSERT INTO cpu VALUES ('a', 1, 3)")
        world.run("ADMIN flush_table('cpu')")
    to_ns = world.now()
    world.run("INSERT INTO cpu VALUES ('a', 1, 4)")
    restored = world.restore(to_ns)
    expected = [3.0, 3.0] if is_truncated else [2.0, 3.0, 3.0]
    assert [v for (v,) in run(restored, "SELECT v FROM cpu ORDER BY v")] == expected
    run(restored, "INSERT INTO cpu VALUES ('a', 1, 5), ('a', 1, 5)")
    assert [v for (v,) in run(restored, "SELECT v FROM cpu ORDER BY v")] == [*expected, 5.0, 5.0]
    restored.close()


def test_metric_tables_views_and_databases(world: PointWorld) -> None:
    world.run("CREATE DATABASE shop")
    world.run(
        "CREATE TABLE phy (ts TIMESTAMP TIME INDEX, val DOUBLE) ENGINE = metric WITH ('physical_metric_table' = '')"
    )
    world.run(
        "CREATE TABLE load (ts TIMESTAMP TIME INDEX, val DOUBLE, job STRING PRIMARY KEY) ENGINE = metric"
        " WITH ('on_physical_table' = 'phy')"
    )
    world.run("INSERT INTO load (ts, val, job) VALUES (1, 2, 'api')")
    world.run("CREATE VIEW hosts AS SELECT host FROM cpu")
    to_ns = world.now()
    world.run("INSERT INTO load (ts, val, job) VALUES (2, 3, 'api')")
    world.run("DROP VIEW hosts")
    world.run("DROP DATABASE shop")
    restored = world.restore(to_ns)
    assert run(restored, "SELECT val, job FROM load") == [(2.0, "api")]
    assert run(restored, "SELECT host FROM hosts") == [("a",)]
    assert ("shop",) in run(restored, "SHOW DATABASES")
    restored.close()


@pytest.mark.parametrize("settings", [FAST, LOCALLY])
def test_a_table_as_it_was_beside_the_one_that_is(tmp_path: Path, settings: SharedSettings) -> None:
    world = PointWorld(tmp_path, settings=settings)
    world.run(CPU)
    world.run("INSERT INTO cpu VALUES ('a', 1, 1)")
    world.back_up()
    world.run("INSERT INTO cpu VALUES ('b', 1, 1)")
    to_time = format_time(world.now())
    world.run("DELETE FROM cpu WHERE ts = 1")
    assert world.run("SELECT * FROM cpu") == []
    place = tmp_path / "backups"
    world.run(f"ADMIN restore_table('{place}', 'latest', 'public.cpu', 'cpu_then', '{to_time}')")
    assert world.run("SELECT host FROM cpu_then ORDER BY host") == [("a",), ("b",)]
    with pytest.raises(InvalidArguments, match="no time zone"):
        world.run(f"ADMIN restore_table('{place}', 'latest', 'public.cpu', 'x', '2026-11-18T10:00:00')")
    now = format_time(world.now())
    world.run(f"ADMIN restore_table('{place}', 'latest', 'public.cpu', 'cpu_now', '{now}')")
    assert world.run("SELECT * FROM cpu_now") == []
    world.stop()


def test_some_tables_only(world: PointWorld) -> None:
    world.run("CREATE TABLE late (ts TIMESTAMP TIME INDEX)")
    world.run("CREATE TABLE other (ts TIMESTAMP TIME INDEX) WITH (skip_wal = 'true')")
    to_ns = world.now()
    assert "public.other has skip_wal" in refusal(world, to_ns)
    restored = world.restore(to_ns, tables=["public.late"])
    assert [name for (name,) in run(restored, "SHOW TABLES") if name != "numbers"] == ["late"]
    restored.close()


def test_the_log_is_only_read(world: PointWorld) -> None:
    world.run("INSERT INTO cpu VALUES ('b', 1, 1)")
    to_ns = world.now()
    assert isinstance(world.log, MemoryStore)
    before = [(meta.path, meta.modified_ns) for meta in world.log.list("wal")]
    assert hosts(world, to_ns) == {"a", "b"}
    assert [(meta.path, meta.modified_ns) for meta in world.log.list("wal")] == before
    # The server owns it as before.
    world.run("INSERT INTO cpu VALUES ('c', 1, 1)")
    assert hosts(world, world.now()) == {"a", "b", "c"}


def test_a_hole_is_refused_with_what_can_be_reached(world: PointWorld) -> None:
    world.run("INSERT INTO cpu VALUES ('b', 1, 1)")
    early = world.now()
    world.run("INSERT INTO cpu VALUES ('c', 1, 1)")
    world.run("INSERT INTO cpu VALUES ('gone', 1, 1)")
    gone = sorted(meta.path for meta in world.log.list("wal/0/00000001") if meta.path.endswith(".log"))[-1]
    world.run("INSERT INTO cpu VALUES ('d', 1, 1)")
    late = world.now()
    world.run("INSERT INTO cpu VALUES ('e', 1, 1)")
    world.log.delete(gone)
    message = refusal(world, late)
    assert gone in message
    # The last point that it names is one that can be reached.
    last = re.search(r"points from \S+ to (\S+) can be reached", message)
    assert last is not None
    assert hosts(world, parse_time(last[1])) == {"a", "b", "c"}
    assert hosts(world, early) == {"a", "b"}
    [summary] = repository_at(world.root / "backups").summaries()
    until_ms = rolls_until(summary, world.past_logs)
    assert until_ms is not None
    assert early <= until_ms * 1_000_000 <= parse_time(last[1])


def test_a_log_that_was_kept_too_short_is_refused(world: PointWorld) -> None:
    world.run("INSERT INTO cpu VALUES ('b', 1, 1)")
    world.run("ADMIN flush_table('cpu')")
    world.stop()
    world.settings = replace(FAST, retention=Duration(0))
    world.start()
    world.purge()
    assert "the shared log is not complete" in refusal(world, world.now())


def test_a_time_without_notes_is_refused(world: PointWorld) -> None:
    early = world.now()
    world.stop(crash=True)
    world.settings = replace(FAST, retention=Duration(0))
    world.start()
    world.run("ALTER TABLE cpu ADD COLUMN w DOUBLE")
    world.run("INSERT INTO cpu (host, ts, v) VALUES ('b', 1, 1)")
    assert "without wal.shared.retention" in refusal(world, world.now())
    assert hosts(world, early) == {"a"}


def test_times_that_cannot_be_reached(world: PointWorld) -> None:
    name = repository_at(world.root / "backups").find().name
    assert "in the future" in refusal(world, world.now() + 10**15)
    assert "all backups were taken after" in refusal(world, 1_600_000_000_000_000_000)
    assert f"{name} was taken after" in refusal(world, 1_600_000_000_000_000_000, name)


def test_what_cannot_be_repeated_is_refused(world: PointWorld) -> None:
    world.run("INSERT INTO cpu VALUES ('b', 1, 1)")
    early = world.now()
    world.run("ADMIN discard_unflushed('cpu')")
    world.run("CREATE TABLE other (ts TIMESTAMP TIME INDEX)")
    late = world.now()
    assert "rows in memory were discarded in table public.cpu" in refusal(world, late)
    assert hosts(world, early) == {"a", "b"}
    world.restore(late, tables=["public.other"]).close()


def test_rows_that_were_shipped_after_a_restart_have_no_time(tmp_path: Path) -> None:
    objects = MemoryStore()
    store = FaultyStore(objects)
    settings = replace(LOCALLY, close_timeout=Duration.of_seconds(0.01))
    world = PointWorld(tmp_path, settings=settings, log=store)
    world.run(CPU)
    world.back_up()
    world.run("INSERT INTO cpu VALUES ('shipped', 1, 1)")
    world.wait_until_shipped()
    early = world.now()
    store.down()
    world.run("INSERT INTO cpu VALUES ('unshipped', 1, 1)")
    between = world.now()
    world.stop(crash=True)
    # A process that is killed sends nothing more: its store stays down, the next process has another one.
    world.log = objects
    world.start()
    world.run("INSERT INTO cpu VALUES ('later', 1, 1)")
    late = world.now()
    world.run("INSERT INTO cpu VALUES ('last', 1, 1)")
    world.wait_until_shipped()
    assert "rows of public.cpu were written between" in refusal(world, between)
    # Nobody can know that it was not there by then.
    assert "rows of public.cpu were written between" in refusal(world, early)
    assert hosts(world, late) == {"shipped", "unshipped", "later"}
    world.stop()


def test_a_local_log_is_rolled_forward_as_far_as_it_is_shipped(tmp_path: Path) -> None:
    world = PointWorld(tmp_path, settings=LOCALLY)
    world.run(CPU)
    world.back_up()
    world.run("INSERT INTO cpu VALUES ('a', 1, 1)")
    world.wait_until_shipped()
    message = refusal(world, world.now())
    reached = re.search(r"choose (\S+) or an earlier time", message)
    assert reached is not None
    assert hosts(world, parse_time(reached[1])) == {"a"}
    # A server that was stopped in good order has shipped everything.
    world.stop()
    assert hosts(world, world.now()) == {"a"}


def test_a_change_that_was_not_noted_is_refused_in_between(world: PointWorld) -> None:
    early = world.now()
    world.stop(crash=True)
    # The process was killed between a change and its note.
    metadata = SqliteKv(world.root / "home" / METADATA_FILE)
    metadata.transact([], [PutKey("unnoted", b"x")])
    metadata.close()
    between = world.now()
    world.start()
    late = world.now()
    world.run("INSERT INTO cpu VALUES ('b', 1, 1)")
    assert "unnoted changed between" in refusal(world, between)
    assert "unnoted changed between" in refusal(world, early)
    assert hosts(world, late) == {"a"}


def test_a_clock_that_went_back_is_noticed(world: PointWorld) -> None:
    world.run("INSERT INTO cpu VALUES ('b', 1, 1)")
    first = world.now()
    world.run("INSERT INTO cpu VALUES ('c', 1, 1)")
    world.stop()
    world.clock.go_back(seconds=3600)
    world.start()
    world.run("INSERT INTO cpu VALUES ('d', 1, 1)")
    world.clock.advance(seconds=7200)
    assert "the clock of the server" in refusal(world, first)
    assert hosts(world, world.now()) == {"a", "b", "c", "d"}


@pytest.mark.parametrize("point", ["restore.after_manifests", "restore.after_log", "manifest.commit.after_put"])
def test_a_restore_that_was_interrupted_is_continued(world: PointWorld, point: str) -> None:
    class Ended(Exception):
        pass

    def end(at: str) -> None:
        if at == point:
            raise Ended

    world.run("INSERT INTO cpu VALUES ('b', 1, 1)")
    world.run("ALTER TABLE cpu ADD COLUMN w DOUBLE")
    world.run("INSERT INTO cpu (host, ts, v) VALUES ('c', 1, 1)")
    to_ns = world.now()
    home, repository = world.root / "again", repository_at(world.root / "backups")
    summary = choose_backup(repository, to_ns)

    def restore() -> None:
        plan = plan_point(repository, summary, to_ns, world.past_logs, now_ns=world.now())
        with DirectoryLock(home, key="the path"):
            restore_backup(repository, summary, target_at(home), point=plan)

    with on_crash_point(end), pytest.raises(Ended):
        restore()
    with pytest.raises(StartError, match="--to-time"):
        open_directory(home)
    restore()
    opened = open_directory(home)
    assert run(opened, "SELECT host, w FROM cpu ORDER BY host") == [("a", None), ("b", None), ("c", None)]
    opened.close()


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2023-11-14T22:13:20Z", 1_700_000_000.0),
        ("2023-11-14T23:13:20.250+01:00", 1_700_000_000.25),
        ("2023-11-14 22:13:20.000001Z", 1_700_000_000.000001),
        ("2023-11-14T22:13Z", 1_699_999_980.0),
    ],
)
def test_times_have_a_zone(text: str, seconds: float) -> None:
    assert parse_time(text) == round(seconds * 1e6) * 1000


@pytest.mark.parametrize("text", ["2023-11-14T22:13:20", "yesterday", "", "2023-13-14T22:13:20Z", "1700000000"])
def test_other_times_are_refused(text: str) -> None:
    with pytest.raises(InvalidArguments, match="time"):
        parse_time(text)
