"""A segment: a file of frames, and how to read one however damaged it is.

    header (48 bytes) | frame | frame | …

The header names the segment and says how long the previous one was when it was sealed, so that a segment that lost its
end is noticed. Frames are validated on their own: a damaged segment header costs no frame.

`scan` walks the frames. Behind bytes that are no frame it looks for the next valid header, every 8 bytes.
"""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

import pyarrow as pa

from tsdb.engine.log.frame import (
    FRAME_ALIGNMENT,
    FRAME_HEADER_BYTES,
    FRAME_MAGIC,
    FrameHeader,
    crc32c,
    parse_header,
)
from tsdb.store import Files, read_exactly

SEGMENT_MAGIC = b"TSDBWAL1"
SEGMENT_VERSION = 1
SEGMENT_HEADER_BYTES = 48

_HEADER = struct.Struct("<8sIIQQQI")
_IN_DOUBT = 1
_CRC = struct.Struct("<I")
_NAME = re.compile(r"([0-9a-f]{16})\.wal")
_WINDOW_BYTES = 1 << 20


class SegmentHeader(NamedTuple):
    """What a segment says about itself."""

    version: int
    number: int
    created_ms: int
    previous_bytes: int
    is_in_doubt: bool
    """When it was created, damage left open which regions are whole, so it has no seal."""


class ScannedFrame(NamedTuple):
    """A frame whose header is valid. `stored` is its payload as it stands there, None if that is damaged."""

    offset: int
    header: FrameHeader
    stored: pa.Buffer | None

    @property
    def end(self) -> int:
        return self.offset + self.header.frame_bytes


class Damage(NamedTuple):
    """Bytes in which no header can be trusted."""

    offset: int
    length: int


def segment_path(directory: Path, number: int) -> Path:
    return directory / f"{number:016x}.wal"


def torn_path(directory: Path, number: int) -> Path:
    """Where the cut-off tail of a segment is kept for inspection."""
    return directory / f"{number:016x}.torn"


def parse_segment_name(name: str) -> int | None:
    """The number of a segment, None for other files."""
    match = _NAME.fullmatch(name)
    return int(match[1], 16) if match else None


def encode_segment_header(*, number: int, created_ms: int, previous_bytes: int, is_in_doubt: bool = False) -> bytes:
    flags = _IN_DOUBT if is_in_doubt else 0
    body = _HEADER.pack(SEGMENT_MAGIC, SEGMENT_VERSION, flags, number, created_ms, previous_bytes, 0)
    return body + _CRC.pack(crc32c(0, body))


def parse_segment_header(data: bytes, *, number: int) -> SegmentHeader | None:
    """Read the header of the segment with this number; None if it is damaged or another segment's."""
    if len(data) < SEGMENT_HEADER_BYTES:
        return None
    body = data[: _HEADER.size]
    magic, version, flags, own_number, created_ms, previous_bytes, _ = _HEADER.unpack(body)
    if magic != SEGMENT_MAGIC or own_number != number or (crc32c(0, body),) != _CRC.unpack_from(data, _HEADER.size):
        return None
    return SegmentHeader(version, own_number, created_ms, previous_bytes, bool(flags & _IN_DOUBT))


class SegmentReader:
    """Reads a segment through a window, so that memory does not depend on the segment's size."""

    def __init__(self, files: Files, directory: Path, number: int) -> None:
        self.number = number
        self._files = files
        self._fd = files.open(segment_path(directory, number), os.O_RDONLY)
        self.size = files.size(self._fd)
        self._start = 0
        self._window = b""
        self._buffer = pa.py_buffer(b"")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._files.close(self._fd)

    def segment_header(self) -> SegmentHeader | None:
        return parse_segment_header(self.read(0, SEGMENT_HEADER_BYTES), number=self.number)

    def frame_header(self, offset: int) -> FrameHeader | None:
        position = self._look(offset, FRAME_HEADER_BYTES)
        return parse_header(self._window, position, segment=self.number, offset=offset)

    def payload(self, frame_offset: int, length: int) -> pa.Buffer:
        """The stored payload of a frame, without copying it out of the window."""
        position = self._look(frame_offset + FRAME_HEADER_BYTES, length)
        return self._buffer.slice(position, length)

    def read(self, offset: int, length: int) -> bytes:
        position = self._look(offset, length)
        return self._window[position : position + length]

    def find_header(self, offset: int, end: int) -> int:
        """The place of the first valid frame header at or behind `offset`; `end` if there is none."""
        while offset < end:
            position = self._look(offset, min(_WINDOW_BYTES, end - offset))
            found = self._window.find(FRAME_MAGIC, position)
            if found < 0:
                following = (self._start + len(self._window)) & -FRAME_ALIGNMENT
                offset = following if following > offset else end
                continue
            offset = self._start + found
            if offset % FRAME_ALIGNMENT == 0 and self.frame_header(offset) is not None:
                return min(offset, end)
            offset = (offset + FRAME_ALIGNMENT) & -FRAME_ALIGNMENT
        return end

    def _look(self, offset: int, length: int) -> int:
        """Have these bytes in the window, as far as the file goes; return where they begin in it."""
        if offset < self._start or offset + length > self._start + len(self._window):
            self._window = read_exactly(self._files, self._fd, max(length, _WINDOW_BYTES), offset)
            self._buffer = pa.py_buffer(self._window)
            self._start = offset
        return offset - self._start


def scan(
    reader: SegmentReader,
    *,
    end: int | None = None,
    wants: Callable[[int, FrameHeader], bool] | None = None,
) -> Iterator[ScannedFrame | Damage]:
    """Walk the frames of a segment in order. Payloads of frames that `wants` declines are not even read."""
    limit = reader.size if end is None else min(end, reader.size)
    offset = SEGMENT_HEADER_BYTES
    while offset < limit:
        header = reader.frame_header(offset)
        if header is None:
            following = reader.find_header(offset + FRAME_ALIGNMENT, limit)
            yield Damage(offset, following - offset)
            offset = following
            continue
        if wants is None or wants(offset, header):
            yield ScannedFrame(offset, header, _sound_payload(reader, offset, header, limit))
        offset += header.frame_bytes


def _sound_payload(reader: SegmentReader, offset: int, header: FrameHeader, limit: int) -> pa.Buffer | None:
    if offset + FRAME_HEADER_BYTES + header.payload_bytes > limit:
        return None
    stored = reader.payload(offset, header.payload_bytes)
    return stored if crc32c(0, stored) == header.payload_crc else None
