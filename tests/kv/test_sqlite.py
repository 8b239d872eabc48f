"""Metadata in a file: durable, and honest when the disk is not."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from tsdb.errors import Status
from tsdb.kv import KvUnavailable, PutKey, SqliteKv

CHILD = """
import itertools, sys
from tsdb.kv import PutKey, SqliteKv
kv = SqliteKv(sys.argv[1])
for number in itertools.count():
    assert kv.transact([], [PutKey(f"a/{number}", b"x"), PutKey(f"b/{number}", b"y")])
    print(number, flush=True)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "metadata.db"


def test_what_was_put_is_there_after_opening_again(path: Path) -> None:
    kv = SqliteKv(path)
    assert kv.transact([], [PutKey("a", b"1")])
    revision = kv.revision("a")
    kv.close()
    kv = SqliteKv(path)
    assert kv.get("a") == b"1"
    assert kv.transact([], [PutKey("b", b"1")])
    assert kv.revision("b") > revision == kv.revision("a")
    kv.close()


@pytest.mark.parametrize("acknowledged_min", [1, 4, 17])
def test_a_transaction_is_there_whole_or_not_at_all_after_a_kill(acknowledged_min: int, path: Path) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(path)],
        cwd=Path(__file__).parents[2],
        stdout=subprocess.PIPE,
        text=True,
    )
    with child:
        assert child.stdout is not None
        for _ in range(acknowledged_min):
            child.stdout.readline()
        child.kill()
        acknowledged = acknowledged_min + len(child.stdout.readlines())
    kv = SqliteKv(path)
    found = len(kv.scan("a/"))
    assert found == len(kv.scan("b/"))
    assert found in (acknowledged, acknowledged + 1)
    assert kv.transact([], [PutKey("c", b"")])
    kv.close()


def test_transactions_are_synced_before_they_return(path: Path) -> None:
    kv = SqliteKv(path)
    assert kv._connection is not None
    assert kv._connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert kv._connection.execute("PRAGMA synchronous").fetchone() == (2,)
    kv.close()


def test_a_full_disk_refuses_the_transaction_whole_and_the_store_goes_on(path: Path) -> None:
    kv = SqliteKv(path)
    assert kv._connection is not None
    pages = kv._connection.execute("PRAGMA page_count").fetchone()[0]
    kv._connection.execute(f"PRAGMA max_page_count={pages + 1}")
    with pytest.raises(KvUnavailable, match="free space") as caught:
        kv.transact([], [PutKey("small", b"1"), PutKey("large", bytes(100_000))])
    assert caught.value.status is Status.STORAGE_UNAVAILABLE
    assert kv.scan("") == []
    assert kv.transact([], [PutKey("small", b"1")])
    kv.close()


def test_a_file_that_is_not_a_database_is_refused_and_left_alone(path: Path) -> None:
    path.write_bytes(b"something else" * 1000)
    with pytest.raises(KvUnavailable, match="not a database"):
        SqliteKv(path)
    assert path.read_bytes() == b"something else" * 1000


def test_a_damaged_file_is_refused(path: Path) -> None:
    kv = SqliteKv(path)
    for number in range(40):
        assert kv.transact([], [PutKey(f"{number}-{each}", bytes(500)) for each in range(100)])
    kv.close()
    content = bytearray(path.read_bytes())
    for page in range(4096, len(content), 4096):
        content[page : page + 100] = b"\xff" * 100
    path.write_bytes(content)
    with pytest.raises(KvUnavailable):
        _read_everything(path)


def _read_everything(path: Path) -> None:
    kv = SqliteKv(path)
    try:
        kv.scan("")
    finally:
        kv.close()


def test_after_an_error_of_the_disk_nothing_is_answered_until_the_store_is_opened_anew(path: Path) -> None:
    kv = SqliteKv(path)
    for number in range(40):
        assert kv.transact([], [PutKey(f"{number}-{each}", bytes(500)) for each in range(100)])
    kv.close()
    content = bytearray(path.read_bytes())
    content[-4096:] = b"\xff" * 4096
    path.write_bytes(content)
    kv = SqliteKv(path)
    with pytest.raises(KvUnavailable, match="cannot read"):
        kv.scan("")
    with pytest.raises(KvUnavailable, match="failed earlier"):
        kv.get("0-0")
    kv.close()


def test_a_database_of_another_program_is_refused(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE theirs (a)")
    connection.commit()
    connection.close()
    with pytest.raises(KvUnavailable, match="not a metadata store"):
        SqliteKv(path)


def test_a_newer_layout_is_refused(path: Path) -> None:
    SqliteKv(path).close()
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version=2")
    connection.close()
    with pytest.raises(KvUnavailable, match="layout 2"):
        SqliteKv(path)


def test_a_directory_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(KvUnavailable, match="unable to open"):
        SqliteKv(tmp_path / "missing" / "metadata.db")


def test_keys_cannot_be_read_while_the_file_is_a_directory(tmp_path: Path) -> None:
    with pytest.raises(KvUnavailable):
        SqliteKv(tmp_path)
