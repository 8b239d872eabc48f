"""Reading a remote object as a file: by ranges, with read-ahead."""

from __future__ import annotations

import io
from collections.abc import Callable

import pyarrow as pa


class RangeInput(io.RawIOBase):
    """An object of known size for `pyarrow`.

    Small reads are served from a stretch that was read ahead: columns that lie one behind the other come with one
    request. What is held is never more than that stretch.
    """

    def __init__(self, size_bytes: int, read_range: Callable[[int, int], bytes], *, read_ahead_bytes: int) -> None:
        self._size_bytes = size_bytes
        self._read_range = read_range
        self._read_ahead_bytes = read_ahead_bytes
        self._position = 0
        self._held = b""
        self._held_from = 0

    def as_arrow(self) -> pa.NativeFile:
        return pa.PythonFile(self, mode="r")

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size_bytes}[whence]
        self._position = base + offset
        return self._position

    def tell(self) -> int:
        return self._position

    def read(self, length: int = -1) -> bytes:
        rest = max(0, self._size_bytes - self._position)
        data = self._read(self._position, rest if length < 0 else min(length, rest))
        self._position += len(data)
        return data

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def _read(self, offset: int, length: int) -> bytes:
        if not length:
            return b""
        start = offset - self._held_from
        if start >= 0 and start + length <= len(self._held):
            return self._held[start : start + length]
        if length >= self._read_ahead_bytes:
            return self._read_range(offset, length)
        ahead = min(self._read_ahead_bytes, self._size_bytes - offset)
        self._held, self._held_from = self._read_range(offset, ahead), offset
        return self._held[:length]
