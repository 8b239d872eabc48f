"""Small logs for tests, and ways to look into them."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tsdb.clock import ManualClock
from tsdb.engine.log import Frame, FrameKind, encode_frame_payload
from tsdb.engine.wal import Recovery, Wal, WalSettings
from tsdb.engine.wal._segment import ScannedFrame, SegmentReader, scan
from tsdb.store import Files
from tsdb.units import Duration, Size


class Entry(NamedTuple):
    """An entry as a test compares it."""

    region_id: int
    entry_id: int
    payload: bytes


def make_options(**changes: Any) -> WalSettings:
    """Settings that suit small logs; sizes and durations may be plain numbers."""
    chosen: dict[str, Any] = {"sync_write": True, "ballast_bytes": 0, "close_timeout": Duration.of_seconds(10)}
    chosen.update(changes)
    for name in ("file_size", "purge_threshold", "queue_bytes_max", "ballast_bytes"):
        if name in chosen:
            chosen[name] = Size(chosen[name])
    return WalSettings(**chosen)


def open_wal(
    directory: Path,
    *,
    files: Files | None = None,
    skip_corrupt: bool = False,
    clock: ManualClock | None = None,
    **changes: Any,
) -> tuple[Wal, Recovery]:
    clock = clock or ManualClock(1_700_000_000_000_000_000)
    return Wal.open(directory, make_options(**changes), files, clock, skip_corrupt=skip_corrupt)


@contextmanager
def opened(directory: Path, *, files: Files | None = None, skip_corrupt: bool = False, **changes: Any) -> Iterator[Wal]:
    """A log that is closed as a crash would leave it: without the marker."""
    wal, _ = open_wal(directory, files=files, skip_corrupt=skip_corrupt, **changes)
    try:
        yield wal
    finally:
        wal.seal(clean=False)


def make_entry(region_id: int, entry_id: int, size: int = 40) -> Entry:
    content = random.Random(f"{region_id}/{entry_id}").randbytes(size)
    return Entry(region_id, entry_id, content)


def make_frame(entry: Entry) -> Frame:
    return Frame(
        entry.region_id,
        entry.entry_id,
        encode_frame_payload(entry.payload),
        kind=FrameKind.DATA,
        base_seq=entry.entry_id * 1000,
        rows=len(entry.payload),
        schema_version=3,
    )


def append(wal: Wal, *entries: Entry) -> None:
    """Append entries one by one, each acknowledged before the next."""
    for entry in entries:
        wal.append([make_frame(entry)]).result(10)


class Floors(dict[int, int]):
    """Floors of all regions there may be: 0, unless another one is given."""

    def get(self, region_id: int, default: object = None) -> int:  # type: ignore[override]
        return super().get(region_id, 0)


ALL = Floors()
"""To read every entry of every region."""


def replayed(wal: Wal, after: Mapping[int, int] = ALL) -> list[Entry]:
    return [
        Entry(frame.region_id, frame.entry_id, frame.payload.to_pybytes())
        for batch in wal.read(after)
        for frame in batch
    ]


def replay_directory(directory: Path, **changes: Any) -> list[Entry]:
    with opened(directory, **changes) as wal:
        return replayed(wal)


def segments(directory: Path) -> list[Path]:
    return sorted(directory.glob("*.wal"))


def frames_in(path: Path) -> list[ScannedFrame]:
    """The frames of a sound segment."""
    with SegmentReader(Files(), path.parent, int(path.stem, 16)) as reader:
        found = list(scan(reader))
    assert all(isinstance(item, ScannedFrame) and item.stored is not None for item in found)
    return [item for item in found if isinstance(item, ScannedFrame)]


def data_frames_in(path: Path) -> list[ScannedFrame]:
    return [frame for frame in frames_in(path) if frame.header.kind == FrameKind.DATA]


def flip_bit(path: Path, offset: int, bit: int = 0) -> None:
    content = bytearray(path.read_bytes())
    content[offset] ^= 1 << bit
    path.write_bytes(content)
