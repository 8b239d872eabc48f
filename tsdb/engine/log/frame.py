"""The frame: one entry of one region, as it stands in a segment.

    header (64 bytes) | payload | zeroes up to a multiple of 8

There are two checksums. The payload's is computed where the payload is compressed, in the caller's thread. The
header's covers the header, including the payload's checksum, and is all the committer has to compute, once it knows the
frame's place. A header that checks out can be trusted although its payload is damaged: it says whose rows are gone.

The header's checksum also covers the place itself (segment number and offset), so a frame is valid only where it was
written; bytes that look like one inside a payload never pass for the log's own.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple, TypeAlias, cast

import google_crc32c
import numpy as np
import pyarrow as pa

from tsdb import _kernels
from tsdb.store import Buffer

ByteSource: TypeAlias = Buffer | pa.Buffer

FRAME_MAGIC = b"TSF\x01"
FRAME_HEADER_BYTES = 64
FRAME_ALIGNMENT = 8
PAYLOAD_BYTES_MAX = (1 << 32) - 1
COMPRESS_BYTES_MIN = 4096
"""Smaller payloads are stored as they are: compressing them costs more than writing them."""

_PREFIX = struct.Struct("<4sI")
_FIELDS = struct.Struct("<IIBBHIQQQII")
_REST = struct.Struct(_FIELDS.format + "Q")
_OFFSET = struct.Struct("<Q")
_PLACE = struct.Struct("<QQ")
_PADDING = tuple(bytes(count) for count in range(FRAME_ALIGNMENT))
_LZ4 = pa.Codec("lz4_raw")
_SEAL_ENTRY = np.dtype([("region_id", "<u8"), ("entry_id", "<u8")])

crc32c: Callable[[int, ByteSource], int] = google_crc32c.extend
"""Continue a CRC-32C (Castagnoli) with more bytes; begin with 0."""


class FrameKind(IntEnum):
    """What a frame means."""

    DATA = 1
    DELETE = 2
    DROP_REGION = 3
    """Everything of the region before this frame is void: it was dropped, or comes back from another node."""
    FENCE = 4
    """Reserved."""
    SEAL = 5
    """First in a segment: the last entry of every region when the segment was created."""
    NOTE = 6
    """Of no region: what tables there are and what they look like, in a shared log that is kept for its history."""


class Codec(IntEnum):
    """How a payload is stored."""

    NONE = 0
    LZ4 = 1


@dataclass(frozen=True, slots=True)
class EncodedPayload:
    """A payload as it will be stored, with its checksum."""

    stored: bytes
    size_bytes: int
    crc: int
    codec: Codec
    raw_bytes: int

    @property
    def view(self) -> memoryview:
        return memoryview(self.stored)


@dataclass(frozen=True, slots=True)
class Frame:
    """One entry to append. Entry ids of a region are dense: each is the one before plus one."""

    region_id: int
    entry_id: int
    payload: EncodedPayload
    kind: FrameKind = FrameKind.DATA
    base_seq: int = 0
    rows: int = 0
    schema_version: int = 0
    fields: bytes = field(init=False, repr=False, compare=False)
    """The header as far as it does not depend on the frame's place: packed here, in the caller's thread."""

    def __post_init__(self) -> None:
        payload = self.payload
        try:
            fields = _FIELDS.pack(
                payload.size_bytes,
                payload.crc,
                self.kind,
                payload.codec,
                0,
                payload.raw_bytes,
                self.region_id,
                self.entry_id,
                self.base_seq,
                self.rows,
                self.schema_version,
            )
        except struct.error as error:
            raise ValueError(f"a number of the frame is out of range: {error} ({self!r})") from error
        object.__setattr__(self, "fields", fields)


@dataclass(frozen=True, slots=True)
class ReplayedFrame:
    """One entry read back, its payload decompressed."""

    region_id: int
    entry_id: int
    payload: pa.Buffer
    kind: FrameKind
    base_seq: int
    rows: int
    schema_version: int


class FrameHeader(NamedTuple):
    """A header that was read and found valid."""

    payload_bytes: int
    payload_crc: int
    kind: int
    codec: int
    flags: int
    raw_bytes: int
    region_id: int
    entry_id: int
    base_seq: int
    rows: int
    schema_version: int
    durable_offset: int
    """Up to here the segment was known to be synced when the frame was written. In an object of the shared log, the
    time at which the entry was appended, in nanoseconds since 1970; 0 if that is not known."""

    @property
    def frame_bytes(self) -> int:
        return frame_bytes(self.payload_bytes)


def encode_frame_payload(raw: ByteSource | Sequence[ByteSource]) -> EncodedPayload:
    """Join the parts of a payload, compress it if that pays, and sum it up.

    Runs in the caller's thread, mostly without the GIL.
    """
    given = raw if isinstance(raw, list | tuple) else [cast(ByteSource, raw)]
    parts = [memoryview(part).cast("B") for part in given]
    size = sum(len(part) for part in parts)
    if size > PAYLOAD_BYTES_MAX:
        raise ValueError(f"a payload of {size} bytes is over the limit of {PAYLOAD_BYTES_MAX} bytes")
    return sealed_payload(_kernels.seal_payload(parts, compress_from=COMPRESS_BYTES_MIN))


def sealed_payload(sealed: tuple[bytes, int, bool, int]) -> EncodedPayload:
    """Take a payload as a kernel seals it: bytes, checksum, whether they are compressed, length when they are not."""
    stored, crc, is_compressed, size = sealed
    if size > PAYLOAD_BYTES_MAX:
        raise ValueError(f"a payload of {size} bytes is over the limit of {PAYLOAD_BYTES_MAX} bytes")
    return EncodedPayload(stored, len(stored), crc, Codec.LZ4 if is_compressed else Codec.NONE, size)


def is_intact(payload: EncodedPayload) -> bool:
    """Whether a payload that was handed on is the one that was encoded."""
    return payload.size_bytes == len(payload.stored) and crc32c(0, payload.stored) == payload.crc


def decode_payload(stored: pa.Buffer, *, codec: int, raw_bytes: int) -> pa.Buffer:
    """Undo what `encode_frame_payload` did; the result does not share memory with `stored`."""
    if codec == Codec.LZ4:
        return _LZ4.decompress(stored, raw_bytes)
    return pa.py_buffer(stored.to_pybytes())


def frame_bytes(payload_bytes: int) -> int:
    """How much of a segment a frame with such a payload takes."""
    return (FRAME_HEADER_BYTES + payload_bytes + FRAME_ALIGNMENT - 1) & -FRAME_ALIGNMENT


def padding(payload_bytes: int) -> bytes:
    """The zeroes behind a payload."""
    return _PADDING[-payload_bytes % FRAME_ALIGNMENT]


def encode_header(frame: Frame, *, segment: int, offset: int, durable_offset: int) -> bytes:
    """The header of a frame that goes to this place."""
    rest = frame.fields + _OFFSET.pack(durable_offset)
    return _PREFIX.pack(FRAME_MAGIC, crc32c(0, rest + _PLACE.pack(segment, offset))) + rest


def parse_header(data: bytes, position: int, *, segment: int, offset: int) -> FrameHeader | None:
    """Read the header at `position`, which is `offset` in its segment; None if it is not a valid one."""
    if data[position : position + 4] != FRAME_MAGIC or len(data) - position < FRAME_HEADER_BYTES:
        return None
    rest = data[position + _PREFIX.size : position + FRAME_HEADER_BYTES]
    if crc32c(0, rest + _PLACE.pack(segment, offset)) != _PREFIX.unpack_from(data, position)[1]:
        return None
    return FrameHeader._make(_REST.unpack(rest))


def encode_seal(last_entries: dict[int, int]) -> Frame:
    """The frame that holds the last entry of every region."""
    table = np.fromiter(last_entries.items(), dtype=_SEAL_ENTRY, count=len(last_entries))
    payload = encode_frame_payload(table.tobytes())
    return Frame(0, 0, payload, kind=FrameKind.SEAL, rows=len(last_entries))


def decode_seal(payload: pa.Buffer) -> dict[int, int]:
    """What `encode_seal` was given."""
    table = np.frombuffer(payload.to_pybytes(), dtype=_SEAL_ENTRY)
    return dict(zip(table["region_id"].tolist(), table["entry_id"].tolist(), strict=True))


def drop_marker(region_id: int) -> Frame:
    """The frame that makes everything of a region before it void."""
    return Frame(region_id, 0, encode_frame_payload(b""), kind=FrameKind.DROP_REGION)
