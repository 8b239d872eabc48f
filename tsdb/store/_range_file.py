"""A file whose content is read in ranges by a function: what `pyarrow` gets of an object that is no local file."""

from __future__ import annotations

import io
from collections.abc import Callable

import pyarrow as pa

from tsdb.store._errors import StoreError


class RangeFile(io.RawIOBase):
    """A file of known size whose reads are calls of a function with offset and length.

    Parquet reads each column of a row group with one call, so what the function sees are whole column chunks.
    """

    def __init__(self, size_bytes: int, read_range: Callable[[int, int], bytes]) -> None:
        self._size_bytes = size_bytes
        self._read_range = read_range
        self._position = 0

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
        wanted = rest if length < 0 else min(length, rest)
        data = self._read_range(self._position, wanted)
        # A reply that was cut off is no end of the file: taken for one, the file would look damaged.
        if len(data) != wanted:
            raise StoreError(f"the store returned {len(data)} of {wanted} bytes", hint="try again")
        self._position += len(data)
        return data

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True
