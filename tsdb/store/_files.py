"""Every call that durable code makes to the file system, in one object.

`LocalStore` and the write-ahead log touch files only through `Files`, so that tests can put an object in its
place that fails, delays, writes short or forgets what was not synced. The methods are the system calls, with
two additions: `fsync_dir` makes creations, renames and deletions in a directory durable, and `sync` calls
mean the medium, not its cache, where the platform offers that.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

if sys.platform == "darwin":
    import fcntl

Buffer: TypeAlias = bytes | bytearray | memoryview
_ZEROES = bytes(1 << 20)

PRIVATE_FILE = 0o600
PRIVATE_DIRECTORY = 0o700
"""Files are private to the user of the database, whatever the umask: rows, metadata, password hashes."""


class Files:
    """The machine's own file system."""

    def open(self, path: Path, flags: int, mode: int = PRIVATE_FILE) -> int:
        return os.open(path, flags, mode)

    def close(self, fd: int) -> None:
        os.close(fd)

    def duplicate(self, fd: int) -> int:
        return os.dup(fd)

    def write(self, fd: int, data: Buffer) -> int:
        return os.write(fd, data)

    def writev(self, fd: int, buffers: Sequence[Buffer]) -> int:
        return os.writev(fd, buffers)

    def pread(self, fd: int, length: int, offset: int) -> bytes:
        return os.pread(fd, length, offset)

    def size(self, fd: int) -> int:
        return os.fstat(fd).st_size

    def fsync(self, fd: int) -> None:
        _sync_to_medium(fd)

    def fdatasync(self, fd: int) -> None:
        if sys.platform == "darwin":
            _sync_to_medium(fd)
        else:
            os.fdatasync(fd)

    def truncate(self, fd: int, length: int) -> None:
        os.ftruncate(fd, length)

    def allocate(self, fd: int, length: int) -> None:
        """Take `length` bytes of the disk for the file, so that they are really gone from its free space."""
        if sys.platform == "darwin":
            for start in range(0, length, len(_ZEROES)):
                os.pwrite(fd, _ZEROES[: length - start], start)
        else:
            os.posix_fallocate(fd, 0, length)

    def rename(self, source: Path, target: Path) -> None:
        os.rename(source, target)

    def link(self, source: Path, target: Path) -> None:
        os.link(source, target)

    def unlink(self, path: Path) -> None:
        os.unlink(path)

    def mkdir(self, path: Path) -> None:
        os.mkdir(path, PRIVATE_DIRECTORY)

    def rmdir(self, path: Path) -> None:
        os.rmdir(path)

    def names(self, path: Path) -> list[str]:
        """The names in a directory, sorted."""
        return sorted(os.listdir(path))

    def entries(self, path: Path) -> list[tuple[str, bool]]:
        """The names in a directory, each with whether it is a directory itself."""
        with os.scandir(path) as found:
            return [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in found]

    def stat(self, path: Path) -> os.stat_result:
        return os.stat(path)

    def fsync_dir(self, path: Path) -> None:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            _sync_to_medium(fd)
        finally:
            os.close(fd)

    def free_bytes(self, path: Path) -> int:
        """How much an ordinary user may still write to the disk that holds `path`."""
        stat = os.statvfs(path)
        return stat.f_bavail * stat.f_frsize


def _sync_to_medium(fd: int) -> None:
    if sys.platform == "darwin":
        fcntl.fcntl(fd, fcntl.F_FULLFSYNC)
    else:
        os.fsync(fd)


TEMPORARY_SUFFIX = ".tmp-0"
"""Of a file that is not complete yet."""


def write_all(files: Files, fd: int, data: Buffer) -> None:
    """Write all of `data`, however little the system takes at a time."""
    rest = memoryview(data)
    while rest:
        rest = rest[files.write(fd, rest) :]


def replace_file(files: Files, path: Path, data: Buffer) -> None:
    """Write a small file so that after a power loss it has the old content or all of the new."""
    temporary = path.with_name(path.name + TEMPORARY_SUFFIX)
    fd = files.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        write_all(files, fd, data)
        files.fsync(fd)
    finally:
        files.close(fd)
    files.rename(temporary, path)
    files.fsync_dir(path.parent)


def read_all(files: Files, path: Path) -> bytes:
    """The whole content of a file."""
    fd = files.open(path, os.O_RDONLY)
    try:
        return read_exactly(files, fd, files.size(fd), 0)
    finally:
        files.close(fd)


def read_exactly(files: Files, fd: int, length: int, offset: int) -> bytes:
    """`length` bytes from `offset`; fewer only where the file ends."""
    data = files.pread(fd, length, offset)
    if len(data) == length or not data:
        return data
    parts = [data]
    position = len(data)
    while position < length and (data := files.pread(fd, length - position, offset + position)):
        parts.append(data)
        position += len(data)
    return b"".join(parts)


def make_directories(files: Files, path: Path) -> None:
    """Create a directory with its parents so that they survive a power loss."""
    missing = []
    while not path.is_dir():
        missing.append(path)
        path = path.parent
    for directory in reversed(missing):
        try:
            files.mkdir(directory)
        except FileExistsError:
            if not directory.is_dir():
                raise
        files.fsync_dir(directory.parent)
