"""Space kept aside for the day the disk is full.

A full disk stops writes; to get out of it, memtables must be flushed, and that needs space. The ballast is a file
that is deleted in that moment. Until enough space is back to keep it again, appends are refused, because they would
eat up what was meant for flushes.

While the disk has space in plenty, none of it is set aside; that is done when it begins to run out.
"""

from __future__ import annotations

import logging
import os
from contextlib import suppress
from pathlib import Path

from tsdb.clock import Clock
from tsdb.store import Files

_log = logging.getLogger("tsdb.wal")
_NAME = "BALLAST"
_FREE_FACTOR = 4
"""A disk with less free space than this many ballasts is better off without one."""
_PLENTY_FACTOR = 64
"""A disk with more free space than this many ballasts needs none yet."""
_WATCH_INTERVAL_NS = 1_000_000_000


class Ballast:
    """Only the committing thread calls it, one at a time."""

    def __init__(self, directory: Path, *, files: Files, size_bytes: int, clock: Clock) -> None:
        self._directory = directory
        self._path = directory / _NAME
        self._files = files
        self._size_bytes = size_bytes
        self._clock = clock
        self._watched_ns = 0
        self._is_held = False
        self.is_released = False
        """It was given back and the disk is still full."""

    def prepare(self) -> None:
        """Find out what an earlier process has set aside, and what there is to do now."""
        if self._size_bytes == 0:
            return
        with suppress(OSError):
            self._is_held = self._files.stat(self._path).st_size == self._size_bytes
        self._adjust()

    def watch(self) -> None:
        """Look at the disk from time to time."""
        now = self._clock.monotonic_ns()
        if self._size_bytes and not self.is_released and now - self._watched_ns >= _WATCH_INTERVAL_NS:
            self._adjust()

    def _adjust(self) -> None:
        """Set the space aside when the disk begins to run out of it; give it back when there is plenty."""
        self._watched_ns = self._clock.monotonic_ns()
        free = self._free_bytes()
        if self._is_held and free > 2 * _PLENTY_FACTOR * self._size_bytes:
            self._drop()
        elif not self._is_held and _FREE_FACTOR * self._size_bytes <= free < _PLENTY_FACTOR * self._size_bytes:
            self._is_held = self._allocate()

    def release(self) -> None:
        """Give the space back."""
        if self._is_held:
            self._drop()
            self.is_released = True
            _log.warning("the disk is full: released %d bytes so that flushes can finish", self._size_bytes)

    def restore(self) -> bool:
        """Set the space aside again if a good part of it would still be free; say whether appends may go on."""
        if not self.is_released:
            return True
        if self._free_bytes() < self._size_bytes + self._size_bytes // _FREE_FACTOR or not self._allocate():
            return False
        self._is_held, self.is_released = True, False
        _log.warning("there is space on the disk again: appends continue")
        return True

    def _drop(self) -> None:
        with suppress(FileNotFoundError):
            self._files.unlink(self._path)
        self._is_held = False

    def _free_bytes(self) -> int:
        try:
            return self._files.free_bytes(self._directory)
        except OSError:
            return 0

    def _allocate(self) -> bool:
        try:
            fd = self._files.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            try:
                self._files.allocate(fd, self._size_bytes)
            finally:
                self._files.close(fd)
        except OSError:
            with suppress(OSError):
                self._files.unlink(self._path)
            return False
        return True
