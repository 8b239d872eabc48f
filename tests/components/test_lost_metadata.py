"""A start that finds data without its metadata says so and refuses, whatever was lost; a crash alone is no loss."""

from __future__ import annotations

import shutil
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

import tsdb
from tests.server_process import running, spawn
from tsdb.errors import StartError

TABLES = 5


@pytest.fixture(scope="module")
def crashed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data of a server that was killed: what it acknowledged last is in the log of the metadata alone."""
    home = tmp_path_factory.mktemp("crashed")
    with running("standalone", home) as server:
        for number in range(TABLES):
            sql = f"CREATE TABLE t{number} (ts TIMESTAMP TIME INDEX, v DOUBLE); INSERT INTO t{number} VALUES (1, 1)"
            assert server.get(f"/v1/sql?sql={sql}").status_code == 200
        server.process.send_signal(signal.SIGKILL)
        server.process.wait()
    assert (home / "data" / "metadata.sqlite-wal").stat().st_size > 0
    return home / "data"


@pytest.fixture
def home(crashed: Path, tmp_path: Path) -> Path:
    # Workers of the server that was killed may still remove what they spilled.
    return Path(shutil.copytree(crashed, tmp_path / "data", ignore=shutil.ignore_patterns("spill")))


def _remove(*names: str) -> Callable[[Path], None]:
    def damage(home: Path) -> None:
        for name in names:
            (home / name).unlink()

    return damage


def _cut(home: Path) -> None:
    log = home / "metadata.sqlite-wal"
    log.write_bytes(log.read_bytes()[: log.stat().st_size // 2])


@pytest.mark.parametrize(
    "damage",
    [
        _remove("metadata.sqlite-wal"),
        _cut,
        _remove("metadata.sqlite", "metadata.sqlite-wal", "metadata.sqlite-shm"),
        _remove("metadata.sqlite"),
    ],
    ids=["log removed", "log cut", "all removed", "file removed"],
)
def test_lost_metadata_is_told_with_the_directories_and_the_way_out(home: Path, damage: Callable[[Path], None]) -> None:
    damage(home)
    with pytest.raises(StartError) as refused:
        tsdb.connect(home)
    text = str(refused.value)
    directories = [path.parent for path in sorted((home / "data").rglob("manifest"))]
    lost = [path for path in directories if str(path.relative_to(home)) in text]
    assert len(directories) == TABLES
    assert lost, text
    assert "restore both from a backup, or move these directories out" in text
    moved = 0
    for _ in range(TABLES):
        # A table whose creation looks unfinished is found only after those that are not known at all.
        for path in lost:
            shutil.move(path, home.parent / path.name)
        moved += len(lost)
        try:
            with tsdb.connect(home) as db:
                assert db.sql("SHOW TABLES LIKE 't%'").arrow().num_rows == TABLES - moved
                return
        except StartError as error:
            lost = [path for path in directories if path.exists() and str(path.relative_to(home)) in str(error)]
    pytest.fail("it never starts")


@pytest.mark.parametrize("share", range(1, 8))
def test_rows_survive_wherever_the_log_of_the_metadata_is_cut(home: Path, share: int) -> None:
    log = home / "metadata.sqlite-wal"
    log.write_bytes(log.read_bytes()[: log.stat().st_size * share // 8])
    before = sorted((home / "data").rglob("manifest"))
    with suppress(StartError), tsdb.connect(home):
        pass
    assert sorted((home / "data").rglob("manifest")) == before, "no region was dropped"


def test_a_server_refuses_in_one_line(home: Path) -> None:
    _remove("metadata.sqlite-wal")(home)
    server = spawn("standalone", home.parent)
    assert server.process.wait(60) != 0
    assert "the metadata has no tables for" in server.output


def test_a_crash_alone_loses_nothing(home: Path) -> None:
    with tsdb.connect(home) as db:
        assert db.sql("SHOW TABLES LIKE 't%'").arrow().num_rows == TABLES
        assert db.sql("SELECT count(*) AS n FROM t4").arrow().column("n").to_pylist() == [1]


def ask_aside(get: Callable[[str], object], path: str) -> threading.Thread:
    """Ask on a thread; the server may die before it answers."""

    def ask() -> None:
        with suppress(httpx.HTTPError):
            get(path)

    thread = threading.Thread(target=ask)
    thread.start()
    return thread


@pytest.mark.parametrize("statement", ["CREATE TABLE c{} (ts TIMESTAMP TIME INDEX)", "DROP TABLE t{}"])
def test_a_server_that_is_killed_in_the_middle_of_ddl_starts_again(home: Path, statement: str) -> None:
    with running("standalone", home.parent) as server:
        text = ";".join(statement.format(number) for number in range(TABLES))
        server.get(f"/v1/sql?sql={text.split(';', maxsplit=1)[0]}")
        asked = ask_aside(server.get, f"/v1/sql?sql={text.partition(';')[2]}")
        server.process.send_signal(signal.SIGKILL)
        server.process.wait()
        asked.join()
    with tsdb.connect(home) as db:
        assert db.sql("SHOW TABLES LIKE 't%'").arrow().num_rows >= 0
