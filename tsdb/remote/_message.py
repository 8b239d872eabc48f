"""One message between nodes: a head in JSON, and the buffers that it refers to by number.

    magic "TSR" │ version u8 │ bytes of the head u32 │ number of buffers u32 │ bytes of each u64[] │ head │ buffers

The head and each buffer begin at a multiple of 8 bytes from the start. What arrives may begin at any address; it is
copied to an aligned one, because kernels read numbers where they lie.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, TypeAlias

import orjson
import pyarrow as pa

from tsdb.remote._errors import BadMessage, ProtocolMismatch

PROTOCOL_VERSION = 1
MESSAGE_BYTES_MAX = 1 << 30
"""A larger message is refused before it is sent; Arrow Flight itself ends at 2 GiB."""
BUFFERS_MAX = 1 << 20

Part: TypeAlias = bytes | memoryview | pa.Buffer

_MAGIC = b"TSR"
_FIXED = struct.Struct("<3sBII")
_ZEROES = tuple(bytes(count) for count in range(8))


class MessageTooLarge(BadMessage):
    """A message that is not sent because it is too large."""

    def __init__(self, size: int) -> None:
        super().__init__(
            f"a message between nodes would have {size} bytes, the limit is {MESSAGE_BYTES_MAX}",
            hint="write fewer rows at a time, or ask for less",
        )


def pack(head: Any, buffers: Sequence[Part] = ()) -> bytes:
    """Return a message as bytes; `head` is what orjson can write."""
    try:
        text = orjson.dumps(head)
    except orjson.JSONEncodeError as error:
        raise BadMessage(f"the request cannot be sent to another node: {error}") from error
    lengths = [len(each) for each in buffers]
    parts: list[Part] = [_FIXED.pack(_MAGIC, PROTOCOL_VERSION, len(text), len(lengths))]
    at = _FIXED.size
    if lengths:
        parts.append(struct.pack(f"<{len(lengths)}Q", *lengths))
        at += 8 * len(lengths)
    for length, part in ((len(text), text), *zip(lengths, buffers, strict=True)):
        padding = -at % 8
        if padding:
            parts.append(_ZEROES[padding])
        parts.append(part)
        at += padding + length
    if at > MESSAGE_BYTES_MAX:
        raise MessageTooLarge(at)
    return b"".join(parts)


def unpack(message: pa.Buffer) -> tuple[Any, list[pa.Buffer]]:
    """Return the head of a message and its buffers, which refer to it; BadMessage if it is none."""
    try:
        magic, version, text_bytes, count = _FIXED.unpack_from(message)
        if magic != _MAGIC:
            raise BadMessage("what arrived is not a message between nodes")
        if version != PROTOCOL_VERSION:
            raise ProtocolMismatch(received=version, expected=PROTOCOL_VERSION)
        if count > BUFFERS_MAX:
            raise BadMessage(f"a message has {count} buffers, the limit is {BUFFERS_MAX}")
        at = _FIXED.size
        lengths = struct.unpack_from(f"<{count}Q", message, at) if count else ()
        if count and message.address % 8:
            message = _aligned(message)
        at += 8 * count
        at += -at % 8
        head = orjson.loads(memoryview(message)[at : at + text_bytes])
        at += text_bytes
        buffers = []
        for length in lengths:
            at += -at % 8
            if at + length > message.size:
                raise BadMessage("a message is shorter than it says")
            buffers.append(message.slice(at, length))
            at += length
    except (struct.error, orjson.JSONDecodeError) as error:
        raise BadMessage(f"a message cannot be read: {error}") from error
    return head, buffers


def _aligned(message: pa.Buffer) -> pa.Buffer:
    copied = pa.allocate_buffer(message.size)
    memoryview(copied).cast("B")[:] = memoryview(message).cast("B")
    return copied
