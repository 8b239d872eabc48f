"""ADMIN restore_table at a frontend: a datanode restores the table, and nothing is left of one that fails."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests.backup.cluster_point_world import ClusterPointWorld
from tests.engine.lives import wait_until
from tsdb.backup import BackupFailed, BackupService, RestoreRefused, format_time
from tsdb.backup.cluster import BackupVerbs, ClusterBackups, ClusterSource, TableRestore, TableRestores
from tsdb.backup.cluster import _client as client_module
from tsdb.catalog import TableAlreadyExists
from tsdb.components import ScratchDatabases
from tsdb.database import Services, Session, restore_table
from tsdb.errors import Busy, Cancelled, InvalidArguments, TsdbError
from tsdb.store import on_crash_point

CPU = (
    "CREATE TABLE cpu (host STRING, ts TIMESTAMP TIME INDEX, v DOUBLE, PRIMARY KEY (host))"
    " PARTITION ON COLUMNS (host) (host < 'h', host >= 'h')"
)
ROWS = [("a", 1.0), ("z", 1.0)]


@dataclass
class Frontend:
    """A frontend and a cluster whose first datanode restores tables."""

    world: ClusterPointWorld
    services: Services
    restores: TableRestores
    before: Any = None
    """Called before a datanode restores a table."""

    def restore(self, *arguments: str) -> int:
        session = Session(database="public")
        with self.services.processes.entered(session, "ADMIN restore_table") as process:
            return restore_table(["nightly", *arguments], self.services, session, process)

    def tables(self) -> set[str]:
        return {table.name for table in self.world.catalog.tables("public")}


@pytest.fixture
def frontend(tmp_path: Path) -> Iterator[Frontend]:
    world = ClusterPointWorld(tmp_path / "cluster")
    node, services = world.nodes[1], world.database.services
    source = ClusterSource(world._link, own_log=lambda: node.engine.context.wal.node_log, times=world.times)
    service = BackupService(source, node.places, version="test", clock=world.clocks[1])
    scratch = ScratchDatabases(tmp_path / "restoring").open
    at_node = replace(services, backups=service, scratch=scratch)

    def restore(arguments: Sequence[str], database: str, job: TableRestore) -> int:
        session = Session(database=database)
        with at_node.processes.entered(session, "ADMIN restore_table") as process:
            job.on_cancel(process.cancel)
            if made.before is not None:
                made.before(job)
            return restore_table(arguments, at_node, session, process)

    restores = TableRestores(restore)
    node.backup = BackupVerbs(service, node.backup, restores)  # type: ignore[assignment]
    live = lambda: [node.peer]  # noqa: E731
    made = Frontend(world, replace(services, backups=ClusterBackups(world, live)), restores)  # type: ignore[arg-type]
    try:
        world.run(CPU)
        world.run("INSERT INTO cpu VALUES ('a', 1, 1), ('z', 1, 1)")
        world.back_up()
        yield made
    finally:
        world.close()


def test_a_table_of_a_backup_with_its_partitions(frontend: Frontend) -> None:
    world = frontend.world
    world.run("DELETE FROM cpu WHERE host = 'a'")
    assert frontend.restore("latest", "public.cpu", "cpu_again") == 2
    assert world.run("SELECT host, v FROM cpu_again ORDER BY host") == ROWS
    table = world.catalog.table("public", "cpu_again")
    assert len(table.region_numbers) == 2
    assert {world.place_of(region) for region in table.region_ids} == {1, 2}
    assert world.run("SELECT host FROM cpu") == [("z",)]
    with pytest.raises(TableAlreadyExists):
        frontend.restore("latest", "public.cpu", "cpu_again")


def test_one_of_the_metrics_that_share_regions(frontend: Frontend) -> None:
    world = frontend.world
    world.run(
        "CREATE TABLE phy (ts TIMESTAMP TIME INDEX, val DOUBLE) ENGINE = metric WITH (physical_metric_table = '')"
    )
    for name in ("up", "load"):
        columns = "(ts TIMESTAMP TIME INDEX, val DOUBLE, job STRING PRIMARY KEY)"
        world.run(f"CREATE TABLE {name} {columns} ENGINE = metric WITH (on_physical_table = 'phy')")
        world.run(f"INSERT INTO {name} (ts, val, job) VALUES (1, 1.5, 'api'), (2, 2.5, 'web')")
    world.back_up()
    world.run("INSERT INTO up (ts, val, job) VALUES (3, 3.5, 'api')")
    to_time = format_time(world.now())
    world.run("DROP TABLE up")
    assert frontend.restore("latest", "up") == 2
    assert world.run("SELECT job, val FROM up ORDER BY job") == [("api", 1.5), ("web", 2.5)]
    assert frontend.restore("latest", "up", "up_then", to_time) == 3
    assert world.run("SELECT count(*), sum(val) FROM up_then") == [(3, 7.5)]
    assert world.run("SELECT count(*) FROM load") == [(2,)]
    assert frontend.tables() == {"cpu", "phy", "load", "up", "up_then"}


def test_a_table_as_it_was_at_a_time(frontend: Frontend) -> None:
    world = frontend.world
    region = world.catalog.table("public", "cpu").region_ids[0]
    world.hand_over(region, 3)
    world.run("INSERT INTO cpu VALUES ('b', 1, 2)")
    to_time = format_time(world.now())
    world.run("TRUNCATE TABLE cpu")
    assert frontend.restore("latest", "cpu", "cpu_then", to_time) == 3
    assert world.run("SELECT host, v FROM cpu_then ORDER BY host") == [("a", 1.0), ("b", 2.0), ("z", 1.0)]
    with pytest.raises(RestoreRefused, match="all backups were taken after"):
        frontend.restore("latest", "cpu", "x", "2001-01-01T00:00:00Z")
    assert frontend.tables() == {"cpu", "cpu_then"}


def test_a_failure_in_the_middle_leaves_nothing_behind(frontend: Frontend) -> None:
    with pytest.raises(TsdbError, match="not"):
        frontend.restore("latest", "public.nothing", "x")
    written = threading.Event()

    def fail(job: TableRestore) -> None:
        def end(point: str) -> None:
            if point == "catalog.create.after_publish":
                written.set()
                job.cancel()

        undo.append(on_crash_point(end))
        undo[-1].__enter__()

    undo: list[Any] = []
    frontend.before = fail
    try:
        with pytest.raises(Cancelled):
            frontend.restore("latest", "public.cpu", "x")
    finally:
        for each in undo:
            each.__exit__(None, None, None)
    assert written.is_set()
    assert frontend.tables() == {"cpu"}


def test_a_frontend_drops_what_a_lost_datanode_has_left(frontend: Frontend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "AWAY_SECONDS_MAX", 0.0)
    world, ended = frontend.world, threading.Event()

    def lose(job: TableRestore) -> None:
        world.run(CPU.replace("TABLE cpu", "TABLE x__restoring"))
        world.nodes[1].is_dead = True
        ended.wait(60)
        raise Cancelled("the process ends")

    frontend.before = lose
    with pytest.raises(BackupFailed, match="datanode 1, which restored the table, does not answer"):
        frontend.restore("latest", "public.cpu", "x")
    world.nodes[1].is_dead = False
    ended.set()
    assert frontend.tables() == {"cpu"}


def test_a_frontend_drops_what_a_datanode_has_left_that_was_started_again(frontend: Frontend) -> None:
    world, ended = frontend.world, threading.Event()

    def start_again(job: TableRestore) -> None:
        world.run(CPU.replace("TABLE cpu", "TABLE x__restoring"))
        frontend.restores._jobs.clear()
        ended.wait(60)
        raise Cancelled("the process ends")

    frontend.before = start_again
    with pytest.raises(BackupFailed, match="datanode 1, which restored the table, was restarted"):
        frontend.restore("latest", "public.cpu", "x")
    ended.set()
    assert frontend.tables() == {"cpu"}


def test_a_restore_that_nobody_asks_for_is_cancelled() -> None:
    cancelled = threading.Event()

    def run(arguments: Sequence[str], database: str, job: TableRestore) -> int:
        job.on_cancel(cancelled.set)
        cancelled.wait(60)
        raise Cancelled("it was cancelled")

    restores = TableRestores(run, lease_seconds=0.2)
    job_id = restores.answer("restore", {"arguments": ["a"], "database": "public"})["id"]
    with pytest.raises(Busy):
        restores.answer("restore", {"arguments": ["a"], "database": "public"})
    assert cancelled.wait(60)
    wait_until(lambda: restores.answer("restore_state", {"id": job_id})["is_ended"], seconds=60)
    assert isinstance(restores.answer("restore_state", {"id": job_id})["error"], Cancelled)
    restores.close()
    with pytest.raises(Cancelled):
        restores.answer("restore", {"arguments": ["a"], "database": "public"})
    for step, request in (
        ("restore", {"arguments": "a", "database": "public"}),
        ("restore", {"arguments": [1], "database": "public"}),
        ("restore_state", {"id": "0123456789abcdef"}),
        ("restored", {"id": job_id}),
    ):
        with pytest.raises(InvalidArguments):
            restores.answer(step, request)
