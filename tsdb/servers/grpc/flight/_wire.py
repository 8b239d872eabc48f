"""A minimal protobuf codec for FlightData, so that a body of megabytes is not copied into a message object first.

A FlightData has a descriptor (1), the metadata of an IPC message (2), application metadata (3) and the body of the IPC
message (1000). `split_fields` returns views; a view keeps the whole message alive.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tsdb.errors import InvalidArguments
from tsdb.ingest.protobuf import encode_varint

Piece = bytes | memoryview
"""Anything that can be joined; Arrow's buffers are, too."""

_VARINT_BYTES_MAX = 10
_EMPTY = memoryview(b"")
_BODY_TAG = b"\xc2\x3e"  # field 1000, with a length
_HEADER_TAG = b"\x12"
_METADATA_TAG = b"\x1a"
_DESCRIPTOR_TAG = b"\x0a"


class MalformedMessage(InvalidArguments):
    """Bytes that are no message of the protocol."""


@dataclass(frozen=True, slots=True)
class FlightMessage:
    """One message of a stream, as views into the bytes that came."""

    descriptor: memoryview
    header: memoryview
    metadata: memoryview
    body: memoryview


def read_varint(data: memoryview, at: int) -> tuple[int, int]:
    """Return the number that begins at a place, and the place behind it."""
    value = 0
    for count in range(_VARINT_BYTES_MAX):
        if at >= len(data):
            break
        group = data[at]
        at += 1
        value |= (group & 0x7F) << (7 * count)
        if group < 0x80:
            return value, at
    raise MalformedMessage("a number of the message does not end")


def split_fields(data: memoryview) -> Iterator[tuple[int, memoryview]]:
    """Yield number and bytes of each field that has a length; others are skipped."""
    at = 0
    while at < len(data):
        tag, at = read_varint(data, at)
        kind, size = tag & 7, 0
        if kind == 0:
            _, at = read_varint(data, at)
            continue
        if kind == 2:
            size, at = read_varint(data, at)
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
        else:
            raise MalformedMessage(f"a field of the message has the unknown wire type {kind}")
        if size > len(data) - at:
            raise MalformedMessage("a field of the message is longer than the message")
        if kind == 2:
            yield tag >> 3, data[at : at + size]
        at += size


def parse_flight_data(data: bytes) -> FlightMessage:
    """Take a message apart; nothing is copied."""
    found = dict(split_fields(memoryview(data)))
    return FlightMessage(found.get(1, _EMPTY), found.get(2, _EMPTY), found.get(3, _EMPTY), found.get(1000, _EMPTY))


def encode_flight_data(
    header: Sequence[Piece], body: Sequence[Piece] = (), *, metadata: bytes = b"", descriptor: bytes = b""
) -> bytes:
    """Put a message together of pieces; each of them is copied once."""
    pieces: list[Piece] = []
    if descriptor:
        pieces += [_DESCRIPTOR_TAG, encode_varint(len(descriptor)), descriptor]
    pieces += [_HEADER_TAG, encode_varint(sum(map(len, header))), *header]
    if metadata:
        pieces += [_METADATA_TAG, encode_varint(len(metadata)), metadata]
    if body:
        pieces += [_BODY_TAG, encode_varint(sum(map(len, body))), *body]
    return b"".join(pieces)
