"""Log files, one per hour: `<directory>/<prefix>.<YYYY-MM-DD-HH>`, in UTC.

The hour is that of the record, so a line never lands in a file of an earlier hour than the one it names.
Lines are collected in memory and written with one system call when the writer runs out of work or has
`BUFFER_BYTES_MAX`. Only the thread that writes the log uses these objects.
"""

from __future__ import annotations

import os
import re
import time
from contextlib import suppress
from io import FileIO
from pathlib import Path

KEPT_FILES_MAX = 720
"""How many files of each kind are kept: thirty days of hours. The oldest go first."""

BUFFER_BYTES_MAX = 64 * 1024

_HOUR_NS = 3_600_000_000_000


def _open_private(path: str, flags: int) -> int:
    """Open a file that is for its owner alone if it is new: statements and addresses of clients are in the log."""
    return os.open(path, flags, 0o600)


class HourlyFile:
    """Appends lines to the file of the hour, and removes the oldest files when a new hour begins."""

    def __init__(self, directory: Path, prefix: str) -> None:
        self._directory = directory
        self._prefix = prefix
        self._name = re.compile(re.escape(prefix) + r"\.\d{4}-\d{2}-\d{2}-\d{2}")
        self._hour = -1
        self._file: FileIO | None = None
        self._lines: list[bytes] = []
        self._buffered_bytes = 0

    def open(self, now_ns: int) -> None:
        """Open the file of the hour of `now_ns`, with the errors of the file system."""
        hour = now_ns // _HOUR_NS
        stamp = time.strftime("%Y-%m-%d-%H", time.gmtime(hour * 3600))
        file = FileIO(self._directory / f"{self._prefix}.{stamp}", "a", opener=_open_private)
        self._close_file()
        self._file, self._hour = file, hour
        self._remove_oldest()

    def append(self, line: bytes, now_ns: int) -> None:
        """Take one line; it is in the file after the next `flush`."""
        if self._file is None or not self._is_current(now_ns):
            self.flush()
            self.open(now_ns)
        self._lines.append(line)
        self._buffered_bytes += len(line)
        if self._buffered_bytes >= BUFFER_BYTES_MAX:
            self.flush()

    def flush(self) -> None:
        """Write what is buffered. When that fails it is gone: a full disk must not become a full memory."""
        if not self._lines or self._file is None:
            return
        rest = memoryview(b"".join(self._lines))
        self._lines.clear()
        self._buffered_bytes = 0
        while rest:
            rest = rest[self._file.write(rest) or 0 :]

    def close(self) -> None:
        try:
            self.flush()
        finally:
            self._close_file()

    def _is_current(self, now_ns: int) -> bool:
        # Threads race to the queue, so around the turn of the hour a line may come late by a moment: it stays
        # in the new file. More than an hour back means that the clock was set.
        return self._hour - 1 <= now_ns // _HOUR_NS <= self._hour

    def _close_file(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _remove_oldest(self) -> None:
        # A file that cannot be removed now is tried again in an hour; that is no reason to lose a line.
        with suppress(OSError):
            # The stamp sorts as time does.
            names = sorted(path.name for path in self._directory.iterdir() if self._name.fullmatch(path.name))
            for name in names[:-KEPT_FILES_MAX]:
                (self._directory / name).unlink(missing_ok=True)
