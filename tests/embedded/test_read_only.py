"""A directory that is opened to be read only."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

import tsdb
from tests.storage import local_files_only

pytestmark = local_files_only
ROWS: list[dict[str, Any]] = [{"host": "a", "ts": datetime(2024, 1, 1), "usage": 0.5}]

_DIE = """
import os, sys, tsdb
from datetime import datetime
db = tsdb.connect(sys.argv[1], sync_write=True)
db.write("cpu", [{"host": "b", "ts": datetime(2024, 1, 2), "usage": 0.7}], tags="host")
os._exit(9)
"""


def contents(directory: Path) -> dict[str, str]:
    """The files of a directory and their contents."""
    return {
        str(path.relative_to(directory)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


def test_any_number_of_readers_read_and_change_nothing(tmp_path: Path) -> None:
    home = tmp_path / "d"
    with tsdb.connect(home) as db:
        db.write("cpu", ROWS, tags="host")
    subprocess.run([sys.executable, "-c", _DIE, str(home)], check=False)
    before = contents(home)
    with tsdb.connect(home, read_only=True) as one, tsdb.connect(home, read_only=True) as two:
        for db in (one, two):
            assert db.sql("SELECT host, usage FROM cpu ORDER BY host").fetchall() == [("a", 0.5), ("b", 0.7)]
            assert db.promql("cpu", start="2024-01-02 00:01").fetchall() != []
        with pytest.raises(tsdb.TsdbError, match="in use"):
            tsdb.connect(home)
    assert contents(home) == before
    with tsdb.connect(home) as db:
        assert db.sql("SELECT count(*) FROM cpu").scalar() == 2
        with pytest.raises(tsdb.TsdbError, match="in use"):
            tsdb.connect(home, read_only=True)


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO cpu (host, ts) VALUES ('c', 1)",
        "DELETE FROM cpu WHERE host = 'a'",
        "CREATE TABLE t (ts TIMESTAMP TIME INDEX)",
        "DROP TABLE cpu",
        "TRUNCATE cpu",
        "ALTER TABLE cpu ADD COLUMN x BIGINT",
        "CREATE DATABASE d",
        "ADMIN flush_table('cpu')",
        "COPY cpu TO 'x.parquet'",
    ],
)
def test_nothing_can_be_changed(tmp_path: Path, statement: str) -> None:
    with tsdb.connect(tmp_path / "d") as db:
        db.write("cpu", ROWS, tags="host")
    with tsdb.connect(tmp_path / "d", read_only=True) as db:
        with pytest.raises(tsdb.TsdbError) as caught:
            db.sql(statement)
        assert caught.value.status is tsdb.Status.PERMISSION_DENIED
        with pytest.raises(tsdb.TsdbError) as caught:
            db.write("cpu", ROWS, tags="host")
        assert caught.value.status is tsdb.Status.PERMISSION_DENIED
        assert db.sql("SELECT count(*) FROM cpu").scalar() == 1


def test_there_must_be_a_database(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none"):
        with pytest.raises(tsdb.TsdbError):
            tsdb.connect(path, read_only=True)
    assert not (tmp_path / "none").exists()
    with pytest.raises(tsdb.InvalidArguments, match="memory"):
        tsdb.connect(read_only=True)
