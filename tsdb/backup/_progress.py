"""How far a backup, a restore or a check has come, and whether it is still wanted."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from tsdb.errors import Cancelled


@dataclass(slots=True)
class BackupProgress:
    """Counters that any thread may read while others count. `cancel` ends the work at its next step."""

    phase: str = "waiting"
    files_total: int = 0
    bytes_total: int = 0
    files_done: int = 0
    """Copied, verified or found to be there."""
    bytes_done: int = 0
    files_copied: int = 0
    bytes_copied: int = 0
    _is_cancelled: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def expect(self, *, files: int, nbytes: int) -> None:
        """Say how much there is to do."""
        self.files_total, self.bytes_total = files, nbytes

    def add_bytes(self, nbytes: int, *, is_copied: bool) -> None:
        """Count bytes of a file, and go on only if that is wanted."""
        self.check()
        with self._lock:
            self.bytes_done += nbytes
            self.bytes_copied += nbytes if is_copied else 0

    def add_file(self, *, is_copied: bool) -> None:
        with self._lock:
            self.files_done += 1
            self.files_copied += is_copied

    def report(self, *, files_done: int, bytes_done: int, files_copied: int, bytes_copied: int) -> None:
        """Say how far others have come who do the work."""
        with self._lock:
            self.files_done, self.bytes_done = files_done, bytes_done
            self.files_copied, self.bytes_copied = files_copied, bytes_copied

    def cancel(self) -> None:
        self._is_cancelled.set()

    def check(self) -> None:
        """Raise Cancelled if the work is not wanted any more."""
        if self._is_cancelled.is_set():
            raise Cancelled("the backup was cancelled")
