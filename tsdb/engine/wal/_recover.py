"""Reading the log at the start: what it holds, where it ends, and what is damaged.

Every byte is read once and every checksum verified, before anything is replayed: a verdict that came in the middle of
a replay would come too late. Segments before the last were synced before the next was created, so any damage in them
is corruption. In the last segment a crash may have left frames that were never synced, in any state. Each frame says
how far its segment was synced when it was written; the largest such offset, or the clean-shutdown marker, divides the
damage there: below it is corruption, the first damage above it is the torn tail, and the log ends there. What is cut
off is kept in a file beside the segment.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tsdb.engine.log.continuity import UNKNOWN_LENGTH, Continuity, Corruption, EntryRange
from tsdb.engine.log.frame import FRAME_ALIGNMENT, FrameKind, decode_payload, decode_seal
from tsdb.engine.log.purge import SegmentState
from tsdb.engine.wal._marker import CleanMarker, read_marker
from tsdb.engine.wal._segment import (
    SEGMENT_HEADER_BYTES,
    SEGMENT_VERSION,
    Damage,
    ScannedFrame,
    SegmentReader,
    parse_segment_name,
    scan,
    segment_path,
    torn_path,
)
from tsdb.errors import StartError
from tsdb.store import NO_SPACE, Files, crash_point, write_all

_log = logging.getLogger("tsdb.wal")
_COPY_BYTES = 1 << 20
_KINDS = frozenset(FrameKind)


@dataclass(frozen=True, slots=True)
class TornTail:
    """What a crash left unfinished at the end of the log, and was cut off."""

    segment: int
    offset: int
    length: int
    saved_as: Path | None


@dataclass(frozen=True, slots=True)
class Recovery:
    """What was found when the log was opened."""

    segments: int
    total_bytes: int
    was_clean: bool
    """It was closed cleanly."""
    torn: TornTail | None
    corruptions: tuple[Corruption, ...]
    regions: dict[int, EntryRange]
    """The regions of which the log holds entries."""


@dataclass(slots=True)
class RecoveredLog:
    """All that the rest of the log needs to know of what was there."""

    report: Recovery
    segments: list[SegmentState]
    continuity: Continuity
    dropped_at: dict[int, tuple[int, int]]
    """Where the last drop marker of a region stands: entries before it are void."""
    resume: int | None
    """The segment to go on with; None if the next append needs a new one."""
    next_number: int
    last_bytes: int
    """How long the last segment should be: more than it is, if it lost its end."""


def recover(files: Files, directory: Path) -> RecoveredLog:
    """Read the whole log, and cut off a torn tail."""
    scanner = _Scanner(files, directory, read_marker(files, directory))
    present = (parse_segment_name(name) for name in files.names(directory))
    numbers = [number for number in present if number is not None]
    scanner.read(sorted(numbers))
    return scanner.finish()


class _Scanner:
    def __init__(self, files: Files, directory: Path, marker: CleanMarker | None) -> None:
        self._files = files
        self._directory = directory
        self._marker = marker
        self._continuity = Continuity()
        self._segments: list[SegmentState] = []
        self._dropped_at: dict[int, tuple[int, int]] = {}
        self._torn: TornTail | None = None
        self._damaged: set[int] = set()
        self._next_number = 0
        self._expected_bytes = 0

    def read(self, numbers: Sequence[int]) -> None:
        self._next_number = numbers[0] if numbers else 0
        for number in numbers:
            self._note_missing(range(self._next_number, number))
            self._next_number = number + 1
            with SegmentReader(self._files, self._directory, number) as reader:
                if number == numbers[-1]:
                    self._read_last(reader)
                else:
                    self._read_sealed(reader)
        if self._marker is not None:
            first = self._next_number if numbers else self._marker.segment
            self._note_missing(range(first, self._marker.segment + 1))

    def finish(self) -> RecoveredLog:
        report = Recovery(
            segments=len(self._segments),
            total_bytes=sum(segment.size_bytes for segment in self._segments),
            was_clean=self._marker is not None,
            torn=self._torn,
            corruptions=self._continuity.corruptions(),
            regions=self._continuity.regions(),
        )
        last = self._segments[-1] if self._segments else SegmentState(-1, 0)
        can_resume = self._segments and last.number + 1 == self._next_number and last.number not in self._damaged
        return RecoveredLog(
            report=report,
            segments=self._segments,
            continuity=self._continuity,
            dropped_at=self._dropped_at,
            resume=last.number if can_resume else None,
            next_number=self._next_number,
            last_bytes=max(last.size_bytes, self._expected_bytes),
        )

    def _note_missing(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            self._continuity.see_damage(Corruption(number, 0, UNKNOWN_LENGTH, "the segment is missing"))
            self._next_number = number + 1

    def _read_sealed(self, reader: SegmentReader) -> None:
        state = self._begin(reader)
        for item in scan(reader):
            self._see(state, item)

    def _read_last(self, reader: SegmentReader) -> None:
        durable = self._durable_by_marker(reader)
        if durable == 0 and _is_unborn(reader):
            self._cut(reader, 0)
            return
        state = self._begin(reader)
        suspects: list[ScannedFrame | Damage] = []
        for item in scan(reader):
            if isinstance(item, ScannedFrame):
                durable = max(durable, item.header.durable_offset)
            # Up to the first damage it is certain that a frame is part of the log. From there on it has to be seen
            # first what else comes.
            if suspects or _is_damaged(item):
                suspects.append(item)
            else:
                self._see(state, item)
        self._judge(reader, state, suspects, durable)

    def _judge(
        self,
        reader: SegmentReader,
        state: SegmentState,
        suspects: Sequence[ScannedFrame | Damage],
        durable: int,
    ) -> None:
        """Divide what comes from the first damage on into corruption, sound frames and the torn tail."""
        for item in suspects:
            if _is_damaged(item) and item.offset >= durable:
                self._cut(reader, item.offset)
                state.size_bytes = item.offset
                return
            self._see(state, item)
        self._note_short(reader.number, durable)
        self._expected_bytes = durable
        # A crash may have cost the last frame its padding, which is no loss.
        state.size_bytes = -(-reader.size // FRAME_ALIGNMENT) * FRAME_ALIGNMENT

    def _begin(self, reader: SegmentReader) -> SegmentState:
        """Check the header of a segment, and by it the length of the one before; take it into the list."""
        header = reader.segment_header()
        if header is None:
            reason = "the segment's header is damaged"
            self._continuity.see_harmless(Corruption(reader.number, 0, SEGMENT_HEADER_BYTES, reason))
            self._damaged.add(reader.number)
        elif header.version != SEGMENT_VERSION:
            raise StartError(
                f"{segment_path(self._directory, reader.number)} has format version {header.version}, "
                f"this server reads version {SEGMENT_VERSION}",
                hint="start the version of the server that wrote it",
            )
        elif self._segments and self._segments[-1].number == reader.number - 1:
            self._note_short(reader.number - 1, header.previous_bytes)
        elif not self._segments and header.is_in_doubt:
            reason = "damage before the segment was never repaired"
            self._continuity.see_damage(Corruption(reader.number, 0, UNKNOWN_LENGTH, reason))
        state = SegmentState(reader.number, reader.size, since_ms=0 if header is None else header.created_ms)
        self._segments.append(state)
        return state

    def _note_short(self, number: int, expected_bytes: int) -> None:
        state = self._segments[-1]
        missing = expected_bytes - state.size_bytes
        # Less than the padding of the last frame holds nothing.
        if missing >= FRAME_ALIGNMENT:
            reason = f"the segment is {missing} bytes shorter than it was"
            self._continuity.see_damage(Corruption(number, state.size_bytes, missing, reason))
            self._damaged.add(number)

    def _durable_by_marker(self, reader: SegmentReader) -> int:
        if self._marker is None or self._marker.segment != reader.number:
            return 0
        return self._marker.offset

    def _see(self, state: SegmentState, item: ScannedFrame | Damage) -> None:
        if _is_damaged(item):
            self._damaged.add(state.number)
        if isinstance(item, Damage):
            reason = "no valid frame header"
            self._continuity.see_damage(Corruption(state.number, item.offset, item.length, reason))
            return
        header = item.header
        if header.kind not in _KINDS:
            raise StartError(
                f"{segment_path(self._directory, state.number)} holds a frame of the unknown kind {header.kind}",
                hint="start the version of the server that wrote it",
            )
        if item.stored is None:
            self._see_lost(state, item)
        elif header.kind in (FrameKind.DATA, FrameKind.DELETE):
            self._continuity.see_frame(header.region_id, header.entry_id)
            state.max_entries[header.region_id] = header.entry_id
            state.entries += 1
        elif header.kind == FrameKind.SEAL:
            payload = decode_payload(item.stored, codec=header.codec, raw_bytes=header.raw_bytes)
            self._continuity.see_seal(decode_seal(payload))
        elif header.kind == FrameKind.DROP_REGION:
            self._see_drop(state, item)

    def _see_lost(self, state: SegmentState, item: ScannedFrame) -> None:
        header = item.header
        reason = f"the payload of entry {header.entry_id} of region {header.region_id} is damaged"
        if header.kind in (FrameKind.DATA, FrameKind.DELETE):
            corruption = Corruption(state.number, item.offset, header.frame_bytes, reason)
            self._continuity.see_lost_frame(header.region_id, header.entry_id, corruption)
            state.max_entries[header.region_id] = header.entry_id
            return
        reason = f"the payload of a frame of kind {FrameKind(header.kind).name} is damaged"
        self._continuity.see_harmless(Corruption(state.number, item.offset, header.frame_bytes, reason))
        if header.kind == FrameKind.DROP_REGION:
            self._see_drop(state, item)

    def _see_drop(self, state: SegmentState, item: ScannedFrame) -> None:
        region_id = item.header.region_id
        self._continuity.see_drop(region_id)
        self._dropped_at[region_id] = (state.number, item.offset)
        for segment in self._segments:
            segment.max_entries.pop(region_id, None)

    def _cut(self, reader: SegmentReader, offset: int) -> None:
        """End the log at `offset`, keeping what is behind it in a file of its own."""
        length = reader.size - offset
        saved_as = self._save_tail(reader, offset) if length else None
        crash_point("wal.recover.before_truncate")
        path = segment_path(self._directory, reader.number)
        if offset < SEGMENT_HEADER_BYTES:
            self._files.unlink(path)
            self._next_number = reader.number
        else:
            fd = self._files.open(path, os.O_WRONLY)
            try:
                self._files.truncate(fd, offset)
                self._files.fsync(fd)
            finally:
                self._files.close(fd)
        self._files.fsync_dir(self._directory)
        crash_point("wal.recover.after_truncate")
        self._torn = TornTail(reader.number, offset, length, saved_as)

    def _save_tail(self, reader: SegmentReader, offset: int) -> Path | None:
        path = torn_path(self._directory, reader.number)
        try:
            fd = self._files.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            try:
                for start in range(offset, reader.size, _COPY_BYTES):
                    write_all(self._files, fd, reader.read(start, min(_COPY_BYTES, reader.size - start)))
                self._files.fsync(fd)
            finally:
                self._files.close(fd)
        except OSError as error:
            # The copy is only for later inspection: a full disk must not keep the log from opening.
            if error.errno not in NO_SPACE:
                raise
            _log.warning("no space to keep the torn tail of segment %016x", reader.number)
            return None
        return path


def _is_damaged(item: ScannedFrame | Damage) -> bool:
    return isinstance(item, Damage) or item.stored is None


def _is_unborn(reader: SegmentReader) -> bool:
    """The process ended while it created this segment: frames are written only behind a synced header."""
    if reader.segment_header() is not None:
        return False
    return reader.find_header(SEGMENT_HEADER_BYTES, reader.size) == reader.size
