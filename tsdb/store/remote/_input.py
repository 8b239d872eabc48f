"""Reading ahead: small reads of a remote object that follow each other come with one request."""

from __future__ import annotations

from collections.abc import Callable


class ReadAhead:
    """Reads ranges of an object of known size, as `RangeFile` wants them.

    Small reads are served from a stretch that was read ahead: columns that lie one behind the other come with one
    request. What is held is never more than that stretch.
    """

    def __init__(self, size_bytes: int, read_range: Callable[[int, int], bytes], *, ahead_bytes: int) -> None:
        self._size_bytes = size_bytes
        self._read_range = read_range
        self._ahead_bytes = ahead_bytes
        self._held = b""
        self._held_from = 0

    def __call__(self, offset: int, length: int) -> bytes:
        if length <= 0:
            return b""
        start = offset - self._held_from
        if start >= 0 and start + length <= len(self._held):
            return self._held[start : start + length]
        if length >= self._ahead_bytes:
            return self._read_range(offset, length)
        ahead = min(self._ahead_bytes, self._size_bytes - offset)
        self._held, self._held_from = self._read_range(offset, ahead), offset
        return self._held[:length]
