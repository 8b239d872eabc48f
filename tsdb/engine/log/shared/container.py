"""The object of the shared log: frames of many regions, or a fence.

    opening (16 bytes) | frames, those of a region together | one row for each region | trailer (96 bytes)

Frames are those of the local log (`tsdb.engine.log.frame`); the place that their checksum covers is the number of the
object and the offset in it, and instead of a synced offset they have the time at which they were appended.

A row says where the frames of a region are, and which entries they hold. The trailer says
which object this is, who wrote it, which objects were acknowledged before, and the checksum of the trailer before it.
Its checksum covers the rows as well, so the end of an object is enough to know what it holds. A fence has the reason
where others have frames.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from tsdb.engine.log.frame import (
    FRAME_ALIGNMENT,
    FRAME_HEADER_BYTES,
    Codec,
    EncodedPayload,
    Frame,
    FrameHeader,
    FrameKind,
    crc32c,
    encode_header,
    frame_bytes,
    padding,
    parse_header,
)
from tsdb.store import Buffer

OPENING = b"TSDBSLOG" + bytes(8)
_END = b"TSDBSEND"
VERSION = 1
_FIELDS = struct.Struct("<IIQQQ16sQQIIQ")
_CLOSING = struct.Struct("<II8s")
TRAILER_BYTES = _FIELDS.size + _CLOSING.size
_ROW = np.dtype(
    [
        ("region_id", "<u8"),
        ("offset", "<u8"),
        ("length", "<u8"),
        ("first_entry", "<u8"),
        ("last_entry", "<u8"),
        ("first_sequence", "<u8"),
        ("last_sequence", "<u8"),
        ("entries", "<u4"),
        ("is_dropped", "<u4"),
        ("headers_crc", "<u4"),
        ("reserved", "<u4"),
    ]
)
NONCE_BYTES = 16


class ObjectKind(IntEnum):
    """What an object is."""

    ENTRIES = 1
    FENCE = 2
    """The end of the term: nothing at this number or above was or will be acknowledged."""


class ObjectDamaged(Exception):
    """The bytes are not those of the object that should be there."""


class ObjectIdentity(NamedTuple):
    """Which object it is, and who wrote it."""

    node: int
    term: int
    number: int
    nonce: bytes
    """Of the writer, chosen when it took the term."""


class RegionRow(NamedTuple):
    """The frames of one region in an object. Entries are those behind the last drop marker."""

    region_id: int
    offset: int
    length: int
    first_entry: int
    last_entry: int
    first_sequence: int
    last_sequence: int
    entries: int
    is_dropped: bool
    """There is a drop marker: all that the log holds of the region before it is void."""
    headers_crc: int


@dataclass(frozen=True, slots=True)
class Trailer:
    """What the end of an object says."""

    kind: ObjectKind
    identity: ObjectIdentity
    created_ms: int
    acknowledged: int
    """All objects of the term with lower numbers were acknowledged when this one was made."""
    previous_crc: int
    crc: int
    size_bytes: int
    """Of the whole object."""
    regions: tuple[RegionRow, ...]


@dataclass(frozen=True, slots=True)
class EncodedObject:
    """An object that can be sent."""

    identity: ObjectIdentity
    parts: list[Buffer]
    size_bytes: int
    crc: int


class StoredFrame(NamedTuple):
    """A frame as it is in an object."""

    header: FrameHeader
    stored: pa.Buffer

    @property
    def logged_ns(self) -> int:
        """The time of day when it was appended; 0 if that is not known."""
        return self.header.durable_offset


def encode_entries(
    identity: ObjectIdentity,
    frames: Sequence[Frame],
    *,
    acknowledged: int,
    previous_crc: int,
    created_ms: int,
    logged_ns: Sequence[int] | None = None,
) -> EncodedObject:
    """Make an object of frames; payloads are not copied. `logged_ns` says when each was appended."""
    groups: dict[int, list[tuple[Frame, int]]] = {}
    for frame, time_ns in zip(frames, logged_ns or [0] * len(frames), strict=True):
        groups.setdefault(frame.region_id, []).append((frame, time_ns))
    parts: list[Buffer] = [OPENING]
    rows: list[tuple[Any, ...]] = []
    offset = len(OPENING)
    for region_id, group in groups.items():
        start, crc = offset, 0
        for frame, time_ns in group:
            header = encode_header(frame, segment=identity.number, offset=offset, durable_offset=time_ns)
            crc = crc32c(crc, header)
            parts += (header, frame.payload.view, padding(frame.payload.size_bytes))
            offset += frame_bytes(frame.payload.size_bytes)
        rows.append((region_id, start, offset - start, *_entries_of([frame for frame, _ in group]), crc, 0))
    return _finish(
        ObjectKind.ENTRIES,
        identity,
        parts,
        rows,
        acknowledged=acknowledged,
        previous_crc=previous_crc,
        created_ms=created_ms,
    )


def encode_fence(identity: ObjectIdentity, *, by: str, reason: str, created_ms: int) -> EncodedObject:
    """Make a fence."""
    text = json.dumps({"by": by, "reason": reason}).encode()
    parts: list[Buffer] = [OPENING, text + bytes(-len(text) % FRAME_ALIGNMENT)]
    return _finish(ObjectKind.FENCE, identity, parts, [], acknowledged=0, previous_crc=0, created_ms=created_ms)


def parse_trailer(tail: bytes, size_bytes: int) -> Trailer:
    """Read the end of an object of which `tail` are the last bytes; ObjectDamaged.

    ValueError with the number of bytes that are needed if the tail is too short.
    """
    if size_bytes < len(OPENING) + TRAILER_BYTES or len(tail) < TRAILER_BYTES:
        raise ObjectDamaged(f"it has {size_bytes} bytes, which is too short")
    fields = tail[len(tail) - TRAILER_BYTES : len(tail) - _CLOSING.size]
    kind, version, node, term, number, nonce, created_ms, acknowledged, previous_crc, count, body = _FIELDS.unpack(
        fields
    )
    crc, _, end = _CLOSING.unpack(tail[-_CLOSING.size :])
    rows_bytes = count * _ROW.itemsize
    if end != _END or len(OPENING) + body + rows_bytes + TRAILER_BYTES != size_bytes:
        raise ObjectDamaged("its end is missing or is not that of an object of the log")
    if version != VERSION:
        raise ObjectDamaged(f"it has format version {version}, this server reads version {VERSION}")
    if len(tail) < rows_bytes + TRAILER_BYTES:
        raise ValueError(rows_bytes + TRAILER_BYTES)
    rows = tail[len(tail) - TRAILER_BYTES - rows_bytes : len(tail) - TRAILER_BYTES]
    if crc32c(crc32c(0, rows), fields) != crc or kind not in tuple(ObjectKind):
        raise ObjectDamaged("the checksum of its end is wrong")
    regions = tuple(RegionRow._make((*row[:8], bool(row[8]), row[9])) for row in np.frombuffer(rows, _ROW).tolist())
    return Trailer(
        ObjectKind(kind),
        ObjectIdentity(node, term, number, nonce),
        created_ms,
        acknowledged,
        previous_crc,
        crc,
        size_bytes,
        regions,
    )


def read_fence(content: bytes) -> str:
    """Say who sealed a term, and why."""
    try:
        found = json.loads(content[len(OPENING) : -TRAILER_BYTES].rstrip(b"\0"))
        return f"{found['by']}: {found['reason']}"
    except (ValueError, KeyError, TypeError):
        return "unknown"


def frames_of(content: bytes, trailer: Trailer, row: RegionRow) -> Iterator[StoredFrame]:
    """Read the frames of a region behind its last drop marker, every checksum verified; ObjectDamaged."""
    found: list[StoredFrame] = []
    for frame in all_frames_of(content, trailer, row):
        if frame.header.kind == FrameKind.DROP_REGION:
            found.clear()
        else:
            found.append(frame)
    if len(found) != row.entries:
        raise ObjectDamaged("the frames are not those that its end names")
    return iter(found)


def all_frames_of(content: bytes, trailer: Trailer, row: RegionRow) -> list[StoredFrame]:
    """Read the frames of a region, drop markers included, every checksum verified; ObjectDamaged."""
    found: list[StoredFrame] = []
    whole = pa.py_buffer(content)
    offset, end, crc = row.offset, row.offset + row.length, 0
    while offset < end:
        header = parse_header(content, offset, segment=trailer.identity.number, offset=offset)
        if header is None or header.region_id != row.region_id or offset + header.frame_bytes > end:
            raise ObjectDamaged(f"there is no valid frame at byte {offset}")
        crc = crc32c(crc, content[offset : offset + FRAME_HEADER_BYTES])
        stored = whole.slice(offset + FRAME_HEADER_BYTES, header.payload_bytes)
        if crc32c(0, stored) != header.payload_crc:
            raise ObjectDamaged(f"the payload of entry {header.entry_id} is damaged")
        found.append(StoredFrame(header, stored))
        offset += header.frame_bytes
    if crc != row.headers_crc:
        raise ObjectDamaged("the frames are not those that its end names")
    return found


def as_frame(found: StoredFrame) -> Frame:
    """Make a frame to append of one that was read, without decompressing it."""
    header, stored = found.header, found.stored.to_pybytes()
    payload = EncodedPayload(stored, len(stored), header.payload_crc, Codec(header.codec), header.raw_bytes)
    return Frame(
        header.region_id,
        header.entry_id,
        payload,
        kind=FrameKind(header.kind),
        base_seq=header.base_seq,
        rows=header.rows,
        schema_version=header.schema_version,
    )


def _entries_of(group: Sequence[Frame]) -> tuple[int, int, int, int, int, int]:
    """First and last entry, first and last sequence, their number and whether there is a drop marker."""
    dropped = max((at for at, frame in enumerate(group) if frame.kind is FrameKind.DROP_REGION), default=None)
    kept = group if dropped is None else group[dropped + 1 :]
    if not kept:
        return 0, 0, 0, 0, 0, 1
    first, last = kept[0], kept[-1]
    is_dropped = int(dropped is not None)
    last_sequence = last.base_seq + max(last.rows - 1, 0)
    return first.entry_id, last.entry_id, first.base_seq, last_sequence, len(kept), is_dropped


def _finish(
    kind: ObjectKind,
    identity: ObjectIdentity,
    parts: list[Buffer],
    rows: list[tuple[Any, ...]],
    *,
    acknowledged: int,
    previous_crc: int,
    created_ms: int,
) -> EncodedObject:
    body = sum(len(part) for part in parts) - len(OPENING)
    table = np.array(rows, dtype=_ROW).tobytes()
    node, term, number, nonce = identity
    fields = _FIELDS.pack(
        kind, VERSION, node, term, number, nonce, created_ms, acknowledged, previous_crc, len(rows), body
    )
    crc = crc32c(crc32c(0, table), fields)
    parts += (table, fields, _CLOSING.pack(crc, 0, _END))
    return EncodedObject(identity, parts, sum(len(part) for part in parts), crc)
