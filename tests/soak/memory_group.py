"""A control group of the system with little memory, version 1 or 2, for a server and all its processes."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

MOUNT = Path("/sys/fs/cgroup")
GONE_SECONDS_MAX = 30.0


class MemoryGroup:
    """A group that exists, and what the system says of it."""

    def __init__(self, path: Path, *, is_unified: bool) -> None:
        self._path = path
        self._limit, self._peak = (
            ("memory.max", "memory.peak") if is_unified else ("memory.limit_in_bytes", "memory.max_usage_in_bytes")
        )
        self._events = "memory.events" if is_unified else "memory.oom_control"

    def limit(self, nbytes: int) -> None:
        (self._path / self._limit).write_text(str(nbytes))

    def add(self, process: int) -> None:
        """Move a process here; what it forks later is here as well."""
        (self._path / "cgroup.procs").write_text(str(process))

    @property
    def processes(self) -> set[int]:
        return {int(each) for each in (self._path / "cgroup.procs").read_text().split()}

    @property
    def peak_mb(self) -> int:
        """The most it ever used, pages of files included: those fill what there is."""
        with suppress(OSError):
            return int((self._path / self._peak).read_text()) >> 20
        return 0

    @property
    def kills(self) -> int:
        """How many of its processes the system has killed because there was no memory left."""
        facts = dict(line.split() for line in (self._path / self._events).read_text().splitlines())
        return int(facts["oom_kill"])


@contextmanager
def memory_group(nbytes: int) -> Iterator[MemoryGroup | None]:
    """Make a group with so much memory; None where that is not allowed."""
    for base, is_unified in ((MOUNT / "memory", False), (MOUNT, True)):
        path = base / f"tsdb-test-{os.getpid()}"
        try:
            path.mkdir()
        except OSError:
            continue
        group = MemoryGroup(path, is_unified=is_unified)
        try:
            group.limit(nbytes)
            _ = group.kills
        except (OSError, KeyError):
            path.rmdir()
            continue
        try:
            yield group
        finally:
            _remove(path)
        return
    yield None


def _remove(path: Path) -> None:
    """Remove a group when its last process is gone: workers end a moment after their server."""
    deadline = time.monotonic() + GONE_SECONDS_MAX
    while time.monotonic() < deadline:
        with suppress(OSError):
            path.rmdir()
            return
        time.sleep(0.1)
