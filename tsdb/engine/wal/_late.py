"""Entries that only the local log has, of regions that other nodes have taken over: kept until they are handed in.

    {log}/late/{number}.wal     a segment, with the entries of all such regions that one start found

A start copies them out of the log before the log lets go of those regions, in one file that is there as a whole or not
at all. So the log is purged as ever, and a region may come back to it meanwhile. A file is deleted when all its regions
are settled. Entries that are handed in a second time, after a crash, are known to the owner of the region.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from tsdb.engine.log.frame import Codec, EncodedPayload, Frame, FrameHeader, FrameKind, encode_header, padding
from tsdb.engine.wal._recover import RecoveredLog
from tsdb.engine.wal._segment import (
    SEGMENT_HEADER_BYTES,
    ScannedFrame,
    SegmentReader,
    encode_segment_header,
    parse_segment_name,
    scan,
    segment_path,
)
from tsdb.model import LateEntry
from tsdb.store import Files, crash_point, make_directories, write_all

LATE_CRASH_POINTS = ("wal.late.before_rename",)
BATCH_BYTES_MAX = 8 << 20
"""How much is handed in at a time."""
_DIRECTORY = "late"
_TEMPORARY = ".tmp"


class LateEntries:
    """What was copied out of one local log. Thread-safe."""

    def __init__(self, log_directory: Path, files: Files) -> None:
        self._directory = log_directory / _DIRECTORY
        self._files = files
        self._lock = threading.Lock()
        self._regions: dict[int, dict[int, int]] = {}
        """By file, the last sequence of each region in it."""
        with suppress(FileNotFoundError):
            for name in sorted(files.names(self._directory)):
                number = parse_segment_name(name)
                if number is not None:
                    self._regions[number] = self._list_regions(number)

    def regions(self) -> list[int]:
        """The regions with entries that are not settled."""
        with self._lock:
            return sorted({region_id for regions in self._regions.values() for region_id in regions})

    def read(self, region_id: int) -> Iterator[list[LateEntry]]:
        """Yield the entries of a region, in order, in batches of a moderate size."""
        batch: list[LateEntry] = []
        nbytes = 0
        with self._lock:
            numbers = sorted(number for number, regions in self._regions.items() if region_id in regions)
        for number in numbers:
            for entry in self._read(number, region_id):
                batch.append(entry)
                nbytes += len(entry.payload)
                if nbytes >= BATCH_BYTES_MAX:
                    yield batch
                    batch, nbytes = [], 0
        if batch:
            yield batch

    def settle(self, region_id: int) -> None:
        """The entries of a region are needed no more: they are handed in, or the region is gone."""
        with self._lock:
            for regions in self._regions.values():
                regions.pop(region_id, None)
            empty = [number for number, regions in self._regions.items() if not regions]
            for number in empty:
                del self._regions[number]
        for number in empty:
            with suppress(FileNotFoundError):
                self._files.unlink(segment_path(self._directory, number))

    def keep(self, recovered: RecoveredLog, log_directory: Path, floors: Mapping[int, int]) -> dict[int, int]:
        """Copy the entries of regions above their floors out of a log; return how many that were of each region."""
        with self._lock:
            known: dict[int, int] = {}
            for regions in self._regions.values():
                for region_id, last in regions.items():
                    known[region_id] = max(last, known.get(region_id, last))
            number = max(self._regions, default=0) + 1
        counts: dict[int, int] = {}
        make_directories(self._files, self._directory)
        temporary = self._directory / f"{number:016x}{_TEMPORARY}"
        fd = self._files.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        try:
            write_all(self._files, fd, encode_segment_header(number=number, created_ms=0, previous_bytes=0))
            offset = SEGMENT_HEADER_BYTES
            for region_id, entry in _read_log(self._files, recovered, log_directory, floors):
                if entry.base_sequence > known.get(region_id, -1):
                    frame = _frame_of(region_id, entry)
                    head = encode_header(frame, segment=number, offset=offset, durable_offset=0)
                    content = head + entry.payload + padding(len(entry.payload))
                    write_all(self._files, fd, content)
                    offset += len(content)
                    counts[region_id] = counts.get(region_id, 0) + 1
            self._files.fsync(fd)
        finally:
            self._files.close(fd)
        if not counts:
            self._files.unlink(temporary)
            return counts
        crash_point("wal.late.before_rename")
        self._files.rename(temporary, segment_path(self._directory, number))
        self._files.fsync_dir(self._directory)
        with self._lock:
            self._regions[number] = self._list_regions(number)
        return counts

    def _list_regions(self, number: int) -> dict[int, int]:
        found: dict[int, int] = {}

        def note(offset: int, header: FrameHeader) -> bool:
            found[header.region_id] = header.base_seq
            return False

        with SegmentReader(self._files, self._directory, number) as reader:
            for _ in scan(reader, wants=note):
                pass
        return found

    def _read(self, number: int, region_id: int) -> Iterator[LateEntry]:
        with SegmentReader(self._files, self._directory, number) as reader:
            for item in scan(reader, wants=lambda offset, header: header.region_id == region_id):
                if isinstance(item, ScannedFrame) and item.stored is not None:
                    yield _entry_of(item)


def _read_log(
    files: Files, recovered: RecoveredLog, directory: Path, floors: Mapping[int, int]
) -> Iterator[tuple[int, LateEntry]]:
    """Yield the sound entries of regions above their floors, as they were when the log was opened."""
    for segment in recovered.segments:
        if not any(last > floors.get(region_id, last) for region_id, last in segment.max_entries.items()):
            continue
        number = segment.number

        def wants(offset: int, header: FrameHeader, number: int = number) -> bool:
            if header.kind not in (FrameKind.DATA, FrameKind.DELETE):
                return False
            dropped_at = recovered.dropped_at.get(header.region_id)
            if dropped_at is not None and (number, offset) < dropped_at:
                return False
            return header.entry_id > floors.get(header.region_id, header.entry_id)

        with SegmentReader(files, directory, number) as reader:
            for item in scan(reader, end=segment.size_bytes, wants=wants):
                if isinstance(item, ScannedFrame) and item.stored is not None:
                    yield item.header.region_id, _entry_of(item)


def _entry_of(item: ScannedFrame) -> LateEntry:
    header = item.header
    assert item.stored is not None
    return LateEntry(
        entry_id=header.entry_id,
        base_sequence=header.base_seq,
        kind=header.kind,
        rows=header.rows,
        schema_version=header.schema_version,
        payload=item.stored.to_pybytes(),
        crc=header.payload_crc,
        codec=header.codec,
        raw_bytes=header.raw_bytes,
    )


def _frame_of(region_id: int, entry: LateEntry) -> Frame:
    payload = EncodedPayload(entry.payload, len(entry.payload), entry.crc, Codec(entry.codec), entry.raw_bytes)
    return Frame(
        region_id,
        entry.entry_id,
        payload,
        kind=FrameKind(entry.kind),
        base_seq=entry.base_sequence,
        rows=entry.rows,
        schema_version=entry.schema_version,
    )
