"""Metadata in one SQLite file.

- The file is in WAL mode with `synchronous=FULL`: a transaction that has returned survives a power loss.
- `user_version` is the version of the layout, `application_id` says that the file is ours; anything else is refused
  before it is touched.
- One connection behind a lock: metadata is small, and what is read often is kept in memory above.
- An error of the disk breaks the store until it is reopened: after a failed fsync the content of the file is
  unknown, and a retry would only seem to work. A full disk is not such an error: nothing was written.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tsdb.kv._errors import KvClosed, KvUnavailable
from tsdb.kv._protocol import Compare, Operation, PutKey, check_size, holds

METADATA_FILE = "metadata.sqlite"
"""In the data directory."""
LAYOUT_VERSION = 1
APPLICATION_ID = 0x74736462
"""`tsdb` in ASCII."""

_BUSY_TIMEOUT_SECONDS = 5.0
_REVISION = "revision"
_BREAKING = ("SQLITE_IOERR", "SQLITE_CORRUPT", "SQLITE_NOTADB")


class SqliteKv:
    """Keys and values in the tables `pairs` and `counters` of a file."""

    def __init__(self, path: Path | str) -> None:
        self._path = Path(path)
        self._lock = threading.Lock()
        self._broken: str | None = None
        self._connection: sqlite3.Connection | None = None
        with self._failures("open"):
            _make_private(self._path)
            self._connection = sqlite3.connect(
                self._path, timeout=_BUSY_TIMEOUT_SECONDS, isolation_level=None, check_same_thread=False
            )
            try:
                self._prepare(self._connection)
            except BaseException:
                self._connection.close()
                raise

    def get(self, key: str) -> bytes | None:
        found = self._find(key)
        return None if found is None else found[0]

    def revision(self, key: str) -> int:
        found = self._find(key)
        return 0 if found is None else found[1]

    def scan(self, prefix: str) -> list[tuple[str, bytes]]:
        begin, end = _range_of(prefix)
        with self._lock, self._failures("read"):
            where, bounds = ("key >= ? AND key < ?", (begin, end)) if end is not None else ("key >= ?", (begin,))
            rows = self._open().execute(f"SELECT key, value FROM pairs WHERE {where} ORDER BY key", bounds)
            return [(key.decode(), value) for key, value in rows]

    def transact(self, compares: Sequence[Compare], operations: Sequence[Operation]) -> bool:
        check_size(compares, operations)
        with self._lock, self._failures("write"):
            connection = self._open()
            connection.execute("BEGIN IMMEDIATE")
            try:
                if not all(holds(each, _find(connection, each.key)) for each in compares):
                    connection.execute("ROLLBACK")
                    return False
                _apply(connection, operations)
                connection.execute("COMMIT")
            except BaseException:
                # SQLite may have rolled back by itself, as it does when the disk is full.
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
            return True

    def close(self) -> None:
        with self._lock, self._failures("close"):
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _find(self, key: str) -> tuple[bytes, int] | None:
        with self._lock, self._failures("read"):
            return _find(self._open(), key)

    def _open(self) -> sqlite3.Connection:
        if self._broken is not None:
            raise KvUnavailable(
                f"the metadata store failed earlier: {self._broken}", path=self._path, hint="restart the server"
            )
        if self._connection is None:
            raise KvClosed
        return self._connection

    def _prepare(self, connection: sqlite3.Connection) -> None:
        found, application = _pragma(connection, "user_version"), _pragma(connection, "application_id")
        is_new = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0
        if not is_new and application != APPLICATION_ID:
            raise KvUnavailable("the file is not a metadata store", path=self._path, hint="use another data directory")
        if not is_new and found != LAYOUT_VERSION:
            raise KvUnavailable(
                f"the metadata store has layout {found}, this server knows {LAYOUT_VERSION}",
                path=self._path,
                hint="use the version of the server that wrote it, or a newer one",
            )
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        if is_new:
            _create(connection)

    @contextmanager
    def _failures(self, operation: str) -> Iterator[None]:
        """Say in our own words what SQLite refused."""
        try:
            yield
        except sqlite3.Error as error:
            name = getattr(error, "sqlite_errorname", type(error).__name__)
            if name.startswith(_BREAKING):
                self._broken = str(error)
            raise KvUnavailable(
                f"cannot {operation} the metadata: {error}",
                path=self._path,
                reason=name,
                hint="free space on the disk" if name == "SQLITE_FULL" else "check the disk",
            ) from error


def _make_private(path: Path) -> None:
    """Create the file for its owner alone: the log and the shared memory of SQLite get the rights of the file."""
    if str(path) == ":memory:":
        return
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        for each in (path, Path(f"{path}-wal"), Path(f"{path}-shm")):
            if each.exists() and each.stat().st_mode & 0o077:
                each.chmod(0o600)
    except OSError as error:
        raise KvUnavailable(
            f"unable to open the metadata: {error.strerror}", path=path, hint="check the directory"
        ) from error


def _create(connection: sqlite3.Connection) -> None:
    connection.execute("BEGIN IMMEDIATE")
    connection.execute(
        "CREATE TABLE IF NOT EXISTS pairs (key BLOB PRIMARY KEY, value BLOB NOT NULL, revision INTEGER NOT NULL)"
        " WITHOUT ROWID"
    )
    connection.execute("CREATE TABLE IF NOT EXISTS counters (name TEXT PRIMARY KEY, value INTEGER NOT NULL)")
    connection.execute("INSERT OR IGNORE INTO counters VALUES (?, 0)", (_REVISION,))
    connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version={LAYOUT_VERSION}")
    connection.execute("COMMIT")


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    return int(connection.execute(f"PRAGMA {name}").fetchone()[0])


def _find(connection: sqlite3.Connection, key: str) -> tuple[bytes, int] | None:
    query = "SELECT value, revision FROM pairs WHERE key = ?"
    row: tuple[bytes, int] | None = connection.execute(query, (key.encode(),)).fetchone()
    return row


def _apply(connection: sqlite3.Connection, operations: Sequence[Operation]) -> None:
    connection.execute("UPDATE counters SET value = value + 1 WHERE name = ?", (_REVISION,))
    query = "SELECT value FROM counters WHERE name = ?"
    revision: Any = connection.execute(query, (_REVISION,)).fetchone()[0]
    for operation in operations:
        if isinstance(operation, PutKey):
            row = (operation.key.encode(), operation.value, revision)
            connection.execute("INSERT OR REPLACE INTO pairs VALUES (?, ?, ?)", row)
        else:
            connection.execute("DELETE FROM pairs WHERE key = ?", (operation.key.encode(),))


def _range_of(prefix: str) -> tuple[bytes, bytes | None]:
    """Return the first key with a prefix and the first one behind them all, None if there is no such key."""
    begin = prefix.encode()
    head = begin.rstrip(b"\xff")
    return begin, head[:-1] + bytes([head[-1] + 1]) if head else None
