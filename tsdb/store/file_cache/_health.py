"""Errors of the disk of a cache: counted, logged now and then, and followed by a while in which nothing is written."""

from __future__ import annotations

import errno
from dataclasses import dataclass
from pathlib import Path

from tsdb.clock import Clock
from tsdb.telemetry import get_logger

SUSPENDED_SECONDS = 30
"""How long nothing is written after the disk has failed, and how long no more lost files are logged."""

OF_ONE_FILE = frozenset({errno.ENOENT, errno.ENOTDIR})
"""Errors that say that a file is gone, and nothing about the disk."""

_NS = 1_000_000_000
_MS_NS = 1_000_000

_log = get_logger("tsdb.cache")


@dataclass(frozen=True, slots=True)
class Suspension:
    """A time in which nothing is written."""

    until_ns: int
    since_ms: int
    reason: str


class CacheHealth:
    """What went wrong with the files of a cache. For any thread; a count may be lost in a race, which harms nobody."""

    def __init__(self, directory: Path, clock: Clock) -> None:
        self.errors = 0
        self.last_error: str | None = None
        self._directory = directory
        self._clock = clock
        self._suspension: Suspension | None = None
        self._silent_until_ns = 0

    @property
    def suspension(self) -> Suspension | None:
        """Why nothing is written now, if so."""
        found = self._suspension
        if found is not None and self._clock.monotonic_ns() >= found.until_ns:
            self._suspension = found = None
        return found

    def note(self, error: str | OSError, *, file: Path) -> None:
        """Note an error of reading, writing or deleting a file."""
        if isinstance(error, OSError) and error.errno not in OF_ONE_FILE:
            self.suspend(error, file=file)
            return
        reason = self._count(error, file)
        now_ns = self._clock.monotonic_ns()
        if now_ns >= self._silent_until_ns:
            self._silent_until_ns = now_ns + SUSPENDED_SECONDS * _NS
            _log.warning(
                "a cached file is unusable; the store is read instead", file=file, error=reason, errors=self.errors
            )

    def suspend(self, error: str | OSError, *, file: Path) -> None:
        """Note an error after which nothing can be written."""
        reason = self._count(error, file)
        if self.suspension is not None:
            return
        until_ns = self._clock.monotonic_ns() + SUSPENDED_SECONDS * _NS
        self._suspension = Suspension(until_ns, self._clock.now_ns() // _MS_NS, f"{file}: {reason}")
        _log.warning(
            "the file cache is suspended, the store is used instead",
            directory=self._directory,
            error=reason,
            seconds=SUSPENDED_SECONDS,
        )

    def _count(self, error: str | OSError, file: Path) -> str:
        reason = (error.strerror or str(error)) if isinstance(error, OSError) else error
        self.errors += 1
        self.last_error = f"{file}: {reason}"
        return reason
