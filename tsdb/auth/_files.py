"""Users in a file: read once, or again whenever it has changed.

A watched file is checked at each login, and read again if it was replaced or changed. If what is there
now cannot be used, the users of before stay; the log says why, once for each change.
"""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

from tsdb.auth._lines import BadLine, UserLine, parse_file
from tsdb.auth._users import UserTable, table_of
from tsdb.errors import InvalidArguments
from tsdb.telemetry import counter, get_logger

FILE_BYTES_MAX = 16 << 20
"""A user file is never larger."""
_SETTLED_NS = 100_000_000
"""A file that was changed this shortly ago may change once more without a new time of change."""

_log = get_logger("tsdb.auth")
_RELOADS = counter(
    "tsdb_auth_reloads_total", "Reloads of a changed user file; outcome is ok or error.", labels=("outcome",)
)


def read_users(path: Path) -> UserTable:
    """Read a user file; InvalidArguments if it cannot be read or names no user."""
    try:
        with path.open("rb") as file:
            raw = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise InvalidArguments(f"the user file cannot be read: {error.strerror}", path=path) from error
    if len(raw) > FILE_BYTES_MAX:
        raise InvalidArguments(f"the user file is larger than {FILE_BYTES_MAX} bytes", path=path)
    users: dict[str, UserLine] = {}
    for line in parse_file(raw.decode("utf-8-sig", "replace")):
        if isinstance(line, BadLine):
            _log.warning("a line of the user file is ignored", path=path, line=line.number, reason=line.reason)
        else:
            users[line.name] = line
    if not users:
        raise InvalidArguments("the user file contains no users", path=path, hint="write lines such as user=password")
    return table_of(users.values())


class WatchedFile:
    """The users of a file as it is now. Safe to use from many threads."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._seen = self._look()
        self._table = read_users(path)

    def table(self) -> UserTable:
        if self._look() != self._seen:
            self._reload()
        return self._table

    def _reload(self) -> None:
        with self._lock:
            found = self._look()
            if found == self._seen:
                return
            self._seen = found
            if found is None:
                _log.warning("the user file is missing; the previous users stay in effect", path=self._path)
                return
            try:
                self._table = read_users(self._path)
            except InvalidArguments as error:
                _RELOADS.labels("error").inc()
                _log.error("the changed user file cannot be used; the previous users stay in effect", error=error)
            else:
                _RELOADS.labels("ok").inc()
                _log.info("the user file was reloaded", path=self._path, users=len(self._table.users))

    def _look(self) -> tuple[int, ...] | None:
        """Identifies a state of the file; None if it does not exist."""
        try:
            found = os.stat(self._path)
        except OSError:
            return None
        is_settled = time.time_ns() - found.st_mtime_ns > _SETTLED_NS
        return found.st_ino, found.st_size, found.st_mtime_ns, is_settled
