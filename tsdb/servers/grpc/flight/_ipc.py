"""Checks the metadata of Arrow IPC messages before Arrow reads them: kind, length, and decompressed size.

Arrow trusts the sizes in a message: a compressed buffer states how much memory it needs, a column without buffers how
many rows it has. Both are untrusted. `check_batch` adds them up first and refuses what is over the limits, so that a
message of a few bytes cannot allocate gigabytes.

The metadata is a FlatBuffer: tables that point to their fields by small offsets. Only the required fields are read,
with bounds checks.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum

from tsdb.servers.grpc.flight._wire import MalformedMessage

ROWS_MAX = 1 << 24
"""How many rows one message may bring."""
UNPACKED_BYTES_MAX = 512 << 20
"""How much memory the buffers of one message may need."""
BUFFERS_MAX = 1 << 16

_I16, _U16, _I32, _U32, _I64 = (struct.Struct("<" + each) for each in "hHiIq")


class Header(IntEnum):
    """The kinds of IPC messages."""

    NONE = 0
    SCHEMA = 1
    DICTIONARY = 2
    BATCH = 3


@dataclass(frozen=True, slots=True)
class _Table:
    """A table of a FlatBuffer."""

    data: memoryview
    at: int

    def _place(self, field: int) -> int | None:
        """Where a field is, None if the table does not have it."""
        vtable = self.at - _I32.unpack_from(self.data, self.at)[0]
        _check_inside(vtable, self.data)
        slot = 4 + 2 * field
        if slot + 2 > _U16.unpack_from(self.data, vtable)[0]:
            return None
        offset = _U16.unpack_from(self.data, vtable + slot)[0]
        return self.at + offset if offset else None

    def number(self, field: int, form: struct.Struct) -> int:
        place = self._place(field)
        return 0 if place is None else int(form.unpack_from(self.data, place)[0])

    def byte(self, field: int) -> int:
        place = self._place(field)
        return 0 if place is None else self.data[place]

    def has(self, field: int) -> bool:
        return self._place(field) is not None

    def follow(self, field: int) -> int:
        """Where that is what a field points to; MalformedMessage without it."""
        place = self._place(field)
        if place is None:
            raise MalformedMessage("the metadata of an Arrow message lacks a field")
        target = place + int(_U32.unpack_from(self.data, place)[0])
        _check_inside(target, self.data)
        return target

    def table(self, field: int) -> _Table:
        return _Table(self.data, self.follow(field))


def _check_inside(at: int, data: memoryview) -> None:
    if not 0 <= at <= len(data) - 4:
        raise MalformedMessage("the metadata of an Arrow message points outside itself")


def _root(header: memoryview) -> _Table:
    at = int(_U32.unpack_from(header, 0)[0])
    _check_inside(at, header)
    return _Table(header, at)


def body_size(header: memoryview) -> int:
    """How many bytes follow the metadata of a message."""
    try:
        return _root(header).number(3, _I64)
    except (struct.error, IndexError) as error:
        raise MalformedMessage("the metadata of an Arrow message is cut off") from error


def header_kind(header: memoryview) -> Header:
    """Return the kind of a message; NONE without metadata."""
    if not len(header):
        return Header.NONE
    try:
        return Header(_root(header).byte(1))
    except (struct.error, IndexError, ValueError) as error:
        raise MalformedMessage("the metadata of an Arrow message is of an unknown kind or cut off") from error


def check_batch(header: memoryview, body: memoryview) -> None:
    """Refuse a record batch or a dictionary that would need more than the limits allow."""
    try:
        _check_batch(header, body)
    except (struct.error, IndexError) as error:
        raise MalformedMessage("the metadata of an Arrow message is cut off") from error


def _check_batch(header: memoryview, body: memoryview) -> None:
    message = _root(header)
    if message.number(3, _I64) != len(body):
        raise MalformedMessage("the body of an Arrow message is not as long as its metadata says")
    batch = message.table(2)
    if message.byte(1) == Header.DICTIONARY:
        batch = batch.table(1)
    rows = batch.number(0, _I64)
    if not 0 <= rows <= ROWS_MAX:
        raise MalformedMessage(f"a record batch has at most {ROWS_MAX} rows, this one says {rows}")
    if batch.has(1):
        _check_nodes(batch, rows)
    if batch.has(2):
        _check_buffers(batch, body)


def _check_nodes(batch: _Table, rows: int) -> None:
    """A column, or a part of one, cannot have more rows than the limit, whatever the batch says it has."""
    at = batch.follow(1)
    count = int(_U32.unpack_from(batch.data, at)[0])
    if count > BUFFERS_MAX:
        raise MalformedMessage(f"a record batch has at most {BUFFERS_MAX} columns, this one says {count}")
    for node in range(count):
        length = _I64.unpack_from(batch.data, at + 4 + 16 * node)[0]
        if not 0 <= length <= ROWS_MAX:
            raise MalformedMessage(f"a column of a record batch has {length} rows, the batch {rows}")


def _check_buffers(batch: _Table, body: memoryview) -> None:
    at = batch.follow(2)
    count = int(_U32.unpack_from(batch.data, at)[0])
    if count > BUFFERS_MAX:
        raise MalformedMessage(f"a record batch has at most {BUFFERS_MAX} buffers, this one says {count}")
    is_packed, unpacked = batch.has(3), 0
    for buffer in range(count):
        offset, length = struct.unpack_from("<qq", batch.data, at + 4 + 16 * buffer)
        if not (0 <= offset <= len(body) and 0 <= length <= len(body) - offset):
            raise MalformedMessage("a buffer of a record batch lies outside the body")
        if is_packed and length:
            claimed = _I64.unpack_from(body, offset)[0]
            unpacked += length if claimed == -1 else claimed
            if claimed < -1 or unpacked > UNPACKED_BYTES_MAX:
                raise MalformedMessage(f"a record batch unpacks to more than {UNPACKED_BYTES_MAX} bytes")
