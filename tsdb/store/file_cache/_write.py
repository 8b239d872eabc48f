"""Writing one file of the cache: it never fails, it is only not kept."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from tsdb.store._files import Buffer, make_directories, write_all
from tsdb.store._protocol import TEMPORARY_MARK

if TYPE_CHECKING:
    from tsdb.store.file_cache._cache import FileCache

_BUFFER_BYTES = 1 << 20
_TEMPORARY_BYTES = 8
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL


class CacheWrite:
    """A copy that is being written. For one thread; ends with `commit` or `abandon`."""

    def __init__(self, cache: FileCache, key: str) -> None:
        self.key = key
        self.is_unwanted = False
        """The object was deleted or replaced meanwhile."""
        self._cache = cache
        self._target = cache.locate(key)
        self._temporary: Path | None = None
        self._fd: int | None = None
        self._buffer = bytearray()
        self._reserved = 0
        self._written = 0
        self._is_over = False

    @property
    def is_over(self) -> bool:
        return self._is_over

    def write(self, data: Buffer) -> None:
        """Take more of the content; when there is no room for it, the copy is given up."""
        if self._is_over:
            return
        view = memoryview(data).cast("B")
        self._written += len(view)
        if len(self._buffer) + len(view) < _BUFFER_BYTES:
            self._buffer += view
            return
        if self._buffer:
            self._pass_on(self._buffer)
            self._buffer = bytearray()
        if not self._is_over:
            self._pass_on(view)

    def write_all(self, parts: Sequence[memoryview]) -> None:
        for part in parts:
            self.write(part)

    def commit(self, size_bytes: int, *, is_new: bool) -> bool:
        """Let the copy take its place if it has this size; return whether it did."""
        if self._is_over or self._written != size_bytes or self.is_unwanted:
            self.abandon()
            return False
        self._pass_on(self._buffer)
        is_installed = not self.is_over and self._install(is_new=is_new)
        if is_installed:
            self._is_over = True
            self._cache.end(self)
        else:
            self.abandon()
        return is_installed

    def abandon(self) -> None:
        """Delete what is written."""
        if self._is_over:
            return
        self._is_over = True
        self._buffer = bytearray()
        with suppress(OSError):
            self._close()
        if self._temporary is not None:
            with suppress(OSError):
                self._cache.files.unlink(self._temporary)
        self._cache.release(self._reserved)
        self._cache.end(self)

    def _pass_on(self, data: Buffer) -> None:
        if not self._cache.reserve(len(data)):
            self.abandon()
            return
        self._reserved += len(data)
        try:
            if self._fd is None:
                self._fd = self._create()
            write_all(self._cache.files, self._fd, data)
        except OSError as error:
            self._cache.health.note(error, file=self._target)
            self.abandon()

    def _create(self) -> int:
        files, token = self._cache.files, self._cache.ids.token(_TEMPORARY_BYTES)
        make_directories(files, self._target.parent)
        self._temporary = self._target.with_name(f"{self._target.name}{TEMPORARY_MARK}{token}")
        return files.open(self._temporary, _CREATE)

    def _install(self, *, is_new: bool) -> bool:
        files, temporary = self._cache.files, self._temporary
        assert self._fd is not None
        assert temporary is not None
        try:
            # Synced before it has its name: a power loss leaves no file that is whole by its size alone.
            files.fdatasync(self._fd)
            self._close()
            return self._cache.install(
                self, self._written, is_new=is_new, move=lambda: files.rename(temporary, self._target)
            )
        except OSError as error:
            self._cache.health.note(error, file=self._target)
            return False

    def _close(self) -> None:
        if self._fd is not None:
            fd, self._fd = self._fd, None
            self._cache.files.close(fd)
