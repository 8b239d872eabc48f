"""The messages of PostgreSQL's protocol 3: parsers for the client's, encoders for the server's. Pure.

A message is a letter, a length that counts itself, and a body. The first one of a connection has no letter. Integers
are big-endian, strings end with a zero byte.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tsdb.servers.postgres._errors import ProtocolViolation

PROTOCOL_MAJOR = 3
CANCEL_REQUEST = 80877102
SSL_REQUEST = 80877103
GSSENC_REQUEST = 80877104

_INT16 = struct.Struct("!h")
_INT32 = struct.Struct("!i")
_HEAD = struct.Struct("!ci")
_COLUMN = struct.Struct("!ihihih")

# What a client sends -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Message:
    """One message as it came."""

    tag: int
    """The letter, as a byte."""
    body: bytes


class Fields:
    """The body of a message, read from its beginning; ProtocolViolation where it ends too early."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._at = 0

    def byte(self) -> int:
        return self.take(1)[0]

    def int16(self) -> int:
        value: int = _INT16.unpack(self.take(2))[0]
        return value

    def int32(self) -> int:
        value: int = _INT32.unpack(self.take(4))[0]
        return value

    def count(self) -> int:
        """A number of things that follow: up to 65535, as clients send more than a signed one holds."""
        return self.int16() & 0xFFFF

    def take(self, length: int) -> bytes:
        end = self._at + length
        if length < 0 or end > len(self._body):
            raise ProtocolViolation("insufficient data left in message")
        piece = self._body[self._at : end]
        self._at = end
        return piece

    def text(self) -> str:
        end = self._body.find(b"\0", self._at)
        if end < 0:
            raise ProtocolViolation("invalid string in message")
        piece = self._body[self._at : end]
        self._at = end + 1
        return decode_text(piece)

    @property
    def is_end(self) -> bool:
        return self._at == len(self._body)

    def finish(self) -> None:
        if not self.is_end:
            raise ProtocolViolation("invalid message format")


def decode_text(piece: bytes) -> str:
    try:
        return piece.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ProtocolViolation(f"invalid byte sequence for encoding UTF8 at byte {error.start}") from error


@dataclass(frozen=True, slots=True)
class Parse:
    name: str
    text: str
    types: tuple[int, ...]
    """Declared types of the parameters; 0 leaves one open."""


@dataclass(frozen=True, slots=True)
class Bind:
    portal: str
    statement: str
    formats: tuple[int, ...]
    values: tuple[bytes | None, ...]
    result_formats: tuple[int, ...]


def parse_parse(body: bytes) -> Parse:
    fields = Fields(body)
    name, text = fields.text(), fields.text()
    types = tuple(fields.int32() & 0xFFFFFFFF for _ in range(fields.count()))
    fields.finish()
    return Parse(name, text, types)


def parse_bind(body: bytes) -> Bind:
    fields = Fields(body)
    portal, statement = fields.text(), fields.text()
    formats = tuple(fields.int16() for _ in range(fields.count()))
    values = []
    for _ in range(fields.count()):
        length = fields.int32()
        values.append(None if length == -1 else fields.take(length))
    result_formats = tuple(fields.int16() for _ in range(fields.count()))
    fields.finish()
    return Bind(portal, statement, formats, tuple(values), result_formats)


def parse_target(body: bytes) -> tuple[str, str]:
    """`S` or `P`, and a name: the body of Describe and of Close."""
    fields = Fields(body)
    kind, name = chr(fields.byte()), fields.text()
    fields.finish()
    if kind not in "SP":
        raise ProtocolViolation(f"neither a statement nor a portal: {kind!r}")
    return kind, name


def parse_execute(body: bytes) -> tuple[str, int]:
    """The name of a portal, and how many rows are wanted; 0 is all."""
    fields = Fields(body)
    name, count = fields.text(), fields.int32()
    fields.finish()
    return name, max(count, 0)


def parse_query(body: bytes) -> str:
    fields = Fields(body)
    text = fields.text()
    fields.finish()
    return text


def parse_startup(body: bytes) -> dict[str, str]:
    """The parameters of a connection, behind the version."""
    fields = Fields(body)
    found: dict[str, str] = {}
    while name := fields.text():
        found[name] = fields.text()
    fields.finish()
    return found


# What a server sends -------------------------------------------------------------------------------------------------


def message(tag: bytes, body: bytes = b"") -> bytes:
    return _HEAD.pack(tag, len(body) + 4) + body


def _text(text: str) -> bytes:
    return text.replace("\0", "").encode("utf-8", "replace") + b"\0"


PARSE_COMPLETE = message(b"1")
BIND_COMPLETE = message(b"2")
CLOSE_COMPLETE = message(b"3")
NO_DATA = message(b"n")
EMPTY_QUERY = message(b"I")
PORTAL_SUSPENDED = message(b"s")
COPY_DONE = message(b"c")
AUTHENTICATION_OK = message(b"R", _INT32.pack(0))
AUTHENTICATION_CLEARTEXT = message(b"R", _INT32.pack(3))


def authentication_sasl(mechanisms: Sequence[str]) -> bytes:
    return message(b"R", _INT32.pack(10) + b"".join(map(_text, mechanisms)) + b"\0")


def authentication_sasl_continue(challenge: bytes) -> bytes:
    return message(b"R", _INT32.pack(11) + challenge)


def authentication_sasl_final(outcome: bytes) -> bytes:
    return message(b"R", _INT32.pack(12) + outcome)


def ready_for_query(status: str) -> bytes:
    """`I` outside of a transaction, `T` in one, `E` in one in which something failed."""
    return message(b"Z", status.encode("ascii"))


def parameter_status(name: str, value: str) -> bytes:
    return message(b"S", _text(name) + _text(value))


def backend_key_data(process: int, secret: bytes) -> bytes:
    return message(b"K", _INT32.pack(process) + secret)


def negotiate_version(minor: int, unknown: Sequence[str]) -> bytes:
    version = PROTOCOL_MAJOR << 16 | minor
    return message(b"v", struct.pack("!ii", version, len(unknown)) + b"".join(map(_text, unknown)))


def command_complete(tag: str) -> bytes:
    return message(b"C", _text(tag))


def notice(fields: Mapping[str, str]) -> bytes:
    return message(b"N", _said(fields))


def error(fields: Mapping[str, str]) -> bytes:
    return message(b"E", _said(fields))


def _said(fields: Mapping[str, str]) -> bytes:
    return b"".join(letter.encode("ascii") + _text(value) for letter, value in fields.items()) + b"\0"


@dataclass(frozen=True, slots=True)
class ColumnHead:
    """How a column of a result is described to clients."""

    name: str
    oid: int
    length: int
    modifier: int = -1


def row_description(columns: Sequence[ColumnHead], formats: Sequence[bool]) -> bytes:
    pieces = [_INT16.pack(len(columns))]
    for column, is_binary in zip(columns, formats, strict=True):
        oid = column.oid - (1 << 32) if column.oid >= 1 << 31 else column.oid
        pieces.append(_text(column.name) + _COLUMN.pack(0, 0, oid, column.length, column.modifier, is_binary))
    return message(b"T", b"".join(pieces))


def parameter_description(oids: Sequence[int]) -> bytes:
    return message(b"t", struct.pack(f"!H{len(oids)}I", len(oids), *oids))


def copy_out_response(columns: int, *, is_binary: bool) -> bytes:
    return message(b"H", struct.pack(f"!bh{columns}h", is_binary, columns, *([int(is_binary)] * columns)))


def copy_in_response(columns: int, *, is_binary: bool = False) -> bytes:
    return message(b"G", struct.pack(f"!bh{columns}h", is_binary, columns, *([int(is_binary)] * columns)))


def copy_data(piece: bytes) -> bytes:
    return message(b"d", piece)
