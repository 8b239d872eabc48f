"""One process per directory.

`{directory}/LOCK` is locked with `flock` for as long as the process lives: the kernel lets go of it however
the process ends, so a lock is never stale. The file's content only says who holds it.
"""

from __future__ import annotations

import fcntl
import os
import stat
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Self

from tsdb.clock import Clock, SystemClock
from tsdb.errors import StartError
from tsdb.store._files import PRIVATE_DIRECTORY, PRIVATE_FILE
from tsdb.telemetry import get_logger

_NAME = "LOCK"
_OTHERS = stat.S_IRWXG | stat.S_IRWXO

_log = get_logger("tsdb.store")


class DirectoryInUse(StartError):
    """Another process has the directory."""


class DirectoryLock:
    """The right to be the only process in a directory. `key` is the setting that chose the directory.

    With `is_shared` it is the right to read the directory beside other readers: no process writes meanwhile. A shared
    lock needs no write permission and creates nothing but, if it may, the lock file.
    """

    def __init__(self, path: str | Path, *, key: str, is_shared: bool = False, clock: Clock | None = None) -> None:
        self._path = Path(path)
        self._key = key
        self._is_shared = is_shared
        self._clock = clock or SystemClock()
        self._fd: int | None = None

    @property
    def is_held(self) -> bool:
        return self._fd is not None

    def acquire(self) -> None:
        """Create the directory if need be and lock it, or raise a StartError that says why not."""
        fd = self._open()
        try:
            fcntl.flock(fd, (fcntl.LOCK_SH if self._is_shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.pread(fd, 256, 0).decode("ascii", "replace").split()
            os.close(fd)
            raise self._in_use(owner) from None
        self._fd = fd
        if self._is_shared:
            return
        since = datetime.fromtimestamp(self._clock.now_ns() / 1e9, UTC).isoformat(timespec="seconds")
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{os.getpid()} {since}\n".encode(), 0)

    def release(self) -> None:
        """Release the directory."""
        if self._fd is not None:
            if not self._is_shared:
                os.ftruncate(self._fd, 0)
            os.close(self._fd)
            self._fd = None

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def _open(self) -> int:
        return self._open_shared() if self._is_shared else self._open_exclusive()

    def _open_shared(self) -> int:
        """Open the lock file to read; a directory that was copied without one gets it, if it may be written to."""
        try:
            try:
                return os.open(self._path / _NAME, os.O_RDONLY)
            except FileNotFoundError:
                return os.open(self._path / _NAME, os.O_RDONLY | os.O_CREAT, 0o600)
        except OSError as error:
            raise StartError(
                f"{self._key}: {self._path} cannot be opened read-only: {error.strerror}",
                hint="give the directory of an existing database",
            ) from error

    def _open_exclusive(self) -> int:
        try:
            self._path.mkdir(PRIVATE_DIRECTORY, parents=True, exist_ok=True)
            _make_private(self._path)
            return os.open(self._path / _NAME, os.O_RDWR | os.O_CREAT, PRIVATE_FILE)
        except OSError as error:
            raise StartError(
                f"{self._key}: {self._path} cannot be used: {error.strerror}",
                hint="create it with write permission for this user or choose another directory",
            ) from error

    def _in_use(self, owner: list[str]) -> DirectoryInUse:
        who = f"process {owner[0]} (since {owner[1]})" if len(owner) == 2 else "another process"
        return DirectoryInUse(
            f"{self._key}: {self._path} is in use by {who}", hint="stop it or choose another directory"
        )


def _make_private(directory: Path) -> None:
    """Close a directory to other users: what lies in it may have been created when it was open to them.

    One that is shared by design, as `/tmp` is, or that holds other things than a database, stays as it is.
    """
    mode = stat.S_IMODE(directory.stat().st_mode)
    if not mode & _OTHERS:
        return
    is_ours = (directory / _NAME).exists() or not any(directory.iterdir())
    try:
        if is_ours and not mode & stat.S_ISVTX:
            directory.chmod(mode & ~_OTHERS)
            return
    except PermissionError:
        pass
    _log.warning("other users can read the data directory", path=directory, mode=oct(mode), hint="chmod 700")
