"""Index files: named blobs, one behind the other, with a directory at the end.

    blob … blob │ directory (JSON) │ u32 length of the directory │ u32 crc32c of it │ magic

Every blob has its own checksum in the directory, so that a reader of one need not touch the others. Integers are little
endian. A name that a reader does not know is left alone: new kinds of index need no new format.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import google_crc32c

from tsdb.engine.ranges import read_range
from tsdb.store import ObjectStore

MAGIC = b"TSDBIDX1"

_TAIL = struct.Struct("<II8s")
# A small index file is read with one request. Of a large one the end is read first, where its directories are.
_WHOLE_BYTES_MAX = 64 << 10
_END_BYTES = 16 << 10

crc32c: Callable[[int, bytes], int] = google_crc32c.extend


class IndexDamaged(Exception):
    """An index file cannot be used; what it holds can be had from the data file, at a cost."""


@dataclass(frozen=True, slots=True)
class _Blob:
    offset: int
    length: int
    crc: int


def encode_index(file_id: str, blobs: Mapping[str, bytes]) -> list[bytes]:
    """Lay out the index file of a data file."""
    directory: dict[str, dict[str, int]] = {}
    offset = 0
    for name, content in blobs.items():
        directory[name] = {"offset": offset, "length": len(content), "crc32c": crc32c(0, content)}
        offset += len(content)
    footer = json.dumps({"file_id": file_id, "blobs": directory}).encode()
    return [*blobs.values(), footer, _TAIL.pack(len(footer), crc32c(0, footer), MAGIC)]


class IndexFile:
    """An index file that is read blob by blob."""

    def __init__(self, store: ObjectStore, path: str, size_bytes: int, *, file_id: str) -> None:
        self._store = store
        self._path = path
        self._size_bytes = size_bytes
        if size_bytes < _TAIL.size:
            raise IndexDamaged(f"it has {size_bytes} bytes")
        self._end_offset = 0 if size_bytes <= _WHOLE_BYTES_MAX else size_bytes - _END_BYTES
        self._end = read_range(store, path, self._end_offset, size_bytes - self._end_offset)
        self._blobs = self._parse_directory(size_bytes, file_id)

    def blob(self, name: str) -> bytes | None:
        """Return a blob, or None if the file does not have it."""
        place = self._blobs.get(name)
        if place is None:
            return None
        content = self._read(place.offset, place.length)
        if crc32c(0, content) != place.crc:
            raise IndexDamaged(f"the checksum of {name} is wrong")
        return content

    def size_of(self, name: str) -> int:
        """Return the length of a blob; IndexDamaged if the file does not have it."""
        if name not in self._blobs:
            raise IndexDamaged(f"it has no {name}")
        return self._blobs[name].length

    @property
    def names(self) -> list[str]:
        """The names of all blobs."""
        return list(self._blobs)

    def pieces(self, name: str, ends: Iterable[int]) -> Iterator[bytes]:
        """Yield a blob in pieces that end at some places, the last at its end; then IndexDamaged if it is damaged."""
        blob = self._blobs[name]
        crc = start = 0
        for end in ends:
            piece = self._read(blob.offset + start, end - start)
            crc, start = crc32c(crc, piece), end
            yield piece
        if start != blob.length or crc != blob.crc:
            raise IndexDamaged(f"the checksum of {name} is wrong")

    def part(self, name: str, offset: int, length: int, crc: int) -> bytes:
        """Return bytes of a blob that have a checksum of their own."""
        blob = self._blobs[name]
        if not 0 <= offset <= offset + length <= blob.length:
            raise IndexDamaged(f"a page of {name} is outside of it")
        content = self._read(blob.offset + offset, length)
        if crc32c(0, content) != crc:
            raise IndexDamaged(f"the checksum of a page of {name} is wrong")
        return content

    def release_end(self) -> None:
        """Give the memory of what was read first back; it is read again if it is asked for."""
        self._end_offset, self._end = self._size_bytes, b""

    def _parse_directory(self, size_bytes: int, file_id: str) -> dict[str, _Blob]:
        length, crc, magic = _TAIL.unpack_from(self._end, len(self._end) - _TAIL.size)
        if magic != MAGIC:
            raise IndexDamaged("it does not end with its magic number")
        if length > size_bytes - _TAIL.size:
            raise IndexDamaged(f"its directory of {length} bytes is longer than the file")
        content = self._read(size_bytes - _TAIL.size - length, length)
        if crc32c(0, content) != crc:
            raise IndexDamaged("the checksum of its directory is wrong")
        directory: dict[str, Any] = json.loads(content)
        if directory["file_id"] != file_id:
            raise IndexDamaged(f"it belongs to the file {directory['file_id']}")
        return {
            name: _Blob(blob["offset"], blob["length"], blob["crc32c"]) for name, blob in directory["blobs"].items()
        }

    def _read(self, offset: int, length: int) -> bytes:
        if offset >= self._end_offset:
            start = offset - self._end_offset
            return self._end[start : start + length]
        return read_range(self._store, self._path, offset, length)
