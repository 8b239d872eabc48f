"""The end of the log: the active segment, written by one thread.

    write(frames) ─▶ [ rotate: sync old ─▶ create new, header + seal ─▶ sync it and the directory ] ─▶ writev
    sync()        ─▶ fdatasync
    rollback(mark)   what was written since the mark is cut off again

Invariants: a frame lies in one segment. A segment is synced before its successor exists. After an error other than
`SyncFailed` the log can be brought back to where it was; after `SyncFailed` nobody knows what the disk holds, and the
log must not be used again.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from tsdb.clock import Clock
from tsdb.engine.log.frame import (
    Frame,
    FrameKind,
    encode_header,
    encode_seal,
    frame_bytes,
    padding,
)
from tsdb.engine.log.index import LogIndex
from tsdb.engine.wal._segment import SEGMENT_HEADER_BYTES, encode_segment_header, segment_path
from tsdb.store import Buffer, Files, crash_point, write_all

_IOV_MAX = min(1024, os.sysconf("SC_IOV_MAX"))
_COALESCE_BYTES_MAX = 4096


class SyncFailed(Exception):
    """A sync reported an error: pages may be gone from memory without having reached the disk."""


class Mark(NamedTuple):
    """A place in the log."""

    number: int
    offset: int


@dataclass(slots=True)
class _Written:
    """The frames of a batch that went to one segment, and where the segment ends with them."""

    number: int
    end: int
    frames: list[Frame]


class SegmentWriter:
    """Only the committing thread calls it, one at a time, except `sync_beside` and `unsynced_bytes`."""

    def __init__(self, directory: Path, *, files: Files, clock: Clock, index: LogIndex, file_bytes_max: int) -> None:
        self._directory = directory
        self._files = files
        self._clock = clock
        self._index = index
        self._file_bytes_max = file_bytes_max
        self._lock = threading.Lock()
        self._fd = -1
        self._number = -1
        self._offset = 0
        self._durable = 0
        self._empty_bytes = SEGMENT_HEADER_BYTES
        self._rollbacks = 0
        self._created: list[int] = []
        self._pending: list[_Written] = []
        self.rotations = 0
        self.syncs = 0

    @property
    def mark(self) -> Mark:
        return Mark(self._number, self._offset)

    @property
    def unsynced_bytes(self) -> int:
        with self._lock:
            return self._offset - self._durable

    def resume(self, number: int, offset: int) -> None:
        """Go on with a segment that exists. What a crash left unsynced in it is synced first."""
        self._fd = self._files.open(segment_path(self._directory, number), os.O_WRONLY | os.O_APPEND)
        self._files.truncate(self._fd, offset)
        self._number, self._offset = number, offset
        self.sync()

    def create(self, number: int, *, previous_bytes: int) -> None:
        """Begin a new segment."""
        crash_point("wal.rotate.before_create")
        content = self._opening(number, previous_bytes)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND
        fd = self._files.open(segment_path(self._directory, number), flags)
        self._created.append(number)
        try:
            write_all(self._files, fd, content)
            with _fatal():
                self._files.fsync(fd)
                self._files.fsync_dir(self._directory)
        except BaseException:
            self._files.close(fd)
            raise
        crash_point("wal.rotate.after_create")
        with self._lock:
            old, self._fd = self._fd, fd
            self._number = number
            self._offset = self._durable = self._empty_bytes = len(content)
        if old >= 0:
            self._files.close(old)

    def write(self, frames: Sequence[Frame]) -> None:
        """Write frames in order. They count only after `accept`."""
        placed = _Written(self._number, self._offset, [])
        parts: list[Buffer] = []
        self._pending.append(placed)
        for frame in frames:
            size = frame_bytes(frame.payload.size_bytes)
            if placed.end + size > self._file_bytes_max and self._holds_frames(placed):
                self._write(parts, placed.end)
                self.rotate()
                placed, parts = _Written(self._number, self._offset, []), []
                self._pending.append(placed)
            header = encode_header(frame, segment=placed.number, offset=placed.end, durable_offset=self._durable)
            parts += (header, frame.payload.view, padding(frame.payload.size_bytes))
            placed.end += size
            placed.frames.append(frame)
        self._write(parts, placed.end)

    def rotate(self) -> None:
        """Seal the active segment and begin the next."""
        self.sync()
        self.create(self._number + 1, previous_bytes=self._offset)
        self.rotations += 1

    def sync(self) -> None:
        """Make everything written so far durable."""
        offset = self._offset
        if offset == self._durable:
            return
        with _fatal():
            self._files.fdatasync(self._fd)
        self.syncs += 1
        with self._lock:
            self._durable = offset

    def accept(self) -> None:
        """What was written since the last call is part of the log."""
        now_ms = self._clock.now_ns() // 1_000_000 if self._created else 0
        for placed in self._pending:
            self._index.record(placed.number, placed.end, placed.frames, since_ms=now_ms)
        if self._created and not self._index.holds_segment(self._number):
            self._index.add_segment(self._number, self._offset, since_ms=now_ms)
        self._pending.clear()
        self._created.clear()

    def rollback(self, mark: Mark) -> None:
        """Cut off everything behind the mark, so that nothing of a refused batch comes back after a restart."""
        for number in reversed(self._created):
            self._files.unlink(segment_path(self._directory, number))
        if self._created:
            with _fatal():
                self._files.fsync_dir(self._directory)
        if self._number != mark.number:
            fd = self._files.open(segment_path(self._directory, mark.number), os.O_WRONLY | os.O_APPEND)
            with self._lock:
                old, self._fd = self._fd, fd
                self._number = mark.number
            self._files.close(old)
        self._files.truncate(self._fd, mark.offset)
        with _fatal():
            self._files.fdatasync(self._fd)
        with self._lock:
            self._offset = self._durable = mark.offset
            self._rollbacks += 1
        self._pending.clear()
        self._created.clear()

    def sync_beside(self) -> None:
        """Sync from another thread, while the committer continues to write."""
        with self._lock:
            if self._offset == self._durable:
                return
            number, offset, rollbacks = self._number, self._offset, self._rollbacks
            with _fatal():
                fd = self._files.duplicate(self._fd)
        try:
            with _fatal():
                self._files.fdatasync(fd)
        finally:
            self._files.close(fd)
        with self._lock:
            self.syncs += 1
            # The sync says nothing of bytes that were cut off and rewritten meanwhile.
            if number == self._number and rollbacks == self._rollbacks:
                self._durable = max(self._durable, offset)

    def close(self) -> None:
        if self._fd >= 0:
            self._files.close(self._fd)
            self._fd = -1

    def _holds_frames(self, placed: _Written) -> bool:
        """An oversize frame may go to a segment that holds nothing but its seal."""
        return bool(placed.frames) or placed.end > self._empty_bytes

    def _opening(self, number: int, previous_bytes: int) -> bytes:
        """What a new segment begins with: its header and a seal."""
        last_entries = self._last_entries()
        header = encode_segment_header(
            number=number,
            created_ms=self._clock.now_ns() // 1_000_000,
            previous_bytes=previous_bytes,
            is_in_doubt=last_entries is None,
        )
        parts: list[Buffer] = [header]
        if last_entries is not None:
            seal = encode_seal(last_entries)
            parts += [
                encode_header(seal, segment=number, offset=SEGMENT_HEADER_BYTES, durable_offset=0),
                seal.payload.view,
                padding(seal.payload.size_bytes),
            ]
        return b"".join(parts)

    def _last_entries(self) -> dict[int, int] | None:
        """The last entry of every region, with those written but not yet accepted."""
        last = self._index.last_entries()
        if last is None:
            return None
        for frame in (frame for placed in self._pending for frame in placed.frames):
            if frame.kind is FrameKind.DROP_REGION:
                last.pop(frame.region_id, None)
            else:
                last[frame.region_id] = frame.entry_id
        return last

    def _write(self, parts: Sequence[Buffer], end: int) -> None:
        rest = _coalesce(parts)
        while rest:
            written = self._files.writev(self._fd, rest[:_IOV_MAX])
            rest = _skip(rest, written)
        with self._lock:
            self._offset = end


@contextmanager
def _fatal() -> Iterator[None]:
    """Around syncs: their errors are of another kind than those of writes."""
    try:
        yield
    except OSError as error:
        raise SyncFailed(error.strerror or str(error)) from error


def _coalesce(parts: Sequence[Buffer]) -> list[Buffer]:
    """Join neighbours that are small, because a vector of a writev has few places."""
    joined: list[Buffer] = []
    small: list[Buffer] = []
    for part in parts:
        if len(part) <= _COALESCE_BYTES_MAX:
            small.append(part)
            continue
        if small:
            joined.append(b"".join(small))
            small = []
        joined.append(part)
    if small:
        joined.append(b"".join(small))
    return [part for part in joined if len(part)]


def _skip(parts: list[Buffer], count: int) -> list[Buffer]:
    """What is left of the parts behind their first `count` bytes."""
    for position, part in enumerate(parts):
        if count < len(part):
            return [memoryview(part)[count:], *parts[position + 1 :]]
        count -= len(part)
    return []
