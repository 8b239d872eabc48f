"""Constants and primitives of MySQL's client/server protocol: integers, strings, lengths.

Everything is little-endian. A length-encoded integer takes one byte below 251, else a mark and two, three or eight.
`Reader` never reads beyond its packet: missing bytes are a `BadPacket`.
"""

from __future__ import annotations

import struct
from enum import IntEnum, IntFlag

PIECE_BYTES = (1 << 24) - 1
"""A packet carries at most this much in one piece; one that carries as much is followed by another."""
PACKET_BYTES_MAX = 128 << 20
"""The size of a packet in all its pieces: `max_allowed_packet`."""
CHARSET_UTF8MB4 = 45
CHARSET_BINARY = 63
CHALLENGE_BYTES = 20


class Command(IntEnum):
    """The first byte of what a client sends."""

    QUIT = 0x01
    INIT_DB = 0x02
    QUERY = 0x03
    FIELD_LIST = 0x04
    STATISTICS = 0x09
    PROCESS_INFO = 0x0A
    PROCESS_KILL = 0x0C
    DEBUG = 0x0D
    PING = 0x0E
    CHANGE_USER = 0x11
    STMT_PREPARE = 0x16
    STMT_EXECUTE = 0x17
    STMT_SEND_LONG_DATA = 0x18
    STMT_CLOSE = 0x19
    STMT_RESET = 0x1A
    SET_OPTION = 0x1B
    STMT_FETCH = 0x1C
    RESET_CONNECTION = 0x1F


class Capability(IntFlag):
    """Capability flags of both sides."""

    LONG_PASSWORD = 1
    FOUND_ROWS = 1 << 1
    LONG_FLAG = 1 << 2
    CONNECT_WITH_DB = 1 << 3
    ODBC = 1 << 6
    IGNORE_SPACE = 1 << 8
    PROTOCOL_41 = 1 << 9
    INTERACTIVE = 1 << 10
    SSL = 1 << 11
    TRANSACTIONS = 1 << 13
    SECURE_CONNECTION = 1 << 15
    MULTI_STATEMENTS = 1 << 16
    MULTI_RESULTS = 1 << 17
    PS_MULTI_RESULTS = 1 << 18
    PLUGIN_AUTH = 1 << 19
    CONNECT_ATTRS = 1 << 20
    PLUGIN_AUTH_LENENC_DATA = 1 << 21
    DEPRECATE_EOF = 1 << 24


OFFERED = (
    Capability.LONG_PASSWORD
    | Capability.FOUND_ROWS
    | Capability.LONG_FLAG
    | Capability.CONNECT_WITH_DB
    | Capability.ODBC
    | Capability.IGNORE_SPACE
    | Capability.PROTOCOL_41
    | Capability.INTERACTIVE
    | Capability.TRANSACTIONS
    | Capability.SECURE_CONNECTION
    | Capability.MULTI_STATEMENTS
    | Capability.MULTI_RESULTS
    | Capability.PS_MULTI_RESULTS
    | Capability.PLUGIN_AUTH
    | Capability.CONNECT_ATTRS
    | Capability.PLUGIN_AUTH_LENENC_DATA
    | Capability.DEPRECATE_EOF
)
"""The capabilities of this server, without TLS."""


class StatusFlag(IntFlag):
    """How the server stands after a statement."""

    AUTOCOMMIT = 0x0002
    MORE_RESULTS = 0x0008


class ColumnType(IntEnum):
    """Types of columns and parameters."""

    DECIMAL = 0
    TINY = 1
    SHORT = 2
    LONG = 3
    FLOAT = 4
    DOUBLE = 5
    NULL = 6
    TIMESTAMP = 7
    LONGLONG = 8
    INT24 = 9
    DATE = 10
    TIME = 11
    DATETIME = 12
    YEAR = 13
    VARCHAR = 15
    BIT = 16
    JSON = 245
    NEWDECIMAL = 246
    ENUM = 247
    SET = 248
    TINY_BLOB = 249
    MEDIUM_BLOB = 250
    LONG_BLOB = 251
    BLOB = 252
    VAR_STRING = 253
    STRING = 254
    GEOMETRY = 255


class ColumnFlag(IntFlag):
    """Further properties of a column."""

    NOT_NULL = 1
    UNSIGNED = 32
    BINARY = 128


class WireError(Exception):
    """An error of the protocol itself, which no status of the product stands for."""

    def __init__(self, errno: int, state: str, message: str) -> None:
        super().__init__(message)
        self.errno = errno
        self.state = state


class BadPacket(WireError):
    """A packet that does not hold what its kind must."""

    def __init__(self, message: str = "malformed packet") -> None:
        super().__init__(1835, "HY000", f"Malformed communication packet: {message}")


def encode_length(value: int) -> bytes:
    """Return a number in as few bytes as it needs."""
    if value < 251:
        return bytes((value,))
    if value < 1 << 16:
        return b"\xfc" + value.to_bytes(2, "little")
    if value < 1 << 24:
        return b"\xfd" + value.to_bytes(3, "little")
    return b"\xfe" + value.to_bytes(8, "little")


def encode_bytes(value: bytes) -> bytes:
    """Return bytes behind their length."""
    return encode_length(len(value)) + value


def encode_text(value: str) -> bytes:
    """Return text behind its length."""
    return encode_bytes(value.encode("utf-8", "replace"))


def encode_packet(payload: bytes, sequence: int) -> bytes:
    """Return a packet with its header, in pieces if it is long; its number is taken modulo 256."""
    if len(payload) < PIECE_BYTES:
        return len(payload).to_bytes(3, "little") + bytes((sequence & 255,)) + payload
    pieces = []
    for number, at in enumerate(range(0, len(payload) + 1, PIECE_BYTES)):
        piece = payload[at : at + PIECE_BYTES]
        pieces += [len(piece).to_bytes(3, "little"), bytes((sequence + number & 255,)), piece]
    return b"".join(pieces)


def count_pieces(size: int) -> int:
    """In how many pieces a packet of a size comes."""
    return size // PIECE_BYTES + 1


class Reader:
    """Reads a packet from the front to the back."""

    def __init__(self, packet: bytes, at: int = 0) -> None:
        self.packet = packet
        self.at = at

    @property
    def left(self) -> int:
        return len(self.packet) - self.at

    def take(self, size: int) -> bytes:
        if not 0 <= size <= self.left:
            raise BadPacket(f"{size} bytes are expected where {self.left} are left")
        self.at += size
        return self.packet[self.at - size : self.at]

    def integer(self, size: int) -> int:
        return int.from_bytes(self.take(size), "little")

    def unpack(self, form: struct.Struct) -> tuple[int | float, ...]:
        return form.unpack(self.take(form.size))

    def length(self) -> int:
        """Read a number of variable length."""
        first = self.integer(1)
        if first < 251:
            return first
        size = {0xFC: 2, 0xFD: 3, 0xFE: 8}.get(first)
        if size is None:
            raise BadPacket("a length begins with a byte that has no meaning")
        return self.integer(size)

    def counted(self) -> bytes:
        """Read bytes behind their length."""
        return self.take(self.length())

    def until_zero(self) -> bytes:
        """Read bytes up to a zero, which is passed; without one, all that is left."""
        end = self.packet.find(b"\x00", self.at)
        found = self.packet[self.at :] if end < 0 else self.packet[self.at : end]
        self.at = len(self.packet) if end < 0 else end + 1
        return found

    def rest(self) -> bytes:
        return self.take(self.left)


def decode_text(value: bytes) -> str:
    """Return what bytes of a client say; BadPacket if they are no UTF-8."""
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadPacket("text is not valid UTF-8") from error
