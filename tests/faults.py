"""File systems that misbehave: for tests of everything that promises durability.

`FaultyFiles` counts calls, fails the n-th call of an operation, writes short, delays. `PowerLossFiles` also remembers
what was synced, so that a test can look at the directory as it would be after a power loss.
"""

from __future__ import annotations

import errno
import os
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tsdb.store import Buffer, Files

OPERATIONS = (
    "open",
    "close",
    "duplicate",
    "write",
    "writev",
    "pread",
    "fsync",
    "fdatasync",
    "truncate",
    "allocate",
    "rename",
    "link",
    "unlink",
    "mkdir",
    "rmdir",
    "names",
    "entries",
    "stat",
    "fsync_dir",
    "free_bytes",
)
_SECTOR_BYTES = 64


@dataclass
class _Fault:
    operation: str
    code: int
    skip: int
    times: int
    name: str

    def strikes(self, operation: str, name: str) -> bool:
        if operation != self.operation or self.name not in name or self.times == 0:
            return False
        if self.skip > 0:
            self.skip -= 1
            return False
        self.times -= 1
        return True


class FaultyFiles(Files):
    """The real file system, with faults."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.free: int | None = None
        """What `free_bytes` says, if not the truth."""
        self._faults: list[_Fault] = []
        self._write_bytes_max: int | None = None
        self._delays: dict[str, float] = {}
        self._gates: dict[str, threading.Event] = {}
        self._names: dict[int, str] = {}

    def fail(self, operation: str, code: int, *, nth: int = 1, times: int = 1, name: str = "") -> None:
        """From the n-th call of an operation on files whose path contains `name`, fail `times` times."""
        assert operation in OPERATIONS
        self._faults.append(_Fault(operation, code, nth - 1, times, name))

    def heal(self) -> None:
        """No more faults."""
        self._faults.clear()
        self._write_bytes_max = None

    def shorten_writes(self, count: int) -> None:
        """Let no write take more than `count` bytes."""
        self._write_bytes_max = count

    def delay(self, operation: str, seconds: float) -> None:
        self._delays[operation] = seconds

    def block(self, operation: str) -> threading.Event:
        """Let an operation wait until the event is set."""
        return self._gates.setdefault(operation, threading.Event())

    def intercept(self, operation: str, target: object) -> None:
        self.calls[operation] += 1
        if operation in self._delays:
            time.sleep(self._delays[operation])
        if operation in self._gates:
            assert self._gates[operation].wait(30)
        name = self._names.get(target, "") if isinstance(target, int) else str(target)
        for fault in self._faults:
            if fault.strikes(operation, name):
                raise OSError(fault.code, os.strerror(fault.code), name)

    def open(self, path: Path, flags: int, mode: int = 0o644) -> int:
        fd = super().open(path, flags, mode)
        self._names[fd] = str(path)
        return fd

    def write(self, fd: int, data: Buffer) -> int:
        return super().write(fd, memoryview(data)[: self._write_bytes_max])

    def writev(self, fd: int, buffers: Sequence[Buffer]) -> int:
        if self._write_bytes_max is None:
            return super().writev(fd, buffers)
        return super().write(fd, b"".join(buffers)[: self._write_bytes_max])

    def free_bytes(self, path: Path) -> int:
        return super().free_bytes(path) if self.free is None else self.free


class FullDisk(FaultyFiles):
    """A disk that takes `budget` more bytes and then says ENOSPC, in the middle of a write if need be."""

    def __init__(self) -> None:
        super().__init__()
        self.budget: int | None = None

    def writev(self, fd: int, buffers: Sequence[Buffer]) -> int:
        if self.budget is None:
            return super().writev(fd, buffers)
        return self.write(fd, b"".join(buffers))

    def write(self, fd: int, data: Buffer) -> int:
        if self.budget is None:
            return super().write(fd, data)
        if self.budget == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written = super().write(fd, memoryview(data)[: self.budget])
        self.budget -= written
        return written


@dataclass(eq=False)
class _Shadow:
    """A file, whatever its names are."""

    durable: bytes = b""
    is_directory: bool = False


class PowerLossFiles(FaultyFiles):
    """Remembers what would survive a power loss below a directory."""

    def __init__(self, root: Path) -> None:
        super().__init__()
        self._lock = threading.RLock()
        self._root = root
        self._entries: dict[Path, _Shadow] = {}
        self._durable_entries: dict[Path, dict[str, _Shadow]] = {root: {}}
        self._shadows: dict[int, _Shadow] = {}
        for path in sorted(root.rglob("*")):
            self._entries[path] = _Shadow(is_directory=path.is_dir())
            if path.is_file():
                self._entries[path].durable = path.read_bytes()
        for path in [root, *(path for path, shadow in self._entries.items() if shadow.is_directory)]:
            self._durable_entries[path] = self._current(path)

    def survive(self, destination: Path, chance: random.Random | None = None) -> None:
        """Write the directory as a power loss would leave it now.

        Without `chance`, everything that was not synced is gone. With it, each sector that was written but not synced,
        and the changes of each directory, may have made it to the disk or not.
        """
        with self._lock:
            self._survive(self._root, destination, chance)

    def open(self, path: Path, flags: int, mode: int = 0o644) -> int:
        with self._lock:
            fd = super().open(path, flags, mode)
            self._shadows[fd] = self._entries.setdefault(path, _Shadow())
            return fd

    def duplicate(self, fd: int) -> int:
        with self._lock:
            copy = super().duplicate(fd)
            self._shadows[copy] = self._shadows[fd]
            return copy

    def fsync(self, fd: int) -> None:
        self.intercept("fsync", fd)
        self._sync(fd)

    def fdatasync(self, fd: int) -> None:
        self.intercept("fdatasync", fd)
        self._sync(fd)

    def fsync_dir(self, path: Path) -> None:
        self.intercept("fsync_dir", path)
        with self._lock:
            self._durable_entries[path] = self._current(path)

    def rename(self, source: Path, target: Path) -> None:
        with self._lock:
            super().rename(source, target)
            self._entries[target] = self._entries.pop(source)

    def link(self, source: Path, target: Path) -> None:
        with self._lock:
            super().link(source, target)
            self._entries[target] = self._entries[source]

    def unlink(self, path: Path) -> None:
        with self._lock:
            super().unlink(path)
            del self._entries[path]

    def mkdir(self, path: Path) -> None:
        with self._lock:
            super().mkdir(path)
            self._entries[path] = _Shadow(is_directory=True)
            self._durable_entries[path] = {}

    def rmdir(self, path: Path) -> None:
        with self._lock:
            super().rmdir(path)
            del self._entries[path]

    def _sync(self, fd: int) -> None:
        with self._lock:
            self._shadows[fd].durable = Path(f"/proc/self/fd/{fd}").read_bytes()

    def _current(self, directory: Path) -> dict[str, _Shadow]:
        return {path.name: shadow for path, shadow in self._entries.items() if path.parent == directory}

    def _survive(self, source: Path, destination: Path, chance: random.Random | None) -> None:
        destination.mkdir(exist_ok=True)
        entries = self._durable_entries.get(source, {})
        if chance is not None and chance.random() < 0.5:
            entries = self._current(source)
        for name, shadow in entries.items():
            if shadow.is_directory:
                self._survive(source / name, destination / name, chance)
                continue
            content = shadow.durable
            if chance is not None and self._entries.get(source / name) is shadow:
                content = _mix(content, (source / name).read_bytes(), chance)
            (destination / name).write_bytes(content)


def _mix(durable: bytes, written: bytes, chance: random.Random) -> bytes:
    """Some of the sectors that were written since the last sync."""
    if durable == written:
        return durable
    size = chance.choice([len(durable), len(written), chance.randint(0, len(written))])
    size = max(size, min(len(durable), len(written)))
    content = bytearray(durable[:size].ljust(size, b"\0"))
    for start in range(0, size, _SECTOR_BYTES):
        if chance.random() < 0.5 and start < len(written):
            sector = written[start : min(start + _SECTOR_BYTES, size)]
            content[start : start + len(sector)] = sector
    return bytes(content)


def _intercepted(operation: str, method: Callable[..., Any]) -> Callable[..., Any]:
    def call(self: FaultyFiles, target: object, *arguments: Any) -> Any:
        self.intercept(operation, target)
        return method(self, target, *arguments)

    return call


for _operation in OPERATIONS:
    setattr(FaultyFiles, _operation, _intercepted(_operation, getattr(FaultyFiles, _operation)))
