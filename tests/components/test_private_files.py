"""What the database writes is readable by its own user alone, whatever the umask."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

import tsdb
from tsdb.telemetry import setup_logging


@pytest.fixture(autouse=True)
def _lenient_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def open_to_others(directory: Path) -> list[str]:
    """Everything below a directory, and itself, that others have some right to."""
    found = [directory, *directory.rglob("*")]
    return [str(path.relative_to(directory)) for path in found if stat.S_IMODE(path.lstat().st_mode) & 0o077]


def use(home: Path) -> None:
    with tsdb.connect(home) as db:
        db.sql("CREATE TABLE IF NOT EXISTS t (h STRING PRIMARY KEY, ts TIMESTAMP TIME INDEX, v DOUBLE)")
        db.sql("INSERT INTO t VALUES ('a', 1, 1)")
        db.flush("t")
        db.sql("INSERT INTO t VALUES ('b', 2, 1)")
        assert (home / "metadata.sqlite-wal").exists()
        assert open_to_others(home) == []


def test_data_files_logs_and_metadata_are_private(tmp_path: Path) -> None:
    use(tmp_path / "home")
    assert open_to_others(tmp_path / "home") == []


def test_a_directory_that_was_open_is_closed_at_the_next_start(tmp_path: Path) -> None:
    home = tmp_path / "home"
    use(home)
    for path in (home, home / "metadata.sqlite"):
        path.chmod(path.stat().st_mode | 0o044)
    use(home)


@pytest.mark.parametrize("mode", [0o1777, 0o755])
def test_a_directory_that_is_not_the_databases_own_stays_as_it_is(tmp_path: Path, mode: int) -> None:
    home = tmp_path / "shared"
    home.mkdir()
    (home / "letter.txt").touch()
    home.chmod(mode)
    tsdb.connect(home).close()
    assert stat.S_IMODE(home.stat().st_mode) == mode


def test_exported_files_have_the_rights_of_the_umask(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with tsdb.connect(home) as db:
        db.sql("COPY (SELECT 1 AS a) TO 'x.csv' WITH (format = 'csv')")
    (made,) = (home / "copy").rglob("x.csv")
    assert stat.S_IMODE(made.stat().st_mode) == 0o644


def test_logs_are_private(tmp_path: Path) -> None:
    setup_logging(app="tsdb", directory=tmp_path / "logs", level="info", append_stdout=False).close()
    assert list((tmp_path / "logs").iterdir())
    assert open_to_others(tmp_path / "logs") == []
