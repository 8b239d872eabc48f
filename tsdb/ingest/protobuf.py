"""Encoding of protobuf messages that are written by hand."""

from __future__ import annotations


def encode_varint(value: int) -> bytes:
    """Return a number in groups of seven bits, the lowest first; negative ones take ten bytes."""
    left, encoded = value & 0xFFFF_FFFF_FFFF_FFFF, bytearray()
    while left > 0x7F:
        encoded.append(left & 0x7F | 0x80)
        left >>= 7
    encoded.append(left)
    return bytes(encoded)


def encode_field(number: int, content: bytes) -> bytes:
    """Return a field, of a number below 16, that has a length: a text, bytes or a message."""
    return bytes([number << 3 | 2]) + encode_varint(len(content)) + content
