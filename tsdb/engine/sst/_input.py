"""Reading bytes of stored files for Parquet, and saying precisely what is wrong with them."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pyarrow as pa

from tsdb.engine.errors import FileCorrupted, StorageUnavailable
from tsdb.store import InvalidRange, ObjectNotFound


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
        rest = self._size_bytes - self._position
        data = self._read_range(self._position, rest if length < 0 else min(length, rest))
        self._position += len(data)
        return data

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True


@contextmanager
def reading(path: str) -> Iterator[None]:
    """Turn what pyarrow and the store say of a damaged file into one error that names it."""
    try:
        yield
    except ObjectNotFound as error:
        raise FileCorrupted(file=path, reason="it is missing") from error
    except InvalidRange as error:
        raise FileCorrupted(file=path, reason=f"it is too short, {error}") from error
    except MemoryError:
        raise
    except OSError as error:
        # Errors of the disk have a number; those of Parquet's own checks come as OSError without one.
        if error.errno is not None:
            raise StorageUnavailable("a data file cannot be read", file=path, reason=str(error)) from error
        raise FileCorrupted(file=path, reason=str(error)) from error
    except (pa.ArrowException, ValueError, KeyError, TypeError) as error:
        raise FileCorrupted(file=path, reason=f"{type(error).__name__}: {error}") from error
