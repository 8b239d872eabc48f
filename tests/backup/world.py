"""Databases that are backed up and restored inside the test's own process."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import tsdb
from tsdb.backup import BackupProgress, DestinationPlaces, Repository, RestoreTarget, restore_backup
from tsdb.embedded import Connection
from tsdb.store import DirectoryLock, LocalStore

CPU = "CREATE TABLE cpu (host STRING, ts TIMESTAMP TIME INDEX, v DOUBLE, PRIMARY KEY(host))"


@contextmanager
def opened(path: Path) -> Iterator[Connection]:
    connection = tsdb.connect(path)
    try:
        yield connection
    finally:
        connection.close()


def back_up(db: Connection, place: Path, name: str = "", options: str = "") -> dict[str, Any]:
    """Make a backup; return what the statement answers."""
    [(answer,)] = db.sql(f"ADMIN backup('{place}', '{name}', '{options}')").fetchall()
    found: dict[str, Any] = json.loads(answer)
    return found


def repository_at(place: Path) -> Repository:
    return DestinationPlaces(Path("/nowhere"), [], allows_directories=True).open(str(place), creates=False)


def target_at(home: Path) -> RestoreTarget:
    return RestoreTarget(home, home / "metadata.sqlite", LocalStore(home), home / "wal")


def restore(place: Path, home: Path, name: str = "latest", tables: Sequence[str] = ()) -> BackupProgress:
    """Restore a backup into a directory."""
    repository, progress = repository_at(place), BackupProgress()
    with DirectoryLock(home, key="the path"):
        restore_backup(repository, repository.find(name), target_at(home), progress, tables=tables)
    return progress
